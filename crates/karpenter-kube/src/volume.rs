//! Persistent volumes, claims and storage classes.

use k8s_openapi::api::core::v1 as kube;
use k8s_openapi::api::storage::v1 as storage;
use karpenter_api::LabelRules;
use karpenter_core::cluster::{BindingMode, ClaimPhase, PersistentVolume, StorageClass, VolumeClaim};
use karpenter_core::requirements::{Operator, Requirement};

use crate::invalid::{At, Invalid, each};
use crate::selector::node_selector_term;

/// The annotation of a claim whose binding has completed.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// Volume plugins once built into Kubernetes, and the CSI drivers that do their work now.
const TRANSLATED_DRIVERS: [(&str, &str); 8] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/rbd", "rbd.csi.ceph.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// The CSI driver that attaches volumes of a provisioner.
pub fn csi_driver(provisioner: &str) -> &str {
    TRANSLATED_DRIVERS.iter().find(|(name, _)| *name == provisioner).map_or(provisioner, |(_, driver)| driver)
}

/// A persistent volume claim.
pub fn volume_claim(object: &kube::PersistentVolumeClaim) -> VolumeClaim {
    let metadata = &object.metadata;
    let spec = object.spec.as_ref();
    let non_empty = |text: &str| (!text.is_empty()).then(|| text.into());
    let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
    VolumeClaim {
        namespace: metadata.namespace.as_deref().unwrap_or("default").into(),
        name: metadata.name.as_deref().unwrap_or_default().into(),
        volume: spec.and_then(|spec| spec.volume_name.as_deref()).and_then(non_empty),
        bind_completed: metadata.annotations.as_ref().is_some_and(|all| all.contains_key(BIND_COMPLETED)),
        storage_class: spec.and_then(|spec| spec.storage_class_name.as_deref()).map(Into::into),
        phase: if phase == Some("Lost") { ClaimPhase::Lost } else { ClaimPhase::Usable },
        deleting: metadata.deletion_timestamp.is_some(),
    }
}

/// A persistent volume.
pub fn persistent_volume(
    object: &kube::PersistentVolume,
    rules: &LabelRules,
) -> Result<PersistentVolume, Invalid> {
    let spec = object.spec.as_ref();
    let affinity =
        spec.and_then(|spec| spec.node_affinity.as_ref()).and_then(|affinity| affinity.required.as_ref());
    let terms = affinity.into_iter().flat_map(|selector| &selector.node_selector_terms);
    Ok(PersistentVolume {
        name: object.metadata.name.as_deref().unwrap_or_default().into(),
        node_terms: each(terms, |term| node_selector_term(term, rules))
            .at("spec.nodeAffinity.required.nodeSelectorTerms")?,
        driver: spec.and_then(driver_of).map(Into::into),
        host_bound: spec.is_some_and(|spec| spec.local.is_some() || spec.host_path.is_some()),
        deleting: object.metadata.deletion_timestamp.is_some(),
    })
}

fn driver_of(spec: &kube::PersistentVolumeSpec) -> Option<&str> {
    if let Some(source) = &spec.csi {
        return Some(source.driver.as_str());
    }
    let built_in = [
        (spec.aws_elastic_block_store.is_some(), "kubernetes.io/aws-ebs"),
        (spec.azure_disk.is_some(), "kubernetes.io/azure-disk"),
        (spec.azure_file.is_some(), "kubernetes.io/azure-file"),
        (spec.cinder.is_some(), "kubernetes.io/cinder"),
        (spec.gce_persistent_disk.is_some(), "kubernetes.io/gce-pd"),
        (spec.vsphere_volume.is_some(), "kubernetes.io/vsphere-volume"),
    ];
    built_in.into_iter().find(|(is_source, _)| *is_source).map(|(_, plugin)| csi_driver(plugin))
}

/// A storage class.
pub fn storage_class(object: &storage::StorageClass, rules: &LabelRules) -> StorageClass {
    // The API server fills the field in, so a missing one says nothing about the volumes of a real cluster.
    let binding = match object.volume_binding_mode.as_deref() {
        Some("Immediate") => BindingMode::Immediate,
        _ => BindingMode::WaitForFirstConsumer,
    };
    StorageClass {
        name: object.metadata.name.as_deref().unwrap_or_default().into(),
        provisioner: csi_driver(&object.provisioner).into(),
        binding,
        topologies: object
            .allowed_topologies
            .iter()
            .flatten()
            .map(|term| topology_term(term, rules))
            .collect(),
    }
}

fn topology_term(term: &kube::TopologySelectorTerm, rules: &LabelRules) -> Vec<Requirement> {
    let expressions = term.match_label_expressions.iter().flatten();
    expressions
        .map(|line| {
            Requirement::new(rules.normalize(&line.key), Operator::In, line.values.iter().map(String::as_str))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn volume(spec: &Value) -> PersistentVolume {
        let object = serde_json::from_value(json!({ "metadata": { "name": "pv" }, "spec": spec })).unwrap();
        persistent_volume(&object, &LabelRules::default()).unwrap()
    }

    #[test]
    fn volumes_of_built_in_plugins_are_attached_by_their_csi_drivers() {
        let driver = |spec: Value| volume(&spec).driver.map(|driver| driver.to_string());
        assert_eq!(driver(json!({ "csi": { "driver": "d", "volumeHandle": "h" } })).as_deref(), Some("d"));
        let ebs = driver(json!({ "awsElasticBlockStore": { "volumeID": "v" } }));
        assert_eq!(ebs.as_deref(), Some("ebs.csi.aws.com"));
        assert_eq!(driver(json!({ "nfs": { "path": "/", "server": "s" } })), None);
        assert_eq!(csi_driver("kubernetes.io/gce-pd"), "pd.csi.storage.gke.io");
        assert_eq!(csi_driver("example.com/own"), "example.com/own");
    }

    #[test]
    fn the_place_of_a_volume_is_read_under_the_current_names_of_labels() {
        let line = json!({ "key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": ["zone-a"] });
        let terms = json!([{ "matchExpressions": [line] }]);
        let found = volume(
            &json!({ "local": { "path": "/" }, "nodeAffinity": { "required": { "nodeSelectorTerms": terms } } }),
        );
        assert_eq!(&*found.node_terms[0][0].key, "topology.kubernetes.io/zone");
        assert!(found.host_bound);
    }

    #[test]
    fn a_claim_says_what_it_is_bound_to_and_whether_that_is_lost() {
        let object = serde_json::from_value(json!({
            "metadata": { "name": "c", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
            "spec": { "volumeName": "pv", "storageClassName": "" },
            "status": { "phase": "Lost" },
        }))
        .unwrap();
        let claim = volume_claim(&object);
        assert_eq!((claim.volume.as_deref(), claim.storage_class.as_deref()), (Some("pv"), Some("")));
        assert!(claim.bind_completed && claim.phase == ClaimPhase::Lost && !claim.deleting);
    }
}
