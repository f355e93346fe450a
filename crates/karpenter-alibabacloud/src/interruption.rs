//! Hears that machines will be taken back, without anything to be set up: the cloud is asked for locks, events and planned work, and a
//! condition on the Node tells the same where ACK's problem detector runs. Where a message queue is set up, events are heard as they come.
//!
//! Each source is asked at its own pace and may fail alone. What an event means is a function in [`events`].

pub mod conditions;
pub mod events;
pub mod message;
mod queue;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_alibabacloud_client::cms::{DescribeSystemEventAttribute, SystemEvent};
use karpenter_alibabacloud_client::ecs::{DescribeInstances, DescribeInstancesFullStatus, Instance};
use karpenter_alibabacloud_client::mns::{BatchReceiveMessage, DeleteMessage, Message};
use karpenter_alibabacloud_client::sts::GetCallerIdentity;
use karpenter_alibabacloud_client::{Client, Error, Operation};
use karpenter_api::labels::CAPACITY_TYPE_SPOT;
use karpenter_provider::{OfferingKey, ProviderError, Warning, WarningKind};

use self::conditions::ExpiredNodes;
use self::events::Notice;
use self::queue::Queue;
use crate::instances::Instances;
use crate::market::Market;
use crate::ownership;
use crate::rights::Rights;

const LOCKS: SignedDuration = SignedDuration::from_secs(15);
const EVENTS: SignedDuration = SignedDuration::from_secs(30);
const PLANNED_WORK: SignedDuration = SignedDuration::from_mins(5);
/// How long a source rests that the policy refuses.
const REFUSED: SignedDuration = SignedDuration::from_mins(10);
/// How long the queue rests when it cannot be read.
const UNREADABLE: SignedDuration = SignedDuration::from_mins(1);
/// Events are shown some time after they happened, so windows overlap.
const OVERLAP: SignedDuration = SignedDuration::from_mins(3);
const FIRST_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// A machine that was warned is gone long before.
const MARKED: SignedDuration = SignedDuration::from_hours(1);

/// Asks the cloud what it has in store for our machines.
pub struct Interruption {
    client: Client,
    instances: Arc<Instances>,
    market: Market,
    rights: Rights,
    nodes: ExpiredNodes,
    queue: Option<Queue>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When each source is asked next.
    due: BTreeMap<&'static str, Timestamp>,
    /// The end of the last window of events.
    until: Option<Timestamp>,
    /// Events that were heard, with their time.
    heard: BTreeMap<String, Timestamp>,
    /// Machines whose offering was marked, with the time.
    marked: BTreeMap<String, Timestamp>,
}

impl Interruption {
    /// Asks through `client`; `nodes` are those with the condition.
    pub fn new(
        client: Client,
        instances: Arc<Instances>,
        market: Market,
        rights: Rights,
        nodes: ExpiredNodes,
    ) -> Self {
        Self { client, instances, market, rights, nodes, queue: None, state: Mutex::default() }
    }

    /// Hears what is delivered to the message queue called `name` too.
    #[must_use]
    pub fn with_queue(mut self, name: Option<&str>) -> Self {
        self.queue = name.map(|name| Queue::new(self.client.clone(), name.to_owned()));
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.client.environment().now()
    }

    /// Whether a source is to be asked now; if so, it is next asked after `period`.
    fn is_due(&self, source: &'static str, period: SignedDuration) -> bool {
        let now = self.now();
        let mut state = self.state();
        let due = state.due.get(source).is_none_or(|due| now >= *due);
        if due {
            state.due.insert(source, now.saturating_add(period).unwrap_or(Timestamp::MAX));
        }
        due
    }

    /// A source is not asked for a while.
    fn rest(&self, source: &'static str, pause: SignedDuration) {
        let rested = self.now().saturating_add(pause).unwrap_or(Timestamp::MAX);
        self.state().due.insert(source, rested);
    }

    /// What the cloud says about machines of `clusters`.
    pub async fn warnings(&self, clusters: &[String]) -> Vec<Warning> {
        let (mut warnings, delivered) =
            futures::future::join(self.asked(clusters), self.delivered(clusters)).await;
        warnings.extend(delivered);
        warnings
    }

    /// Deletes the messages of warnings that were heeded.
    ///
    /// # Errors
    /// When the queue refuses; it says them again.
    pub async fn heeded(&self, warnings: Vec<Warning>) -> Result<(), ProviderError> {
        let receipts: Vec<String> = warnings.into_iter().filter_map(|warning| warning.receipt).collect();
        let Some(queue) = self.queue.as_ref().filter(|_| !receipts.is_empty()) else { return Ok(()) };
        self.delete(queue, receipts).await.map_err(|error| {
            ProviderError(format!("messages of the queue {} cannot be deleted: {error}", queue.name()))
        })
    }

