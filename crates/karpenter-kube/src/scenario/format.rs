//! The scenario file as it is written.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1 as kube;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::{NodePool, Requirement};
use karpenter_quantity::ResourceList;
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::place::path_at;
use crate::invalid::{At, Invalid};

/// Reads `null` like a missing field, as other JSON readers do.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Scenario<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) mode: String,
    pub(super) now: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) options: Options,
    #[serde(deserialize_with = "or_default")]
    pub(super) well_known_labels: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) instance_types: Vec<InstanceTypeLine>,
    #[serde(deserialize_with = "or_default")]
    pub(super) node_pools: Vec<Value>,
    #[serde(deserialize_with = "or_default")]
    pub(super) namespaces: Vec<NamespaceLine>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) nodes: Vec<ExistingNode<'a>>,
    #[serde(deserialize_with = "or_default")]
    pub(super) daemon_sets: Vec<DaemonSetLine>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) pod_groups: Vec<PodGroup<'a>>,
    #[serde(deserialize_with = "or_default")]
    pub(super) storage_classes: Vec<StorageClass>,
    #[serde(deserialize_with = "or_default")]
    pub(super) persistent_volumes: Vec<kube::PersistentVolume>,
    #[serde(deserialize_with = "or_default")]
    pub(super) persistent_volume_claims: Vec<kube::PersistentVolumeClaim>,
    #[serde(deserialize_with = "or_default")]
    pub(super) pod_disruption_budgets: Vec<PodDisruptionBudget>,
    #[serde(deserialize_with = "or_default")]
    pub(super) node_overlays: Vec<Value>,
    #[serde(deserialize_with = "or_default")]
    pub(super) capacity_buffers: Vec<Value>,
    #[serde(deserialize_with = "or_default")]
    pub(super) pod_templates: Vec<kube::PodTemplate>,
    #[serde(deserialize_with = "or_default")]
    pub(super) workloads: Vec<Workload>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Options {
    #[serde(deserialize_with = "or_default")]
    pub(super) preference_policy: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) min_values_policy: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) packing_policy: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) spot_to_spot_consolidation: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NamespaceLine {
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct InstanceTypeLine {
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) capacity: ResourceList,
    #[serde(deserialize_with = "or_default")]
    pub(super) overhead: ResourceList,
    #[serde(deserialize_with = "or_default")]
    pub(super) requirements: Vec<Requirement>,
    #[serde(deserialize_with = "or_default")]
    pub(super) offerings: Vec<OfferingLine>,
    #[serde(deserialize_with = "or_default")]
    pub(super) volume_limits: BTreeMap<String, u32>,
}

/// One offering: `[zone, capacityType, price, available]`, or an object with the same fields and a reservation.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OfferingLine {
    pub(super) zone: String,
    pub(super) capacity_type: String,
    pub(super) price: f64,
    pub(super) available: bool,
    pub(super) reservation: Option<(String, u32)>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OfferingObject {
    zone: String,
    capacity_type: String,
    price: f64,
    available: Option<bool>,
    reservation_id: Option<String>,
    reservation_capacity: u32,
}

impl<'de> Deserialize<'de> for OfferingLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfferingVisitor)
    }
}

struct OfferingVisitor;

impl<'de> Visitor<'de> for OfferingVisitor {
    type Value = OfferingLine;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[zone, capacityType, price, available] or an object with these fields")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OfferingLine, A::Error> {
        let missing = |position| de::Error::invalid_length(position, &OfferingVisitor);
        let line = OfferingLine {
            zone: list.next_element()?.ok_or_else(|| missing(0))?,
            capacity_type: list.next_element()?.ok_or_else(|| missing(1))?,
            price: list.next_element()?.ok_or_else(|| missing(2))?,
            available: list.next_element()?.ok_or_else(|| missing(3))?,
            reservation: None,
        };
        while list.next_element::<de::IgnoredAny>()?.is_some() {}
        Ok(line)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OfferingLine, A::Error> {
        let object = OfferingObject::deserialize(de::value::MapAccessDeserializer::new(map))?;
        Ok(OfferingLine {
            zone: object.zone,
            capacity_type: object.capacity_type,
            price: object.price,
            available: object.available.unwrap_or(true),
            reservation: object.reservation_id.map(|id| (id, object.reservation_capacity)),
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ExistingNode<'a> {
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) node_pool: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) state: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) instance_type: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) zone: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) capacity_type: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) taints: Vec<kube::Taint>,
    #[serde(deserialize_with = "or_default")]
    pub(super) startup_taints: Vec<kube::Taint>,
    pub(super) capacity: Option<ResourceList>,
    pub(super) allocatable: Option<ResourceList>,
    #[serde(deserialize_with = "or_default")]
    pub(super) deleting: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) age_seconds: i64,
    #[serde(deserialize_with = "or_default")]
    pub(super) last_pod_event_seconds: i64,
    #[serde(deserialize_with = "or_default")]
    pub(super) volume_limits: BTreeMap<String, u32>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) pod_groups: Vec<PodGroup<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DaemonSetLine {
    name: String,
    namespace: Option<String>,
    template: kube::PodTemplateSpec,
}

