//! Decides which label keys may be used where, for the providers a cluster runs.
//!
//! Karpenter's own domain is reserved everywhere. A provider reserves its own domain too, save for the
//! labels it defines there. [`LabelRules::default`] serves clusters whose provider is not known yet: it
//! knows the labels of all our providers and reserves no provider's domain, so a NodePool that is valid
//! under any one upstream provider stays valid. [`LabelRules::for_providers`] is strict about the domains
//! of the providers named, which catches misspelt labels at `kubectl apply`.
//!
//! The same rules are available as predicates for the controller and as CEL for the API server.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::labels::{self, alibabacloud, aws, kwok};

/// A cloud, or the lack of one, that machines come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// Machines on paper, for tests and simulation.
    Kwok,
    /// Amazon EC2.
    Aws,
    /// Alibaba Cloud ECS.
    AlibabaCloud,
}

impl Provider {
    /// Every provider.
    pub const ALL: &[Self] = &[Self::Kwok, Self::Aws, Self::AlibabaCloud];

    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kwok => "kwok",
            Self::Aws => "aws",
            Self::AlibabaCloud => "alibabacloud",
        }
    }

    fn facts(self) -> &'static ProviderFacts {
        match self {
            Self::Kwok => &KWOK,
            Self::Aws => &AWS,
            Self::AlibabaCloud => &ALIBABA_CLOUD,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no provider {0:?}; choose one of kwok, aws, alibabacloud")]
pub struct UnknownProvider(pub String);

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(name: &str) -> Result<Self, UnknownProvider> {
        let found = Self::ALL.iter().find(|provider| provider.name() == name);
        found.copied().ok_or_else(|| UnknownProvider(name.to_owned()))
    }
}

/// What one provider contributes to the rules.
struct ProviderFacts {
    /// The reserved domain.
    domain: &'static str,
    /// The label that names the provider's NodeClass.
    node_class: &'static str,
    well_known: &'static [&'static str],
    aliases: &'static [(&'static str, &'static str)],
    known_values: &'static [(&'static str, &'static [&'static str])],
    well_known_resources: &'static [&'static str],
    /// Whether the API server also guards template labels and overlays. Upstream's KWOK chart guards
    /// requirements alone; guarding more would refuse NodePools it admits.
    guards_every_place: bool,
}

static KWOK: ProviderFacts = ProviderFacts {
    domain: kwok::GROUP,
    node_class: kwok::NODE_CLASS,
    well_known: kwok::WELL_KNOWN,
    aliases: &[],
    known_values: &[],
    well_known_resources: &[],
    guards_every_place: false,
};

static AWS: ProviderFacts = ProviderFacts {
    domain: aws::GROUP,
    node_class: aws::NODE_CLASS,
    well_known: aws::WELL_KNOWN,
    aliases: &[(aws::EBS_ZONE, labels::ZONE)],
    known_values: &[(aws::INSTANCE_TENANCY, aws::TENANCIES)],
    well_known_resources: aws::WELL_KNOWN_RESOURCES,
    guards_every_place: true,
};

/// Only one of the three dialects' domains is reserved: no provider in use reserves the other two, so
/// custom labels in them may exist.
static ALIBABA_CLOUD: ProviderFacts = ProviderFacts {
    domain: alibabacloud::GROUP,
    node_class: alibabacloud::NODE_CLASS,
    well_known: alibabacloud::WELL_KNOWN,
    aliases: &[(alibabacloud::DISK_ZONE, labels::ZONE)],
    known_values: &[],
    well_known_resources: &[],
    guards_every_place: true,
};

/// A place in a custom resource where label keys stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// Keys of `spec.template.metadata.labels` of a NodePool.
    NodePoolLabels,
    /// `spec.template.spec.requirements[].key` of a NodePool.
    NodePoolRequirement,
    /// `spec.requirements[].key` of a NodeClaim.
    NodeClaimRequirement,
    /// `spec.requirements[].key` of a NodeOverlay.
    NodeOverlayRequirement,
}

/// Why a label key may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restriction {
    /// The key lies in this reserved domain, or in a subdomain of it, and is not one of its known labels.
    Domain(&'static str),
    /// This very key is reserved.
    Label,
}

/// The label rules of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRules {
    well_known: BTreeSet<Cow<'static, str>>,
    aliases: BTreeMap<&'static str, &'static str>,
    known_values: BTreeMap<&'static str, &'static [&'static str]>,
    well_known_resources: BTreeSet<&'static str>,
    guarded: Vec<Provider>,
}

impl Default for LabelRules {
    /// The rules for a cluster of any of our providers.
    fn default() -> Self {
        Self { guarded: Vec::new(), ..Self::for_providers(Provider::ALL) }
    }
}

