//! Pods: who they are, what they ask of a node, and whether they wait for one.
//!
//! Start at [`pod`]. What a pod asks of a node is put together from its parts: [`requests`] for resources, `affinity` for
//! where it wants to be, [`volumes`] for the claims it mounts.

mod affinity;
mod refusal;
pub mod requests;
pub mod volumes;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as kube;
use karpenter_api::LabelRules;
use karpenter_api::annotations::{DISRUPTION_COST, DO_NOT_DISRUPT, POD_DELETION_COST};
use karpenter_api::duration::parse_duration;
use karpenter_core::cluster::{HostPort, Pod, PodId, PodOwner, PodPhase, PodSpec};

use crate::interner::Interner;
use crate::invalid::{At, Invalid, each};
use crate::taint::tolerations;

pub use affinity::spread_constraint;
pub use refusal::refusal;
use requests::{MissingRequests, effective_requests};
use volumes::volume_refs;

/// The pod as the core sees it at `now`.
pub fn pod(
    object: &kube::Pod,
    now: Timestamp,
    rules: &LabelRules,
    interner: &mut Interner,
) -> Result<Pod, Invalid> {
    let metadata = &object.metadata;
    let spec = object.spec.as_ref();
    let name = metadata.name.as_deref().unwrap_or_default();
    let nothing = kube::PodSpec::default();
    let status = object.status.as_ref();
    let converted = pod_spec(spec.unwrap_or(&nothing), status, MissingRequests::AreZero, rules).at("spec")?;
    Ok(Pod {
        id: PodId {
            namespace: interner.string(metadata.namespace.as_deref().unwrap_or("default")),
            name: name.into(),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
        },
        labels: interner.label_map(metadata.labels.iter().flatten()),
        spec: interner.spec(converted),
        created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        priority: spec.and_then(|spec| spec.priority).unwrap_or(0),
        owner: owner(object),
        phase: phase(object),
        terminating: metadata.deletion_timestamp.is_some(),
        do_not_disrupt: refuses_disruption(object, now),
        disruption_cost: disruption_cost(object),
        volumes: spec.map(|spec| volume_refs(name, spec)).unwrap_or_default(),
    })
}

/// What a pod with this spec asks of a node.
pub fn pod_spec(
    spec: &kube::PodSpec,
    status: Option<&kube::PodStatus>,
    missing: MissingRequests,
    rules: &LabelRules,
) -> Result<PodSpec, Invalid> {
    let mut result = PodSpec {
        requests: effective_requests(spec, status, missing)?,
        node_selector: spec
            .node_selector
            .iter()
            .flatten()
            .map(|(key, value)| (rules.normalize(key).into(), value.as_str().into()))
            .collect(),
        tolerations: tolerations(spec.tolerations.iter().flatten()).at("tolerations")?,
        spread: each(spec.topology_spread_constraints.iter().flatten(), affinity::spread_constraint)
            .at("topologySpreadConstraints")?,
        host_ports: host_ports(spec),
        uses_dynamic_resources: claims_devices(spec),
        ..PodSpec::default()
    };
    if let Some(affinity) = &spec.affinity {
        affinity::add_affinity(&mut result, affinity, rules).at("affinity")?;
    }
    Ok(result)
}

fn claims_devices(spec: &kube::PodSpec) -> bool {
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let names_claims = |container: &kube::Container| {
        let claims = container.resources.as_ref().and_then(|resources| resources.claims.as_ref());
        claims.is_some_and(|claims| !claims.is_empty())
    };
    spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) || containers.any(names_claims)
}

/// Ports of the node that regular containers take; init containers' ports are free again when these start.
fn host_ports(spec: &kube::PodSpec) -> Vec<HostPort> {
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    let mut taken: Vec<HostPort> = ports.filter_map(host_port).collect();
    taken.sort();
    taken.dedup();
    taken
}

fn host_port(port: &kube::ContainerPort) -> Option<HostPort> {
    let number = u16::try_from(port.host_port?).ok().filter(|number| *number > 0)?;
    let or = |text: Option<&String>, default: &str| text.map_or(default, String::as_str).into();
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    Some(HostPort {
        ip: or(given(&port.host_ip).as_ref(), "0.0.0.0"),
        port: number,
        protocol: or(given(&port.protocol).as_ref(), "TCP"),
    })
}

