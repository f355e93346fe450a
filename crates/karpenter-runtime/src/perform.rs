//! Performs effects: stage after stage, the effects of a stage at the same time within a limit.

use std::any::Any;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt as _};
use http::{Method, Request};
use kube::Client;
use kube::core::Status;
use tokio::sync::Semaphore;

use crate::dry_run::{Withheld, Witness};
use crate::permit::Permit;
use crate::write::{Write, WriteKind};

/// An effect whose request has found its handler.
pub(crate) enum Step {
    Write(Box<Write>),
    Call {
        reply: BoxFuture<'static, Box<dyn Any + Send>>,
        /// What it changes outside the cluster, if anything.
        action: Option<String>,
    },
}

/// What came of one step.
pub(crate) enum Done {
    /// The server took the write and answered this.
    Written(Write, String),
    /// The server refused the write.
    Refused(Write, Box<Status>),
    /// The server could not be asked.
    Failed(Write, kube::Error),
    /// The reply to a request.
    Replied(Box<dyn Any + Send>),
    /// It was only shown, or this process may not change anything any more.
    Withheld,
}

impl Done {
    /// Whether the stages after it may begin.
    pub(crate) fn is_good(&self) -> bool {
        match self {
            Self::Written(..) | Self::Replied(_) | Self::Withheld => true,
            Self::Refused(write, status) => write.tolerated.contains(&status.code),
            Self::Failed(..) => false,
        }
    }
}

/// Who performs, and how much of it at a time.
#[derive(Clone)]
pub(crate) struct Performer {
    client: Client,
    permits: Arc<Semaphore>,
    permit: Permit,
    /// In a dry run, who is shown what would be done.
    witness: Option<Arc<dyn Witness>>,
}

impl Performer {
    pub(crate) fn new(
        client: Client,
        at_a_time: usize,
        permit: Permit,
        witness: Option<Arc<dyn Witness>>,
    ) -> Self {
        Self { client, permits: Arc::new(Semaphore::new(at_a_time)), permit, witness }
    }

    /// Performs stages that `controller` asked for until one fails.
    pub(crate) async fn perform(&self, controller: &'static str, stages: Vec<Vec<Step>>) -> Vec<Done> {
        let mut done = Vec::new();
        for stage in stages {
            let steps: FuturesOrdered<_> =
                stage.into_iter().map(|step| self.step(controller, step)).collect();
            let finished: Vec<Done> = steps.collect().await;
            let good = finished.iter().all(Done::is_good);
            done.extend(finished);
            if !good {
                break;
            }
        }
        done
    }

    async fn step(&self, controller: &'static str, step: Step) -> Done {
        let write = match step {
            Step::Call { reply, action: None } => return Done::Replied(reply.await),
            Step::Call { reply, action: Some(action) } => {
                return self.act(controller, reply, &action).await;
            }
            Step::Write(write) => *write,
        };
        if let Some(witness) = &self.witness {
            witness.withheld(controller, Withheld::Write(&write));
            return Done::Withheld;
        }
        let permit = self.permits.acquire().await;
        let answer = self.client.request_text(request(&write)).await;
        drop(permit);
        match answer {
            Ok(answer) => Done::Written(write, answer),
            Err(kube::Error::Api(status)) => Done::Refused(write, status),
            Err(error) => Done::Failed(write, error),
        }
    }

    /// Changes something outside the cluster, if that is allowed.
    async fn act(
        &self,
        controller: &'static str,
        reply: BoxFuture<'static, Box<dyn Any + Send>>,
        action: &str,
    ) -> Done {
        if let Some(witness) = &self.witness {
            witness.withheld(controller, Withheld::Action(action));
            return Done::Withheld;
        }
        if !self.permit.is_valid() {
            tracing::warn!(controller, "will not {action}: this replica no longer leads");
            return Done::Withheld;
        }
        Done::Replied(reply.await)
    }
}

fn request(write: &Write) -> Request<Vec<u8>> {
    let to_object = write.kind != WriteKind::Create || write.subresource.is_some();
    let mut path = write.collection.clone();
    if to_object {
        path.push('/');
        path.push_str(write.key.name());
    }
    if let Some(subresource) = write.subresource {
        path.push('/');
        path.push_str(subresource);
    }
    for (index, (name, value)) in write.query.iter().enumerate() {
        path.push(if index == 0 { '?' } else { '&' });
        path.push_str(name);
        path.push('=');
        path.push_str(value);
    }
    let (method, content) = match write.kind {
        WriteKind::Create => (Method::POST, "application/json"),
        WriteKind::Replace => (Method::PUT, "application/json"),
        WriteKind::Delete => (Method::DELETE, "application/json"),
        WriteKind::MergePatch => (Method::PATCH, "application/merge-patch+json"),
        WriteKind::JsonPatch => (Method::PATCH, "application/json-patch+json"),
        WriteKind::StrategicPatch => (Method::PATCH, "application/strategic-merge-patch+json"),
        WriteKind::Apply => (Method::PATCH, "application/apply-patch+yaml"),
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, content)
        .header(http::header::ACCEPT, "application/json")
        .body(serde_json::to_vec(&write.body).expect("a JSON value is JSON"))
        .expect("paths of Kubernetes objects are URIs")
}

/// An error as a person reads it: the server's own words where there are any.
pub(crate) fn describe(error: &kube::Error) -> String {
    match error {
        // The server says no more than "Unauthorized", whatever is wrong.
        kube::Error::Api(status) if status.code == 401 => {
            "the API server does not accept the credentials: renew those of the kubeconfig or the service account".to_owned()
        }
        kube::Error::Api(status) => status.message.clone(),
        kube::Error::Service(error) => innermost(error.as_ref()),
        other => innermost(other),
    }
}

/// The cause at the bottom says most: "connection refused" rather than "service error".
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
