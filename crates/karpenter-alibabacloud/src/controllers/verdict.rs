//! What a class's answers come to: what machines are launched with, and what each condition says about it. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_alibabacloud_client::ErrorKind;

use super::conditions::{Aspect, Says};
use super::memory::Look;
use super::question::{Answer, Question, Selected, Trouble};
use crate::market::Sales;
use crate::node_class::{Class, Cluster, Dialect, Draft, ImageTerm, Network, Resolved, VSwitch};

/// How many instance types a condition names.
const NAMED: usize = 8;

/// What is known about a class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    /// What was found.
    pub(super) resolved: Resolved,
    /// What the conditions say.
    pub(super) said: Vec<(Aspect, Says)>,
    /// What could not be asked anew although it is known: news for events.
    pub(super) stale: Vec<(Aspect, Trouble)>,
}

/// Judges a class by what `look` knows about each question.
pub(super) fn judge(draft: &Draft, mut look: impl FnMut(&Question) -> Look) -> Verdict {
    let class = &draft.class;
    let mut verdict = Verdict {
        resolved: Resolved::default(),
        said: vec![(Aspect::Validation, validation(draft))],
        stale: Vec::new(),
    };
    let cluster = verdict.cluster(class, &mut look);
    let vpc = cluster.as_ref().and_then(|cluster| cluster.vpc.clone());
    verdict.v_switches(class, vpc.as_deref(), &mut look);
    verdict.security_groups(class, vpc.as_deref(), &mut look);
    verdict.images(class, cluster.as_deref(), &mut look);
    verdict.role(class, &mut look);
    verdict.instance_types(class, cluster.as_deref(), &mut look);
    if !class.reservations.is_empty() {
        verdict.reservations(class, &mut look);
    }
    verdict
}

fn validation(draft: &Draft) -> Says {
    if draft.mistakes.is_empty() {
        return Says::yes();
    }
    Says::no("ValidationFailed", draft.mistakes.join("; "))
}

impl Verdict {
    /// Adds what has sold out since the types were learned.
    pub(super) fn note_stock(&mut self, sales: &Sales) {
        let zones = self.resolved.zones();
        let empty: BTreeSet<&str> =
            zones.iter().filter(|zone| !sales.has_stock(zone)).map(|zone| &**zone).collect();
        let says = self.said.iter_mut().find(|(aspect, _)| *aspect == Aspect::InstanceTypes);
        if let (false, Some((_, Says::Yes { message }))) = (empty.is_empty(), says) {
            *message = format!("nothing is in stock in {}: use other zones, or wait", listed(&empty));
        }
    }

    fn say(&mut self, aspect: Aspect, says: Says) {
        self.said.push((aspect, says));
    }

    /// What is known about a question; where nothing is, the condition says why.
    fn hear(
        &mut self,
        aspect: Aspect,
        dialect: Dialect,
        question: &Question,
        look: &mut impl FnMut(&Question) -> Look,
    ) -> Option<Arc<Answer>> {
        let found = look(question);
        match (&found.answer, found.trouble) {
            (Some(_), Some(trouble)) => self.stale.push((aspect, trouble)),
            (None, Some(trouble)) => self.say(aspect, failed(aspect, dialect, &trouble)),
            (None, None) => self.say(aspect, Says::awaiting()),
            (Some(_), None) => {}
        }
        found.answer
    }

    fn cluster(&mut self, class: &Class, look: &mut impl FnMut(&Question) -> Look) -> Option<Arc<Cluster>> {
        let dialect = class.key.dialect;
        let Some(id) = &class.cluster.id else {
            let remedy = match dialect {
                Dialect::ContainerService => {
                    "spec.clusterID is empty and the controller has no CLUSTER_ID; set either to the id of the ACK cluster"
                }
                Dialect::Handbook | Dialect::CloudPilot => {
                    "the controller has no CLUSTER_ID; set it to the id of the ACK cluster"
                }
            };
            self.say(Aspect::Cluster, Says::no("ClusterIDMissing", format!("no cluster to join: {remedy}")));
            return None;
        };
        let answer = self.hear(Aspect::Cluster, dialect, &Question::Cluster(id.clone()), look)?;
        let Answer::Cluster(cluster) = &*answer else { return None };
        self.say(Aspect::Cluster, Says::yes());
        self.resolved.cluster = Some(Arc::clone(cluster));
        Some(Arc::clone(cluster))
    }

