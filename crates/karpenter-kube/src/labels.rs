//! Label keys: old names read as their successors, and which keys mean something to Karpenter.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::catalog::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODE_POOL, ZONE};
use karpenter_core::cluster::{LabelRules, Labels};

/// Label key of a node that has been registered.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// Label key of a node that has been initialised.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// The label domain reserved for Karpenter.
const RESERVED_DOMAIN: &str = "karpenter.sh";

const REGION: &str = "topology.kubernetes.io/region";
const ARCH: &str = "kubernetes.io/arch";
const OS: &str = "kubernetes.io/os";
const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

const WELL_KNOWN: [&str; 8] =
    [NODE_POOL, CAPACITY_TYPE, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, WINDOWS_BUILD];

/// Old keys and the keys they are read as.
const ALIASES: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
    ("beta.kubernetes.io/os", OS),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
];

/// The key a requirement on `key` is about: old names of well-known labels are read as the new ones.
pub fn normalized_key(key: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, name)| name)
}

/// Labels as the core holds them.
pub fn to_labels(labels: Option<&BTreeMap<String, String>>) -> Labels {
    labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (Arc::from(key.as_str()), Arc::from(value.as_str())))
        .collect()
}

/// Gives a node that only carries the old name of a label the new name too, because requirements use the new one.
pub(crate) fn add_successors(labels: &mut Labels) {
    for (alias, name) in ALIASES {
        if let (Some(value), false) = (labels.get(alias).cloned(), labels.contains_key(name)) {
            labels.insert(name.into(), value);
        }
    }
}

/// The rules for label keys, with what a provider declares well known on top of Karpenter's own set.
pub fn label_rules<'a>(provider_labels: impl IntoIterator<Item = &'a str>) -> LabelRules {
    LabelRules {
        well_known: WELL_KNOWN.into_iter().chain(provider_labels).map(Arc::from).collect(),
        restricted_domains: [RESERVED_DOMAIN.into()].into(),
        restricted_labels: [HOSTNAME.into()].into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_are_read_as_the_new_ones() {
        assert_eq!(normalized_key("beta.kubernetes.io/arch"), "kubernetes.io/arch");
        assert_eq!(normalized_key("example.com/arch"), "example.com/arch");
    }

    #[test]
    fn a_node_with_an_old_label_gets_the_new_one_unless_it_has_it() {
        let mut labels: Labels = [
            ("beta.kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/arch", "amd64"),
            ("kubernetes.io/arch", "arm64"),
        ]
        .map(|(key, value)| (key.into(), value.into()))
        .into();
        add_successors(&mut labels);
        assert_eq!(labels.get("kubernetes.io/os").map(AsRef::as_ref), Some("linux"));
        assert_eq!(labels.get("kubernetes.io/arch").map(AsRef::as_ref), Some("arm64"));
    }

    #[test]
    fn karpenters_domain_is_reserved_except_for_well_known_keys() {
        let rules = label_rules(["example.com/family"]);
        assert!(rules.is_restricted("karpenter.sh/registered"));
        assert!(rules.is_restricted("kubernetes.io/hostname"));
        assert!(!rules.is_restricted("karpenter.sh/capacity-type"));
        assert!(rules.well_known.contains("example.com/family"));
    }
}
