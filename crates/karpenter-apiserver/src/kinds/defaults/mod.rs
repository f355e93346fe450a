//! Defaults of built-in kinds.
//!
//! A walk over the object meets every struct by its Go type: the table says which of its empty fields are filled in,
//! [`structs`] what depends on other fields, [`objects`] what belongs to a whole kind.

mod objects;
mod structs;

use serde_json::{Value, json};

use crate::schema::{Node, Scalar, Shape};

/// Fields of structs that are filled in when they are empty.
const TABLE: &[(&str, &[(&str, Filling)])] = &[
    (
        "core.v1.Probe",
        &[
            ("timeoutSeconds", Number(1)),
            ("periodSeconds", Number(10)),
            ("successThreshold", Number(1)),
            ("failureThreshold", Number(3)),
        ],
    ),
    ("core.v1.HTTPGetAction", &[("path", Text("/")), ("scheme", Text("HTTP"))]),
    ("core.v1.GRPCAction", &[("service", Text(""))]),
    ("core.v1.FileKeySelector", &[("optional", Flag(false))]),
    ("core.v1.AzureDiskVolumeSource", &[("readOnly", Flag(false))]),
    (
        "core.v1.Container",
        &[
            ("terminationMessagePath", Text("/dev/termination-log")),
            ("terminationMessagePolicy", Text("File")),
        ],
    ),
    (
        "core.v1.PodSpec",
        &[
            ("dnsPolicy", Text("ClusterFirst")),
            ("restartPolicy", Text("Always")),
            ("securityContext", Empty),
            ("terminationGracePeriodSeconds", Number(30)),
            ("schedulerName", Text("default-scheduler")),
        ],
    ),
    ("core.v1.SecretVolumeSource", &[("defaultMode", Number(420))]),
    ("core.v1.ConfigMapVolumeSource", &[("defaultMode", Number(420))]),
    ("core.v1.DownwardAPIVolumeSource", &[("defaultMode", Number(420))]),
    ("core.v1.ProjectedVolumeSource", &[("defaultMode", Number(420))]),
    ("core.v1.ServiceAccountTokenProjection", &[("expirationSeconds", Number(3600))]),
    ("core.v1.HostPathVolumeSource", &[("type", Text(""))]),
    ("core.v1.ObjectFieldSelector", &[("apiVersion", Text("v1"))]),
    ("core.v1.Secret", &[("type", Text("Opaque"))]),
    ("core.v1.EndpointPort", &[("protocol", Text("TCP"))]),
    (
        "core.v1.PersistentVolumeSpec",
        &[("persistentVolumeReclaimPolicy", Text("Retain")), ("volumeMode", Text("Filesystem"))],
    ),
    ("core.v1.PersistentVolumeStatus", &[("phase", Text("Pending"))]),
    ("core.v1.PersistentVolumeClaimStatus", &[("phase", Text("Pending"))]),
    ("core.v1.PersistentVolumeClaimSpec", &[("volumeMode", Text("Filesystem"))]),
    ("core.v1.NamespaceStatus", &[("phase", Text("Active"))]),
    (
        "apps.v1.DeploymentSpec",
        &[
            ("replicas", Number(1)),
            ("revisionHistoryLimit", Number(10)),
            ("progressDeadlineSeconds", Number(600)),
        ],
    ),
    ("apps.v1.ReplicaSetSpec", &[("replicas", Number(1))]),
    ("apps.v1.DaemonSetSpec", &[("revisionHistoryLimit", Number(10))]),
    (
        "apps.v1.StatefulSetSpec",
        &[
            ("podManagementPolicy", Text("OrderedReady")),
            ("persistentVolumeClaimRetentionPolicy", Empty),
            ("replicas", Number(1)),
            ("revisionHistoryLimit", Number(10)),
        ],
    ),
    (
        "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
        &[("whenDeleted", Text("Retain")), ("whenScaled", Text("Retain"))],
    ),
    (
        "batch.v1.CronJobSpec",
        &[
            ("concurrencyPolicy", Text("Allow")),
            ("suspend", Flag(false)),
            ("successfulJobsHistoryLimit", Number(3)),
            ("failedJobsHistoryLimit", Number(1)),
        ],
    ),
    ("batch.v1.PodFailurePolicyOnPodConditionsPattern", &[("status", Text("True"))]),
    ("networking.v1.NetworkPolicyPort", &[("protocol", Text("TCP"))]),
    ("networking.v1.IngressClassParametersReference", &[("scope", Text("Cluster"))]),
    (
        "storage.v1.StorageClass",
        &[("reclaimPolicy", Text("Delete")), ("volumeBindingMode", Text("Immediate"))],
    ),
    (
        "storage.v1.CSIDriverSpec",
        &[
            ("attachRequired", Flag(true)),
            ("podInfoOnMount", Flag(false)),
            ("storageCapacity", Flag(false)),
            ("fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
            ("requiresRepublish", Flag(false)),
            ("seLinuxMount", Flag(false)),
        ],
    ),
    ("rbac.v1.RoleRef", &[("apiGroup", Text("rbac.authorization.k8s.io"))]),
    ("scheduling.v1.PriorityClass", &[("preemptionPolicy", Text("PreemptLowerPriority"))]),
    ("discovery.v1.EndpointPort", &[("name", Text("")), ("protocol", Text("TCP"))]),
    ("autoscaling.v2.HorizontalPodAutoscalerSpec", &[("minReplicas", Number(1))]),
    ("resource.v1.ExactDeviceRequest", &[("allocationMode", Text("ExactCount"))]),
    ("resource.v1.DeviceSubRequest", &[("allocationMode", Text("ExactCount"))]),
];

/// The value of an empty field.
#[derive(Clone, Copy)]
enum Filling {
    Text(&'static str),
    Number(i64),
    Flag(bool),
    /// A struct in which nothing is set.
    Empty,
}

use Filling::{Empty, Flag, Number, Text};

impl Filling {
    fn value(self) -> Value {
        match self {
            Text(text) => json!(text),
            Number(number) => json!(number),
            Flag(flag) => json!(flag),
            Empty => json!({}),
        }
    }
}

/// Fills in the defaults of an object in canonical form.
pub(super) fn apply(resource: &str, object: &mut Value, node: &Node) {
    objects::complete(resource, object);
    walk(object, node);
}

fn walk(value: &mut Value, node: &Node) {
    match (&node.shape, value) {
        (Shape::Object(_) | Shape::Named(_), value @ Value::Object(_)) => {
            let Some(known) = node.fields() else { return };
            fill(value, node);
            structs::complete(known.full_name, value);
            if let Some(values) = &known.additional {
                for value in value.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
                    round_up(value, values);
                    walk(value, values);
                }
                return;
            }
            for (name, field) in value.as_object_mut().into_iter().flatten() {
                if let Some(child) = known.properties.get(name) {
                    walk(field, child);
                }
            }
        }
        (Shape::Array(items), Value::Array(values)) => {
            for value in values {
                walk(value, items);
            }
        }
        _ => {}
    }
}

/// Whether a field counts as not given.
fn is_unset(value: &Value, node: &Node) -> bool {
    match value {
        Value::Null => true,
        _ if node.pointer => false,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    }
}

fn fill(value: &mut Value, node: &Node) {
    let Some(known) = node.fields() else { return };
    let Some(fields) = value.as_object_mut() else { return };
    let rows = TABLE.iter().find(|(name, _)| *name == known.full_name).map_or(&[][..], |(_, rows)| rows);
    let rows = rows.iter().map(|(name, default)| (*name, default.value()));
    let marked = known.properties.iter();
    let marked = marked.filter_map(|(name, node)| Some((name.as_str(), node.default.clone()?)));
    for (name, default) in rows.chain(marked) {
        let Some(child) = known.properties.get(name) else { continue };
        if fields.get(name).is_none_or(|value| is_unset(value, child)) {
            fields.insert(name.to_owned(), default);
        }
    }
}

/// Quantities of resources are counted in thousandths, rounded up.
fn round_up(value: &mut Value, node: &Node) {
    const MILLI_PER_NANO: i128 = 1_000_000;
    if !matches!(node.shape, Shape::Scalar(Scalar::Quantity)) {
        return;
    }
    let Some(quantity) = value.as_str().and_then(|text| text.parse::<karpenter_quantity::Quantity>().ok())
    else {
        return;
    };
    let nano = quantity.as_nano();
    let rest = nano.rem_euclid(MILLI_PER_NANO);
    if rest != 0 {
        let rounded =
            karpenter_quantity::Quantity::from_nano(nano + MILLI_PER_NANO - rest, quantity.format());
        *value = json!(rounded.to_string());
    }
}
