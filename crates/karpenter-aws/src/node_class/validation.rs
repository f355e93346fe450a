//! Whether machines could be launched from an EC2NodeClass: what is wrong with it before EC2 is asked, and what EC2's refusals mean.

use karpenter_aws_bootstrap::AmiFamily;
use karpenter_aws_bootstrap::kubelet::{self, Expression, Kubelet, MaxPods, TypeFacts};
use karpenter_aws_client::{Error, ErrorKind};
use serde_json::{Map, Value, json};

use super::EC2NodeClass;
use super::conditions::Says;
use super::question::{TrialError, TrialResult, passes};
use super::status::ResolvedClass;

const INVALID_KUBELET: &str = "InvalidKubeletConfiguration";
const UNSUPPORTED_KUBELET: &str = "UnsupportedKubeletConfiguration";
const EXPRESSIONS_DISABLED: &str = "KubeletExpressionsDisabled";
const EXPRESSION_INVALID: &str = "KubeletExpressionInvalid";
const EVALUATION_FAILED: &str = "KubeletExpressionEvaluationFailed";
const TAGS: &str = "TagValidationFailed";
const CREATE_LAUNCH_TEMPLATE: &str = "CreateLaunchTemplateAuthCheckFailed";
const CREATE_FLEET: &str = "CreateFleetAuthCheckFailed";
const RUN_INSTANCES: &str = "RunInstancesAuthCheckFailed";
const USER_DATA_SIZE: &str = "UserDataSizeLimitExceeded";
/// Ours alone: upstream only fails to launch.
const INVALID_USER_DATA: &str = "InvalidUserData";
const PROFILE_NOT_FOUND: &str = "InstanceProfileNotFound";
pub(super) const SERVICE_CIDR: &str = "ClusterCIDRResolutionFailed";
pub(super) const DEPENDENCIES: &str = "DependenciesNotReady";

/// Tags that say what belongs to whom; they are not the user's to set.
const RESTRICTED_TAGS: &[&str] = &[
    "eks:eks-cluster-name",
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.sh/nodeclaim",
    "karpenter.sh/nodepool",
];

/// What is wrong with the kubelet's configuration as it is written; `None` if nothing is.
pub(super) fn kubelet_problem(class: &EC2NodeClass, family: AmiFamily, formulas: bool) -> Option<Says> {
    let fields = class.spec.kubelet.as_ref()?;
    if let Err(error) = kubelet::validate(fields) {
        return Some(Says::no(INVALID_KUBELET, error.to_string()));
    }
    expressions_problem(fields, formulas).or_else(|| {
        kubelet::unsupported(family, fields).map(|message| Says::no(UNSUPPORTED_KUBELET, message))
    })
}

fn expressions_problem(fields: &Map<String, Value>, formulas: bool) -> Option<Says> {
    let kubelet = Kubelet::read(fields);
    let expressions = kubelet.expressions();
    let (field, text) = expressions.first()?;
    if !formulas {
        return Some(Says::no(
            EXPRESSIONS_DISABLED,
            format!(
                "spec.kubelet.{field} is {text:?}, which is no quantity; write one, or allow formulas with --aws-feature-gates NodeClassCEL=true"
            ),
        ));
    }
    expressions.iter().find_map(|(field, text)| {
        let error = Expression::compile(text).err()?;
        Some(Says::no(EXPRESSION_INVALID, format!("spec.kubelet.{field}: {error}")))
    })
}

/// Whether formulas have values for every instance type; `None` if they do.
pub(super) fn evaluation_problem(class: &EC2NodeClass, types: &[TypeFacts]) -> Option<Says> {
    let kubelet = Kubelet::read(class.spec.kubelet.as_ref()?);
    let compiled: Vec<(String, Expression)> = kubelet
        .expressions()
        .into_iter()
        .filter_map(|(field, text)| Some((field, Expression::compile(text).ok()?)))
        .collect();
    for (field, expression) in &compiled {
        for facts in types {
            let result = match field.rsplit_once('.') {
                None => expression.max_pods(facts).map(|_| ()),
                Some((_, resource)) => expression.reserved(resource, &with_pods(&kubelet, facts)).map(|_| ()),
            };
            if let Err(error) = result {
                return Some(Says::no(EVALUATION_FAILED, format!("spec.kubelet.{field}: {error}")));
            }
        }
    }
    None
}

