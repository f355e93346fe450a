//! An observer of voluntary disruption that sees nothing but the API server's watch, and judges from it whether budgets, PodDisruptionBudgets and
//! `karpenter.sh/do-not-disrupt` were kept. It shares no code with what it judges: objects are JSON, every rule is restated in [`rules`].

mod rules;

use std::sync::{Arc, Mutex};

use futures::TryStreamExt as _;
use jiff::Timestamp;
use karpenter_environment::Environment;
use kube::api::{ApiResource, DynamicObject, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::Value;

pub(crate) use rules::violations;

/// One event of a watch.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) version: u64,
    pub(crate) at: Timestamp,
    pub(crate) kind: &'static str,
    pub(crate) object: Value,
    pub(crate) gone: bool,
}

/// What is watched: group, version, kind, plural.
const WATCHED: [(&str, &str, &str, &str); 5] = [
    ("", "v1", "Node", "nodes"),
    ("", "v1", "Pod", "pods"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("karpenter.sh", "v1", "NodePool", "nodepools"),
    ("karpenter.sh", "v1", "NodeClaim", "nodeclaims"),
];

/// Watches until it is dropped.
pub(crate) struct Observer {
    log: Arc<Mutex<Vec<Seen>>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Observer {
    /// Begins to watch the cluster behind `client`.
    pub(crate) fn begin(client: &Client, environment: &Arc<dyn Environment>) -> Self {
        let log = Arc::default();
        let tasks = WATCHED.iter().map(|(group, version, kind, plural)| {
            let api_version =
                if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") };
            let resource = ApiResource {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
                api_version,
                kind: (*kind).to_owned(),
                plural: (*plural).to_owned(),
            };
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            tokio::spawn(follow(api, kind, Arc::clone(&log), Arc::clone(environment)))
        });
        Self { tasks: tasks.collect(), log }
    }

    /// What was seen so far, in the order in which it happened.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let mut seen = self.log.lock().unwrap().clone();
        seen.sort_by_key(|seen| seen.version);
        seen
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        if !std::thread::panicking() {
            let seen = self.seen();
            assert!(!seen.is_empty(), "the observer saw nothing at all");
            let found = violations(&seen);
            assert!(found.is_empty(), "the observer saw: {found:#?}");
        }
    }
}

async fn follow(
    api: Api<DynamicObject>,
    kind: &'static str,
    log: Arc<Mutex<Vec<Seen>>>,
    environment: Arc<dyn Environment>,
) {
    let mut version = "0".to_owned();
    loop {
        let Ok(stream) = api.watch(&WatchParams::default(), &version).await else { return };
        let mut stream = std::pin::pin!(stream);
        while let Ok(Some(event)) = stream.try_next().await {
            let (object, gone) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
            };
            version = object.metadata.resource_version.clone().unwrap_or_default();
            let object = serde_json::to_value(&object).unwrap();
            let seen = Seen { version: version.parse().unwrap(), at: environment.now(), kind, object, gone };
            log.lock().unwrap().push(seen);
        }
    }
}
