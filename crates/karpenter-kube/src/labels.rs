//! Labels, and the rules for their keys: old names stand for their successors, some keys mean something to Karpenter.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::LabelRules;
use karpenter_api::labels::{ALIASES, HOSTNAME};
use karpenter_core::cluster::{self, Labels};

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
        if let (Some(value), false) = (labels.get(*alias).cloned(), labels.contains_key(*name)) {
            labels.insert((*name).into(), value);
        }
    }
}

/// The rules for label keys as the core holds them.
pub fn label_rules(rules: &LabelRules) -> cluster::LabelRules {
    cluster::LabelRules {
        well_known: rules.well_known().map(Arc::from).collect(),
        restricted_domains: rules.restricted_domains().map(Arc::from).collect(),
        restricted_labels: [HOSTNAME.into()].into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let rules = LabelRules::for_providers(&[]).with_well_known(["example.com/family".to_owned()]);
        let rules = label_rules(&rules);
        assert!(rules.is_restricted("karpenter.sh/registered"));
        assert!(rules.is_restricted("kubernetes.io/hostname"));
        assert!(!rules.is_restricted("karpenter.sh/capacity-type"));
        assert!(rules.well_known.contains("example.com/family"));
    }
}
