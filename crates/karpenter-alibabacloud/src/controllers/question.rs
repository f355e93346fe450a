//! What is asked of the cloud about classes, what it answers, and how long an answer holds.

use std::sync::Arc;
use std::time::Duration;

use karpenter_alibabacloud_client::{Error, ErrorKind, Operation as _, cs, ecs, ram, vpc};

use crate::catalogue::Unsuited;
use crate::node_class::{Cluster, Image, ImageTerm, Reservation, SecurityGroup, Selector, VSwitch};

/// A question. Classes that ask the same share the answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Which vSwitches do these terms select?
    VSwitches(Vec<Selector>),
    /// Which security groups do these terms select?
    SecurityGroups(Vec<Selector>),
    /// Which images do these terms select, in a cluster of this version?
    Images(Vec<ImageTerm>, Option<String>),
    /// Can ECS assume this role?
    Role(String),
    /// What is known of this cluster?
    Cluster(String),
    /// Which capacity reservations do these terms select?
    Reservations(Vec<Selector>),
    /// Which instance types does the region sell?
    InstanceTypes,
}

impl Question {
    /// The rights without which there is no answer.
    pub(crate) fn actions(&self) -> &'static [&'static str] {
        match self {
            Self::VSwitches(_) => &[vpc::DescribeVSwitches::RAM_ACTION],
            Self::SecurityGroups(_) => &[ecs::DescribeSecurityGroups::RAM_ACTION],
            Self::Images(_, None) => &[ecs::DescribeImages::RAM_ACTION],
            Self::Images(_, Some(_)) => &[cs::DescribeKubernetesVersionMetadata::RAM_ACTION],
            Self::Role(_) => &[ram::GetRole::RAM_ACTION],
            Self::Cluster(_) => &[cs::DescribeClusterDetail::RAM_ACTION],
            Self::Reservations(_) => &[ecs::DescribeCapacityReservations::RAM_ACTION],
            Self::InstanceTypes => &[ecs::DescribeInstanceTypes::RAM_ACTION],
        }
    }

    /// How long an answer holds. Addresses come and go; clusters and roles hardly change.
    pub(crate) fn period(&self) -> Duration {
        match self {
            Self::VSwitches(_) => Duration::from_mins(5),
            Self::SecurityGroups(_) | Self::Images(..) => Duration::from_mins(15),
            // Machines of others come and go.
            Self::Reservations(_) => Duration::from_mins(1),
            Self::Role(_) | Self::Cluster(_) => Duration::from_mins(30),
            Self::InstanceTypes => Duration::from_hours(6),
        }
    }
}

/// What was selected, and which terms selected nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected<T> {
    /// What was found.
    pub found: Vec<T>,
    /// The terms that found nothing, in words.
    pub idle: Vec<String>,
}

impl<T> Default for Selected<T> {
    fn default() -> Self {
        Self { found: Vec::new(), idle: Vec::new() }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Question::VSwitches`].
    VSwitches(Selected<VSwitch>),
    /// To [`Question::SecurityGroups`].
    SecurityGroups(Selected<SecurityGroup>),
    /// To [`Question::Images`].
    Images(Selected<Image>),
    /// To [`Question::Role`].
    Role {
        /// Whether its trust policy names ECS.
        trusts_ecs: bool,
    },
    /// To [`Question::Cluster`].
    Cluster(Arc<Cluster>),
    /// To [`Question::Reservations`].
    Reservations(Selected<Reservation>),
    /// To [`Question::InstanceTypes`]: the market knows them now; here are those that not every network can use.
    InstanceTypes(Unsuited),
}

impl Answer {
    /// Whether it leaves a class without something it needs: then it is asked again soon, because somebody is about to mend it.
    pub(crate) fn is_wanting(&self) -> bool {
        match self {
            Self::VSwitches(selected) => selected.found.is_empty(),
            Self::SecurityGroups(selected) => selected.found.is_empty(),
            Self::Images(selected) => selected.found.is_empty(),
            Self::Reservations(selected) => selected.found.is_empty(),
            Self::Role { trusts_ecs } => !trusts_ecs,
            Self::Cluster(_) | Self::InstanceTypes(_) => false,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What it means.
    pub kind: ErrorKind,
    /// What happened and what to do about it.
    pub message: String,
}

impl From<Error> for Trouble {
    fn from(mut error: Error) -> Self {
        tracing::debug!("{error}");
        // It is another with every try; a condition that names it would never rest.
        error.request_id = None;
        let remedy = match error.kind {
            ErrorKind::Denied if error.missing_action.is_none() => {
                "; allow this action in a RAM policy of the role or user that Karpenter runs as"
            }
            ErrorKind::Credentials => {
                "; check the role, the OIDC provider and the token file that RRSA names, or the access key"
            }
            ErrorKind::Throttled => "; the account calls the API too often; it is tried again by itself",
            ErrorKind::Transient => "; it is tried again by itself",
            _ => "",
        };
        Self { kind: error.kind, message: format!("{error}{remedy}") }
    }
}

impl Trouble {
    /// One word for conditions and events.
    pub(crate) fn reason(&self) -> &'static str {
        match self.kind {
            ErrorKind::Throttled => "Throttled",
            ErrorKind::Denied => "PermissionDenied",
            ErrorKind::Credentials => "CredentialsUnusable",
            ErrorKind::NotFound => "NotFound",
            ErrorKind::Transient => "CloudUnavailable",
            _ => "CallFailed",
        }
    }

    /// Whether time alone may mend it.
    pub(crate) fn passes(&self) -> bool {
        self.kind.is_retryable()
    }
}
