//! The rules that bind InstanceGroups on AWS.

use std::collections::BTreeSet;

use crate::cloud::{Answers, Image};
use crate::field_error::FieldError;
use crate::model::{InstanceGroup, KARPENTER};
use crate::wire::MixedInstancesPolicy;

const SPOT_STRATEGIES: &[&str] = &[
    "lowest-price",
    "diversified",
    "capacity-optimized",
    "capacity-optimized-prioritized",
    "price-capacity-optimized",
];
const SPOT_DURATIONS: &[&str] = &["60", "120", "180", "240", "300", "360"];
const LIFETIME_SECONDS_MIN: f64 = 86_400.0;

pub(super) fn errors(group: &InstanceGroup, answers: &Answers) -> Vec<FieldError> {
    let name = &group.name;
    let mut errors = security_group_errors(&group.additional_security_groups);
    if !group.machine_type.is_empty() {
        let paths = (&*format!("{name}.spec.machineType"), &*format!("{name}.spec.image"));
        errors.extend(machine_errors(paths, &group.machine_type, group, answers));
    }
    if let Some(minutes) = group.spot_duration_in_minutes {
        let path = format!("{name}.spec.spotDurationInMinutes");
        errors.extend(FieldError::unsupported(path, &minutes.to_string(), SPOT_DURATIONS));
    }
    if let Some(behavior) = &group.instance_interruption_behavior {
        let path = format!("{name}.spec.instanceInterruptionBehavior");
        errors.extend(FieldError::unsupported(path, behavior, &["hibernate", "stop", "terminate"]));
    }
    if let Some(policy) = &group.mixed_instances_policy {
        errors.extend(mixed_errors(policy, group, answers));
    }
    if let Some(metadata) = &group.instance_metadata {
        if let Some(tokens) = &metadata.http_tokens {
            let path = "spec.instanceMetadata.httpTokens";
            errors.extend(FieldError::unsupported(path, tokens, &["optional", "required"]));
        }
        if let Some(limit) = metadata.http_put_response_hop_limit.filter(|limit| !(1..=64).contains(limit)) {
            let path = "spec.instanceMetadata.httpPutResponseHopLimit";
            errors.push(FieldError::invalid(path, limit, "it lies between 1 and 64"));
        }
    }
    if let Some(credits) = &group.cpu_credits {
        errors.extend(FieldError::unsupported("spec.cpuCredits", credits, &["standard", "unlimited"]));
    }
    if let Some(lifetime) = &group.max_instance_lifetime
        && seconds(lifetime).is_none_or(|seconds| seconds != 0.0 && seconds < LIFETIME_SECONDS_MIN)
    {
        let path = format!("{name}.spec.maxInstanceLifetime");
        errors.push(FieldError::invalid(
            path,
            lifetime.as_str(),
            "it is a duration of a day at least, such as 24h",
        ));
    }
    errors
}

fn security_group_errors(groups: &[String]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, group) in groups.iter().enumerate() {
        let path = format!("spec.additionalSecurityGroups[{index}]");
        if !seen.insert(group) {
            errors.push(FieldError::duplicate(path.clone(), group));
        }
        if group.trim().is_empty() {
            errors.push(FieldError::invalid(path, group.as_str(), "it cannot be empty"));
        } else if !group.starts_with("sg-") {
            errors.push(FieldError::invalid(
                path,
                group.as_str(),
                "a security group is named by its id, sg-…",
            ));
        }
    }
    errors
}

/// Whether the machines of a comma list exist and can run the group's image. Blanks belong to the names.
fn machine_errors(
    (type_path, image_path): (&str, &str),
    list: &str,
    group: &InstanceGroup,
    answers: &Answers,
) -> Vec<FieldError> {
    // What the channel gives to groups of others is kOps' business.
    let is_named =
        !group.image().is_empty() || (group.manager == KARPENTER && answers.image_name(group).is_ok());
    let image = match image_of(group, answers) {
        Ok(image) => Some(image),
        Err(reason) if is_named => {
            return vec![FieldError::invalid(image_path, group.image.as_str(), reason)];
        }
        Err(_) => None,
    };
    let mut errors = Vec::new();
    for name in list.split(',') {
        let Some(machine) = answers.machine_types.get(name) else {
            let reason = format!("there is no machine type {name:?}");
            errors.push(FieldError::invalid(type_path, list, reason));
            continue;
        };
        let mismatch = |image: &&Image| !machine.architectures.contains(&image.architecture);
        if let Some(image) = image.filter(mismatch) {
            let reason = format!(
                "{name} has the architecture {}, the image {}: choose a pair that fits",
                machine.architectures.join(","),
                image.architecture
            );
            errors.push(FieldError::invalid(type_path, list, reason));
        }
    }
    errors
}

