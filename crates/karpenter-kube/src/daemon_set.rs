//! DaemonSets: the pod that every matching node must have room for.

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, Pod, PodSpec};
use karpenter_api::LabelRules;
use karpenter_core::cluster::DaemonSet;

use crate::interner::Interner;
use crate::invalid::{At, Invalid};
use crate::pod::pod_spec;
use crate::pod::requests::MissingRequests;

/// The DaemonSet with the pod it makes: `newest`, its youngest live pod, if there is one, else a pod made from its template.
///
/// A live pod is pinned to its node through its node affinity, so the template's affinity stands in for it.
pub fn daemon_set(
    object: &apps::DaemonSet,
    newest: Option<&Pod>,
    rules: &LabelRules,
    interner: &mut Interner,
) -> Result<DaemonSet, Invalid> {
    let metadata = &object.metadata;
    let template = object.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let namespace = metadata.namespace.as_deref().unwrap_or("default");
    let name = metadata.name.as_deref().unwrap_or_default();
    let live = newest.and_then(|pod| pod.spec.as_ref().map(|spec| (spec, pod.status.as_ref())));
    let spec = match (live, template) {
        (Some((spec, status)), template) => {
            let unpinned = with_template_affinity(spec, template);
            pod_spec(&unpinned, status, MissingRequests::AreZero, rules).at("spec")?
        }
        (None, Some(template)) => {
            pod_spec(template, None, MissingRequests::AreLimits, rules).at("spec.template.spec")?
        }
        (None, None) => pod_spec(&PodSpec::default(), None, MissingRequests::AreLimits, rules)?,
    };
    Ok(DaemonSet {
        name: format!("{namespace}/{name}").into(),
        spec: interner.spec(spec),
        namespace: interner.string(namespace),
    })
}

/// The DaemonSet as `live`, one of its pods, shows it: with what admission added to the template, such as the defaults of a
/// `LimitRange`. A live pod is pinned to its node through its node affinity, so the template's affinity stands.
pub fn as_running(template: &DaemonSet, live: &karpenter_core::cluster::PodSpec) -> DaemonSet {
    let spec = karpenter_core::cluster::PodSpec {
        required_terms: template.spec.required_terms.clone(),
        uses_match_fields: template.spec.uses_match_fields,
        ..live.clone()
    };
    DaemonSet { spec: std::sync::Arc::new(spec), ..template.clone() }
}

fn with_template_affinity(live: &PodSpec, template: Option<&PodSpec>) -> PodSpec {
    let node_affinity =
        |spec: &PodSpec| spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.clone());
    let required = template
        .and_then(node_affinity)
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution);
    let mut unpinned = live.clone();
    let affinity = unpinned.affinity.get_or_insert_with(Affinity::default);
    let nodes = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    nodes.required_during_scheduling_ignored_during_execution = required;
    unpinned
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_live_pod_gives_the_requests_and_the_template_the_affinity() {
        let affinity = |key: &str| {
            let term = json!({ "matchExpressions": [{ "key": key, "operator": "Exists" }] });
            let required = json!({ "nodeSelectorTerms": [term] });
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } })
        };
        let container = |cpu: &str| json!([{ "name": "c", "resources": { "requests": { "cpu": cpu } } }]);
        let object = serde_json::from_value(json!({
            "metadata": { "name": "agent", "namespace": "kube-system" },
            "spec": { "template": { "spec": { "containers": container("1"), "affinity": affinity("wanted") } } },
        }))
        .unwrap();
        let live = json!({ "spec": { "containers": container("2"), "affinity": affinity("pinned") } });
        let live: Pod = serde_json::from_value(live).unwrap();
        let converted =
            |newest| daemon_set(&object, newest, &LabelRules::default(), &mut Interner::default()).unwrap();
        let (made, running) = (converted(None), converted(Some(&live)));
        let spec =
            pod_spec(live.spec.as_ref().unwrap(), None, MissingRequests::AreZero, &LabelRules::default())
                .unwrap();
        assert_eq!(as_running(&made, &spec), running, "both ways to the same end");
        assert_eq!(&*made.name, "kube-system/agent");
        assert_eq!(made.spec.requests.get("cpu").to_string(), "1");
        assert_eq!(running.spec.requests.get("cpu").to_string(), "2");
        for daemon_set in [made, running] {
            assert_eq!(&*daemon_set.spec.required_terms[0][0].key, "wanted");
        }
    }
}
