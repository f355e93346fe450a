//! What the columns of tables show.
//!
//! Most columns show a field and are described as the field is, in the schema of the kind; the others have a sentence of
//! our own, which begins with "Shows".

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::columns::columns;
use crate::registry::Resource;
use crate::schema::generated_schema;

const NAME: &str = ".metadata.name";
const CREATED: &str = ".metadata.creationTimestamp";

/// What columns of these names show for all kinds that say nothing else.
const COMMON: &[(&str, &str)] = &[
    ("Name", NAME),
    ("Age", CREATED),
    ("Created At", CREATED),
    ("Containers", "Shows what the template's containers are called."),
    ("Images", "Shows what the template's containers run."),
];

/// What the other columns show, by resource: a field, which begins with a dot, or a sentence.
const OWN: &[(&str, &[(&str, &str)])] = &[
    (
        "clusterrolebindings.rbac.authorization.k8s.io",
        &[
            ("Role", ".roleRef"),
            ("Users", "Shows the users bound."),
            ("Groups", "Shows the groups bound."),
            ("ServiceAccounts", "Shows the service accounts bound."),
        ],
    ),
    ("configmaps", &[("Data", ".data")]),
    (
        "controllerrevisions.apps",
        &[("Controller", "Shows the owner that controls it."), ("Revision", ".revision")],
    ),
    (
        "cronjobs.batch",
        &[
            ("Schedule", ".spec.schedule"),
            ("Timezone", ".spec.timeZone"),
            ("Suspend", ".spec.suspend"),
            ("Active", ".status.active"),
            ("Last Schedule", ".status.lastScheduleTime"),
            ("Selector", ".spec.jobTemplate.spec.selector"),
        ],
    ),
    (
        "csidrivers.storage.k8s.io",
        &[
            ("AttachRequired", ".spec.attachRequired"),
            ("PodInfoOnMount", ".spec.podInfoOnMount"),
            ("StorageCapacity", ".spec.storageCapacity"),
            ("TokenRequests", ".spec.tokenRequests"),
            ("RequiresRepublish", ".spec.requiresRepublish"),
            ("Modes", ".spec.volumeLifecycleModes"),
        ],
    ),
    ("csinodes.storage.k8s.io", &[("Drivers", "Shows how many storage drivers the node has.")]),
    (
        "daemonsets.apps",
        &[
            ("Desired", ".status.desiredNumberScheduled"),
            ("Current", ".status.currentNumberScheduled"),
            ("Ready", ".status.numberReady"),
            ("Up-to-date", ".status.updatedNumberScheduled"),
            ("Available", ".status.numberAvailable"),
            ("Node Selector", ".spec.template.spec.nodeSelector"),
            ("Selector", ".spec.selector"),
        ],
    ),
    (
        "deployments.apps",
        &[
            ("Ready", "Shows how many pods are ready, of how many wanted."),
            ("Up-to-date", ".status.updatedReplicas"),
            ("Available", ".status.availableReplicas"),
            ("Selector", ".spec.selector"),
        ],
    ),
    ("endpoints", &[("Endpoints", ".subsets")]),
    (
        "endpointslices.discovery.k8s.io",
        &[("AddressType", ".addressType"), ("Ports", ".ports"), ("Endpoints", ".endpoints")],
    ),
    (
        "events",
        &[
            ("Last Seen", ".lastTimestamp"),
            ("Type", ".type"),
            ("Reason", ".reason"),
            ("Object", ".involvedObject"),
            ("Subobject", ".involvedObject.fieldPath"),
            ("Source", ".source"),
            ("Message", ".message"),
            ("First Seen", ".firstTimestamp"),
            ("Count", ".count"),
        ],
    ),
    (
        "horizontalpodautoscalers.autoscaling",
        &[
            ("Reference", ".spec.scaleTargetRef"),
            ("Targets", ".spec.metrics"),
            ("MinPods", ".spec.minReplicas"),
            ("MaxPods", ".spec.maxReplicas"),
            ("Replicas", ".status.currentReplicas"),
        ],
    ),
    (
        "ingressclasses.networking.k8s.io",
        &[
            ("Controller", "Shows who serves the class."),
            ("Parameters", "Shows the object with the class's settings."),
        ],
    ),
    (
        "ingresses.networking.k8s.io",
        &[
            ("Class", "Shows the class that serves it."),
            ("Hosts", "Shows the host names it answers to."),
            ("Address", "Shows where it can be reached."),
            ("Ports", "Shows the ports it listens on."),
        ],
    ),
    ("ipaddresses.networking.k8s.io", &[("ParentRef", ".spec.parentRef")]),
    (
        "jobs.batch",
        &[
            ("Status", "Shows how the job stands."),
            ("Completions", ".status.succeeded"),
            ("Duration", "Shows how long the job took or has been running."),
            ("Selector", ".spec.selector"),
        ],
    ),
    ("leases.coordination.k8s.io", &[("Holder", ".spec.holderIdentity")]),
    (
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        &[("Webhooks", "Shows how many webhooks there are.")],
    ),
    ("namespaces", &[("Status", "Shows whether the namespace is in use or going.")]),
    ("networkpolicies.networking.k8s.io", &[("Pod-Selector", ".spec.podSelector")]),
    (
        "nodes",
        &[
            ("Status", "Shows whether the node is ready and open to pods."),
            ("Roles", "Shows the roles in the node's labels."),
            ("Version", ".status.nodeInfo.kubeletVersion"),
            ("Internal-IP", ".status.addresses"),
            ("External-IP", ".status.addresses"),
            ("OS-Image", ".status.nodeInfo.osImage"),
            ("Kernel-Version", ".status.nodeInfo.kernelVersion"),
            ("Container-Runtime", ".status.nodeInfo.containerRuntimeVersion"),
        ],
    ),
    (
        "persistentvolumeclaims",
        &[
            ("Status", ".status.phase"),
            ("Volume", ".spec.volumeName"),
            ("Capacity", ".status.capacity"),
            ("Access Modes", ".status.accessModes"),
            ("StorageClass", "Shows the storage class."),
            ("VolumeAttributesClass", "Shows the class of volume attributes."),
            ("VolumeMode", ".spec.volumeMode"),
        ],
    ),
    (
        "persistentvolumes",
        &[
            ("Capacity", ".spec.capacity"),
            ("Access Modes", ".spec.accessModes"),
            ("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"),
            ("Status", ".status.phase"),
            ("Claim", ".spec.claimRef"),
            ("StorageClass", "Shows the storage class."),
            ("VolumeAttributesClass", "Shows the class of volume attributes."),
            ("Reason", ".status.reason"),
            ("VolumeMode", ".spec.volumeMode"),
        ],
    ),
    (
        "poddisruptionbudgets.policy",
        &[
            ("Min Available", "Shows how many pods have to stay."),
            ("Max Unavailable", "Shows how many pods may be missing."),
            ("Allowed Disruptions", "Shows how many pods may go now."),
        ],
    ),
    (
        "pods",
        &[
            ("Ready", "Shows how many containers are ready, of how many there are."),
            ("Status", "Shows how the pod stands, or what keeps its containers from running."),
            ("Restarts", "Shows how often containers were restarted, and when the last one was."),
            ("IP", ".status.podIP"),
            ("Node", ".spec.nodeName"),
            ("Nominated Node", ".status.nominatedNodeName"),
            ("Readiness Gates", ".spec.readinessGates"),
        ],
    ),
    ("podtemplates", &[("Pod Labels", "Shows the template's labels.")]),
    (
        "priorityclasses.scheduling.k8s.io",
        &[
            ("Value", ".value"),
            ("Global-Default", ".globalDefault"),
            ("PreemptionPolicy", ".preemptionPolicy"),
        ],
    ),
    (
        "replicasets.apps",
        &[
            ("Desired", ".spec.replicas"),
            ("Current", ".status.replicas"),
            ("Ready", ".status.readyReplicas"),
            ("Selector", ".spec.selector"),
        ],
    ),
    (
        "replicationcontrollers",
        &[
            ("Desired", ".spec.replicas"),
            ("Current", ".status.replicas"),
            ("Ready", ".status.readyReplicas"),
            ("Selector", ".spec.selector"),
        ],
    ),
    (
        "resourceclaims.resource.k8s.io",
        &[("State", "Shows whether the claim waits, is allocated, or is in use.")],
    ),
    (
        "resourcequotas",
        &[
            ("Request", "Shows what is requested, of what may be."),
            ("Limit", "Shows how much of the limits is taken, of what may be."),
        ],
    ),
    (
        "resourceslices.resource.k8s.io",
        &[("Node", ".spec.nodeName"), ("Driver", ".spec.driver"), ("Pool", ".spec.pool.name")],
    ),
    (
        "rolebindings.rbac.authorization.k8s.io",
        &[
            ("Role", ".roleRef"),
            ("Users", "Shows the users bound."),
            ("Groups", "Shows the groups bound."),
            ("ServiceAccounts", "Shows the service accounts bound."),
        ],
    ),
    ("runtimeclasses.node.k8s.io", &[("Handler", "")]),
    ("secrets", &[("Type", ".type"), ("Data", ".data")]),
    ("servicecidrs.networking.k8s.io", &[("CIDRs", ".spec.cidrs")]),
    (
        "services",
        &[
            ("Type", ".spec.type"),
            ("Cluster-IP", ".spec.clusterIP"),
            ("External-IP", ".spec.externalIPs"),
            ("Port(s)", ".spec.ports"),
            ("Selector", ".spec.selector"),
        ],
    ),
    ("statefulsets.apps", &[("Ready", "Shows how many pods are ready, of how many wanted.")]),
    (
        "storageclasses.storage.k8s.io",
        &[
            ("Provisioner", ".provisioner"),
            ("ReclaimPolicy", ".reclaimPolicy"),
            ("VolumeBindingMode", ".volumeBindingMode"),
            ("AllowVolumeExpansion", ".allowVolumeExpansion"),
        ],
    ),
    (
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        &[
            ("Validations", "Shows how many rules the policy has."),
            ("ParamKind", "Shows the kind that holds the policy's parameters."),
        ],
    ),
    (
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        &[
            ("PolicyName", "Shows the policy that is bound."),
            ("ParamRef", "Shows the object with the policy's parameters."),
        ],
    ),
    (
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        &[("Webhooks", "Shows how many webhooks there are.")],
    ),
    (
        "volumeattachments.storage.k8s.io",
        &[
            ("Attacher", ".spec.attacher"),
            ("PV", ".spec.source.persistentVolumeName"),
            ("Node", ".spec.nodeName"),
            ("Attached", ".status.attached"),
        ],
    ),
    ("volumeattributesclasses.storage.k8s.io", &[("DriverName", ".driverName")]),
];