    fn v_switches(&mut self, class: &Class, vpc: Option<&str>, look: &mut impl FnMut(&Question) -> Look) {
        let (aspect, dialect) = (Aspect::VSwitches, class.key.dialect);
        let question = Question::VSwitches(class.v_switches.clone());
        let Some(answer) = self.hear(aspect, dialect, &question, look) else { return };
        let Answer::VSwitches(selected) = &*answer else { return };
        let inside = |of: &str| vpc.is_none_or(|vpc| of == vpc);
        self.resolved.v_switches =
            selected.found.iter().filter(|found| inside(&found.vpc)).cloned().collect();
        let vpcs: BTreeSet<&str> = selected.found.iter().map(|found| found.vpc.as_str()).collect();
        let says = if selected.found.is_empty() {
            nothing_found(aspect, dialect, "vSwitch", "vSwitchSelectorTerms", &selected.idle)
        } else if self.resolved.v_switches.is_empty() {
            elsewhere("vSwitches", &vpcs, vpc.unwrap_or_default())
        } else if vpc.is_none() && vpcs.len() > 1 {
            Says::no(
                "VPCMismatch",
                format!("the selected vSwitches are in {}; select those of one VPC", listed(&vpcs)),
            )
        } else {
            match full_zones(&self.resolved.v_switches) {
                full if full.is_empty() => found(selected),
                full => Says::Yes {
                    message: format!(
                        "no selected vSwitch has a free address in {}; add a vSwitch there, or free addresses",
                        listed(&full)
                    ),
                },
            }
        };
        self.say(aspect, says);
    }

    fn security_groups(
        &mut self,
        class: &Class,
        vpc: Option<&str>,
        look: &mut impl FnMut(&Question) -> Look,
    ) {
        let (aspect, dialect) = (Aspect::SecurityGroups, class.key.dialect);
        let question = Question::SecurityGroups(class.security_groups.clone());
        let Some(answer) = self.hear(aspect, dialect, &question, look) else { return };
        let Answer::SecurityGroups(selected) = &*answer else { return };
        let switch_vpc = self.resolved.v_switches.first().map(|v_switch| v_switch.vpc.clone());
        let vpc = vpc.map(str::to_owned).or(switch_vpc);
        let inside = |of: &str| vpc.as_deref().is_none_or(|vpc| of == vpc);
        self.resolved.security_groups =
            selected.found.iter().filter(|found| inside(&found.vpc)).cloned().collect();
        let vpcs: BTreeSet<&str> = selected.found.iter().map(|found| found.vpc.as_str()).collect();
        let says = if selected.found.is_empty() {
            nothing_found(aspect, dialect, "security group", "securityGroupSelectorTerms", &selected.idle)
        } else if self.resolved.security_groups.is_empty() {
            elsewhere("security groups", &vpcs, vpc.as_deref().unwrap_or_default())
        } else {
            found(selected)
        };
        self.say(aspect, says);
    }

    fn images(&mut self, class: &Class, cluster: Option<&Cluster>, look: &mut impl FnMut(&Question) -> Look) {
        let (aspect, dialect) = (Aspect::Images, class.key.dialect);
        let by_alias = class.images.iter().any(|term| matches!(term, ImageTerm::Alias { .. }));
        if by_alias && cluster.is_none() {
            let message = "the image depends on the cluster's version, which is not known yet";
            return self.say(aspect, Says::Unknown { reason: "ClusterUnknown", message: message.to_owned() });
        }
        let version = cluster.filter(|_| by_alias).map(|cluster| cluster.version.clone());
        let question = Question::Images(class.images.clone(), version);
        let Some(answer) = self.hear(aspect, dialect, &question, look) else { return };
        let Answer::Images(selected) = &*answer else { return };
        let disk = class.system_disk.size_gib;
        let too_large = selected.found.iter().find(|image| image.size_gib.is_some_and(|size| size > disk));
        let says = if selected.found.is_empty() {
            nothing_found(aspect, dialect, "image", "imageSelectorTerms", &selected.idle)
        } else if let Some(image) = too_large {
            let size = image.size_gib.unwrap_or_default();
            Says::no(
                "DiskSmallerThanImage",
                format!(
                    "image {} needs {size} GiB and the system disk has {disk}; set spec.systemDisk to at least {size} GiB",
                    image.id
                ),
            )
        } else {
            found(selected)
        };
        self.resolved.images.clone_from(&selected.found);
        self.say(aspect, says);
    }

