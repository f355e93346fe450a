//! What EC2 says about machines: the messages of its queue, and its own checks.

mod message;
mod status;

pub use message::{Said, read as read_message};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_aws_client::ec2::InstanceStatus;
use karpenter_aws_client::{Error, ErrorKind, Message, ReceiveMessage};
use karpenter_provider::{ProviderError, Response, Warning, WarningKind};
use tokio::sync::OnceCell;

use crate::account::Account;
use crate::book::Book;
use crate::metrics::AwsMetrics;

/// The most messages one call brings.
const MESSAGES: u32 = 10;
/// For how many seconds nobody else sees a message that was received.
const VISIBILITY: u32 = 20;
/// How many seconds a call waits for the first message; less than a process has to stop.
const WAIT: u32 = 8;
/// Calls at a time, and rounds of them, while the queue is not empty.
const AT_A_TIME: usize = 10;
const ROUNDS: usize = 10;
/// How often checks are looked at.
const CHECK_EVERY: SignedDuration = SignedDuration::from_mins(1);

/// Listens to EC2.
pub(crate) struct Interruptions {
    account: Account,
    book: Book,
    metrics: AwsMetrics,
    /// The queue's name and, once it was asked for, its address.
    queue: Option<(String, OnceCell<String>)>,
    /// Replace machines when EC2 recommends to rebalance them.
    rebalance: bool,
    checks: Mutex<Checks>,
}

/// What is known of EC2's checks.
#[derive(Default)]
struct Checks {
    looked: Option<Timestamp>,
    /// We may not look.
    forbidden: bool,
    /// What is wrong with which instances, so that each is counted once.
    bad: BTreeSet<(String, WarningKind)>,
}

impl Interruptions {
    pub(crate) fn new(
        account: Account,
        book: Book,
        metrics: AwsMetrics,
        queue: &str,
        rebalance: bool,
    ) -> Self {
        let queue = (!queue.is_empty()).then(|| (queue.to_owned(), OnceCell::new()));
        Self { account, book, metrics, queue, rebalance, checks: Mutex::default() }
    }

    /// Everything that was said since.
    pub(crate) async fn warnings(&self, now: Timestamp) -> Result<Vec<Warning>, ProviderError> {
        let (checked, said) = futures::future::join(self.check(now), self.messages(now)).await;
        let mut warnings = said?;
        warnings.extend(checked?);
        Ok(warnings)
    }

    /// Deletes the messages of warnings that were heeded.
    pub(crate) async fn heeded(&self, warnings: &[Warning]) -> Result<(), ProviderError> {
        let receipts: BTreeSet<&str> =
            warnings.iter().filter_map(|warning| warning.receipt.as_deref()).collect();
        self.delete(receipts.into_iter()).await
    }

    async fn url(&self) -> Result<Option<&str>, Error> {
        let Some((name, url)) = &self.queue else { return Ok(None) };
        let sqs = self.account.client().sqs();
        Ok(Some(url.get_or_try_init(|| sqs.queue_url(name)).await?))
    }

    async fn delete(&self, receipts: impl Iterator<Item = &str>) -> Result<(), ProviderError> {
        let Some(url) = self.url().await.map_err(|error| told(&error))? else { return Ok(()) };
        let deletions = receipts.map(|receipt| async move {
            self.account.client().sqs().delete(url, receipt).await.map(|()| self.metrics.deleted())
        });
        let results = futures::future::join_all(deletions).await;
        results.into_iter().collect::<Result<(), Error>>().map_err(|error| told(&error))
    }

    /// Takes messages from the queue until it seems empty. Those that say nothing about our machines are deleted at once.
    async fn messages(&self, now: Timestamp) -> Result<Vec<Warning>, ProviderError> {
        let Some(url) = self.url().await.map_err(|error| told(&error))? else { return Ok(Vec::new()) };
        let mut messages = self.receive(url, WAIT).await.map_err(|error| told(&error))?;
        let mut full = messages.len() == MESSAGES as usize;
        for _ in 0..ROUNDS {
            if !full {
                break;
            }
            let calls = (0..AT_A_TIME).map(|_| self.receive(url, 0));
            let more: Vec<Vec<Message>> =
                futures::future::join_all(calls).await.into_iter().filter_map(Result::ok).collect();
            // A queue answers with what one of its servers holds: only an empty round says that there is no more.
            full = more.iter().any(|part| !part.is_empty());
            messages.extend(more.into_iter().flatten());
        }
        let (warnings, nothing) = self.read(messages, now);
        self.delete(nothing.iter().map(String::as_str)).await?;
        Ok(warnings)
    }

