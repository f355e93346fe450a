//! Follows the kinds that the rules speak of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt as _;
use jiff::SignedDuration;
use karpenter_environment::Environment;
use kube::api::{ApiResource, DynamicObject, WatchEvent, WatchParams};
use kube::{Api, Client};

use crate::history::{History, Seen};

/// What is watched: group, version, kind, plural.
const WATCHED: [(&str, &str, &str, &str); 7] = [
    ("", "v1", "Node", "nodes"),
    ("", "v1", "Pod", "pods"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("karpenter.sh", "v1", "NodePool", "nodepools"),
    ("karpenter.sh", "v1", "NodeClaim", "nodeclaims"),
];

/// A kind may not be there yet: its definition comes later.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Watches until it is dropped.
pub struct Observer {
    history: Arc<Mutex<History>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Observer {
    /// Begins to watch the cluster behind `client`. Who disrupts cannot know what happened within the last `lag`: zero where time is simulated.
    pub fn begin(client: &Client, environment: &Arc<dyn Environment>, lag: SignedDuration) -> Self {
        let history = Arc::new(Mutex::new(History::new(lag)));
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
            tokio::spawn(follow(api, kind, Arc::clone(&history), Arc::clone(environment)))
        });
        Self { tasks: tasks.collect(), history }
    }

    /// What was seen so far.
    pub fn history(&self) -> History {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

async fn follow(
    api: Api<DynamicObject>,
    kind: &'static str,
    history: Arc<Mutex<History>>,
    environment: Arc<dyn Environment>,
) {
    let tell = |what: Result<Seen, String>| {
        let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
        match what {
            Ok(seen) => history.push(seen),
            Err(gap) => history.lose(gap),
        }
    };
    let mut version = "0".to_owned();
    loop {
        let Ok(stream) = api.watch(&WatchParams::default(), &version).await else {
            tokio::time::sleep(ASK_AGAIN).await;
            continue;
        };
        let mut stream = std::pin::pin!(stream);
        while let Ok(Some(event)) = stream.try_next().await {
            let (object, gone) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(error) => {
                    tell(Err(format!("the watch of {kind} lost events: {}", error.message)));
                    "0".clone_into(&mut version);
                    break;
                }
            };
            version = object.metadata.resource_version.clone().unwrap_or_default();
            match Seen::new(environment.now(), kind, &object, gone) {
                Some(seen) => tell(Ok(seen)),
                None => tell(Err(format!("a {kind} without a version was told"))),
            }
        }
    }
}
