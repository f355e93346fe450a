//! How lists and maps of built-in kinds merge: the facts Kubernetes publishes as `x-kubernetes-list-type`,
//! `-map-keys`, `-map-type` and `-patch-merge-key`, which the generated schemas do not carry.
//!
//! A definition is named by the end of its full name (`core.v1.PodSpec`).

use super::Merging;

/// One list field's rule.
pub(super) struct Rule {
    definition: &'static str,
    field: &'static str,
    keys: &'static [&'static str],
    pub(super) patch_key: Option<&'static str>,
}

impl Rule {
    pub(super) fn merging(&self) -> Merging {
        match (self.keys, self.patch_key) {
            ([], Some("")) => Merging::Set,
            ([], _) => Merging::Atomic,
            (keys, _) => Merging::Keyed(keys.iter().map(|key| (*key).to_owned()).collect()),
        }
    }
}

const fn keyed(definition: &'static str, field: &'static str, keys: &'static [&'static str]) -> Rule {
    Rule { definition, field, keys, patch_key: Some(keys[0]) }
}

const fn set(definition: &'static str, field: &'static str) -> Rule {
    Rule { definition, field, keys: &[], patch_key: Some("") }
}

const fn atomic(definition: &'static str, field: &'static str) -> Rule {
    Rule { definition, field, keys: &[], patch_key: None }
}

const RULES: &[Rule] = &[
    set("meta.v1.ObjectMeta", "finalizers"),
    keyed("meta.v1.ObjectMeta", "ownerReferences", &["uid"]),
    keyed("core.v1.PodSpec", "containers", &["name"]),
    keyed("core.v1.PodSpec", "initContainers", &["name"]),
    keyed("core.v1.PodSpec", "ephemeralContainers", &["name"]),
    keyed("core.v1.PodSpec", "volumes", &["name"]),
    keyed("core.v1.PodSpec", "imagePullSecrets", &["name"]),
    keyed("core.v1.PodSpec", "hostAliases", &["ip"]),
    keyed("core.v1.PodSpec", "schedulingGates", &["name"]),
    keyed("core.v1.PodSpec", "resourceClaims", &["name"]),
    keyed("core.v1.PodSpec", "topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    atomic("core.v1.PodSpec", "nodeSelector"),
    keyed("core.v1.PodStatus", "podIPs", &["ip"]),
    keyed("core.v1.PodStatus", "resourceClaimStatuses", &["name"]),
    keyed("core.v1.ResourceRequirements", "claims", &["name"]),
    keyed("core.v1.ServiceSpec", "ports", &["port", "protocol"]),
    atomic("core.v1.ServiceSpec", "selector"),
    atomic("core.v1.ReplicationControllerSpec", "selector"),
    set("core.v1.NodeSpec", "podCIDRs"),
    keyed("core.v1.NodeStatus", "addresses", &["type"]),
    keyed("core.v1.ServiceAccount", "secrets", &["name"]),
    keyed("resource.v1.DeviceClaim", "requests", &["name"]),
    keyed("storage.v1.CSINodeSpec", "drivers", &["name"]),
];

/// Fields of containers, which three definitions share.
const CONTAINER_RULES: &[(&str, &[&str])] = &[
    ("ports", &["containerPort", "protocol"]),
    ("env", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
];

/// Structs and references that are replaced as a whole.
const ATOMIC: &[&str] = &[
    "meta.v1.LabelSelector",
    "meta.v1.OwnerReference",
    "core.v1.ConfigMapKeySelector",
    "core.v1.LocalObjectReference",
    "core.v1.NodeSelector",
    "core.v1.NodeSelectorTerm",
    "core.v1.ObjectFieldSelector",
    "core.v1.ObjectReference",
    "core.v1.ResourceFieldSelector",
    "core.v1.ScopeSelector",
    "core.v1.SecretKeySelector",
    "core.v1.SecretReference",
    "core.v1.TopologySelectorTerm",
    "core.v1.TypedLocalObjectReference",
    "rbac.v1.RoleRef",
    "rbac.v1.Subject",
];

pub(super) fn is_atomic(definition: &str) -> bool {
    ATOMIC.iter().any(|name| names(definition, name))
}

pub(super) fn rule(definition: &str, field: &str) -> Option<Rule> {
    if let Some(rule) = RULES.iter().find(|rule| rule.field == field && names(definition, rule.definition)) {
        return Some(Rule { ..*rule });
    }
    let container = names(definition, "core.v1.Container") || names(definition, "core.v1.EphemeralContainer");
    if container && let Some((field, keys)) = CONTAINER_RULES.iter().find(|(name, _)| *name == field) {
        return Some(keyed("", field, keys));
    }
    (field == "conditions" && definition.ends_with("Status")).then(|| keyed("", "conditions", &["type"]))
}

fn names(full: &str, end: &str) -> bool {
    full.strip_suffix(end).is_some_and(|start| start.is_empty() || start.ends_with('.'))
}