fn owner(object: &kube::Pod) -> PodOwner {
    let owned_by = |api_version: &str, kind: &str| {
        let owners = object.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.api_version == api_version && owner.kind == kind)
    };
    if owned_by("apps/v1", "DaemonSet") {
        PodOwner::DaemonSet
    } else if owned_by("v1", "Node") {
        PodOwner::Node
    } else if owned_by("apps/v1", "StatefulSet") {
        PodOwner::StatefulSet
    } else {
        PodOwner::Workload
    }
}

fn phase(object: &kube::Pod) -> PodPhase {
    match object.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Succeeded" | "Failed") => PodPhase::Terminal,
        Some("Running") => PodPhase::Running,
        _ => PodPhase::Pending,
    }
}

/// Whether the pod waits for a node that Karpenter should provide: the scheduler gave up on it, nothing has been decided for
/// it, and it is not a pod that belongs to a node anyway.
pub fn is_provisionable(object: &kube::Pod) -> bool {
    let status = object.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let gave_up = |condition: &kube::PodCondition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
    };
    let is_set = |text: Option<&String>| text.is_some_and(|text| !text.is_empty());
    conditions.into_iter().any(gave_up)
        && !is_set(object.spec.as_ref().and_then(|spec| spec.node_name.as_ref()))
        && !is_set(status.and_then(|status| status.nominated_node_name.as_ref()))
        && !matches!(owner(object), PodOwner::DaemonSet | PodOwner::Node)
}

/// Whether the pod's scheduler has yet to look at it.
pub fn awaits_scheduler(object: &kube::Pod) -> bool {
    let spec = object.spec.as_ref();
    let gated = spec.and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty());
    let bound = spec.and_then(|spec| spec.node_name.as_ref()).is_some_and(|name| !name.is_empty());
    let conditions = object.status.as_ref().and_then(|status| status.conditions.as_ref());
    let looked_at = conditions.into_iter().flatten().any(|condition| condition.type_ == "PodScheduled");
    phase(object) == PodPhase::Pending
        && object.metadata.deletion_timestamp.is_none()
        && !(gated || bound || looked_at)
        && !matches!(owner(object), PodOwner::DaemonSet | PodOwner::Node)
}

/// Whether the pod refuses voluntary disruption at `now`: for good, or for a while after its start.
///
/// A duration that cannot be read, or is not positive, protects nothing.
pub fn refuses_disruption(object: &kube::Pod, now: Timestamp) -> bool {
    let annotations = object.metadata.annotations.as_ref();
    let Some(value) = annotations.and_then(|all| all.get(DO_NOT_DISRUPT)) else { return false };
    if value == "true" {
        return true;
    }
    let Some(duration) = parse_duration(value).ok().filter(SignedDuration::is_positive) else { return false };
    let started = object.status.as_ref().and_then(|status| status.start_time.as_ref());
    started.is_none_or(|start| now.duration_since(start.0) < duration)
}

