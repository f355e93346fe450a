//! Metrics about conditions and ends of objects: which object has which condition and for how long is read at every scrape, how conditions
//! change is counted as it is seen. Every kind has metrics of its own; those without a kind in their name are older and name group and kind in
//! labels.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use karpenter_api::labels::{INITIALIZED, NODEPOOL};
use karpenter_api::nodepool::NodeClassReference;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_environment::Environment;
use karpenter_provider::NodeClassKind;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::cluster::{Pairs, gauges};
use super::series::{Buckets, Exposition};
use crate::node_class;
use crate::state::{Shared, State};

/// Buckets of the time between changes, in seconds.
const CHANGES: &[f64] =
    &[0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
/// The same for the older metrics.
const OLDER: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The kinds whose conditions are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conditioned {
    NodeClaim,
    NodePool,
    Node,
}

impl Conditioned {
    const ALL: [Self; 3] = [Self::NodeClaim, Self::NodePool, Self::Node];

    /// The beginning of the names of its metrics.
    fn prefix(self) -> &'static str {
        match self {
            Self::NodeClaim => "operator_nodeclaim_",
            Self::NodePool => "operator_nodepool_",
            Self::Node => "operator_node_",
        }
    }

    /// Labels in the older metrics, where it has them.
    fn group_and_kind(self) -> Option<[(&'static str, &'static str); 2]> {
        let kind = match self {
            Self::NodeClaim => "NodeClaim",
            Self::NodePool => "NodePool",
            Self::Node => return None,
        };
        Some([("group", "karpenter.sh"), ("kind", kind)])
    }
}

/// Which labels of objects become labels of series: the key there, the name here.
#[derive(Clone, Debug)]
pub(crate) struct ObjectLabels(Vec<(String, String)>);

impl ObjectLabels {
    pub(crate) fn new(classes: &[NodeClassKind]) -> Self {
        let keys = classes.iter().map(NodeClassKind::label).chain([NODEPOOL.to_owned()]);
        Self(keys.map(|key| (key.clone(), key.replace(['/', '.', '-'], "_"))).collect())
    }

    fn of(&self, kind: Conditioned, meta: &ObjectMeta) -> Pairs {
        let value =
            |key: &str| meta.labels.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default();
        let own = self.0.iter().map(|(key, name)| (Cow::Owned(name.clone()), value(key)));
        match kind {
            Conditioned::NodePool => Pairs::new(),
            Conditioned::NodeClaim => own.collect(),
            Conditioned::Node => {
                own.chain([(Cow::Borrowed("karpenter_sh_initialized"), value(INITIALIZED))]).collect()
            }
        }
    }
}

/// A condition of any object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen<'o> {
    type_: &'o str,
    status: &'o str,
    reason: &'o str,
    since: Option<Timestamp>,
}

impl<'o> From<&'o Condition> for Seen<'o> {
    fn from(found: &'o Condition) -> Self {
        let since = Some(found.last_transition_time.0);
        Self { type_: &found.type_, status: &found.status, reason: &found.reason, since }
    }
}

/// An object with conditions.
pub(crate) trait HasConditions {
    const KIND: Conditioned;
    fn seen(&self) -> Vec<Seen<'_>>;
}

impl HasConditions for NodeClaim {
    const KIND: Conditioned = Conditioned::NodeClaim;

    fn seen(&self) -> Vec<Seen<'_>> {
        self.status.iter().flat_map(|status| status.conditions.iter().flatten()).map(Seen::from).collect()
    }
}

impl HasConditions for NodePool {
    const KIND: Conditioned = Conditioned::NodePool;

    fn seen(&self) -> Vec<Seen<'_>> {
        self.status.iter().flat_map(|status| status.conditions.iter().flatten()).map(Seen::from).collect()
    }
}

impl HasConditions for Node {
    const KIND: Conditioned = Conditioned::Node;

    fn seen(&self) -> Vec<Seen<'_>> {
        let conditions = self.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions
            .map(|found| Seen {
                type_: &found.type_,
                status: &found.status,
                reason: found.reason.as_deref().unwrap_or_default(),
                since: found.last_transition_time.as_ref().map(|time| time.0),
            })
            .collect()
    }
}