    async fn receive(&self, url: &str, wait: u32) -> Result<Vec<Message>, Error> {
        let request = ReceiveMessage {
            queue_url: url.to_owned(),
            max_number_of_messages: MESSAGES,
            visibility_timeout: VISIBILITY,
            wait_time_seconds: wait,
        };
        self.account.client().sqs().receive(&request).await
    }

    /// Warnings, and the receipts of messages that say nothing about machines of ours.
    fn read(&self, messages: Vec<Message>, now: Timestamp) -> (Vec<Warning>, Vec<String>) {
        let (mut warnings, mut nothing) = (Vec::new(), Vec::new());
        for message in messages {
            let said = message::read(&message.body);
            let delay = said.time.map(|time| now.duration_since(time).as_secs_f64().max(0.0));
            self.metrics.received(said.metric(), delay);
            let before = warnings.len();
            if let Some(kind) = said.kind {
                let known = said.instances.iter().filter_map(|instance| self.book.machine(instance));
                warnings.extend(known.map(|machine| {
                    let receipt = Some(message.receipt_handle.clone());
                    Warning { receipt, ..self.warning(&machine.provider_id, kind) }
                }));
            }
            if warnings.len() == before {
                nothing.push(message.receipt_handle);
            }
        }
        (warnings, nothing)
    }

    fn warning(&self, provider_id: &str, kind: WarningKind) -> Warning {
        let warning = Warning::new(provider_id, kind);
        if kind == WarningKind::RebalanceRecommendation && self.rebalance {
            return Warning { response: Response::Replace, ..warning };
        }
        warning
    }

    /// Looks at EC2's checks, once a minute.
    async fn check(&self, now: Timestamp) -> Result<Vec<Warning>, ProviderError> {
        if !self.may_check(now) {
            return Ok(Vec::new());
        }
        let questions = status::questions();
        let answers =
            futures::future::join_all(questions.iter().map(|question| self.account.list(question))).await;
        let mut statuses: BTreeMap<String, InstanceStatus> = BTreeMap::new();
        for answer in answers {
            match answer {
                Ok(found) => {
                    statuses.extend(found.into_iter().map(|status| (status.instance_id.clone(), status)));
                }
                Err(error) if error.kind == ErrorKind::Unauthorized => {
                    tracing::warn!(
                        "the status of instances is not looked at until a restart, because the controller's role may not: {error}; allow ec2:DescribeInstanceStatus"
                    );
                    self.lock().forbidden = true;
                    return Ok(Vec::new());
                }
                Err(error) => return Err(told(&error)),
            }
        }
        Ok(self.judge(statuses.values(), now))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Checks> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_check(&self, now: Timestamp) -> bool {
        let mut checks = self.lock();
        let due = checks.looked.is_none_or(|looked| now.duration_since(looked) >= CHECK_EVERY);
        if due && !checks.forbidden {
            checks.looked = Some(now);
            return true;
        }
        false
    }

    fn judge<'s>(&self, statuses: impl Iterator<Item = &'s InstanceStatus>, now: Timestamp) -> Vec<Warning> {
        let mut bad = BTreeSet::new();
        let mut warnings = Vec::new();
        for status in statuses {
            let Some(machine) = self.book.machine(&status.instance_id) else { continue };
            for kind in status::ailments(status, now) {
                warnings.push(self.warning(&machine.provider_id, kind));
                bad.insert((status.instance_id.clone(), kind));
            }
        }
        let mut checks = self.lock();
        bad.difference(&checks.bad).for_each(|(_, kind)| self.metrics.unhealthy(kind.metric()));
        checks.bad = bad;
        warnings
    }
}

/// What a failed call means to those who asked.
fn told(error: &Error) -> ProviderError {
    ProviderError(error.to_string())
}