    fn role(&mut self, class: &Class, look: &mut impl FnMut(&Question) -> Look) {
        let aspect = Aspect::Role;
        let Some(role) = &class.ram_role else { return self.say(aspect, Says::yes()) };
        self.resolved.ram_role = Some(role.clone());
        let known = look(&Question::Role(role.clone()));
        let says = match (known.answer.as_deref(), known.trouble) {
            (Some(Answer::Role { trusts_ecs: true }), _) => Says::yes(),
            (Some(_), _) => Says::no(
                "InvalidAssumePolicy",
                format!(
                    "ECS may not assume RAM role {role}; add the service ecs.aliyuncs.com to its trust policy"
                ),
            ),
            (None, None) => Says::awaiting(),
            (None, Some(trouble)) => match trouble.kind {
                ErrorKind::NotFound => Says::no(
                    "RoleNotFound",
                    format!("there is no RAM role {role}; create it, or name another"),
                ),
                // Launching needs no right to look at the role.
                ErrorKind::Denied => Says::Yes { message: format!("not checked: {}", trouble.message) },
                _ => failed(aspect, class.key.dialect, &trouble),
            },
        };
        self.say(aspect, says);
    }

    fn instance_types(
        &mut self,
        class: &Class,
        cluster: Option<&Cluster>,
        look: &mut impl FnMut(&Question) -> Look,
    ) {
        let aspect = Aspect::InstanceTypes;
        let Some(answer) = self.hear(aspect, class.key.dialect, &Question::InstanceTypes, look) else {
            return;
        };
        let Answer::InstanceTypes(unsuited) = &*answer else { return };
        let message = match cluster.map(|cluster| cluster.network) {
            Some(Network::Terway) => scarce(&unsuited.few_addresses, "addresses for pods under Terway"),
            Some(Network::TerwayExclusive) => {
                scarce(&unsuited.few_interfaces, "network interfaces for pods under Terway")
            }
            _ => String::new(),
        };
        self.say(aspect, Says::Yes { message });
    }

    fn reservations(&mut self, class: &Class, look: &mut impl FnMut(&Question) -> Look) {
        let (aspect, dialect) = (Aspect::Reservations, class.key.dialect);
        let question = Question::Reservations(class.reservations.clone());
        let Some(answer) = self.hear(aspect, dialect, &question, look) else { return };
        let Answer::Reservations(selected) = &*answer else { return };
        self.resolved.reservations.clone_from(&selected.found);
        let says = if selected.found.is_empty() {
            let field = "capacityReservationSelectorTerms";
            nothing_found(aspect, dialect, "capacity reservation", field, &selected.idle)
        } else {
            found(selected)
        };
        self.say(aspect, says);
    }
}

/// Types that a network cannot use are worth a word, for whoever names one in a NodePool.
fn scarce(types: &[Arc<str>], of_what: &str) -> String {
    let named: Vec<&str> = types.iter().take(NAMED).map(|one| &**one).collect();
    match types.len().saturating_sub(NAMED) {
        _ if types.is_empty() => String::new(),
        0 => format!("too few {of_what} have {}, which are not used", named.join(", ")),
        more => format!("too few {of_what} have {} and {more} more, which are not used", named.join(", ")),
    }
}

/// All is well, though terms that select nothing are worth a word.
fn found<T>(selected: &Selected<T>) -> Says {
    if selected.idle.is_empty() {
        return Says::yes();
    }
    Says::Yes { message: format!("nothing was found by {}", selected.idle.join(", nor by ")) }
}

fn nothing_found(aspect: Aspect, dialect: Dialect, thing: &str, field: &str, idle: &[String]) -> Says {
    Says::no(
        aspect.not_found(dialect),
        format!(
            "no {thing} was found by {}; correct spec.{field}, or the tags in the cloud",
            idle.join(", nor by ")
        ),
    )
}

/// Zones in which no vSwitch has an address left.
fn full_zones(v_switches: &[VSwitch]) -> BTreeSet<&str> {
    let zones: BTreeSet<&str> = v_switches.iter().map(|one| &*one.zone).collect();
    let has_room = |zone: &str| v_switches.iter().any(|one| *one.zone == *zone && one.free_addresses > 0);
    zones.into_iter().filter(|zone| !has_room(zone)).collect()
}

fn elsewhere(things: &str, found: &BTreeSet<&str>, vpc: &str) -> Says {
    Says::no(
        "VPCMismatch",
        format!(
            "the selected {things} are in {}, but the cluster is in {vpc}; select those of that VPC",
            listed(found)
        ),
    )
}

fn listed(words: &BTreeSet<&str>) -> String {
    words.iter().copied().collect::<Vec<_>>().join(" and ")
}

/// What time may mend is unknown; what somebody must mend is false.
fn failed(aspect: Aspect, dialect: Dialect, trouble: &Trouble) -> Says {
    let message = trouble.message.clone();
    if trouble.passes() {
        return Says::Unknown { reason: trouble.reason(), message };
    }
    let reason =
        if trouble.kind == ErrorKind::NotFound { aspect.not_found(dialect) } else { trouble.reason() };
    Says::No { reason, message }
}