    /// What the cloud answers when it is asked.
    async fn asked(&self, clusters: &[String]) -> Vec<Warning> {
        let mut warnings: Vec<Warning> =
            self.nodes.all().into_iter().map(|id| Warning::new(id, WarningKind::SpotInterruption)).collect();
        if self.is_due("locks", LOCKS) {
            warnings.extend(self.keep::<DescribeInstances>("locks", self.locked(clusters).await));
        }
        if self.is_due("events", EVENTS) {
            let heard = self.happened(clusters).await;
            warnings.extend(self.keep::<DescribeSystemEventAttribute>("events", heard));
        }
        if self.is_due("planned work", PLANNED_WORK) {
            let planned = self.planned(clusters).await;
            warnings.extend(self.keep::<DescribeInstancesFullStatus>("planned work", planned));
        }
        warnings
    }

    /// A source that fails does not silence the others; one that is refused rests.
    fn keep<O: Operation>(&self, source: &'static str, answer: Result<Vec<Warning>, Error>) -> Vec<Warning> {
        let refused = self.rights.hear::<O, _>(&answer, self.now());
        answer.unwrap_or_else(|error| {
            if refused {
                self.rest(source, REFUSED);
            } else {
                tracing::warn!("the cloud's {source} cannot be read: {error}");
            }
            Vec::new()
        })
    }

    /// Machines with the lock that is set some minutes before a spot machine is taken back.
    async fn locked(&self, clusters: &[String]) -> Result<Vec<Warning>, Error> {
        let mut warnings = Vec::new();
        for cluster in clusters {
            for instance in self.instances.recycled(cluster).await? {
                if ownership::is_ours(&instance, clusters) {
                    self.mark(&instance);
                    warnings.push(self.warning(&instance, WarningKind::SpotInterruption.into()));
                }
            }
        }
        Ok(warnings)
    }

    /// Events of Cloud Monitor since the last look.
    async fn happened(&self, clusters: &[String]) -> Result<Vec<Warning>, Error> {
        let now = self.now();
        let before = self.state().until;
        let start = before.map_or(now - FIRST_WINDOW, |until| until - OVERLAP);
        let request = DescribeSystemEventAttribute {
            product: Some("ECS".to_owned()),
            start_time: Some(start.as_millisecond()),
            end_time: Some(now.as_millisecond()),
            ..Default::default()
        };
        let found = self.client.list(&request).await?;
        let mut warnings = Vec::new();
        for event in self.new_events(found, now) {
            warnings.extend(self.warning_of(&event, clusters).await?);
        }
        self.state().until = Some(now);
        Ok(warnings)
    }

    /// Those that were not heard before; what is older than every window is forgotten.
    fn new_events(&self, found: Vec<SystemEvent>, now: Timestamp) -> Vec<SystemEvent> {
        let mut state = self.state();
        let oldest = now - FIRST_WINDOW - OVERLAP;
        state.heard.retain(|_, time| *time >= oldest);
        found
            .into_iter()
            .filter(|event| state.heard.insert(key(event), event.at().unwrap_or(now)).is_none())
            .collect()
    }

    /// What the queue delivered, where there is one. Before a cluster is known it could not be told whose machines are meant.
    async fn delivered(&self, clusters: &[String]) -> Vec<Warning> {
        let Some(queue) = self.queue.as_ref().filter(|_| !clusters.is_empty()) else { return Vec::new() };
        if !self.is_due("queue", SignedDuration::ZERO) {
            return Vec::new();
        }
        match queue.receive().await {
            Ok(messages) => {
                self.rights.clear(BatchReceiveMessage::RAM_ACTION);
                self.rights.clear(GetCallerIdentity::RAM_ACTION);
                self.sorted(queue, messages, clusters).await
            }
            Err(error) => {
                self.cannot_read(queue, &error);
                Vec::new()
            }
        }
    }

    fn cannot_read(&self, queue: &Queue, error: &Error) {
        let pause = if self.rights.note(error, self.now()) { REFUSED } else { UNREADABLE };
        self.rest("queue", pause);
        let name = queue.name();
        let remedy = if error.is_not_found() {
            "; make it and let Cloud Monitor deliver the system events of ECS to it, or leave --interruption-queue empty"
        } else {
            ""
        };
        tracing::warn!(
            "the message queue {name} cannot be read, so interruptions are heard only when the cloud is asked: {error}{remedy}"
        );
    }

