//! The runtime's promises, one test each.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_runtime::{
    Caches, Change, Controller, Effect, Key, Outcome, Request, Status, View, Wakes, Watches, Write,
};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::world::{World, config_map, run_for};

/// Keeps `wanted` ConfigMaps whose names the server generates, and is woken by everything.
struct Keeper {
    wanted: usize,
    log: Log,
}

type Log = Arc<Mutex<Vec<String>>>;

impl Controller for Keeper {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "keeper"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<ConfigMap>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        let delta = change.of::<ConfigMap>().unwrap();
        let shape = (delta.old.is_some(), delta.new.is_some());
        self.log.lock().unwrap().push(format!("{} {shape:?}", change.key()));
        wakes.wake(Key::everything());
    }

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let there = view.caches.of::<ConfigMap>().in_namespace("default").count();
        let mut object = config_map("");
        object.metadata.name = None;
        object.metadata.generate_name = Some("kept-".into());
        Outcome::done().then_all((there..self.wanted).map(|_| Write::create(&object)))
    }

    fn refused(&mut self, _: &Key, write: &Write, status: &Status, _: &View<'_>) {
        self.log.lock().unwrap().push(format!("{write} refused: {}", status.code));
    }
}

fn keeper(wanted: usize) -> (Keeper, Log) {
    let log = Log::default();
    (Keeper { wanted, log: log.clone() }, log)
}

#[tokio::test(start_paused = true)]
async fn a_controller_sees_its_own_writes() {
    let world = World::new(1);
    let mut runtime = world.runtime();
    runtime.add(keeper(20).0);
    run_for(runtime, 60).await;
    assert_eq!(world.names().await.len(), 20, "an answer that came before its watch event counts");
}

#[tokio::test(start_paused = true)]
async fn what_goes_is_made_again() {
    let world = World::new(1);
    let mut runtime = world.runtime();
    runtime.add(keeper(3).0);
    let meddling = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        for name in world.names().await {
            world.config_maps().delete(&name, &DeleteParams::default()).await.unwrap();
        }
    };
    tokio::join!(run_for(runtime, 60), meddling);
    assert_eq!(world.names().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    let run = |seed| async move {
        let world = World::new(seed);
        let mut runtime = world.runtime();
        let (keeper, log) = keeper(10);
        runtime.add(keeper);
        run_for(runtime, 3600).await;
        let seen = log.lock().unwrap().clone();
        (world.names().await, seen)
    };
    assert_eq!(run(7).await, run(7).await);
    assert_ne!(run(7).await.0, run(8).await.0);
}