/// The image a group starts its machines from.
pub(crate) fn image_of<'a>(group: &InstanceGroup, answers: &'a Answers) -> Result<&'a Image, String> {
    let name = answers.image_name(group)?;
    match answers.images.get(&name) {
        Some(Ok(image)) => Ok(image),
        Some(Err(reason)) => Err(format!("image {name:?} cannot be used: {reason}")),
        None => Err(format!("nobody was asked about image {name:?}")),
    }
}

fn mixed_errors(policy: &MixedInstancesPolicy, group: &InstanceGroup, answers: &Answers) -> Vec<FieldError> {
    let path = "spec.mixedInstancesPolicy";
    let no_such_type = || {
        let reason = "a mixed instances policy needs machine types that exist, and exactly one here";
        FieldError::invalid("spec.machineType", group.machine_type.as_str(), reason)
    };
    let Some(main) = answers.machine_types.get(&group.machine_type) else {
        return vec![no_such_type()];
    };
    let mut errors = Vec::new();
    for (index, list) in policy.instances.iter().enumerate() {
        let entry = format!("{path}.instances[{index}]");
        if !list.is_empty() {
            errors.extend(machine_errors((&entry, &format!("{path}.image")), list, group, answers));
        }
        for name in list.split(',') {
            let Some(machine) = answers.machine_types.get(name) else {
                // kOps goes no further.
                errors.push(no_such_type());
                return errors;
            };
            if machine.has_gpu != main.has_gpu {
                let reason = "machines with and without GPUs cannot be mixed";
                errors.push(FieldError::forbidden(entry.clone(), reason));
            }
        }
    }
    let base = format!("{path}.onDemandBase");
    if let Some(value) = policy.on_demand_base {
        if value < 0 {
            errors.push(FieldError::invalid(base.clone(), value, "it cannot be negative"));
        }
        if value > i64::from(group.max_size.unwrap_or_default()) {
            let reason = "it is above maxSize, which is zero unless set";
            errors.push(FieldError::invalid(base, value, reason));
        }
    }
    if let Some(value) = policy.on_demand_above_base.filter(|value| !(0..=100).contains(value)) {
        let reason = "it is a percentage, between 0 and 100";
        errors.push(FieldError::invalid(format!("{path}.onDemandAboveBase"), value, reason));
    }
    if let Some(strategy) = &policy.spot_allocation_strategy {
        let path = format!("{path}.spotAllocationStrategy");
        errors.extend(FieldError::unsupported(path, strategy, SPOT_STRATEGIES));
    }
    errors
}

/// A duration as Go writes it, such as `1h30m` or `1.5h`.
fn seconds(duration: &str) -> Option<f64> {
    if duration == "0" {
        return Some(0.0);
    }
    let (negative, mut rest) = match duration.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, duration.strip_prefix('+').unwrap_or(duration)),
    };
    let mut total = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let count: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end =
            rest.find(|character: char| character.is_ascii_digit() || character == '.').unwrap_or(rest.len());
        total += count
            * match &rest[..end] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = &rest[end..];
    }
    Some(if negative { -total } else { total }.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_go_s() {
        for (text, expected) in [
            ("24h", Some(86_400.0)),
            ("1h30m", Some(5_400.0)),
            ("1.5h", Some(5_400.0)),
            ("0s", Some(0.0)),
            ("500ms", Some(0.0)),
            ("-1h", Some(-3_600.0)),
            ("1", None),
            ("", None),
            ("1d", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