impl DaemonSetLine {
    /// The Kubernetes object it stands for.
    pub(super) fn object(&self) -> apps::DaemonSet {
        let namespace = self.namespace.clone().filter(|name| !name.is_empty());
        apps::DaemonSet {
            metadata: ObjectMeta { name: Some(self.name.clone()), namespace, ..ObjectMeta::default() },
            spec: Some(apps::DaemonSetSpec {
                template: self.template.clone(),
                ..apps::DaemonSetSpec::default()
            }),
            status: None,
        }
    }
}

/// What a CapacityBuffer reads of a Deployment, StatefulSet or ReplicaSet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Workload {
    pub(super) kind: String,
    pub(super) metadata: ObjectMeta,
    pub(super) spec: WorkloadSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WorkloadSpec {
    pub(super) replicas: Option<i32>,
    pub(super) template: kube::PodTemplateSpec,
}

/// Pods that are all alike. A count of zero means one pod.
///
/// The pod stays text until it is converted: a scenario can have a hundred thousand of them, and a Kubernetes Pod with all
/// its empty fields is many times the size of what it was read from.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodGroup<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(super) count: u32,
    #[serde(borrow)]
    pod: Option<&'a RawValue>,
}

impl PodGroup<'_> {
    /// The Kubernetes object.
    pub(super) fn pod(&self) -> Result<kube::Pod, Invalid> {
        let Some(written) = self.pod else { return Ok(kube::Pod::default()) };
        located(written.get(), Text::Part).at("pod")
    }
}

/// Reads the file. The second part is the path of the scenario inside it: empty, or `scenario` in a case file.
pub(super) fn parse(text: &[u8]) -> Result<(Scenario<'_>, &'static str), Invalid> {
    #[derive(Deserialize)]
    struct Probe {
        scenario: Option<de::IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct CaseFile<'a> {
        #[serde(borrow)]
        scenario: Scenario<'a>,
    }
    let probe: Probe = read(text)?;
    if probe.scenario.is_some() {
        let case: CaseFile<'_> = read(text)?;
        return Ok((case.scenario, "scenario"));
    }
    Ok((read(text)?, ""))
}

fn read<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, Invalid> {
    let text =
        str::from_utf8(text).map_err(|error| Invalid::new(format!("the file is not UTF-8: {error}")))?;
    located(text, Text::File)
}

/// An object of Karpenter's own API. `null` stands for a missing field, as in files written by programs.
pub(super) fn api_object<T: DeserializeOwned>(written: &Value) -> Result<T, Invalid> {
    located(&without_nulls(written).to_string(), Text::Part)
}

/// A NodePool, of which a scenario may leave out everything it has nothing to say about.
pub(super) fn node_pool(written: &Value) -> Result<NodePool, Invalid> {
    let mut written = without_nulls(written);
    let mut object = &mut written;
    for field in ["spec", "template", "spec"] {
        let Value::Object(fields) = object else { break };
        object = fields.entry(field).or_insert_with(|| Value::Object(Map::new()));
    }
    located(&written.to_string(), Text::Part)
}

fn without_nulls(written: &Value) -> Value {
    match written {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(field, value)| (field.clone(), without_nulls(value))).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(without_nulls).collect()),
        plain => plain.clone(),
    }
}

/// What is being read: line numbers only help in a whole file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    File,
    Part,
}

fn located<'de, T: Deserialize<'de>>(written: &'de str, text: Text) -> Result<T, Invalid> {
    let mut json = serde_json::Deserializer::from_str(written);
    let value = T::deserialize(&mut json).map_err(|error| {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = error.to_string();
        let kept = if text == Text::Part { message.strip_suffix(&place) } else { None };
        Invalid {
            path: path_at(written, error.line(), error.column()),
            message: format!("{}; docs/scenario.md describes the format", kept.unwrap_or(&message)),
        }
    })?;
    json.end()
        .map_err(|error| Invalid::new(format!("there is more after the end of the document: {error}")))?;
    Ok(value)
}