impl LabelRules {
    /// Composes the rules of these providers; with none, the rules of Karpenter alone.
    pub fn for_providers(providers: &[Provider]) -> Self {
        let mut rules = Self {
            well_known: labels::WELL_KNOWN.iter().map(|key| Cow::Borrowed(*key)).collect(),
            aliases: labels::ALIASES.iter().copied().collect(),
            known_values: BTreeMap::from([(labels::CAPACITY_TYPE, labels::CAPACITY_TYPES)]),
            well_known_resources: labels::WELL_KNOWN_RESOURCES.iter().copied().collect(),
            guarded: Vec::new(),
        };
        for provider in providers.iter().copied().collect::<BTreeSet<_>>() {
            let facts = provider.facts();
            rules.well_known.extend(facts.well_known.iter().map(|key| Cow::Borrowed(*key)));
            rules.aliases.extend(facts.aliases.iter().copied());
            rules.known_values.extend(facts.known_values.iter().copied());
            rules.well_known_resources.extend(facts.well_known_resources);
            rules.guarded.push(provider);
        }
        rules
    }

    /// Adds labels that a catalogue of machines brings along.
    #[must_use]
    pub fn with_well_known(mut self, keys: impl IntoIterator<Item = String>) -> Self {
        self.well_known.extend(keys.into_iter().map(Cow::Owned));
        self
    }

    /// Says whether the label describes machines.
    pub fn is_well_known(&self, key: &str) -> bool {
        self.well_known.contains(key)
    }

    /// Returns every well-known label in alphabetical order.
    pub fn well_known(&self) -> impl Iterator<Item = &str> {
        self.well_known.iter().map(AsRef::as_ref)
    }

    /// Says whether the resource is one the provider computes itself, which no NodeOverlay may change.
    pub fn is_well_known_resource(&self, name: &str) -> bool {
        self.well_known_resources.contains(name)
    }

    /// Returns the values a well-known label can have, if they are a fixed set.
    pub fn known_values(&self, key: &str) -> Option<&'static [&'static str]> {
        self.known_values.get(key).copied()
    }

    /// Returns the current name of a label that may be written by an old one.
    pub fn normalize<'k>(&self, key: &'k str) -> &'k str {
        self.aliases.get(key).copied().unwrap_or(key)
    }

    /// Says whether users may not set or require this label.
    pub fn is_restricted(&self, key: &str) -> bool {
        self.restriction(key).is_some()
    }

    /// Returns why users may not set or require this label, if they may not.
    pub fn restriction(&self, key: &str) -> Option<Restriction> {
        if self.is_well_known(key) {
            return None;
        }
        if key == labels::HOSTNAME {
            return Some(Restriction::Label);
        }
        let domain = labels::domain(key);
        let reserves = |reserved: &&str| {
            domain.strip_suffix(*reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.restricted_domains().find(reserves).map(Restriction::Domain)
    }

    /// Returns the reserved domains.
    pub fn restricted_domains(&self) -> impl Iterator<Item = &'static str> {
        let own = std::iter::once(labels::GROUP);
        own.chain(self.guarded.iter().map(|provider| provider.facts().domain))
    }

    /// Returns the CEL rules for the label keys in a place, each with its message.
    pub fn cel_rules(&self, place: KeyPlace) -> Vec<(String, String)> {
        let in_nodepool = matches!(place, KeyPlace::NodePoolLabels | KeyPlace::NodePoolRequirement);
        let in_requirement = matches!(place, KeyPlace::NodePoolRequirement | KeyPlace::NodeClaimRequirement);
        // The second rule for NodePools forbids `karpenter.sh/nodepool` again, with a clearer message.
        let mut rules = vec![domain_rule(place, labels::GROUP, &[labels::CAPACITY_TYPE, labels::NODEPOOL])];
        if in_nodepool {
            rules.push(label_rule(place, labels::NODEPOOL));
        }
        rules.push(label_rule(place, labels::HOSTNAME));
        for provider in &self.guarded {
            let facts = provider.facts();
            if facts.guards_every_place || in_requirement {
                let in_domain = facts.well_known.iter().filter(|key| labels::domain(key) == facts.domain);
                let admitted: Vec<_> = std::iter::once(&facts.node_class).chain(in_domain).copied().collect();
                rules.push(domain_rule(place, facts.domain, &admitted));
            }
        }
        rules
    }
}

