//! Volumes made for claims: pure.

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The annotation of volumes that a provisioner made.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns whether a class has somebody who makes volumes.
pub(super) fn provisions(class: &StorageClass) -> bool {
    !class.provisioner.is_empty() && class.provisioner != NO_PROVISIONER
}

/// Returns a reference to a claim as volumes hold it.
pub(super) fn claim_reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Returns the volume a provisioner makes for a claim, reachable from where the claim's pod goes.
pub(super) fn volume_for(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: Option<&Node>,
    csi_node: Option<&CSINode>,
) -> PersistentVolume {
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let spec = claim.spec.clone().unwrap_or_default();
    let size = spec.resources.and_then(|resources| resources.requests?.remove("storage"));
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(format!("pvc-{uid}")),
            annotations: Some([(PROVISIONED_BY.to_owned(), class.provisioner.clone())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: size.map(|size| [("storage".to_owned(), size)].into()),
            claim_ref: Some(claim_reference(claim)),
            csi: Some(CSIPersistentVolumeSource {
                driver: class.provisioner.clone(),
                volume_handle: format!("vol-{}", uid.replace('-', "")),
                ..CSIPersistentVolumeSource::default()
            }),
            node_affinity: reach(class, node, csi_node),
            persistent_volume_reclaim_policy: Some(
                class.reclaim_policy.clone().unwrap_or_else(|| "Delete".to_owned()),
            ),
            storage_class_name: class.metadata.name.clone(),
            volume_mode: spec.volume_mode,
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

/// A volume is reachable within the topology its driver knows, or else within the node's zone. Without a node, within
/// what the class allows.
fn reach(
    class: &StorageClass,
    node: Option<&Node>,
    csi_node: Option<&CSINode>,
) -> Option<VolumeNodeAffinity> {
    let drivers = csi_node.iter().flat_map(|node| &node.spec.drivers);
    let keys = drivers
        .filter(|driver| driver.name == class.provisioner)
        .find_map(|driver| driver.topology_keys.clone());
    let keys = keys.unwrap_or_else(|| vec![ZONE.to_owned()]);
    let requirement = |key: &str, values: Vec<String>| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(values),
    };
    let expressions: Vec<NodeSelectorRequirement> = if let Some(node) = node {
        let labels = node.metadata.labels.as_ref();
        keys.iter().filter_map(|key| Some(requirement(key, vec![labels?.get(key)?.clone()]))).collect()
    } else {
        let terms = class.allowed_topologies.iter().flatten().take(1);
        let allowed = terms.flat_map(|term| term.match_label_expressions.iter().flatten());
        // One place is enough: a volume is in one zone.
        allowed
            .map(|allowed| requirement(&allowed.key, allowed.values.iter().take(1).cloned().collect()))
            .collect()
    };
    (!expressions.is_empty()).then(|| VolumeNodeAffinity {
        required: Some(NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_expressions: Some(expressions),
                match_fields: None,
            }],
        }),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_is_made_in_the_zone_of_its_pods_node() {
        let claim = serde_json::from_value(
            json!({"metadata": {"name": "data", "namespace": "default", "uid": "u-1"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}}),
        )
        .unwrap();
        let class =
            serde_json::from_value(json!({"metadata": {"name": "disk"}, "provisioner": "disk.example.com"}))
                .unwrap();
        let node = serde_json::from_value(json!({"metadata": {"name": "n", "labels": {ZONE: "b"}}})).unwrap();
        let volume = volume_for(&claim, &class, Some(&node), None);
        let spec = serde_json::to_value(volume.spec.unwrap()).unwrap();
        assert_eq!(spec["capacity"]["storage"], "5Gi");
        assert_eq!(spec["persistentVolumeReclaimPolicy"], "Delete");
        let term = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
        assert_eq!(*term, json!({"key": ZONE, "operator": "In", "values": ["b"]}));
    }
}