/// What the pod's annotations say moving it costs. Karpenter's own annotation wins, even where it cannot be read.
fn disruption_cost(object: &kube::Pod) -> i32 {
    let annotations = object.metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(DISRUPTION_COST).or_else(|| all.get(POD_DELETION_COST)));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn converted(object: &Value) -> Pod {
        let object: kube::Pod = serde_json::from_value(object.clone()).unwrap();
        pod(&object, now(), &LabelRules::default(), &mut Interner::default()).unwrap()
    }

    #[test]
    fn do_not_disrupt_lasts_for_good_or_for_a_duration_from_the_start() {
        let protected = |value: &str, started: Value| {
            let annotations = json!({ DO_NOT_DISRUPT: value });
            converted(
                &json!({ "metadata": { "annotations": annotations }, "status": { "startTime": started } }),
            )
            .do_not_disrupt
        };
        let ten_minutes_ago = json!("2026-01-01T11:50:00Z");
        assert!(protected("true", ten_minutes_ago.clone()));
        assert!(protected("10m1s", ten_minutes_ago.clone()));
        assert!(protected("1m", Value::Null));
        for unprotected in ["10m", "false", "-1h", "0s", "soon"] {
            assert!(!protected(unprotected, ten_minutes_ago.clone()), "{unprotected}");
        }
    }

    #[test]
    fn host_ports_are_those_of_regular_containers_on_every_address_by_default() {
        let pod = converted(&json!({ "spec": {
            "initContainers": [{ "name": "i", "ports": [{ "containerPort": 1, "hostPort": 1 }] }],
            "containers": [{ "name": "c", "ports": [
                { "containerPort": 80, "hostPort": 8080 },
                { "containerPort": 81 },
                { "containerPort": 82, "hostPort": 8082, "hostIP": "10.0.0.1", "protocol": "UDP" },
            ] }],
        } }));
        let expected = [("0.0.0.0", 8080, "TCP"), ("10.0.0.1", 8082, "UDP")];
        let expected =
            expected.map(|(ip, port, protocol)| HostPort { ip: ip.into(), port, protocol: protocol.into() });
        assert_eq!(pod.spec.host_ports, expected);
    }

    #[test]
    fn old_label_names_in_node_selectors_are_read_as_the_new_ones() {
        let pod = converted(&json!({
            "metadata": { "labels": { "beta.kubernetes.io/arch": "kept" } },
            "spec": { "containers": [], "nodeSelector": { "beta.kubernetes.io/arch": "arm64" } },
        }));
        assert_eq!(pod.spec.node_selector.get("kubernetes.io/arch").map(AsRef::as_ref), Some("arm64"));
        assert!(pod.labels.contains_key("beta.kubernetes.io/arch"), "the pod's own labels are its own");
    }

    #[test]
    fn a_pod_waits_for_a_node_only_while_nothing_is_decided_for_it() {
        let waiting = json!({
            "spec": { "containers": [] },
            "status": { "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] },
        });
        let provisionable = |change: &dyn Fn(&mut Value)| {
            let mut object = waiting.clone();
            change(&mut object);
            is_provisionable(&serde_json::from_value(object).unwrap())
        };
        assert!(provisionable(&|_| {}));
        assert!(!provisionable(&|pod| pod["spec"]["nodeName"] = json!("node")));
        assert!(!provisionable(&|pod| pod["status"]["nominatedNodeName"] = json!("node")));
        assert!(!provisionable(&|pod| pod["status"]["conditions"][0]["reason"] = json!("SchedulingGated")));
        let owned_by = |api_version: &str, kind: &str| {
            let owner = json!([{ "apiVersion": api_version, "kind": kind, "name": "o", "uid": "u" }]);
            provisionable(&|pod| pod["metadata"] = json!({ "ownerReferences": owner }))
        };
        assert!(!owned_by("apps/v1", "DaemonSet"));
        assert!(!owned_by("v1", "Node"));
        assert!(owned_by("apps/v1", "ReplicaSet"));
    }

    #[test]
    fn a_node_selector_of_empty_terms_matches_nothing_but_one_with_others_ignores_them() {
        let terms = |terms: Value| {
            let required =
                json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
            let spec = json!({ "containers": [], "affinity": { "nodeAffinity": required } });
            converted(&json!({ "spec": spec })).spec.required_terms.clone()
        };
        let zone = json!({ "matchExpressions": [{ "key": "zone", "operator": "Exists" }] });
        assert_eq!(terms(json!([{}, zone])).len(), 1);
        let impossible = terms(json!([{}]));
        let set: karpenter_core::requirements::RequirementSet = impossible[0].iter().collect();
        assert!(set.contradiction().is_some());
    }

    #[test]
    fn claims_of_ephemeral_volumes_are_named_after_pod_and_volume() {
        let template = json!({ "spec": { "storageClassName": "fast" } });
        let pod = converted(&json!({
            "metadata": { "name": "web-0" },
            "spec": { "containers": [], "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "shared" } },
                { "name": "scratch", "ephemeral": { "volumeClaimTemplate": template } },
                { "name": "config", "configMap": { "name": "c" } },
            ] },
        }));
        let claims: Vec<(&str, bool)> =
            pod.volumes.iter().map(|volume| (&*volume.claim, volume.ephemeral)).collect();
        assert_eq!(claims, [("shared", false), ("web-0-scratch", true)]);
        assert_eq!(pod.volumes[1].ephemeral_class.as_deref(), Some("fast"));
    }
}
