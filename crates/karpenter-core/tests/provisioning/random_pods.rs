//! Random pods: what they ask, whom they want near, and where their volumes are.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::catalog::{CAPACITY_TYPE, HOSTNAME, ZONE};
use karpenter_core::cluster::{
    BindingMode, ClaimPhase, HostPort, Labels, PersistentVolume, Pod, PodAffinityTerm, PodId, PodOwner,
    PodPhase, PodSpec, PreferredTerm, Selector, SelectorExpression, SelectorOperator, SpreadConstraint,
    StorageClass, TaintEffect, Toleration, TolerationOperator, Unsatisfiable, VolumeClaim, VolumeRef,
    WeightedAffinityTerm,
};
use karpenter_core::requirements::{Operator, Requirement};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::random::{NAMESPACES, ZONES, amounts, requirement};

/// A pod without a name.
pub(crate) fn pod() -> impl Strategy<Value = Pod> {
    let owners = vec![
        PodOwner::Workload,
        PodOwner::Workload,
        PodOwner::StatefulSet,
        PodOwner::CapacityBuffer,
        PodOwner::DaemonSet,
    ];
    let phases = vec![PodPhase::Pending, PodPhase::Pending, PodPhase::Running, PodPhase::Terminal];
    let volumes = prop_oneof![4 => Just(Vec::new()), 1 => vec(volume_ref(), 1..=2)];
    let state = (select(owners), select(phases), any::<bool>(), any::<bool>());
    (select(NAMESPACES.to_vec()), labels(), spec(), volumes, -1..2, state).prop_map(
        |(namespace, labels, spec, volumes, priority, (owner, phase, terminating, do_not_disrupt))| Pod {
            id: PodId { namespace: namespace.into(), name: "".into(), uid: "".into() },
            labels: Arc::new(labels),
            spec: Arc::new(spec),
            created: Timestamp::UNIX_EPOCH,
            priority,
            owner,
            phase,
            terminating: terminating && do_not_disrupt,
            do_not_disrupt,
            disruption_cost: 0,
            volumes,
        },
    )
}

fn labels() -> impl Strategy<Value = Labels> {
    let value = || option::of(select(vec!["a", "b"]));
    (value(), value()).prop_map(|(app, version)| {
        let named = [("app", app), ("version", version)].into_iter();
        named.filter_map(|(key, value)| Some((key.into(), value?.into()))).collect()
    })
}

/// What a pod asks; most of it is rare, so that pods often fit.
fn spec() -> impl Strategy<Value = PodSpec> {
    let near = (rarely(term()), rarely(term()), rarely(weighted(term())), rarely(weighted(term())));
    let own = (amounts(4_000), option::weighted(0.2, select(ZONES.to_vec())), rarely(port()));
    let affinity = (rarely(vec(requirement(), 0..=2)), rarely(preferred()));
    (own, affinity, vec(toleration(), 0..=2), rarely(spread()), near).prop_map(
        |(own, affinity, tolerations, spread, near)| {
            let (requests, zone, host_ports) = own;
            let (required_terms, preferred_terms) = affinity;
            let (affinity, anti_affinity, preferred_affinity, preferred_anti_affinity) = near;
            PodSpec {
                requests,
                node_selector: zone.map(|zone| (ZONE.into(), zone.into())).into_iter().collect(),
                required_terms,
                preferred_terms,
                tolerations,
                spread,
                affinity,
                anti_affinity,
                preferred_affinity: preferred_affinity.into_iter().map(weighted_term).collect(),
                preferred_anti_affinity: preferred_anti_affinity.into_iter().map(weighted_term).collect(),
                host_ports,
                uses_dynamic_resources: false,
                uses_match_fields: false,
            }
        },
    )
}

/// What the pod of a `DaemonSet` asks.
pub(crate) fn daemon_spec() -> impl Strategy<Value = PodSpec> {
    (amounts(500), rarely(vec(requirement(), 0..=2)), vec(toleration(), 0..=2), rarely(port())).prop_map(
        |(requests, required_terms, tolerations, host_ports)| PodSpec {
            requests,
            required_terms,
            tolerations,
            host_ports,
            ..PodSpec::default()
        },
    )
}