    /// Warnings that are to be heeded before their messages are deleted; messages that say nothing are deleted at once.
    async fn sorted(&self, queue: &Queue, messages: Vec<Message>, clusters: &[String]) -> Vec<Warning> {
        let (mut warnings, mut nothing) = (Vec::new(), Vec::new());
        for message in messages {
            match self.said(queue, &message, clusters).await {
                Ok(Some(warning)) => {
                    warnings.push(Warning { receipt: Some(message.receipt_handle), ..warning });
                }
                Ok(None) => nothing.push(message.receipt_handle),
                // It is not deleted, so it comes again.
                Err(error) => tracing::warn!(
                    "the machine of a message of the queue {} cannot be looked up: {error}",
                    queue.name()
                ),
            }
        }
        if let Err(error) = self.delete(queue, nothing).await {
            tracing::warn!("messages of the queue {} cannot be deleted: {error}", queue.name());
        }
        warnings
    }

    /// The warning in a message, unless it was heard otherwise. A message that was received before and is still there was not heeded.
    async fn said(
        &self,
        queue: &Queue,
        message: &Message,
        clusters: &[String],
    ) -> Result<Option<Warning>, Error> {
        let event = match message::read(&message.body) {
            Ok(event) => event,
            Err(reason) => {
                let (id, name) = (&message.id, queue.name());
                tracing::warn!("the message {id} of the queue {name} is deleted, because {reason}");
                return Ok(None);
            }
        };
        if message.dequeue_count <= 1 && self.state().heard.contains_key(&key(&event)) {
            return Ok(None);
        }
        let warning = self.warning_of(&event, clusters).await?;
        self.state().heard.insert(key(&event), self.now());
        Ok(warning)
    }

    async fn delete(&self, queue: &Queue, receipts: Vec<String>) -> Result<(), Error> {
        if receipts.is_empty() {
            return Ok(());
        }
        let deleted = queue.delete(receipts).await;
        self.rights.hear::<DeleteMessage, _>(&deleted, self.now());
        deleted
    }

    /// The warning in an event, if it is about a machine of ours: events speak of every machine of the account.
    async fn warning_of(&self, event: &SystemEvent, clusters: &[String]) -> Result<Option<Warning>, Error> {
        let Some((id, notice)) = events::of_event(event) else { return Ok(None) };
        let Some(instance) = self.ours(&id, clusters).await? else { return Ok(None) };
        if notice.kind == WarningKind::SpotInterruption {
            self.mark(&instance);
        }
        Ok(Some(self.warning(&instance, notice)))
    }

    /// Work the cloud plans on machines.
    async fn planned(&self, clusters: &[String]) -> Result<Vec<Warning>, Error> {
        let now = self.now();
        let request = DescribeInstancesFullStatus {
            instance_event_types: events::PLANNED.iter().map(|name| (*name).to_owned()).collect(),
            ..Default::default()
        };
        let mut warnings = Vec::new();
        for status in self.client.list(&request).await? {
            let notice =
                status.scheduled_events.iter().filter_map(|event| events::of_schedule(event, now)).max();
            if let Some(notice) = notice
                && let Some(instance) = self.ours(&status.instance_id, clusters).await?
            {
                warnings.push(self.warning(&instance, notice));
            }
        }
        Ok(warnings)
    }

    async fn ours(&self, id: &str, clusters: &[String]) -> Result<Option<Instance>, Error> {
        let found = self.instances.get(id).await?;
        Ok(found.filter(|instance| ownership::is_ours(instance, clusters)))
    }

    fn warning(&self, instance: &Instance, notice: Notice) -> Warning {
        let id = ownership::provider_id(self.client.region(), &instance.instance_id);
        Warning { response: notice.response, ..Warning::new(id, notice.kind) }
    }

    /// What is taken back is not to be had again at once: exactly this offering is left alone.
    fn mark(&self, instance: &Instance) {
        let (Some(name), Some(zone)) = (&instance.instance_type, &instance.zone_id) else { return };
        let now = self.now();
        let mut state = self.state();
        state.marked.retain(|_, marked| now.duration_since(*marked) < MARKED);
        if state.marked.insert(instance.instance_id.clone(), now).is_some() {
            return;
        }
        drop(state);
        let key = OfferingKey {
            instance_type: name.as_str().into(),
            zone: zone.as_str().into(),
            capacity_type: CAPACITY_TYPE_SPOT.into(),
        };
        self.market.refusals().refuse(key, now);
    }
}

/// By what an event is known, wherever it was heard.
fn key(event: &SystemEvent) -> String {
    let resource = event.resource_id.as_deref().unwrap_or_default();
    event.id.clone().unwrap_or_else(|| format!("{}/{resource}/{}", event.name, event.time))
}