/// Reserves a domain, its subdomains and, as upstream's rule does, names that merely end in it.
fn domain_rule(place: KeyPlace, domain: &str, admitted: &[&str]) -> (String, String) {
    let mut list = String::new();
    for key in admitted {
        let separator = if list.is_empty() { "" } else { ", " };
        write!(list, "{separator}\"{key}\"").expect("writing to a string cannot fail");
    }
    let rule = each_key(place, |key| {
        format!(r#"{key} in [{list}] || !{key}.find("^([^/]+)").endsWith("{domain}")"#)
    });
    (rule, format!("label domain \"{domain}\" is restricted"))
}

fn label_rule(place: KeyPlace, label: &str) -> (String, String) {
    let rule = each_key(place, |key| format!("{key} != \"{label}\""));
    (rule, format!("label \"{label}\" is restricted"))
}

fn each_key(place: KeyPlace, rule: impl Fn(&str) -> String) -> String {
    match place {
        KeyPlace::NodePoolLabels => format!("self.all(x, {})", rule("x")),
        _ => rule("self"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restricted(rules: &LabelRules, keys: &[&str]) -> Vec<bool> {
        keys.iter().map(|key| rules.is_restricted(key)).collect()
    }

    #[test]
    fn karpenters_own_domain_is_reserved_save_for_well_known_labels() {
        let keys = [
            labels::CAPACITY_TYPE,
            labels::NODEPOOL,
            "karpenter.sh/custom",
            "sub.karpenter.sh/custom",
            "mykarpenter.sh/custom",
            "karpenter.sh",
            labels::HOSTNAME,
            "example.com/team",
            "kubernetes.io/custom",
        ];
        let expected = [false, false, true, true, false, false, true, false, false];
        for rules in [LabelRules::for_providers(&[]), LabelRules::default()] {
            assert_eq!(restricted(&rules, &keys), expected);
        }
    }

    #[test]
    fn a_named_provider_reserves_its_domain_and_the_default_reserves_none() {
        let keys = [
            "karpenter.k8s.aws/instance-family",
            "karpenter.k8s.aws/instance-famly",
            "karpenter.kwok.sh/instance-size",
            "karpenter.kwok.sh/other",
            "karpenter.k8s.alibabacloud/instance-family",
            "karpenter.k8s.alibabacloud/other",
            "karpenter.k8s.alibabacloud.com/ecs-instance-family",
            "karpenter.k8s.alibabacloud.com/other",
        ];
        assert_eq!(restricted(&LabelRules::default(), &keys), [false; 8]);
        assert_eq!(
            restricted(&LabelRules::for_providers(Provider::ALL), &keys),
            [false, true, false, true, false, true, false, false]
        );
        let aws = LabelRules::for_providers(&[Provider::Aws]);
        assert_eq!(aws.restriction(keys[1]), Some(Restriction::Domain("karpenter.k8s.aws")));
        assert!(!aws.is_restricted("karpenter.kwok.sh/other"));
        assert!(!aws.is_well_known("karpenter.kwok.sh/instance-size"));
    }

    #[test]
    fn the_default_knows_the_labels_of_every_provider() {
        let rules = LabelRules::default();
        for provider in Provider::ALL {
            for key in provider.facts().well_known {
                assert!(rules.is_well_known(key), "{key}");
                assert_eq!(crate::label_syntax::qualified_name(key), Ok(()), "{key}");
            }
        }
        assert_eq!(rules.well_known().count(), 8 + 4 + 28 + 47);
        assert!(rules.known_values(aws::INSTANCE_TENANCY).is_some());
    }

    #[test]
    fn old_names_are_read_as_current_ones() {
        let rules = LabelRules::default();
        assert_eq!(rules.normalize("beta.kubernetes.io/arch"), labels::ARCH);
        assert_eq!(rules.normalize("failure-domain.beta.kubernetes.io/region"), labels::REGION);
        assert_eq!(rules.normalize(aws::EBS_ZONE), labels::ZONE);
        assert_eq!(rules.normalize(alibabacloud::DISK_ZONE), labels::ZONE);
        assert_eq!(rules.normalize("example.com/team"), "example.com/team");
        assert_eq!(LabelRules::for_providers(&[Provider::Kwok]).normalize(aws::EBS_ZONE), aws::EBS_ZONE);
    }

    #[test]
    fn a_catalogue_can_bring_its_own_labels() {
        let rules = LabelRules::for_providers(&[Provider::Kwok])
            .with_well_known(["karpenter.kwok.sh/reservation-id".to_owned()]);
        assert!(rules.is_well_known("karpenter.kwok.sh/reservation-id"));
        assert!(!rules.is_restricted("karpenter.kwok.sh/reservation-id"));
    }

    #[test]
    fn providers_are_named_as_on_the_command_line() {
        for provider in Provider::ALL {
            assert_eq!(provider.to_string().parse(), Ok(*provider));
        }
        assert!("gcp".parse::<Provider>().unwrap_err().to_string().contains("choose one of"));
    }
}