/// The descriptions of the columns of a built-in resource, in their order.
pub(super) fn of_columns(resource: &Resource) -> Arc<[String]> {
    // Schemas take longer to write than tables.
    static KNOWN: LazyLock<Mutex<HashMap<String, Arc<[String]>>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let described = known.entry(resource.name.to_string()).or_insert_with(|| {
        // Events of both groups are shown as those of the core are described.
        let event = &*resource.name == "events";
        let schema = if event { generated_schema::<Event>() } else { (resource.document)() };
        let names = columns(&resource.name).into_iter().map(|column| column.name);
        names.map(|name| of_column(&resource.name, name, &schema)).collect()
    });
    Arc::clone(described)
}

fn of_column(resource: &str, column: &str, schema: &Value) -> String {
    let own = OWN.iter().find(|(name, _)| *name == resource).map_or(&[][..], |(_, own)| *own);
    let found = own.iter().chain(COMMON).find(|(name, _)| *name == column);
    let text = found.map(|(_, text)| *text).unwrap_or_default();
    let Some(path) = text.strip_prefix('.') else { return text.to_owned() };
    let description = of_field(schema, path);
    // What later releases have added about bindings is not in their columns.
    match description.strip_suffix(" This field is immutable.") {
        Some(before) if path == "roleRef" => before.to_owned(),
        _ => description,
    }
}

