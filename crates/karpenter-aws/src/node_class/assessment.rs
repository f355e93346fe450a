//! From what is known about an EC2NodeClass to its status: pure, so that every condition can be tested without a cloud.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_aws_bootstrap::AmiFamily;
use karpenter_aws_bootstrap::kubelet::TypeFacts;
use karpenter_aws_client::{Error, ErrorKind};

use super::conditions::{
    AMIS_READY, CAPACITY_RESERVATIONS_READY, INSTANCE_PROFILE_READY, PLACEMENT_GROUP_READY,
    SECURITY_GROUPS_READY, SUBNETS_READY, Says, VALIDATION_SUCCEEDED, conditions,
};
use super::memory::{Memory, Slot};
use super::question::{ImagesError, TrialResult, passes, remedy};
use super::status::ResolvedClass;
use super::validation::{self, DEPENDENCIES, SERVICE_CIDR};
use super::{EC2NodeClass, EC2NodeClassStatus, HashContext, selectors};

/// Reason of a condition that is not known because AWS did not answer.
const CALL_FAILED: &str = "ResolutionFailed";

/// What besides the class its status depends on.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(super) struct Surroundings {
    /// How nodes trust the API server.
    pub(super) ca_bundle: Option<String>,
    /// The addresses of services, if known, or why not.
    pub(super) service_cidr: Option<Result<String, Error>>,
    /// Whether the gate `ReservedCapacity` is on.
    pub(super) reserved_capacity: bool,
    /// Whether the gate `NodeClassCEL` is on.
    pub(super) formulas: bool,
    /// Whether launches are tried.
    pub(super) dry_run: bool,
    /// Whether the network has no way to IAM, as far as anybody knows.
    pub(super) isolated_vpc: bool,
}

/// What is to be done about a class.
#[derive(Clone, Debug)]
pub(super) struct Assessment {
    pub(super) status: EC2NodeClassStatus,
    /// What launches use; `None` while something is missing.
    pub(super) resolved: Option<Arc<ResolvedClass>>,
    /// A launch must be tried before validation can say anything.
    pub(super) trial: Option<String>,
}

/// The question that all selectors of a class make at one generation.
pub(super) fn question(class: &EC2NodeClass) -> String {
    class.metadata.generation.unwrap_or_default().to_string()
}

/// The question for images, which depends on the cluster's version too.
pub(super) fn images_question(class: &EC2NodeClass, kubernetes: &str) -> String {
    format!("{} on {kubernetes}", question(class))
}

/// The question for the instance profile.
pub(super) fn profile_question(class: &EC2NodeClass) -> String {
    class.spec.role.clone().unwrap_or_default()
}

/// Assesses a class. `types` is asked only if formulas must be tried on them.
pub(super) fn assess(
    class: &Arc<EC2NodeClass>,
    memory: &Memory,
    kubernetes: &str,
    surroundings: &Surroundings,
    types: impl FnOnce(&ResolvedClass) -> Vec<TypeFacts>,
    now: Timestamp,
) -> Assessment {
    let known = class.status.clone().unwrap_or_default();
    let (said, mut status) = resolution(class, memory, kubernetes, surroundings, &known);
    let family = class.spec.family();
    let resolved = resolve(class, memory, kubernetes, family, &status, surroundings);
    let (validation, trial) = validate(class, family, memory, surroundings, &said, resolved.as_ref(), types);
    let mut said = said;
    said.push((VALIDATION_SUCCEEDED, validation));
    let list = known.conditions.as_deref().unwrap_or_default();
    let generation = class.metadata.generation;
    status.conditions = Some(conditions(list, &said, generation, surroundings.reserved_capacity, now));
    keep_order(&known, &mut status);
    Assessment { status, resolved, trial }
}

