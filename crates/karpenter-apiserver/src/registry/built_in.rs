//! The table of built-in resources.

use std::sync::OnceLock;

use k8s_openapi::api::{
    admissionregistration::v1 as admission, apps::v1 as apps, autoscaling::v2 as autoscaling,
    batch::v1 as batch, coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery,
    events::v1 as events, networking::v1 as networking, node::v1 as node, policy::v1 as policy,
    rbac::v1 as rbac, resource::v1 as dynamic, scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use serde_json::Value;

use super::{Conversion, Resource, ScalePaths, Subresource};
use crate::schema::generated_schema;

/// Starts an entry from the Rust type that mirrors the kind.
fn entry<T>(names: &[&str]) -> Resource
where
    T: k8s_openapi::ListableResource + schemars::JsonSchema,
{
    fn document<T: schemars::JsonSchema>() -> Value {
        generated_schema::<T>()
    }
    let (plural, group) = (T::URL_PATH_SEGMENT.to_owned(), T::GROUP.to_owned());
    let name = if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") };
    Resource {
        name: name.into(),
        version: T::VERSION.to_owned(),
        storage_version: T::VERSION.to_owned(),
        kind: T::KIND.to_owned(),
        list_kind: T::LIST_KIND.to_owned(),
        singular: T::KIND.to_lowercase(),
        short_names: names.iter().map(|name| (*name).to_owned()).collect(),
        categories: Vec::new(),
        namespaced: false,
        subresources: Vec::new(),
        selectable_fields: Vec::new(),
        conversion: Conversion::Stored,
        document: document::<T>,
        node: OnceLock::new(),
        custom: None,
        plural,
        group,
    }
}

impl Resource {
    fn namespaced(mut self) -> Self {
        self.namespaced = true;
        self
    }

    /// Part of `kubectl get all`.
    fn in_all(mut self) -> Self {
        self.categories.push("all".to_owned());
        self
    }

    /// Part of `kubectl get api-extensions`.
    fn extends_api(mut self) -> Self {
        self.categories.push("api-extensions".to_owned());
        self
    }

    fn with(mut self, subresource: Subresource) -> Self {
        self.subresources.push(subresource);
        self
    }

    fn status(self) -> Self {
        self.with(Subresource::Status)
    }

    fn scale(self) -> Self {
        let path = |parts: [&str; 2]| parts.map(str::to_owned).to_vec();
        self.with(Subresource::Scale(ScalePaths {
            spec_replicas: path(["spec", "replicas"]),
            status_replicas: path(["status", "replicas"]),
            selector: Some(path(["spec", "selector"])),
        }))
    }

    fn fields(mut self, fields: &[&str]) -> Self {
        self.selectable_fields = fields.iter().map(|field| (*field).to_owned()).collect();
        self
    }
}

/// Returns all built-in resources.
pub(super) fn resources() -> Vec<Resource> {
    let mut resources = core_resources();
    resources.extend(workload_resources());
    resources.extend(cluster_resources());
    resources
}

const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

fn core_resources() -> Vec<Resource> {
    use Subresource::{Binding, Eviction, Finalize, Token};
    let mut regarding = entry::<events::Event>(&["ev"]).namespaced().fields(EVENT_FIELDS);
    regarding.name = "events".into();
    regarding.conversion = Conversion::Event;
    vec![
        entry::<core::Namespace>(&["ns"]).status().with(Finalize).fields(&["status.phase"]),
        entry::<core::Node>(&["no"]).status().fields(&["spec.unschedulable"]),
        entry::<core::Pod>(&["po"])
            .namespaced()
            .in_all()
            .status()
            .with(Binding)
            .with(Eviction)
            .fields(POD_FIELDS),
        entry::<core::PodTemplate>(&[]).namespaced(),
        entry::<core::Service>(&["svc"])
            .namespaced()
            .in_all()
            .status()
            .fields(&["spec.clusterIP", "spec.type"]),
        entry::<core::ServiceAccount>(&["sa"]).namespaced().with(Token),
        entry::<core::ConfigMap>(&["cm"]).namespaced(),
        entry::<core::Secret>(&[]).namespaced().fields(&["type"]),
        entry::<core::Endpoints>(&["ep"]).namespaced(),
        entry::<core::Event>(&["ev"]).namespaced().fields(EVENT_FIELDS),
        regarding,
        entry::<core::PersistentVolume>(&["pv"]).status(),
        entry::<core::PersistentVolumeClaim>(&["pvc"]).namespaced().status(),
        entry::<core::ReplicationController>(&["rc"])
            .namespaced()
            .in_all()
            .status()
            .scale()
            .fields(&["status.replicas"]),
        entry::<core::ResourceQuota>(&["quota"]).namespaced().status(),
        entry::<core::LimitRange>(&["limits"]).namespaced(),
    ]
}

fn workload_resources() -> Vec<Resource> {
    vec![
        entry::<apps::Deployment>(&["deploy"]).namespaced().in_all().status().scale(),
        entry::<apps::ReplicaSet>(&["rs"]).namespaced().in_all().status().scale(),
        entry::<apps::StatefulSet>(&["sts"]).namespaced().in_all().status().scale(),
        entry::<apps::DaemonSet>(&["ds"]).namespaced().in_all().status(),
        entry::<apps::ControllerRevision>(&[]).namespaced(),
        entry::<batch::Job>(&[]).namespaced().in_all().status().fields(&["status.successful"]),
        entry::<batch::CronJob>(&["cj"]).namespaced().in_all().status(),
        entry::<policy::PodDisruptionBudget>(&["pdb"]).namespaced().status(),
        entry::<autoscaling::HorizontalPodAutoscaler>(&["hpa"]).namespaced().in_all().status(),
        entry::<networking::Ingress>(&["ing"]).namespaced().status(),
        entry::<networking::IngressClass>(&[]),
        entry::<networking::NetworkPolicy>(&["netpol"]).namespaced(),
        entry::<networking::IPAddress>(&["ip"]),
        entry::<networking::ServiceCIDR>(&[]).status(),
        entry::<discovery::EndpointSlice>(&[]).namespaced(),
    ]
}

fn cluster_resources() -> Vec<Resource> {
    vec![
        entry::<storage::StorageClass>(&["sc"]),
        entry::<storage::VolumeAttributesClass>(&["vac"]),
        entry::<storage::VolumeAttachment>(&[]).status(),
        entry::<storage::CSINode>(&[]),
        entry::<storage::CSIDriver>(&[]),
        entry::<storage::CSIStorageCapacity>(&[]).namespaced(),
        entry::<scheduling::PriorityClass>(&["pc"]),
        entry::<node::RuntimeClass>(&[]),
        entry::<coordination::Lease>(&[]).namespaced(),
        entry::<dynamic::ResourceClaim>(&[]).namespaced().status(),
        entry::<dynamic::ResourceClaimTemplate>(&[]).namespaced(),
        entry::<dynamic::ResourceSlice>(&[]).fields(&["spec.nodeName", "spec.driver"]),
        entry::<dynamic::DeviceClass>(&[]),
        entry::<rbac::Role>(&[]).namespaced(),
        entry::<rbac::RoleBinding>(&[]).namespaced(),
        entry::<rbac::ClusterRole>(&[]),
        entry::<rbac::ClusterRoleBinding>(&[]),
        entry::<admission::ValidatingWebhookConfiguration>(&[]).extends_api(),
        entry::<admission::MutatingWebhookConfiguration>(&[]).extends_api(),
        entry::<admission::ValidatingAdmissionPolicy>(&[]).extends_api().status(),
        entry::<admission::ValidatingAdmissionPolicyBinding>(&[]).extends_api(),
        entry::<apiextensions::CustomResourceDefinition>(&["crd", "crds"]).extends_api().status(),
    ]
}
