//! Who may not write does not: a dry run never, a leader no longer than its lease surely lasts.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_runtime::{
    Caches, Candidacy, Change, Controller, Effect, Key, Leadership, Outcome, Permit, Request, Runtime, View,
    Wakes, Watches, Withheld, Witness, Write,
};
use kube::Api;
use kube::api::{ListParams, PostParams};
use tokio::time::timeout;

use crate::world::{World, config_map, run_for};

#[tokio::test(start_paused = true)]
async fn without_a_permit_reads_pass_and_writes_do_not() {
    let world = World::new(1);
    let (client, counts) = world.counted_client(&Permit::never());
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    maps.list(&ListParams::default()).await.unwrap();
    let refused = maps.create(&PostParams::default(), &config_map("a")).await.unwrap_err();
    assert!(format!("{refused:?}").contains("NotPermitted"), "{refused:?}");
    assert_eq!(*counts.lock().unwrap(), BTreeMap::from([("GET".to_owned(), 1)]));
}

fn replica(world: &World, identity: &str, permit: &Permit) -> Leadership {
    let candidacy = Candidacy {
        namespace: "default".to_owned(),
        name: "karpenter-leader-election".to_owned(),
        identity: identity.to_owned(),
    };
    Leadership::new(world.client.clone(), world.environment.clone(), candidacy, permit.clone())
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_stopped_for_a_while_can_write_nothing_when_the_next_one_leads() {
    let world = World::new(2);
    let (of_first, of_second) = (Permit::never(), Permit::never());
    let (client, counts) = world.counted_client(&of_first);
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let mut first = replica(&world, "first", &of_first);
    first.acquire().await;
    maps.create(&PostParams::default(), &config_map("while-leading")).await.unwrap();
    // The first neither renews nor notices anything: its process does not run.
    let mut second = replica(&world, "second", &of_second);
    second.acquire().await;
    assert!(of_second.is_valid() && !of_first.is_valid());
    maps.create(&PostParams::default(), &config_map("afterwards")).await.unwrap_err();
    assert_eq!(counts.lock().unwrap()["POST"], 1, "the server has seen nothing of it");
    assert_eq!(world.names().await, ["while-leading"]);
}

#[tokio::test(start_paused = true)]
async fn a_permit_ends_well_before_the_lease_does() {
    let world = World::new(3);
    let permit = Permit::never();
    replica(&world, "first", &permit).acquire().await;
    tokio::time::sleep(Duration::from_millis(9900)).await;
    assert!(permit.is_valid());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!permit.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_still_on_its_way_when_the_permit_ends_is_dropped() {
    let world = World::new(4);
    let permit = Permit::never();
    let maps: Api<ConfigMap> = Api::namespaced(world.stuck_client(&permit), "default");
    replica(&world, "first", &permit).acquire().await;
    let (params, map) = (PostParams::default(), config_map("late"));
    let answer = timeout(Duration::from_secs(11), maps.create(&params, &map)).await;
    assert!(answer.expect("it is given up in time").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lease_is_a_renewed_permit() {
    let world = World::new(5);
    let permit = Permit::never();
    let mut leader = replica(&world, "first", &permit);
    leader.acquire().await;
    assert!(timeout(Duration::from_hours(1), leader.keep()).await.is_err());
    assert!(permit.is_valid());
    leader.release().await;
    assert!(!permit.is_valid(), "who has given the lease up writes nothing any more");
}

/// Wants a ConfigMap and, outside the cluster, a bell to be rung, and looks again at once until it has both.
struct Wishful;

struct Ring;

impl Request for Ring {
    fn action(&self) -> Option<String> {
        Some("ring the bell".to_owned())
    }
}

impl Controller for Wishful {
    type Request = Ring;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "wishful"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<ConfigMap>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake(Key::everything());
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Ring> {
        Outcome::after(Duration::ZERO).then(Effect::Request(Ring)).then(Write::create(&config_map("wish")))
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Witness for Heard {
    fn withheld(&self, controller: &'static str, effect: Withheld<'_>) {
        self.0.lock().unwrap().push(format!("{controller} would {effect}"));
    }
}

fn ringing(runtime: &mut Runtime) -> Arc<AtomicUsize> {
    let rung = Arc::new(AtomicUsize::new(0));
    let counted = rung.clone();
    runtime.add_with(Wishful, move |Ring| {
        let counted = counted.clone();
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
        .boxed()
    });
    rung
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_shows_every_effect_and_performs_none() {
    let world = World::new(6);
    let (client, counts) = world.counted_client(&Permit::never());
    let mut runtime = Runtime::new(client, world.environment.clone());
    let rung = ringing(&mut runtime);
    let heard = Arc::new(Heard::default());
    runtime.only_show(heard.clone());
    run_for(runtime, 3600).await;
    let heard = heard.0.lock().unwrap().clone();
    assert_eq!(heard[..2], ["wishful would ring the bell", "wishful would create ConfigMap default/wish"]);
    assert!(heard.len() < 200, "what stays as it is is shown ever more rarely, not {} times", heard.len());
    assert_eq!(rung.load(Ordering::SeqCst), 0);
    assert!(counts.lock().unwrap().keys().eq(["GET"]));
}

#[tokio::test(start_paused = true)]
async fn who_no_longer_leads_changes_nothing_outside_the_cluster_either() {
    let world = World::new(7);
    let mut runtime = world.runtime();
    runtime.permitted_by(Permit::never());
    let rung = ringing(&mut runtime);
    run_for(runtime, 60).await;
    assert_eq!(rung.load(Ordering::SeqCst), 0);
}