type Said = Vec<(&'static str, Says)>;

/// What the selectors found, as the status shows it, with a condition for each.
fn resolution(
    class: &EC2NodeClass,
    memory: &Memory,
    kubernetes: &str,
    surroundings: &Surroundings,
    known: &EC2NodeClassStatus,
) -> (Said, EC2NodeClassStatus) {
    let question = question(class);
    let mut status = EC2NodeClassStatus::default();
    let subnets = memory.subnets.value(&question);
    status.subnets = subnets.map_or_else(|| known.subnets.clone(), |found| selectors::subnet_status(found));
    let groups = memory.security_groups.value(&question);
    status.security_groups = groups.cloned().unwrap_or_else(|| known.security_groups.clone());
    let images = images_question(class, kubernetes);
    status.amis = memory.images.value(&images).cloned().unwrap_or_else(|| known.amis.clone());
    let (profile, profile_says) = profile(class, memory, known, surroundings.isolated_vpc);
    status.instance_profile = profile;
    let mut said = vec![
        (AMIS_READY, images_say(&memory.images, &images)),
        (
            SUBNETS_READY,
            found(&memory.subnets, &question, "SubnetsNotFound", "subnet", "subnetSelectorTerms"),
        ),
        (
            SECURITY_GROUPS_READY,
            found(
                &memory.security_groups,
                &question,
                "SecurityGroupsNotFound",
                "security group",
                "securityGroupSelectorTerms",
            ),
        ),
        (INSTANCE_PROFILE_READY, profile_says),
        (PLACEMENT_GROUP_READY, placement_group_says(class, memory, &question)),
    ];
    if surroundings.reserved_capacity {
        let reservations = memory.reservations.value(&question).map(Vec::as_slice);
        status.capacity_reservations =
            reservations.map_or_else(|| known.capacity_reservations.clone(), selectors::reservation_status);
        let says = match (reservations, memory.reservations.error(&question)) {
            (Some(_), _) => Says::True,
            (None, Some(error)) => Says::unknown(CALL_FAILED, remedy(error)),
            (None, None) => Says::awaiting(),
        };
        said.push((CAPACITY_RESERVATIONS_READY, says));
    }
    (said, status)
}

/// Whether a selector found anything.
fn found<T>(
    slot: &Slot<Vec<T>, Error>,
    question: &str,
    reason: &'static str,
    thing: &str,
    terms: &str,
) -> Says {
    match (slot.value(question), slot.error(question)) {
        (Some(found), _) if !found.is_empty() => Says::True,
        (Some(_), _) => Says::no(
            reason,
            format!(
                "no {thing} matches spec.{terms}; check ids and tags in the controller's region and account"
            ),
        ),
        (None, Some(error)) => Says::unknown(CALL_FAILED, remedy(error)),
        (None, None) => Says::awaiting(),
    }
}

fn images_say(slot: &Slot<Vec<super::Ami>, ImagesError>, question: &str) -> Says {
    match (slot.error(question), slot.value(question)) {
        (Some(ImagesError::Alias(error)), _) => Says::no("UnsupportedAlias", error.to_string()),
        (_, Some(found)) if !found.is_empty() => Says::True,
        (_, Some(_)) => Says::no(
            "AMINotFound",
            "no image matches spec.amiSelectorTerms; check id, name, owner and tags, and that images are available for x86_64 or arm64",
        ),
        (Some(ImagesError::Call(error)), None) => Says::unknown(CALL_FAILED, remedy(error)),
        (None, None) => Says::awaiting(),
    }
}

fn placement_group_says(class: &EC2NodeClass, memory: &Memory, question: &str) -> Says {
    let Some(selector) = &class.spec.placement_group_selector else { return Says::True };
    let slot = &memory.placement_group;
    match (slot.error(question), slot.value(question)) {
        (Some(error), _) if !error.is_not_found() => {
            Says::no("PlacementGroupResolutionFailed", remedy(error))
        }
        (None, Some(Some(_))) => Says::True,
        (None, None) => Says::awaiting(),
        _ => {
            let name = selector.id.as_ref().or(selector.name.as_ref()).cloned().unwrap_or_default();
            Says::no(
                "PlacementGroupNotFound",
                format!(
                    "there is no available placement group {name}; create it, or correct spec.placementGroupSelector"
                ),
            )
        }
    }
}

/// The instance profile to use, and whether it is there.
fn profile(
    class: &EC2NodeClass,
    memory: &Memory,
    known: &EC2NodeClassStatus,
    isolated_vpc: bool,
) -> (Option<String>, Says) {
    let Some(role) = &class.spec.role else {
        return (class.spec.instance_profile.clone(), Says::True);
    };
    let question = profile_question(class);
    match (memory.profile.value(&question), memory.profile.error(&question)) {
        (Some(Some(name)), _) => (Some(name.clone()), Says::True),
        (_, Some(error)) => (known.instance_profile.clone(), profile_failure(role, error, isolated_vpc)),
        _ => (known.instance_profile.clone(), Says::awaiting()),
    }
}

fn profile_failure(role: &str, error: &Error, isolated_vpc: bool) -> Says {
    if isolated_vpc && error.status.is_none() {
        let message = format!(
            "{error}; an isolated VPC has no way to IAM: create an instance profile for the role {role} and name it in spec.instanceProfile in place of spec.role"
        );
        return Says::no("InstanceProfileFailed", message);
    }
    let message = if error.kind == ErrorKind::NotFound {
        format!("{error}; create the role {role}, or correct spec.role")
    } else {
        remedy(error)
    };
    if passes(error) {
        Says::unknown(CALL_FAILED, message)
    } else {
        Says::no("InstanceProfileFailed", message)
    }
}

/// What launches use, once everything is there.
fn resolve(
    class: &Arc<EC2NodeClass>,
    memory: &Memory,
    kubernetes: &str,
    family: AmiFamily,
    status: &EC2NodeClassStatus,
    surroundings: &Surroundings,
) -> Option<Arc<ResolvedClass>> {
    let question = question(class);
    let context =
        HashContext { ami_family: family.name(), cluster_ca_bundle: surroundings.ca_bundle.as_deref() };
    let placement_group = match &class.spec.placement_group_selector {
        Some(_) => Some(memory.placement_group.value(&question)?.clone()?),
        None => None,
    };
    let reservations = if surroundings.reserved_capacity {
        memory.reservations.value(&question)?.clone()
    } else {
        Vec::new()
    };
    Some(Arc::new(ResolvedClass {
        class: Arc::clone(class),
        family,
        hash: class.hash(context),
        subnets: memory.subnets.value(&question).filter(|found| !found.is_empty())?.clone(),
        security_groups: memory.security_groups.value(&question).filter(|found| !found.is_empty())?.clone(),
        amis: memory
            .images
            .value(&images_question(class, kubernetes))
            .filter(|found| !found.is_empty())?
            .clone(),
        instance_profile: status.instance_profile.clone(),
        reservations,
        placement_group,
        service_cidr: surroundings.service_cidr.clone().and_then(Result::ok),
    }))
}

/// What validation says, and the subject of a trial if one is needed first.
fn validate(
    class: &EC2NodeClass,
    family: AmiFamily,
    memory: &Memory,
    surroundings: &Surroundings,
    said: &Said,
    resolved: Option<&Arc<ResolvedClass>>,
    types: impl FnOnce(&ResolvedClass) -> Vec<TypeFacts>,
) -> (Says, Option<String>) {
    let problem = service_cidr_problem(family, surroundings)
        .or_else(|| validation::kubelet_problem(class, family, surroundings.formulas))
        .or_else(|| dependencies_problem(said));
    if let Some(problem) = problem {
        return (problem, None);
    }
    let Some(resolved) = resolved else { return (Says::awaiting(), None) };
    if validation::has_expressions(class) {
        let types = types(resolved);
        if types.is_empty() {
            return (Says::unknown(DEPENDENCIES, "instance types are not known yet"), None);
        }
        if let Some(problem) = validation::evaluation_problem(class, &types) {
            return (problem, None);
        }
    }
    if let Some(problem) = validation::tag_problem(class) {
        return (problem, None);
    }
    if !surroundings.dry_run {
        return (Says::True, None);
    }
    let subject = validation::subject(resolved);
    match (memory.trial.value(&subject), memory.trial.error(&subject)) {
        (Some(TrialResult::Refused { reason, message, .. }), _) => {
            (Says::no(reason, message.clone()), Some(subject))
        }
        (Some(_), _) => (Says::True, Some(subject)),
        (None, Some(message)) => {
            (Says::unknown(CALL_FAILED, format!("{message}; it is tried again")), Some(subject))
        }
        (None, None) => (Says::awaiting(), Some(subject)),
    }
}

fn service_cidr_problem(family: AmiFamily, surroundings: &Surroundings) -> Option<Says> {
    if family != AmiFamily::Al2023 {
        return None;
    }
    match &surroundings.service_cidr {
        Some(Ok(_)) => None,
        Some(Err(error)) if passes(error) => Some(Says::unknown(SERVICE_CIDR, remedy(error))),
        Some(Err(error)) => Some(Says::no(
            SERVICE_CIDR,
            format!(
                "{error}; AL2023 nodes need the addresses of services: allow eks:DescribeCluster, and check --cluster-name"
            ),
        )),
        None => Some(Says::awaiting()),
    }
}

fn dependencies_problem(said: &Said) -> Option<Says> {
    let dependencies = [AMIS_READY, INSTANCE_PROFILE_READY, SECURITY_GROUPS_READY, SUBNETS_READY];
    let of = |says: fn(&Says) -> bool| -> Vec<&str> {
        let those = said.iter().filter(|(type_, state)| dependencies.contains(type_) && says(state));
        those.map(|(type_, _)| *type_).collect()
    };
    let bad = of(|says| matches!(says, Says::False { .. }));
    let open = of(|says| matches!(says, Says::Unknown { .. }));
    match (bad.is_empty(), open.is_empty()) {
        (false, _) => Some(Says::no(DEPENDENCIES, format!("waiting for {} to become true", bad.join(", ")))),
        (true, false) => Some(Says::unknown(DEPENDENCIES, format!("waiting for {}", open.join(", ")))),
        (true, true) => None,
    }
}

/// Subnets in another order are no news: every launch changes how many addresses are free.
fn keep_order(known: &EC2NodeClassStatus, status: &mut EC2NodeClassStatus) {
    let sorted = |subnets: &[super::Subnet]| {
        let mut subnets = subnets.to_vec();
        subnets.sort_by(|a, b| a.id.cmp(&b.id));
        subnets
    };
    if sorted(&known.subnets) == sorted(&status.subnets) {
        status.subnets.clone_from(&known.subnets);
    }
}

/// The soonest of several times to look again.
pub(super) fn soonest(waits: impl IntoIterator<Item = Option<Duration>>) -> Duration {
    waits.into_iter().map(Option::unwrap_or_default).min().unwrap_or(Duration::MAX)
}