/// How conditions change. Clones share their counts.
#[derive(Clone)]
pub(crate) struct Transitions {
    by_kind: [Changes; Conditioned::ALL.len()],
    /// Those of NodeClasses, by the beginning of the names of their metrics.
    by_class: Arc<Mutex<BTreeMap<String, Changes>>>,
    older: Changes,
}

#[derive(Clone)]
struct Changes {
    transitions: Family<Pairs, Counter>,
    lasted: Family<Pairs, Histogram, Buckets>,
    ended: Family<Pairs, Histogram, Buckets>,
}

impl Changes {
    fn new(buckets: &'static [f64]) -> Self {
        Self {
            transitions: Family::default(),
            lasted: Family::new_with_constructor(Buckets(buckets)),
            ended: Family::new_with_constructor(Buckets(buckets)),
        }
    }

    fn register(&self, prefix: &str, exposition: &mut Exposition) {
        let registry = &mut exposition.registry;
        let name = |rest: &str| format!("{prefix}{rest}");
        let help = "Changes of conditions";
        registry.register(name("status_condition_transitions"), help, self.transitions.clone());
        let help = "How long conditions had their status before it changed";
        registry.register(name("status_condition_transition_seconds"), help, self.lasted.clone());
        let help = "From the deletion of an object until it is gone";
        registry.register(name("termination_duration_seconds"), help, self.ended.clone());
    }

    fn changed(&self, old: Option<Seen<'_>>, new: Seen<'_>, extra: &Pairs) {
        let mut pairs = pairs([("type", new.type_), ("status", new.status), ("reason", new.reason)]);
        pairs.extend(extra.iter().cloned());
        self.transitions.get_or_create_owned(&pairs).inc();
        let Some(old) = old else { return };
        let Some(lasted) = old.since.zip(new.since).map(|(from, to)| to.duration_since(from)) else { return };
        let mut pairs = self::pairs([("type", old.type_), ("status", old.status), ("to_status", new.status)]);
        pairs.extend(extra.iter().cloned());
        self.lasted.get_or_create_owned(&pairs).observe(lasted.as_secs_f64().max(0.0));
    }
}

impl Default for Transitions {
    fn default() -> Self {
        let by_kind = Conditioned::ALL.map(|_| Changes::new(CHANGES));
        Self { by_kind, by_class: Arc::default(), older: Changes::new(OLDER) }
    }
}

impl Transitions {
    pub(super) fn register(&self, classes: &[NodeClassKind], exposition: &mut Exposition) {
        for (kind, changes) in Conditioned::ALL.iter().zip(&self.by_kind) {
            changes.register(kind.prefix(), exposition);
        }
        for prefix in class_prefixes(classes) {
            self.of_class(&prefix).register(&prefix, exposition);
        }
        self.older.register("operator_", exposition);
    }

    /// The metrics a kind is told in, each with the labels it adds.
    fn of(&self, kind: Conditioned, own: Pairs) -> Vec<(&Changes, Pairs)> {
        let index = Conditioned::ALL.iter().position(|known| *known == kind).expect("all kinds are listed");
        let older = kind.group_and_kind().map(|labels| (&self.older, pairs(labels)));
        std::iter::once((&self.by_kind[index], own)).chain(older).collect()
    }

    fn of_class(&self, prefix: &str) -> Changes {
        let mut known = self.by_class.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(prefix.to_owned()).or_insert_with(|| Changes::new(CHANGES)).clone()
    }

    /// Takes note of what changed between two states of a NodeClass.
    pub(crate) fn see_class(
        &self,
        class: &NodeClassReference,
        old: Option<&node_class::Conditioned>,
        new: Option<&node_class::Conditioned>,
        now: Timestamp,
    ) {
        let own = self.of_class(&class_prefix(&class.kind));
        let older = pairs([("group", &*class.group), ("kind", &*class.kind)]);
        let metrics = [(&own, Pairs::new()), (&self.older, older)];
        let (old, new) = (old.map(Known::of_class), new.map(Known::of_class));
        note(&metrics, old.as_ref(), new.as_ref(), now);
    }