/// Whether the class has formulas, which must be tried on every type.
pub(super) fn has_expressions(class: &EC2NodeClass) -> bool {
    class.spec.kubelet.as_ref().is_some_and(|fields| !Kubelet::read(fields).expressions().is_empty())
}

/// Formulas for reserved amounts see the number of pods that `maxPods` came to.
fn with_pods(kubelet: &Kubelet, facts: &TypeFacts) -> TypeFacts {
    let max_pods = match kubelet.resolved(facts, facts.max_pods, true).max_pods {
        Some(MaxPods::Number(number)) => number,
        _ => facts.max_pods,
    };
    TypeFacts { max_pods, ..facts.clone() }
}

/// A tag that is not the user's to set; `None` if there is none.
pub(super) fn tag_problem(class: &EC2NodeClass) -> Option<Says> {
    let key = class.spec.tags.keys().find(|key| is_restricted(key))?;
    Some(Says::no(TAGS, format!("spec.tags has {key:?}, which Karpenter sets itself; remove it")))
}

fn is_restricted(key: &str) -> bool {
    let of_cluster = key.strip_prefix("kubernetes.io/cluster/").is_some_and(|cluster| {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        cluster.starts_with(|c: char| c.is_ascii_alphanumeric()) && cluster.chars().all(word)
    });
    of_cluster || RESTRICTED_TAGS.contains(&key)
}

/// What a trial is about: equal texts need no second trial. The order of subnets changes with every launch and does not matter.
pub(super) fn subject(class: &ResolvedClass) -> String {
    let mut subnets: Vec<&str> = class.subnets.iter().map(|subnet| subnet.id.as_str()).collect();
    subnets.sort_unstable();
    let groups: Vec<&str> = class.security_groups.iter().map(|group| group.id.as_str()).collect();
    let images: Vec<&str> = class.amis.iter().map(|image| image.id.as_str()).collect();
    json!([subnets, groups, images, class.instance_profile, class.hash, class.class.spec]).to_string()
}

/// What it means that there is no launch template to try.
pub(super) fn without_template(error: &TrialError) -> TrialResult {
    match error {
        TrialError::UserDataTooLarge(_) => refused(
            USER_DATA_SIZE,
            format!(
                "{error} in all, with what Karpenter adds; shorten spec.userData, or let it fetch what it needs"
            ),
        ),
        TrialError::UserData(message) => refused(INVALID_USER_DATA, message.clone()),
        TrialError::NotYet(message) => TrialResult::Unclear(message.clone()),
        TrialError::Call(error) => {
            meaning(error, CREATE_LAUNCH_TEMPLATE, "ec2:CreateLaunchTemplate and ec2:CreateTags")
        }
    }
}

/// What the answer to the dry run of a fleet means.
pub(super) fn of_fleet<T>(answer: &Result<T, Error>) -> TrialResult {
    match answer {
        Ok(_) => TrialResult::Allowed,
        Err(error) => meaning(error, CREATE_FLEET, "ec2:CreateFleet, ec2:RunInstances and ec2:CreateTags"),
    }
}

/// What the answer to the dry run of an instance means.
pub(super) fn of_instance<T>(answer: &Result<T, Error>) -> TrialResult {
    match answer {
        Ok(_) => TrialResult::Allowed,
        Err(error) => meaning(error, RUN_INSTANCES, "ec2:RunInstances, ec2:CreateTags and iam:PassRole"),
    }
}

fn meaning(error: &Error, reason: &'static str, rights: &str) -> TrialResult {
    if error.kind == ErrorKind::DryRun {
        return TrialResult::Allowed;
    }
    if passes(error) {
        return TrialResult::Unclear(error.to_string());
    }
    if names_missing_profile(error) {
        let message = format!(
            "{error}; create the instance profile, or correct spec.instanceProfile, and wait a few seconds"
        );
        return TrialResult::Refused { reason: PROFILE_NOT_FOUND, message, lasting: false };
    }
    let advice = match error.kind {
        ErrorKind::Unauthorized => {
            format!("allow {rights} to the controller's IAM role, for all tags of the class")
        }
        _ => "correct the EC2NodeClass".to_owned(),
    };
    refused(reason, format!("{error}; {advice}"))
}

/// EC2 says so in words only; simulated clouds use IAM's code.
fn names_missing_profile(error: &Error) -> bool {
    error.code == "NoSuchEntity"
        || error.message.to_ascii_lowercase().contains("invalid iam instance profile")
}

fn refused(reason: &'static str, message: String) -> TrialResult {
    TrialResult::Refused { reason, message, lasting: true }
}
