//! What the EC2NodeClass controller asks of AWS, and what comes back: I/O as data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use karpenter_api::NodePool;
use karpenter_aws_bootstrap::kubelet::TypeFacts;
use karpenter_aws_client::ec2::{
    self, DescribeCapacityReservations, DescribePlacementGroups, DescribeSecurityGroups, DescribeSubnets,
};
use karpenter_aws_client::iam::{IamTag, InstanceProfile};
use karpenter_aws_client::{Error, ErrorKind};
use karpenter_runtime::Request;

use super::status::ResolvedClass;
use super::{Ami, AmiSelectorTerm};

/// A question, or a deed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClassRequest {
    /// Which subnets are there?
    Subnets(Vec<DescribeSubnets>),
    /// Which security groups are there?
    SecurityGroups(Vec<DescribeSecurityGroups>),
    /// Which images do these terms select on a cluster of this version?
    Images(Vec<AmiSelectorTerm>, String),
    /// Which capacity reservations are there?
    Reservations(Vec<DescribeCapacityReservations>),
    /// Which placement group is it?
    PlacementGroup(DescribePlacementGroups),
    /// What is in this instance profile?
    FindProfile(String),
    /// Make an instance profile for a role.
    CreateProfile(NewProfile),
    /// Which addresses do services have?
    ServiceCidr,
    /// Would a launch be allowed?
    Try(Trial),
    /// Take away what was made for a class.
    CleanUp(CleanUp),
}

/// A launch to be tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The class.
    pub class: Arc<ResolvedClass>,
    /// The NodePools that use it.
    pub pools: Vec<Arc<NodePool>>,
}

/// An instance profile to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewProfile {
    /// Its name.
    pub(super) name: String,
    /// Where it belongs.
    pub(super) path: String,
    /// The role in it, without a path.
    pub(super) role: String,
    /// Its tags.
    pub(super) tags: Vec<IamTag>,
}

/// What is left of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CleanUp {
    /// The class.
    pub(super) class: String,
    /// Where its instance profiles are; `None` where IAM cannot be reached.
    pub(super) profiles: Option<String>,
    /// The profile that older versions made for it.
    pub(super) legacy_profile: Option<String>,
    /// The tags of its launch templates.
    pub(super) template_tags: BTreeMap<String, String>,
}

impl Request for ClassRequest {
    fn action(&self) -> Option<String> {
        match self {
            Self::CreateProfile(profile) => {
                Some(format!("create instance profile {} for role {}", profile.name, profile.role))
            }
            Self::Try(trial) => {
                let name = trial.class.class.metadata.name.as_deref().unwrap_or_default();
                Some(format!("create a launch template to try EC2NodeClass {name}"))
            }
            Self::CleanUp(left) => {
                Some(format!("delete instance profiles and launch templates of EC2NodeClass {}", left.class))
            }
            _ => None,
        }
    }
}

/// What came back.
#[derive(Debug)]
pub(super) enum ClassReply {
    Subnets(Result<Vec<ec2::Subnet>, Error>),
    SecurityGroups(Result<Vec<ec2::SecurityGroup>, Error>),
    Images(Result<Vec<Ami>, ImagesError>),
    Reservations(Result<Vec<ec2::CapacityReservation>, Error>),
    PlacementGroup(Result<Vec<ec2::PlacementGroup>, Error>),
    FindProfile(Result<Option<InstanceProfile>, Error>),
    CreateProfile(Result<String, Error>),
    ServiceCidr(Result<String, Error>),
    Try(TrialResult),
    CleanUp(Result<(), Error>),
}

/// Images were not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ImagesError {
    /// The alias cannot be used with this cluster, now or later.
    #[error("{0}")]
    Alias(#[from] karpenter_aws_bootstrap::AliasError),
    /// AWS did not answer as it should.
    #[error("{0}")]
    Call(#[from] Error),
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrialResult {
    /// A launch would be allowed.
    Allowed,
    /// It would not; reason and message for the condition.
    Refused {
        /// One of the reasons of `ValidationSucceeded`.
        reason: &'static str,
        /// What to do.
        message: String,
        /// Whether the answer stays true until something changes.
        lasting: bool,
    },
    /// It cannot be said now.
    Unclear(String),
}

/// What launches know that validation needs; the provider implements it.
pub trait Launches: Send + Sync + 'static {
    /// Every instance type, with the number of pods it gets in this class by default; empty while none is known.
    fn types(&self, class: &ResolvedClass) -> Vec<TypeFacts>;

    /// Sees to it that the launch template of one machine of the class exists.
    fn template(&self, trial: Trial) -> BoxFuture<'static, Result<TrialTemplate, TrialError>>;
}

/// A launch template that a launch is tried with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialTemplate {
    /// Its name.
    pub launch_template_name: String,
    /// A type that it suits.
    pub instance_type: String,
    /// Zones of the class that sell it; none if that is not known.
    pub zones: BTreeSet<String>,
    /// The image in it.
    pub image_id: String,
    /// Tags, as a launch would have them.
    pub tags: Vec<ec2::Tag>,
}

/// There is no launch template to try.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrialError {
    /// EC2 would refuse the user data.
    #[error("user data has {0} bytes; EC2 takes {max}", max = karpenter_aws_bootstrap::LARGEST)]
    UserDataTooLarge(usize),
    /// The user data cannot be written.
    #[error("{0}")]
    UserData(String),
    /// The template was not created.
    #[error("{0}")]
    Call(#[from] Error),
    /// Something is not known yet, say instance types.
    #[error("{0}")]
    NotYet(String),
}

/// What a person can do about a failed call.
pub(super) fn remedy(error: &Error) -> String {
    let advice = match error.kind {
        ErrorKind::Unauthorized => "allow this operation to the controller's IAM role",
        ErrorKind::Credentials => "check the credentials of the controller's service account",
        ErrorKind::Throttled | ErrorKind::Transient => "it is tried again",
        _ => "correct the EC2NodeClass; it is tried again",
    };
    format!("{error}; {advice}")
}

/// Whether trying again may help without anybody changing anything.
pub(super) fn passes(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Throttled | ErrorKind::Transient | ErrorKind::Credentials)
}