/// Usually none, sometimes one or two.
fn rarely<T: Clone + std::fmt::Debug>(
    one: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Vec<T>> {
    prop_oneof![4 => Just(Vec::new()), 1 => vec(one, 1..=2)]
}

fn weighted<T: std::fmt::Debug>(one: impl Strategy<Value = T>) -> impl Strategy<Value = (i32, T)> {
    (select(vec![1, 50, 50, 100]), one)
}

fn weighted_term((weight, term): (i32, PodAffinityTerm)) -> WeightedAffinityTerm {
    WeightedAffinityTerm { weight, term }
}

fn preferred() -> impl Strategy<Value = PreferredTerm> {
    weighted(vec(requirement(), 0..=2))
        .prop_map(|(weight, requirements)| PreferredTerm { weight, requirements })
}

fn topology_key() -> impl Strategy<Value = Arc<str>> {
    select(vec![ZONE, ZONE, HOSTNAME, HOSTNAME, CAPACITY_TYPE, "example.com/team", "example.com/nobody"])
        .prop_map(Into::into)
}

fn selector() -> impl Strategy<Value = Option<Selector>> {
    let operators = [
        SelectorOperator::In,
        SelectorOperator::In,
        SelectorOperator::NotIn,
        SelectorOperator::Exists,
        SelectorOperator::DoesNotExist,
    ];
    let expression = (
        select(vec!["app", "version", "name"]),
        select(operators.to_vec()),
        select(vec!["a", "b", "default"]),
    )
        .prop_map(|(key, operator, value)| {
            let takes_values = matches!(operator, SelectorOperator::In | SelectorOperator::NotIn);
            let values = takes_values.then(|| value.into()).into_iter().collect::<BTreeSet<_>>();
            SelectorExpression { key: key.into(), operator, values }
        });
    let some = vec(expression, 0..=2)
        .prop_map(|expressions| Selector { expressions: expressions.into_iter().collect() });
    option::weighted(0.9, some)
}

fn label_keys() -> impl Strategy<Value = Vec<Arc<str>>> {
    rarely(select(vec!["app", "version"]).prop_map(Into::into))
}

fn spread() -> impl Strategy<Value = SpreadConstraint> {
    let what = select(vec![Unsatisfiable::DoNotSchedule, Unsatisfiable::ScheduleAnyway]);
    let policies = (any::<bool>(), any::<bool>());
    (
        select(vec![0, 1, 1, 1, 2, 2]),
        topology_key(),
        what,
        selector(),
        option::of(0..4_u32),
        policies,
        label_keys(),
    )
        .prop_map(
            |(
                max_skew,
                topology_key,
                when_unsatisfiable,
                selector,
                min_domains,
                policies,
                match_label_keys,
            )| {
                SpreadConstraint {
                    max_skew,
                    topology_key,
                    when_unsatisfiable,
                    selector,
                    min_domains: min_domains.filter(|_| when_unsatisfiable == Unsatisfiable::DoNotSchedule),
                    honor_node_affinity: policies.0,
                    honor_node_taints: policies.1,
                    match_label_keys,
                }
            },
        )
}

fn term() -> impl Strategy<Value = PodAffinityTerm> {
    let namespaces = rarely(select(NAMESPACES.to_vec()).prop_map(Into::into));
    let namespace_selector = option::weighted(0.2, selector()).prop_map(Option::flatten);
    (topology_key(), selector(), namespaces, namespace_selector, label_keys(), label_keys()).prop_map(
        |(topology_key, selector, namespaces, namespace_selector, match_label_keys, mismatch_label_keys)| {
            PodAffinityTerm {
                topology_key,
                selector,
                namespaces,
                namespace_selector,
                match_label_keys,
                mismatch_label_keys,
            }
        },
    )
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let operators = vec![TolerationOperator::Exists, TolerationOperator::Equal, TolerationOperator::Gt];
    let effect = option::of(select(vec![
        TaintEffect::NoSchedule,
        TaintEffect::PreferNoSchedule,
        TaintEffect::NoExecute,
    ]));
    (select(vec!["", "dedicated", "gpu"]), select(operators), select(vec!["", "x"]), effect).prop_map(
        |(key, operator, value, effect)| Toleration {
            key: key.into(),
            operator,
            value: value.into(),
            effect,
        },
    )
}

fn port() -> impl Strategy<Value = HostPort> {
    (select(vec!["", "0.0.0.0", "10.0.0.1"]), select(vec![80, 443]), select(vec!["TCP", "UDP"]))
        .prop_map(|(ip, port, protocol)| HostPort { ip: ip.into(), port, protocol: protocol.into() })
}

fn volume_ref() -> impl Strategy<Value = VolumeRef> {
    let name =
        |prefix: &'static str| (0..3).prop_map(move |number| Arc::<str>::from(format!("{prefix}{number}")));
    (name("c"), option::of(name("s")), any::<bool>())
        .prop_map(|(claim, ephemeral_class, ephemeral)| VolumeRef { claim, ephemeral_class, ephemeral })
}

pub(crate) fn volume_claim() -> impl Strategy<Value = VolumeClaim> {
    let name =
        |prefix: &'static str| (0..3).prop_map(move |number| Arc::<str>::from(format!("{prefix}{number}")));
    let phase = select(vec![ClaimPhase::Usable, ClaimPhase::Usable, ClaimPhase::Lost]);
    (option::of(name("v")), any::<bool>(), option::of(name("s")), phase).prop_map(
        |(volume, bind_completed, storage_class, phase)| VolumeClaim {
            namespace: NAMESPACES[0].into(),
            volume,
            bind_completed,
            storage_class,
            phase,
            ..VolumeClaim::default()
        },
    )
}

fn zone_terms() -> impl Strategy<Value = Vec<Vec<Requirement>>> {
    let zones = vec(select(ZONES.to_vec()), 1..=2);
    vec(zones.prop_map(|zones| vec![Requirement::new(ZONE, Operator::In, zones)]), 0..=2)
}

pub(crate) fn volume() -> impl Strategy<Value = PersistentVolume> {
    let driver = option::of(Just(Arc::<str>::from("csi.example.com")));
    (zone_terms(), driver, any::<bool>()).prop_map(|(node_terms, driver, host_bound)| PersistentVolume {
        node_terms,
        driver,
        host_bound,
        ..PersistentVolume::default()
    })
}

pub(crate) fn storage_class() -> impl Strategy<Value = StorageClass> {
    let binding = select(vec![BindingMode::Immediate, BindingMode::WaitForFirstConsumer]);
    (binding, zone_terms()).prop_map(|(binding, topologies)| StorageClass {
        name: "".into(),
        provisioner: "csi.example.com".into(),
        binding,
        topologies,
    })
}
