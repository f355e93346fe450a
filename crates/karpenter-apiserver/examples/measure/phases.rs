//! What is measured, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use crate::client::Http;
use crate::objects::{node, pod};
use crate::usage::{processor_time, resident};
use crate::{Outcome, Target};

const PODS: &str = "/api/v1/pods";
const NAMESPACED_PODS: &str = "/api/v1/namespaces/default/pods";
/// Requests under way at the same time while objects are created and changed.
const WRITERS: usize = 32;
/// Writes that follow each other, for the time one takes.
const SEQUENTIAL: usize = 200;
/// Statuses that are changed while others watch.
const CHANGES: usize = 5_000;
const LIST_REPEATS: usize = 3;

/// How much is created.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
}

/// Rows of the table: what was measured, and the figure.
pub(crate) type Figures = Vec<(String, String)>;

/// Measures one server.
pub(crate) async fn run(target: &Target, load: Load) -> Outcome<Figures> {
    let http = Http::connect(&target.kubeconfig).await?;
    // Pods need their service account; a controller of the real server makes it, when it runs.
    let account = json!({"metadata": {"name": "default"}}).to_string().into_bytes();
    http.ask(Method::POST, "/api/v1/namespaces/default/serviceaccounts", account).await?;
    let mut measure = Measure { http, target, figures: Vec::new() };
    measure.memory("memory when empty");
    measure.create(load).await?;
    measure.memory("memory with all objects");
    measure.latency(load).await?;
    measure.lists(load).await?;
    measure.first_watch(load).await?;
    for watchers in [1, 10, 100] {
        measure.changes(load, watchers).await?;
    }
    measure.memory("memory at the end");
    Ok(measure.figures)
}

struct Measure<'t> {
    http: Http,
    target: &'t Target,
    figures: Figures,
}

impl Measure<'_> {
    fn add(&mut self, name: impl Into<String>, figure: String) {
        self.figures.push((name.into(), figure));
    }

    fn memory(&mut self, name: &str) {
        let figure = format!("{:.0} MiB", resident(&self.target.processes) as f64 / f64::from(1 << 20));
        self.add(name, figure);
    }

    /// Adds a rate and the processor time the server spent on one.
    fn rate(&mut self, name: &str, count: usize, clock: &Clock) {
        let (took, used) = clock.read(self.target);
        let each = used.as_secs_f64() * 1e6 / count as f64;
        self.add(name, format!("{:.0}/s, {each:.0} µs", count as f64 / took.as_secs_f64()));
    }

    async fn create(&mut self, load: Load) -> Outcome<()> {
        let clock = Clock::start(self.target);
        let create = |http: Http, index| async move {
            let body = node(index).to_string().into_bytes();
            http.must(Method::POST, "/api/v1/nodes", body).await.map(drop)
        };
        in_parallel(&self.http, load.nodes, create).await?;
        self.rate(&format!("create {} nodes, processor time of each", load.nodes), load.nodes, &clock);
        let clock = Clock::start(self.target);
        let create = move |http: Http, index| async move {
            let body = pod(index, load.nodes).to_string().into_bytes();
            http.must(Method::POST, NAMESPACED_PODS, body).await.map(drop)
        };
        in_parallel(&self.http, load.pods, create).await?;
        self.rate(&format!("create {} pods", load.pods), load.pods, &clock);
        Ok(())
    }

    async fn latency(&mut self, load: Load) -> Outcome<()> {
        let mut times = Vec::new();
        for index in load.nodes..load.nodes + SEQUENTIAL {
            let body = node(index).to_string().into_bytes();
            let start = Instant::now();
            self.http.must(Method::POST, "/api/v1/nodes", body).await?;
            times.push(start.elapsed());
        }
        times.sort();
        let of = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
        self.add(
            "one create after another, median and 99th of 100",
            format!("{:.1} ms, {:.1} ms", of(50), of(99)),
        );
        Ok(())
    }

    async fn lists(&mut self, load: Load) -> Outcome<()> {
        let of_a_node = format!("{PODS}?fieldSelector=spec.nodeName%3Dnode-{:05}", 7 % load.nodes.max(1));
        for (name, path) in [
            ("list all pods", PODS),
            ("list all pods, cached (resourceVersion=0)", "/api/v1/pods?resourceVersion=0"),
            ("list all nodes", "/api/v1/nodes"),
            ("list the pods of a node", of_a_node.as_str()),
            ("list a page of 500 pods", "/api/v1/pods?limit=500"),
        ] {
            let mut best = Duration::MAX;
            let mut size = 0;
            for _ in 0..LIST_REPEATS {
                let start = Instant::now();
                size = self.http.must(Method::GET, path, Vec::new()).await?.len();
                best = best.min(start.elapsed());
            }
            let rate = size as f64 / best.as_secs_f64() / 1e6;
            self.add(name, format!("{:.1} ms, {rate:.0} MB/s", best.as_secs_f64() * 1e3));
        }
        Ok(())
    }

    /// A watch without a version begins with everything that is there.
    async fn first_watch(&mut self, load: Load) -> Outcome<()> {
        let start = Instant::now();
        self.http.watch(PODS, "0").await?.read(load.pods).await?;
        let took = start.elapsed();
        let rate = load.pods as f64 / took.as_secs_f64();
        self.add("watch all pods from the start", format!("{rate:.0} events/s"));
        Ok(())
    }

    /// Changes statuses while some clients watch, until all of them have seen all changes.
    async fn changes(&mut self, load: Load, watchers: usize) -> Outcome<()> {
        let count = CHANGES.min(load.pods);
        let version = self.http.version(PODS).await?;
        let mut watching = Vec::new();
        for _ in 0..watchers {
            let mut events = self.http.watch(PODS, &version).await?;
            watching.push(tokio::spawn(async move { events.read(count).await }));
        }
        let clock = Clock::start(self.target);
        let change = move |http: Http, index| async move {
            let path = format!("{NAMESPACED_PODS}/pod-{index:06}/status");
            let status = json!({"status": {"phase": "Running", "message": format!("watched by {watchers}")}});
            http.must(Method::PATCH, &path, status.to_string().into_bytes()).await.map(drop)
        };
        in_parallel(&self.http, count, change).await?;
        for watch in watching {
            watch.await??;
        }
        let name = format!("patch {count} statuses seen by {watchers} watches, events delivered");
        let (took, used) = clock.read(self.target);
        let delivered = (count * watchers) as f64 / took.as_secs_f64();
        self.add(name, format!("{delivered:.0}/s, {:.1} s CPU", used.as_secs_f64()));
        Ok(())
    }
}

/// Wall time and the servers' processor time since a moment.
struct Clock {
    start: Instant,
    used: Duration,
}

impl Clock {
    fn start(target: &Target) -> Self {
        Self { start: Instant::now(), used: processor_time(&target.processes) }
    }

    fn read(&self, target: &Target) -> (Duration, Duration) {
        (self.start.elapsed(), processor_time(&target.processes).saturating_sub(self.used))
    }
}

/// Makes `count` requests, [`WRITERS`] at a time.
async fn in_parallel<F, R>(http: &Http, count: usize, request: F) -> Outcome<()>
where
    F: Fn(Http, usize) -> R + Clone + Send + 'static,
    R: Future<Output = Outcome<()>> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::<Outcome<()>>::new();
    for _ in 0..WRITERS {
        let (http, next, request) = (http.clone(), Arc::clone(&next), request.clone());
        workers.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok(());
                }
                request(http.clone(), index).await?;
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(())
}