#[tokio::test(start_paused = true)]
async fn a_closed_road_delays_and_loses_nothing() {
    let world = World::new(1);
    let mut runtime = world.troubled_runtime(5, |_| true);
    runtime.add(keeper(4).0);
    run_for(runtime, 60).await;
    assert_eq!(world.names().await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_tried_again() {
    let world = World::new(1);
    let mut runtime = world.troubled_runtime(3, |request| request.method() == "POST");
    runtime.add(keeper(2).0);
    run_for(runtime, 60).await;
    assert_eq!(world.names().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_gap_in_the_history_is_made_up_for_by_a_list() {
    let world = World::new(1);
    world.config_maps().create(&PostParams::default(), &config_map("stays")).await.unwrap();
    world.config_maps().create(&PostParams::default(), &config_map("goes")).await.unwrap();
    // The first watch is refused; when it is opened again its version is older than the history.
    let mut runtime = world
        .troubled_runtime(1, |request| request.uri().query().is_some_and(|query| query.contains("watch")));
    let (keeper, log) = keeper(0);
    runtime.add(keeper);
    let meddling = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.config_maps().delete("goes", &DeleteParams::default()).await.unwrap();
        world.config_maps().create(&PostParams::default(), &config_map("comes")).await.unwrap();
        world.server.compact();
    };
    tokio::join!(run_for(runtime, 60), meddling);
    let seen = log.lock().unwrap().clone();
    assert!(seen.contains(&"default/goes (true, false)".to_owned()), "{seen:?}");
    assert!(seen.contains(&"default/comes (false, true)".to_owned()), "{seen:?}");
    assert_eq!(
        seen.iter().filter(|line| line.contains("stays")).count(),
        1,
        "nothing is told twice: {seen:?}"
    );
}

struct Question(String);

impl Request for Question {
    fn action(&self) -> Option<String> {
        None
    }
}

/// Asks a question about every ConfigMap once and writes the answer down; the label says it is done.
struct Asker {
    answers: BTreeMap<Key, String>,
}

impl Controller for Asker {
    type Request = Question;
    type Reply = String;

    fn name(&self) -> &'static str {
        "asker"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<ConfigMap>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(change.key().clone());
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Question> {
        let Some(object) = view.caches.of::<ConfigMap>().get(key) else { return Outcome::done() };
        match self.answers.get(key) {
            None => Outcome::done().then(Effect::Request(Question(key.name().to_owned()))),
            Some(_) if object.data.is_some() => Outcome::done(),
            Some(answer) => Outcome::done()
                .then(Write::merge_patch::<ConfigMap>(key, json!({"data": {"answer": answer}}))),
        }
    }

    fn hear(&mut self, key: &Key, reply: String, _: &View<'_>) {
        self.answers.insert(key.clone(), reply);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_come_back_as_replies_to_their_key() {
    let world = World::new(1);
    world.config_maps().create(&PostParams::default(), &config_map("a")).await.unwrap();
    let mut runtime = world.runtime();
    runtime.add_with(Asker { answers: BTreeMap::default() }, |Question(question)| {
        async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            format!("{question}!")
        }
        .boxed()
    });
    run_for(runtime, 60).await;
    let data = world.config_maps().get("a").await.unwrap().data.unwrap();
    assert_eq!(data["answer"], "a!");
}

/// Writes down when it was reconciled.
struct Clockwork {
    every: Duration,
    ticks: Arc<Mutex<Vec<Timestamp>>>,
}

impl Controller for Clockwork {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "clockwork"
    }

    fn watches(&self, _: &mut Watches) {}

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<Infallible> {
        self.ticks.lock().unwrap().push(view.now);
        Outcome::after(self.every)
    }
}

#[tokio::test(start_paused = true)]
async fn a_day_of_ticks_takes_no_day() {
    let world = World::new(1);
    let mut runtime = world.runtime();
    let ticks = Arc::new(Mutex::new(Vec::new()));
    runtime.add(Clockwork { every: Duration::from_mins(10), ticks: ticks.clone() });
    run_for(runtime, 86_400).await;
    let ticks = ticks.lock().unwrap();
    assert_eq!(ticks.len(), 144);
    assert_eq!(ticks[143], Timestamp::from_second(143 * 600).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_handle_wakes_a_key_from_outside() {
    let world = World::new(1);
    let mut runtime = world.runtime();
    let ticks = Arc::new(Mutex::new(Vec::new()));
    runtime.add(Clockwork { every: Duration::from_hours(10), ticks: ticks.clone() });
    let handle = runtime.handle();
    let caller = async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        handle.wake("clockwork", Key::everything());
    };
    tokio::join!(run_for(runtime, 60), caller);
    let seconds: Vec<i64> = ticks.lock().unwrap().iter().map(|tick| tick.as_second()).collect();
    assert_eq!(seconds, [0, 7]);
}

/// Creates one ConfigMap blindly, then another.
struct Blind {
    tolerant: bool,
}

impl Controller for Blind {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "blind"
    }

    fn watches(&self, _: &mut Watches) {}

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Infallible> {
        let first = Write::create(&config_map("first"));
        let first = if self.tolerant { first.tolerating(409) } else { first };
        Outcome::done().then(first).then(Write::create(&config_map("second")).tolerating(409))
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_holds_back_what_comes_after_it() {
    for (tolerant, expected) in [(false, vec!["first"]), (true, vec!["first", "second"])] {
        let world = World::new(1);
        world.config_maps().create(&PostParams::default(), &config_map("first")).await.unwrap();
        let mut runtime = world.runtime();
        runtime.add(Blind { tolerant });
        run_for(runtime, 60).await;
        assert_eq!(world.names().await, expected, "tolerant: {tolerant}");
    }
}

/// Lets go of ConfigMaps that are being deleted, and writes down how many it knows.
struct Releaser {
    known: Arc<Mutex<usize>>,
}

impl Controller for Releaser {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "releaser"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<ConfigMap>();
    }

    fn wake(&mut self, change: &Change, caches: &Caches, wakes: &mut Wakes) {
        *self.known.lock().unwrap() = caches.of::<ConfigMap>().in_namespace("default").count();
        wakes.wake(change.key().clone());
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Infallible> {
        let object = view.caches.of::<ConfigMap>().get(key);
        if object.is_none_or(|object| object.metadata.deletion_timestamp.is_none()) {
            return Outcome::done();
        }
        let release = Write::merge_patch::<ConfigMap>(key, json!({"metadata": {"finalizers": null}}));
        // The second write makes the answer to the first arrive after the watch has told that the object is gone.
        Outcome::done()
            .then(release.tolerating(404))
            .then(Write::create(&config_map("after")).tolerating(409))
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_does_not_come_back() {
    let world = World::new(1);
    let mut held = config_map("held");
    held.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    world.config_maps().create(&PostParams::default(), &held).await.unwrap();
    let mut runtime = world.runtime();
    let known = Arc::new(Mutex::new(0));
    runtime.add(Releaser { known: known.clone() });
    let meddling = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.config_maps().delete("held", &DeleteParams::default()).await.unwrap();
    };
    tokio::join!(run_for(runtime, 60), meddling);
    assert_eq!(world.names().await, ["after"]);
    assert_eq!(*known.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_before_it_is_allowed_and_the_picture_is_kept_meanwhile() {
    let world = World::new(12);
    let log = Log::default();
    let mut runtime = world.runtime();
    runtime.add(Keeper { wanted: 3, log: log.clone() });
    let mut listed = runtime.listed();
    let seconds = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
    let looking = async {
        listed.wait_for(|listed| *listed).await.unwrap();
        world.config_maps().create(&PostParams::default(), &config_map("early")).await.unwrap();
        seconds(5).await;
        assert_eq!(world.names().await, ["early"], "it only watches");
        assert_eq!(*log.lock().unwrap(), ["default/early (false, true)"]);
        seconds(10).await;
        assert_eq!(world.names().await.len(), 3);
    };
    tokio::join!(runtime.run_once_allowed(seconds(10), seconds(20)), looking);
}