    /// Takes note of what changed between two states of an object.
    pub(crate) fn see<O>(&self, old: Option<&O>, new: Option<&O>, labels: &ObjectLabels, now: Timestamp)
    where
        O: HasConditions + kube::Resource,
    {
        let Some(latest) = new.or(old) else { return };
        let metrics = self.of(O::KIND, labels.of(O::KIND, latest.meta()));
        let (old, new) = (old.map(Known::of), new.map(Known::of));
        note(&metrics, old.as_ref(), new.as_ref(), now);
    }

    #[cfg(test)]
    pub(super) fn touch(&self, labels: &ObjectLabels) {
        let seen = |status| Seen { type_: "", status, reason: "", since: Some(Timestamp::UNIX_EPOCH) };
        for kind in Conditioned::ALL {
            for (changes, extra) in self.of(kind, labels.of(kind, &ObjectMeta::default())) {
                changes.changed(Some(seen("")), seen("True"), &extra);
                changes.ended.get_or_create_owned(&extra);
            }
        }
    }
}

/// A state of an object.
struct Known<'o> {
    meta: &'o ObjectMeta,
    conditions: Vec<Seen<'o>>,
}

impl<'o> Known<'o> {
    fn of<O: HasConditions + kube::Resource>(object: &'o O) -> Self {
        Self { meta: object.meta(), conditions: object.seen() }
    }

    fn of_class(class: &'o node_class::Conditioned) -> Self {
        Self { meta: &class.meta, conditions: class.conditions.iter().map(Seen::from).collect() }
    }
}

/// Counts what changed between two states of an object in all of `metrics`.
fn note(metrics: &[(&Changes, Pairs)], old: Option<&Known<'_>>, new: Option<&Known<'_>>, now: Timestamp) {
    let known = old.map(|old| old.conditions.as_slice()).unwrap_or_default();
    let Some(new) = new else {
        let Some(deleted) = old.and_then(|gone| gone.meta.deletion_timestamp.clone()) else { return };
        let took = now.duration_since(deleted.0).as_secs_f64().max(0.0);
        for (changes, extra) in metrics {
            changes.ended.get_or_create_owned(extra).observe(took);
        }
        return;
    };
    for found in &new.conditions {
        let before = known.iter().copied().find(|known| known.type_ == found.type_);
        if before.is_some_and(|before| before.status == found.status) {
            continue;
        }
        metrics.iter().for_each(|(changes, extra)| changes.changed(before, *found, extra));
    }
}

/// The beginning of the names of the metrics of a NodeClass.
fn class_prefix(kind: &str) -> String {
    format!("operator_{}_", kind.to_lowercase())
}

/// The same for all of them; kinds of one name share their metrics, whatever their group.
fn class_prefixes(classes: &[NodeClassKind]) -> BTreeSet<String> {
    classes.iter().map(|class| class_prefix(class.kind)).collect()
}

fn pairs<const N: usize>(labels: [(&'static str, &str); N]) -> Pairs {
    labels.map(|(name, value)| (Cow::Borrowed(name), value.to_owned())).into()
}

/// Reads the conditions of claims, pools and nodes at every scrape.
pub(super) struct Conditions {
    state: Shared,
    labels: ObjectLabels,
    /// The beginnings of the names of the metrics of NodeClasses.
    class_prefixes: BTreeSet<String>,
    environment: Arc<dyn Environment>,
}

impl fmt::Debug for Conditions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Conditions").finish_non_exhaustive()
    }
}

/// One object as a scrape sees it.
struct Told<'s> {
    kind: Conditioned,
    object: Known<'s>,
}

impl Known<'_> {
    fn name(&self) -> Pairs {
        pairs([
            ("namespace", self.meta.namespace.as_deref().unwrap_or_default()),
            ("name", self.meta.name.as_deref().unwrap_or_default()),
        ])
    }
}

fn told<O: HasConditions + kube::Resource>(object: &Arc<O>) -> Told<'_> {
    Told { kind: O::KIND, object: Known::of(&**object) }
}

impl Conditions {
    pub(super) fn new(state: Shared, classes: &[NodeClassKind], environment: Arc<dyn Environment>) -> Self {
        let (labels, class_prefixes) = (ObjectLabels::new(classes), class_prefixes(classes));
        Self { state, labels, class_prefixes, environment }
    }