/// What the name of a custom object is.
pub(super) static OBJECT_NAME: LazyLock<String> = LazyLock::new(|| of_metadata("name"));
/// When a custom object was made.
pub(crate) static OBJECT_CREATED: LazyLock<String> = LazyLock::new(|| of_metadata("creationTimestamp"));

/// How many replicas a Scale asks for, and how many there are.
pub(super) static SCALED: LazyLock<[String; 2]> = LazyLock::new(|| {
    ["spec.replicas", "status.replicas"].map(|path| of_field(&generated_schema::<Scale>(), path))
});

fn of_metadata(field: &str) -> String {
    of_field(&generated_schema::<ObjectMeta>(), field)
}

/// The description of a field, without the list of its values.
fn of_field(schema: &Value, path: &str) -> String {
    let mut place = schema;
    for name in path.split('.') {
        place = &referenced(schema, place)["properties"][name];
    }
    let description = place["description"].as_str().unwrap_or_default();
    description.split("\n\nPossible enum values:").next().unwrap_or_default().to_owned()
}

/// What a schema refers to, itself or for its items.
fn referenced<'s>(root: &'s Value, place: &'s Value) -> &'s Value {
    let place = if place["items"].is_object() { &place["items"] } else { place };
    let reference = place["$ref"].as_str().or_else(|| place["allOf"][0]["$ref"].as_str());
    match reference.and_then(|reference| reference.rsplit('/').next()) {
        Some(name) => &root["$defs"][name],
        None => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::table::columns::listed;

    #[test]
    fn every_field_that_a_column_shows_is_described() {
        let registry = Registry::built_in();
        for name in listed() {
            let resource = registry.find_stored(name).unwrap();
            let described = of_columns(resource);
            for (column, text) in columns(name).iter().zip(described.iter()) {
                // The handler of a runtime class is the one that nobody describes.
                assert_eq!(text.is_empty(), column.name == "Handler", "{name}: {}", column.name);
            }
        }
    }

    #[test]
    fn columns_are_described_as_their_fields_are() {
        let registry = Registry::built_in();
        let pods = of_columns(registry.find("", "v1", "pods").unwrap());
        assert!(pods[0].starts_with("Name must be unique within a namespace."), "{}", pods[0]);
        assert!(pods[1].contains("ready"), "{}", pods[1]);
        let events = of_columns(registry.find("events.k8s.io", "v1", "events").unwrap());
        assert!(events.iter().all(|text| !text.is_empty()), "{events:?}");
        let services = of_columns(registry.find("", "v1", "services").unwrap());
        assert!(!services[1].contains("Possible enum values"), "{}", services[1]);
    }
}
