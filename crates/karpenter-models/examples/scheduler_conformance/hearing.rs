//! What a scheduler says about pods, in the order in which it says so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};

/// How long a scheduler may take to decide.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it may take from there until a pod has the place of others.
const EXTRA: Duration = Duration::from_secs(5);

/// What a scheduler says about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes to this node.
    Bound(String),
    /// It goes to this node once others have left it; before that the scheduler said why it had to wait.
    Preempts(String, String),
    /// It waits for others to leave this node, and they do not.
    Waits(String, String),
    /// It goes nowhere, for this reason.
    Refused(String),
    /// It waits for its gates to open.
    Gated,
    /// Nothing was said for long.
    Silent,
}

/// Follows all pods of a cluster.
#[derive(Clone, Default)]
pub(crate) struct Hearing {
    said: Arc<Mutex<BTreeMap<String, Vec<Verdict>>>>,
    news: Arc<tokio::sync::Notify>,
}

impl Hearing {
    /// Starts to follow.
    pub(crate) fn start(client: Client) -> Self {
        let hearing = Self::default();
        let own = hearing.clone();
        tokio::spawn(async move {
            let mut changes = watcher(Api::<Pod>::all(client), Config::default()).boxed();
            while let Some(change) = changes.next().await {
                if let Ok(change) = change {
                    own.note(change);
                }
            }
        });
        hearing
    }

    fn note(&self, change: Event<Pod>) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        match change {
            Event::Apply(pod) | Event::InitApply(pod) => {
                let verdicts = said.entry(name_of(&pod)).or_default();
                if let Some(verdict) = verdict(&pod).filter(|verdict| verdicts.last() != Some(verdict)) {
                    verdicts.push(verdict);
                }
            }
            Event::Delete(pod) => {
                said.remove(&name_of(&pod));
            }
            Event::Init | Event::InitDone => {}
        }
        drop(said);
        self.news.notify_waiters();
    }

    /// Waits until all is said about a pod; gates that are known to be open do not count.
    pub(crate) async fn of(&self, pod: &str, is_open: bool) -> Verdict {
        let said = |verdict: &Verdict| !is_open || *verdict != Verdict::Gated;
        let Ok(first) = tokio::time::timeout(PATIENCE, self.next(pod, said)).await else {
            return Verdict::Silent;
        };
        let Verdict::Preempts(node, message) = &first else { return first };
        let is_bound = |verdict: &Verdict| matches!(verdict, Verdict::Bound(_));
        match tokio::time::timeout(EXTRA, self.next(pod, is_bound)).await {
            Ok(Verdict::Bound(node)) => Verdict::Preempts(node, message.clone()),
            _ => Verdict::Waits(node.clone(), message.clone()),
        }
    }

    /// Waits for a verdict of a kind, or takes the first that was heard already.
    async fn next(&self, pod: &str, wanted: impl Fn(&Verdict) -> bool) -> Verdict {
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).get(pod).cloned();
            if let Some(verdict) = said.into_iter().flatten().find(&wanted) {
                return verdict;
            }
            news.await;
        }
    }

    /// Waits until a pod is gone.
    pub(crate) async fn of_end(&self, pod: &str) {
        let gone = async {
            loop {
                let mut news = std::pin::pin!(self.news.notified());
                news.as_mut().enable();
                if !self.said.lock().unwrap_or_else(PoisonError::into_inner).contains_key(pod) {
                    return;
                }
                news.await;
            }
        };
        // A pod that does not go is noticed when it is created again.
        let _ = tokio::time::timeout(PATIENCE, gone).await;
    }
}

pub(crate) fn name_of(pod: &Pod) -> String {
    let meta = &pod.metadata;
    format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

pub(crate) fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone().filter(|name| !name.is_empty())
}

fn verdict(pod: &Pod) -> Option<Verdict> {
    if let Some(node) = node_of(pod) {
        return Some(Verdict::Bound(node));
    }
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.type_ == "PodScheduled")?;
    let message = condition.message.clone().unwrap_or_default();
    match (condition.reason.as_deref()?, status.nominated_node_name.clone().filter(|name| !name.is_empty())) {
        ("SchedulingGated", _) => Some(Verdict::Gated),
        ("Unschedulable", Some(node)) => Some(Verdict::Preempts(node, message)),
        ("Unschedulable", None) => Some(Verdict::Refused(message)),
        _ => None,
    }
}
