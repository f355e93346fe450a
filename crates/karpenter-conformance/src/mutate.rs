//! Small damages and changes to valid objects, guided by the types of their fields.

use serde_json::{Value, json};

use crate::kinds::{Kinds, Type};
use crate::random::Random;
use crate::side::edit;

/// Fields that are left alone when something is added: storage protocols that no cluster of today mounts, and what few
/// clusters use.
const NOT_ADDED: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "fc",
    "flexVolume",
    "flocker",
    "fieldsV1",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "image",
    "iscsi",
    "managedFields",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
    "ephemeralContainers",
    "metadata",
    "status",
    "windowsOptions",
    "resourceClaims",
    "claims",
    "configSource",
    "externalID",
    "kind",
    "apiVersion",
    "restartPolicyRules",
    "data",
    "fileKeyRef",
];

/// Values worth trying for enumerations, by Go type.
const ENUMERATIONS: &[(&str, &[&str])] = &[
    ("v1.RestartPolicy", &["Always", "OnFailure", "Never", "always"]),
    ("v1.DNSPolicy", &["ClusterFirst", "Default", "None", "ClusterFirstWithHostNet"]),
    ("v1.PullPolicy", &["Always", "IfNotPresent", "Never", "Sometimes"]),
    ("v1.SeccompProfileType", &["Localhost", "RuntimeDefault", "Unconfined", "runtime/default"]),
    ("v1.AppArmorProfileType", &["Localhost", "RuntimeDefault", "Unconfined", "localhost"]),
    ("v1.Protocol", &["TCP", "UDP", "SCTP", "tcp"]),
    ("v1.TaintEffect", &["NoSchedule", "PreferNoSchedule", "NoExecute", "Never"]),
    ("v1.TolerationOperator", &["Exists", "Equal", "Lt", "exists"]),
    ("v1.NodeSelectorOperator", &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "in"]),
    ("v1.LabelSelectorOperator", &["In", "NotIn", "Exists", "DoesNotExist", "Gt"]),
    ("v1.UnsatisfiableConstraintAction", &["DoNotSchedule", "ScheduleAnyway", "Skip"]),
    ("v1.ServiceType", &["ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "Headless"]),
    ("v1.ServiceAffinity", &["ClientIP", "None", "Sticky"]),
    ("v1.TerminationMessagePolicy", &["File", "FallbackToLogsOnError", "Log"]),
    ("v1.PreemptionPolicy", &["Never", "PreemptLowerPriority", "Always"]),
    ("v1.PersistentVolumeAccessMode", &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod", "Write"]),
    ("v1.PersistentVolumeMode", &["Filesystem", "Block", "Raw"]),
    ("v1.PersistentVolumeReclaimPolicy", &["Retain", "Delete", "Recycle", "Keep"]),
    ("v1.DeploymentStrategyType", &["RollingUpdate", "Recreate", "Rolling"]),
    ("v1.ConcurrencyPolicy", &["Allow", "Forbid", "Replace", "Wait"]),
    ("v1.CompletionMode", &["NonIndexed", "Indexed", "Other"]),
    ("v1.PodManagementPolicyType", &["OrderedReady", "Parallel", "Any"]),
    ("v1.UnhealthyPodEvictionPolicyType", &["IfHealthyBudget", "AlwaysAllow", "Never"]),
    ("v1.VolumeBindingMode", &["Immediate", "WaitForFirstConsumer", "Late"]),
    ("v1.StorageMedium", &["", "Memory", "HugePages", "Disk"]),
    ("v1.URIScheme", &["HTTP", "HTTPS", "FTP"]),
    ("v1.HostPathType", &["", "Directory", "File", "Folder"]),
    ("v1.PathType", &["Exact", "Prefix", "ImplementationSpecific", "Regex"]),
    ("v1.MountPropagationMode", &["None", "HostToContainer", "Bidirectional", "Both"]),
    ("v1.PodFSGroupChangePolicy", &["Always", "OnRootMismatch", "Never"]),
    ("v1.ContainerRestartPolicy", &["Always", "Never", "OnFailure", "Often"]),
    ("v1.NodeInclusionPolicy", &["Honor", "Ignore", "Skip"]),
    ("v1.ResourceName", &["cpu", "memory", "example.com/gpu", "bad name"]),
];

const TEXTS: &[&str] = &[
    "",
    "a",
    "web-1",
    "UPPER",
    "a b",
    "-a",
    "a.b",
    "example.com/x",
    "a/b/c",
    "10.0.0.1",
    "/data",
    "0123456789012345678901234567890123456789012345678901234567890123",
];
const NUMBERS: &[i64] = &[0, 1, 2, -1, 10, 300, 70_000, 2_147_483_647, 2_147_483_648];
const QUANTITIES: &[&str] = &["1", "100m", "1Gi", "-1", "0", "1.5", "x", "1e3", "", "0.1m", "500000000n"];

/// A place in an object.
struct Place {
    pointer: String,
    kind: Type,
    present: bool,
}

/// One change: a JSON pointer and the value there, or `None` to remove it.
pub(crate) type Edit = (String, Option<Value>);

/// Changes `object` in one place.
pub(crate) fn mutate(kinds: &Kinds, random: &mut Random, object: &mut Value, root: &Type) {
    if let Some((pointer, value)) = mutation(kinds, random, object, root) {
        edit(object, &pointer, value);
    }
}

/// Chooses a change to `object`.
pub(crate) fn mutation(kinds: &Kinds, random: &mut Random, object: &Value, root: &Type) -> Option<Edit> {
    let mut places = Vec::new();
    collect(kinds, root, object, "", &mut places);
    places.retain(|place| {
        let identity = ["/kind", "/apiVersion", "/metadata", "/metadata/name", "/metadata/namespace"];
        !identity.contains(&place.pointer.as_str())
    });
    let present: Vec<&Place> = places.iter().filter(|place| place.present).collect();
    let absent: Vec<&Place> = places.iter().filter(|place| !place.present).collect();
    if present.is_empty() || absent.is_empty() {
        return None;
    }
    Some(match random.below(12) {
        0..=3 => {
            let place = random.pick(&present);
            (place.pointer.clone(), Some(odd(kinds, random, &place.kind, 2)))
        }
        4 | 5 => (random.pick(&present).pointer.clone(), None),
        6..=8 => {
            let place = random.pick(&absent);
            (place.pointer.clone(), Some(odd(kinds, random, &place.kind, 2)))
        }
        9 => (random.pick(&present).pointer.clone(), Some(wrong(random))),
        10 => repetition(random, object, &present)?,
        _ => {
            let structs: Vec<&&Place> =
                present.iter().filter(|place| matches!(place.kind, Type::Struct(_))).collect();
            let outer = if structs.is_empty() { "" } else { &random.pick(&structs).pointer };
            (format!("{outer}/unheardOf"), Some(json!("x")))
        }
    })
}

/// Doubles an item of a list.
fn repetition(random: &mut Random, object: &Value, present: &[&Place]) -> Option<Edit> {
    let lists: Vec<&&Place> = present.iter().filter(|place| matches!(place.kind, Type::List(_))).collect();
    if lists.is_empty() {
        return None;
    }
    let pointer = &random.pick(&lists).pointer;
    let first = object.pointer(pointer)?.get(0)?.clone();
    Some((format!("{pointer}/-"), Some(first)))
}

/// Finds all places of an object, those of absent fields included.
fn collect(kinds: &Kinds, kind: &Type, value: &Value, pointer: &str, places: &mut Vec<Place>) {
    match (kind, value) {
        (Type::Struct(name), Value::Object(fields)) => {
            for (field, kind) in kinds.fields(name) {
                let pointer = format!("{pointer}/{field}");
                if let Some(value) = fields.get(&field) {
                    places.push(Place { pointer: pointer.clone(), kind: kind.clone(), present: true });
                    collect(kinds, &kind, value, &pointer, places);
                } else if !NOT_ADDED.contains(&field.as_str()) {
                    places.push(Place { pointer, kind, present: false });
                }
            }
        }
        (Type::List(kind), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let pointer = format!("{pointer}/{index}");
                places.push(Place { pointer: pointer.clone(), kind: (**kind).clone(), present: true });
                collect(kinds, kind, item, &pointer, places);
            }
        }
        (Type::Map(kind), Value::Object(fields)) => {
            for (name, value) in fields {
                let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                places.push(Place { pointer: pointer.clone(), kind: (**kind).clone(), present: true });
                collect(kinds, kind, value, &pointer, places);
            }
        }
        _ => {}
    }
}

/// A value of the right type that may break a rule.
fn odd(kinds: &Kinds, random: &mut Random, kind: &Type, depth: usize) -> Value {
    match kind {
        Type::Plain(plain, name) => {
            let known = ENUMERATIONS.iter().find(|(known, _)| known == name);
            match (plain.as_str(), known) {
                ("s", Some((_, values))) => json!(random.pick(values)),
                ("s", None) => json!(random.pick(TEXTS)),
                ("b", _) => json!(random.chance(50)),
                ("quantity", _) => json!(random.pick(QUANTITIES)),
                ("intstr", _) => random
                    .pick(&[
                        json!(1),
                        json!(0),
                        json!(-1),
                        json!("25%"),
                        json!("http"),
                        json!("101%"),
                        json!(""),
                    ])
                    .clone(),
                ("time", _) => json!("2024-01-01T00:00:00Z"),
                ("microtime", _) => json!("2024-01-01T00:00:00.000000Z"),
                ("bytes", _) => json!(random.pick(&["aGVsbG8=", "", "!"])),
                ("raw" | "json" | "any" | "fields", _) => json!({"a": 1}),
                _ => json!(random.pick(NUMBERS)),
            }
        }
        Type::List(items) if random.chance(70) => json!([odd(kinds, random, items, depth)]),
        Type::List(_) => json!([]),
        Type::Map(values) if random.chance(70) => {
            let key = random.pick(&["cpu", "a", "example.com/b", "Bad Key", ""]);
            json!({ key: odd(kinds, random, values, depth) })
        }
        Type::Map(_) => json!({}),
        Type::Struct(name) => {
            let mut object = json!({});
            for (field, kind) in kinds.fields(name) {
                if depth > 0 && !NOT_ADDED.contains(&field.as_str()) && random.chance(40) {
                    object[field] = odd(kinds, random, &kind, depth - 1);
                }
            }
            object
        }
    }
}

/// A value of whatever type.
fn wrong(random: &mut Random) -> Value {
    let values = [
        json!("text"),
        json!(7),
        json!(true),
        json!(null),
        json!([]),
        json!({}),
        json!(1.5),
        json!(["x"]),
        json!({"x": 1}),
    ];
    random.pick(&values).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::resources;

    #[test]
    fn a_mutation_changes_one_place_and_keeps_identity() {
        let kinds = Kinds::read();
        let resources = resources().unwrap();
        let mut random = Random::new(1, 1);
        let mut changed = 0;
        for resource in &resources {
            let root =
                kinds.root(resource.api_version(), resource.kind()).expect("the facts know all samples");
            let object = resource.object(0, "n", "a");
            let mut mutated = object.clone();
            mutate(&kinds, &mut random, &mut mutated, &root);
            assert_eq!(mutated["kind"], object["kind"]);
            changed += usize::from(mutated != object);
        }
        assert!(changed > resources.len() / 2, "{changed} of {}", resources.len());
    }
}
