//! The rules of groups whose manager is Karpenter.

use crate::cloud::ImageReference;
use crate::field_error::FieldError;
use crate::model::{Cluster, InstanceGroup, KARPENTER};

pub(super) fn errors(group: &InstanceGroup, cluster: &Cluster) -> Vec<FieldError> {
    if group.manager != KARPENTER {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if !cluster.is_aws() {
        errors.push(FieldError::forbidden("spec.manager", "Karpenter manages InstanceGroups only on AWS"));
    }
    if group.role != "Node" {
        let reason =
            "Karpenter manages only groups whose role is Node: leave the others to Auto Scaling groups";
        errors.push(FieldError::forbidden("spec.role", reason));
    }
    if let Some(max) = group.max_size.filter(|max| *max <= 0) {
        errors.push(FieldError::invalid(
            "spec.maxSize",
            max,
            "it has to be above zero, or absent for no limit",
        ));
    }
    errors.extend(image_error(group.image()));
    errors.extend(static_capacity_error(group, cluster));
    errors
}

fn image_error(image: &str) -> Option<FieldError> {
    let forms = "write ami-…, ssm:<parameter>, <name> or <owner>/<name>";
    if image.is_empty() {
        return None;
    }
    let reason = if image.contains("://") {
        forms
    } else {
        match ImageReference::parse(image) {
            ImageReference::SsmParameter("") => "the SSM parameter after ssm: is missing",
            ImageReference::Name { owner, name } if owner.is_empty() || name.is_empty() => forms,
            _ => return None,
        }
    };
    Some(FieldError::invalid("spec.image", image, reason))
}

fn static_capacity_error(group: &InstanceGroup, cluster: &Cluster) -> Option<FieldError> {
    let min = group.min_size?;
    if min <= 0 {
        let reason = "a number of nodes to keep has to be above zero; remove it to let Karpenter decide";
        Some(FieldError::invalid("spec.minSize", min, reason))
    } else if has_static_capacity(cluster) {
        None
    } else {
        let reason =
            "a fixed number of nodes needs StaticCapacity=true in cluster.spec.karpenter.featureGates";
        Some(FieldError::forbidden("spec.minSize", reason))
    }
}

/// Whether the cluster's feature gates allow pools of a fixed size. Gates that nobody touched do.
pub(crate) fn has_static_capacity(cluster: &Cluster) -> bool {
    let gates = cluster.karpenter.as_ref().map_or("", |karpenter| karpenter.feature_gates.as_str());
    let named = |gate: &str| {
        let (name, value) = gate.split_once('=')?;
        (name.trim() == "StaticCapacity").then(|| value.trim().eq_ignore_ascii_case("true"))
    };
    gates.is_empty() || gates.split(',').filter_map(named).next_back() == Some(true)
}
