//! A dry run beside the controllers in charge: it changes nothing and says what it would do.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{Request, Response};
use karpenter_apiserver::{ApiServer, ResponseBody};
use karpenter_controllers::{Comparisons, Computing, Karpenter};
use karpenter_kwok::{KWOKNodeClass, Kwok, generated_instance_types};
use karpenter_runtime::{Runtime, Withheld, Witness};
use karpenter_simcloud::Plenty;
use kube::Client;
use kube::api::DeleteParams;
use kube::client::Body;
use serde_json::json;

use crate::world::{World, pass};

/// Counts requests by verb as they arrive at the server.
#[derive(Clone)]
struct Counter {
    server: ApiServer,
    verbs: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl tower_service::Service<Request<Body>> for Counter {
    type Response = Response<ResponseBody>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        *self.verbs.lock().unwrap().entry(request.method().to_string()).or_default() += 1;
        let mut server = self.server.clone();
        Box::pin(async move { server.call(request).await })
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn count(&self, part: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(part)).count()
    }

    /// What it heard besides events, which tell what the rest is about.
    fn all(&self) -> Vec<String> {
        let heard = self.0.lock().unwrap();
        heard.iter().filter(|line| !line.contains("create Event")).cloned().collect()
    }
}

impl Witness for Heard {
    fn withheld(&self, controller: &'static str, effect: Withheld<'_>) {
        self.0.lock().unwrap().push(format!("{controller}: {effect}"));
    }
}

struct Shadow {
    counter: Counter,
    heard: Arc<Heard>,
    comparisons: Comparisons,
}

impl Shadow {
    /// Starts a dry run. No permit guards its client: what the server sees is what the interpreter lets through.
    fn start(world: &World) -> Self {
        let counter = Counter { server: world.server.clone(), verbs: Arc::default() };
        let client = Client::new(counter.clone(), "default");
        let kwok = Kwok::new(
            client.clone(),
            world.environment.clone(),
            Arc::new(Plenty),
            generated_instance_types(),
            Vec::new(),
        );
        let karpenter = Karpenter { computing: Computing::InPlace, ..Karpenter::new(Arc::new(kwok)) };
        let mut runtime = Runtime::new(client, world.environment.clone());
        let state = karpenter.install::<KWOKNodeClass>(&mut runtime);
        let comparisons = karpenter.compare(&mut runtime, &state);
        let heard = Arc::new(Heard::default());
        runtime.only_show(heard.clone());
        tokio::spawn(runtime.run(std::future::pending()));
        Self { counter, heard, comparisons }
    }

    fn assert_only_read(&self) {
        let verbs = self.counter.verbs.lock().unwrap().clone();
        assert!(verbs.keys().eq(["GET"]), "requests at the server: {verbs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn alone_a_dry_run_says_what_it_would_launch_and_launches_nothing() {
    let world = World::new().await;
    // Somebody must have said that the pool is ready.
    let running = world.start();
    pass(5).await;
    running.abort();
    let shadow = Shadow::start(&world);
    world.create_pending_pod("a", "500m").await;
    pass(600).await;
    assert!(shadow.heard.count("provisioner: create NodeClaim general-") > 0);
    assert!(world.list_claims().await.is_empty());
    shadow.assert_only_read();
}

#[tokio::test(start_paused = true)]
async fn beside_the_one_in_charge_a_dry_run_writes_nothing_in_the_whole_life_of_a_node() {
    let world = World::new().await;
    world.set_disruption("general", json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})).await;
    let _running = world.start();
    let shadow = Shadow::start(&world);
    world.create_pending_pod("a", "500m").await;
    pass(30).await;
    let node = world.list_nodes().await[0].metadata.name.clone().unwrap();
    world.make_ready(&node).await;
    world.bind("a", &node).await;
    pass(300).await;
    assert_eq!(world.list_nodes().await.len(), 1, "nobody takes down what the other one built");
    world
        .pods()
        .delete("a", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
        .await
        .unwrap();
    pass(300).await;
    assert!(world.list_claims().await.is_empty() && world.list_nodes().await.is_empty());
    assert!(shadow.heard.count("create NodeClaim") > 0, "it would have bought a node as well");
    shadow.assert_only_read();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_at_rest_gives_a_dry_run_nothing_to_say() {
    let world = World::new().await;
    let _running = world.start();
    world.create_pending_pod("a", "500m").await;
    pass(30).await;
    let node = world.list_nodes().await[0].metadata.name.clone().unwrap();
    world.make_ready(&node).await;
    world.bind("a", &node).await;
    pass(60).await;
    let shadow = Shadow::start(&world);
    pass(3600).await;
    assert_eq!(shadow.heard.all(), Vec::<String>::new(), "statuses, labels and conditions are already right");
    shadow.assert_only_read();
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_knows_what_the_nodes_of_others_cost_and_what_its_own_would() {
    let world = World::new().await;
    let running = world.start();
    for name in ["a", "b"] {
        // One after the other: each gets a node of its own.
        world.create_pending_pod(name, "900m").await;
        pass(60).await;
        world.make_new_nodes_ready().await;
        let nodes = world.list_nodes().await;
        let free = nodes.last().and_then(|node| node.metadata.name.clone()).unwrap();
        world.bind(name, &free).await;
    }
    pass(30).await;
    running.abort();
    let shadow = Shadow::start(&world);
    pass(60).await;
    let found = shadow.comparisons.latest().expect("nothing waits, so there is something to compare");
    assert_eq!((found.nodes, found.pods), (world.list_nodes().await.len(), 2));
    assert_eq!((found.unpriced, found.without_place), (0, 0));
    assert!(found.planned_price > 0.0 && found.planned_price <= found.price, "{found:?}");
    shadow.assert_only_read();
}
