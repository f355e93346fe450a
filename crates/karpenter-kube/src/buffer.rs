//! CapacityBuffers: room kept free in advance, planned for as pods that do not exist.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as kube;
use karpenter_api::{CapacityBuffer, LabelRules};
use karpenter_core::cluster::{Pod, PodId, PodOwner, PodPhase, PodSpec};
use karpenter_quantity::ResourceList;

use crate::interner::Interner;
use crate::invalid::{At, Invalid};
use crate::pod::pod_spec;
use crate::pod::requests::MissingRequests;
use crate::resources::resource_list;

/// Buffers give way to every real pod.
const PRIORITY: i32 = i32::MIN;

/// What a buffer refers to: the shape of one chunk, and how large the workload is that it follows.
#[derive(Clone, Copy, Debug)]
pub struct ChunkSource<'a> {
    /// The pod template.
    pub template: &'a kube::PodTemplateSpec,
    /// Replicas of the workload, when the buffer follows one.
    pub workload_replicas: Option<i32>,
}

/// The virtual pods of a buffer, at most `chunks_max` of them.
pub fn virtual_pods(
    buffer: &CapacityBuffer,
    source: ChunkSource<'_>,
    now: Timestamp,
    chunks_max: usize,
    (rules, interner): (&LabelRules, &mut Interner),
) -> Result<Vec<Arc<Pod>>, Invalid> {
    let spec = chunk_spec(source.template, rules).at("template.spec")?;
    let count = desired_chunks(buffer, source.workload_replicas, &spec.requests)?;
    let name = buffer.metadata.name.as_deref().unwrap_or_default();
    let uid = buffer.metadata.uid.as_deref().unwrap_or(name);
    let labels = source.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    let template = Pod {
        id: PodId {
            namespace: interner.string(buffer.metadata.namespace.as_deref().unwrap_or("default")),
            name: Arc::default(),
            uid: Arc::default(),
        },
        labels: interner.label_map(labels.into_iter().flatten()),
        spec: interner.spec(spec),
        created: now,
        priority: PRIORITY,
        owner: PodOwner::CapacityBuffer,
        phase: PodPhase::Pending,
        terminating: false,
        do_not_disrupt: false,
        disruption_cost: 0,
        // Claims of pods that will never exist cannot be bound, so chunks have no volumes.
        volumes: Vec::new(),
    };
    let pods = (1..=(count as usize).min(chunks_max)).map(|number| {
        let id = PodId {
            name: format!("capacity-buffer-{name}-{number}").into(),
            uid: format!("{uid}-{number}").into(),
            ..template.id.clone()
        };
        Arc::new(Pod { id, ..template.clone() })
    });
    Ok(pods.collect())
}

fn chunk_spec(template: &kube::PodTemplateSpec, rules: &LabelRules) -> Result<PodSpec, Invalid> {
    let nothing = kube::PodSpec::default();
    pod_spec(template.spec.as_ref().unwrap_or(&nothing), None, MissingRequests::AreZero, rules)
}

/// How many chunks the buffer wants: the larger of `replicas` and `percentage`, as far as `limits` allow; with neither,
/// as many as `limits` allow.
pub fn desired_chunks(
    buffer: &CapacityBuffer,
    workload_replicas: Option<i32>,
    chunk: &ResourceList,
) -> Result<u32, Invalid> {
    let spec = &buffer.spec;
    let at_least_none = |count: i32| u32::try_from(count).unwrap_or(0);
    let share = workload_replicas.zip(spec.percentage).map(|(replicas, percentage)| {
        let product = u64::from(at_least_none(replicas)) * u64::from(at_least_none(percentage));
        u32::try_from(product.div_ceil(100)).unwrap_or(u32::MAX)
    });
    let wanted = spec.replicas.map(at_least_none).into_iter().chain(share).max();
    let limits = resource_list(spec.limits.as_ref()).at("spec.limits")?;
    let allowed = chunks_within(&limits, chunk);
    Ok(match (wanted, allowed) {
        (Some(wanted), Some(allowed)) => wanted.min(allowed),
        (wanted, allowed) => wanted.or(allowed).unwrap_or(0),
    })
}

/// How many chunks fit into the limits; nothing when no limit concerns what a chunk asks.
fn chunks_within(limits: &ResourceList, chunk: &ResourceList) -> Option<u32> {
    let fits = |(name, limit): (&str, karpenter_quantity::Quantity)| {
        // What a chunk counts as a pod is not something its template asks for.
        let request = if name == karpenter_quantity::PODS { 0 } else { chunk.get(name).as_nano() };
        (request > 0).then(|| u32::try_from((limit.as_nano() / request).max(0)).unwrap_or(u32::MAX))
    };
    limits.iter().filter_map(fits).min()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(spec: &Value, workload_replicas: Option<i32>, expected: u32) {
        let buffer: CapacityBuffer = serde_json::from_value(json!({ "spec": spec })).unwrap();
        let chunk = [("cpu", "500m".parse().unwrap()), ("pods", "1".parse().unwrap())].into();
        assert_eq!(desired_chunks(&buffer, workload_replicas, &chunk), Ok(expected), "{spec}");
    }

    #[test]
    fn the_larger_of_replicas_and_percentage_counts_within_the_limits() {
        check(&json!({ "replicas": 3 }), None, 3);
        check(&json!({ "percentage": 10 }), Some(11), 2);
        check(&json!({ "percentage": 1 }), Some(3), 1);
        check(&json!({ "percentage": 50, "replicas": 2 }), Some(10), 5);
        check(&json!({ "percentage": 50 }), Some(0), 0);
        check(&json!({ "replicas": 9, "limits": { "cpu": "2" } }), None, 4);
        check(&json!({ "replicas": 9, "limits": { "example.com/gpu": "1" } }), None, 9);
        check(&json!({ "limits": { "cpu": "2700m" } }), None, 5);
        check(&json!({ "limits": { "pods": "7" } }), None, 0);
        check(&json!({}), None, 0);
        check(&json!({ "replicas": -4 }), None, 0);
    }

    #[test]
    fn chunks_are_pods_of_the_lowest_priority_without_volumes() {
        let buffer: CapacityBuffer = serde_json::from_value(
            json!({ "metadata": { "name": "spare", "uid": "u" }, "spec": { "replicas": 2 } }),
        )
        .unwrap();
        let template: kube::PodTemplateSpec = serde_json::from_value(json!({
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [], "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }] },
        }))
        .unwrap();
        let source = ChunkSource { template: &template, workload_replicas: None };
        let context = (&LabelRules::default(), &mut Interner::default());
        let pods = virtual_pods(&buffer, source, Timestamp::UNIX_EPOCH, 100, context).unwrap();
        let keys: Vec<String> = pods.iter().map(|pod| pod.key()).collect();
        assert_eq!(keys, ["default/capacity-buffer-spare-1", "default/capacity-buffer-spare-2"]);
        assert_eq!(&*pods[1].id.uid, "u-2");
        assert!(pods[0].volumes.is_empty());
        assert_eq!((pods[0].owner, pods[0].priority), (PodOwner::CapacityBuffer, i32::MIN));
        assert!(Arc::ptr_eq(&pods[0].spec, &pods[1].spec));
    }
}