    fn encode_objects(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        prefix: &str,
        objects: &[(&Known<'_>, Pairs)],
    ) -> fmt::Result {
        let now = self.environment.now();
        let each = objects.iter().flat_map(|(object, extra)| {
            object.conditions.iter().map(move |found| {
                let mut all = object.name();
                all.extend(pairs([
                    ("type", found.type_),
                    ("status", found.status),
                    ("reason", found.reason),
                ]));
                all.extend(extra.iter().cloned());
                (all, found.since.map_or(0.0, |since| age(since, now)))
            })
        });
        let counts = each.clone().map(|(pairs, _)| (pairs, 1.0));
        let help = "Which object has which condition";
        gauges(encoder, &format!("{prefix}status_condition_count"), help, counts)?;
        let help = "How long conditions have had their status";
        gauges(encoder, &format!("{prefix}status_condition_current_status_seconds"), help, each)?;
        let leaving = objects.iter().filter_map(|(object, extra)| {
            let mut pairs = object.name();
            pairs.extend(extra.iter().cloned());
            Some((pairs, age(object.meta.deletion_timestamp.as_ref()?.0, now)))
        });
        let help = "How long objects have been on their way out";
        gauges(encoder, &format!("{prefix}termination_current_time_seconds"), help, leaving)
    }
}

impl Collector for Conditions {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = self.state.lock();
        let all = all_objects(&state);
        for kind in Conditioned::ALL {
            let of_kind = all.iter().filter(|object| object.kind == kind);
            let labelled: Vec<_> =
                of_kind.map(|told| (&told.object, self.labels.of(kind, told.object.meta))).collect();
            self.encode_objects(&mut encoder, kind.prefix(), &labelled)?;
        }
        let classes = state.node_classes().objects();
        let classes: Vec<_> =
            classes.iter().map(|(class, object)| (class, Known::of_class(object))).collect();
        for prefix in &self.class_prefixes {
            let of_kind = classes.iter().filter(|(class, _)| class_prefix(&class.kind) == *prefix);
            let of_kind: Vec<_> = of_kind.map(|(_, object)| (object, Pairs::new())).collect();
            self.encode_objects(&mut encoder, prefix, &of_kind)?;
        }
        let older = all.iter().filter_map(|told| Some((&told.object, pairs(told.kind.group_and_kind()?))));
        let older_classes = classes
            .iter()
            .map(|(class, object)| (object, pairs([("group", &*class.group), ("kind", &*class.kind)])));
        self.encode_objects(&mut encoder, "operator_", &older.chain(older_classes).collect::<Vec<_>>())
    }
}

fn all_objects(state: &State) -> Vec<Told<'_>> {
    state.claims().map(told).chain(state.pools().map(told)).chain(state.nodes().map(told)).collect()
}

fn age(since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(since).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(status: &str, since: &str) -> NodeClaim {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a", "labels": {"karpenter.sh/nodepool": "general"}},
            "spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "n"}, "requirements": []},
            "status": {"conditions": [{"type": "Ready", "status": status, "reason": "R", "message": "", "lastTransitionTime": since}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_change_counts_once_and_a_status_that_stays_does_not() {
        let transitions = Transitions::default();
        let labels = ObjectLabels::new(&[]);
        let now = Timestamp::UNIX_EPOCH;
        let (unknown, ready) =
            (claim("Unknown", "2026-01-01T00:00:00Z"), claim("True", "2026-01-01T00:00:30Z"));
        transitions.see(None, Some(&unknown), &labels, now);
        transitions.see(Some(&unknown), Some(&ready), &labels, now);
        transitions.see(Some(&ready), Some(&ready), &labels, now);
        let mut exposition = Exposition::default();
        transitions.register(&[], &mut exposition);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &exposition.registry).unwrap();
        let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        has(
            r#"operator_nodeclaim_status_condition_transitions_total{type="Ready",status="True",reason="R",karpenter_sh_nodepool="general"} 1"#,
        );
        has(
            r#"operator_status_condition_transitions_total{type="Ready",status="Unknown",reason="R",group="karpenter.sh",kind="NodeClaim"} 1"#,
        );
        has(
            r#"operator_nodeclaim_status_condition_transition_seconds_sum{type="Ready",status="Unknown",to_status="True",karpenter_sh_nodepool="general"} 30.0"#,
        );
    }
}
