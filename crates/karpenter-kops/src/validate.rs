//! Which clusters and InstanceGroups kOps refuses, and with which errors.
//!
//! The rules are functions from an object to its errors: those of the cluster, of any group, of groups on AWS, and of
//! Karpenter's groups. Here is the order in which kOps comes to them: when objects are stored, only what needs no cloud
//! is looked at; when the cluster is updated, everything is, and the first group with errors ends the run.

mod aws;
mod cluster;
mod group;
mod karpenter;

use std::fmt::{self, Display, Formatter};

pub(crate) use aws::image_of;
pub(crate) use group::parse_taint;
pub(crate) use karpenter::has_static_capacity;

use crate::cloud::Answers;
use crate::field_error::FieldError;
use crate::model::{InstanceGroup, Inventory, KARPENTER};
use crate::version::{FIRST_WITH_KARPENTER, KopsVersion};

/// The errors of one object; they are reported together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose errors they are.
    pub object: String,
    /// The errors, in the order of kOps' rules.
    pub errors: Vec<FieldError>,
    /// What is wrong with the objects as a whole, where no field is to blame.
    pub plain: Option<String>,
}

impl Refusal {
    fn plain(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { object: object.into(), errors: Vec::new(), plain: Some(reason.into()) }
    }
}

impl Display for Refusal {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let mut errors: Vec<String> = self.errors.iter().map(ToString::to_string).collect();
        errors.extend(self.plain.clone());
        match errors.as_slice() {
            [one] => write!(formatter, "{}: {one}", self.object),
            several => write!(formatter, "{}: [{}]", self.object, several.join(", ")),
        }
    }
}

/// Where the objects come from decides what kOps looks at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Files, which kOps would check as it stores them, in their order.
    Files,
    /// A state store, whose objects have been checked once.
    StateStore,
}

/// Lists the objects that kOps refuses, in the order in which it would come to them. kOps itself stops at the first.
pub fn validate(inventory: &Inventory, answers: &Answers, source: Source) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let cluster_errors = cluster::errors(&inventory.cluster);
    if !cluster_errors.is_empty() {
        refusals.push(refusal("Cluster", &inventory.cluster.name, cluster_errors));
    }
    if source == Source::Files {
        refusals
            .extend(inventory.groups.iter().filter_map(|group| group_refusal(group, group::errors(group))));
    }
    refusals.extend(census(&inventory.groups).map(|reason| Refusal::plain("Cluster", reason)));
    for group in inventory.by_name() {
        if refusals.iter().any(|refusal| refusal.object == object("InstanceGroup", &group.name)) {
            continue;
        }
        refusals.extend(group_refusal(group, update_errors(group, inventory, answers)));
    }
    refusals
}

/// Says why a cluster that this version of kOps updated last cannot run Karpenter.
pub fn validate_version(inventory: &Inventory, version: KopsVersion) -> Option<Refusal> {
    let concerned = inventory.cluster.enables_karpenter()
        || inventory.groups.iter().any(|group| group.manager == KARPENTER);
    (concerned && version < FIRST_WITH_KARPENTER).then(|| {
        let reason = format!(
            "kOps {version} updated the cluster last; Karpenter needs {FIRST_WITH_KARPENTER}: run kops update cluster with it first"
        );
        Refusal::plain(object("Cluster", &inventory.cluster.name), reason)
    })
}

/// Everything that is looked at when the cluster is updated.
fn update_errors(group: &InstanceGroup, inventory: &Inventory, answers: &Answers) -> Vec<FieldError> {
    let cluster = &inventory.cluster;
    let mut errors = group::errors(group);
    if cluster.is_aws() {
        errors.extend(aws::errors(group, answers));
    }
    errors.extend(group::errors_in_cluster(group, cluster, answers));
    errors.extend(karpenter::errors(group, cluster));
    errors
}

fn group_refusal(group: &InstanceGroup, errors: Vec<FieldError>) -> Option<Refusal> {
    (!errors.is_empty()).then(|| refusal("InstanceGroup", &group.name, errors))
}

fn refusal(kind: &str, name: &str, errors: Vec<FieldError>) -> Refusal {
    Refusal { object: object(kind, name), errors, plain: None }
}

fn object(kind: &str, name: &str) -> String {
    format!("{kind} {name}")
}

/// A cluster needs a control plane and something besides it.
fn census(groups: &[InstanceGroup]) -> Option<&'static str> {
    let control_planes = groups.iter().filter(|group| group.role == "ControlPlane").count();
    if groups.is_empty() {
        Some("there is no InstanceGroup: at least one is needed")
    } else if control_planes == 0 {
        Some("there is no InstanceGroup with the role ControlPlane: at least one is needed")
    } else if control_planes == groups.len() {
        Some("there is no InstanceGroup with the role Node: at least one is needed")
    } else {
        None
    }
}
