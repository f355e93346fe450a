//! Reads a list of instance types in upstream's form: `--instance-types-file-path`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::NodeSelectorRequirement;
use karpenter_api::LabelRules;
use karpenter_core::catalog::{InstanceType, Offering, Reservation};
use karpenter_core::requirements::RequirementSet;
use karpenter_kube::selector::requirement;
use karpenter_quantity::{Quantity, ResourceList};
use serde::Deserialize;
use thiserror::Error;

use crate::catalogue::{Description, describe};

const PODS: &str = "110";

/// The list cannot be used.
#[derive(Debug, Error)]
pub enum InstanceTypesFileError {
    /// It has not the form of a list of instance types.
    #[error(
        "the list of instance types cannot be read: {0}; expected a JSON list of objects with name, offerings, architecture, operatingSystems and resources"
    )]
    Form(#[from] serde_json::Error),
    /// Something in it makes no sense.
    #[error("instance type {name}: {problem}")]
    Content {
        /// The instance type.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    name: String,
    offerings: Vec<OfferingLine>,
    architecture: String,
    operating_systems: Vec<String>,
    resources: BTreeMap<String, String>,
}

/// Upstream writes these names with capitals; in lower case they are read too.
#[derive(Deserialize)]
struct OfferingLine {
    #[serde(alias = "price", rename = "Price")]
    price: f64,
    #[serde(alias = "reservationCapacity", rename = "ReservationCapacity", default)]
    reservation_capacity: u32,
    #[serde(alias = "requirements", rename = "Requirements")]
    requirements: Vec<NodeSelectorRequirement>,
}

/// Reads instance types. Every label that distinguishes offerings becomes well-known.
///
/// # Errors
///
/// A sentence that says what is wrong, and with which type.
pub fn read(text: &[u8]) -> Result<(Vec<InstanceType>, Vec<String>), InstanceTypesFileError> {
    let lines: Vec<Line> = serde_json::from_slice(text)?;
    let mut keys: Vec<String> = lines
        .iter()
        .flat_map(|line| &line.offerings)
        .flat_map(|offering| &offering.requirements)
        .map(|requirement| requirement.key.clone())
        .collect();
    keys.sort();
    keys.dedup();
    let rules = LabelRules::default();
    let types = lines.iter().map(|line| instance_type(line, &rules)).collect::<Result<_, _>>()?;
    Ok((types, keys))
}

fn instance_type(line: &Line, rules: &LabelRules) -> Result<InstanceType, InstanceTypesFileError> {
    let wrong = |problem: String| InstanceTypesFileError::Content { name: line.name.clone(), problem };
    let mut capacity: ResourceList =
        [("pods", PODS.parse::<Quantity>().expect("a constant"))].into_iter().collect();
    for (name, text) in &line.resources {
        capacity.insert(
            name,
            text.parse().map_err(|_| wrong(format!("resources.{name}: {text:?} is not a quantity")))?,
        );
    }
    let offerings = line
        .offerings
        .iter()
        .enumerate()
        .map(|(index, offering)| self::offering(&line.name, index, offering, rules).map_err(wrong))
        .collect::<Result<_, _>>()?;
    Ok(describe(Description {
        name: line.name.clone(),
        architecture: line.architecture.clone(),
        systems: line.operating_systems.clone(),
        capacity,
        offerings,
    }))
}

fn offering(name: &str, index: usize, line: &OfferingLine, rules: &LabelRules) -> Result<Offering, String> {
    let mut requirements = RequirementSet::default();
    for written in &line.requirements {
        let requirement = requirement(&written.key, &written.operator, written.values.as_deref(), rules)
            .map_err(|error| format!("offerings[{index}]: {error}"))?;
        requirements.require(&requirement);
    }
    // A reservation has no id of its own here; its offering stands for it.
    let reserved = (line.reservation_capacity > 0).then(|| Reservation {
        id: Arc::from(format!("{name}-{index}")),
        remaining: line.reservation_capacity,
    });
    Ok(Offering {
        requirements: requirements.into(),
        price: line.price,
        available: true,
        reservation: reserved,
        capacity_override: None,
        overhead_override: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_in_upstreams_form_is_read() {
        let text = json!([{
            "name": "m5.large", "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": "2", "memory": "8Gi"},
            "offerings": [{"Price": 0.1, "Available": false, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
                {"key": "example.com/rack", "operator": "In", "values": ["7"]},
            ]}],
        }]);
        let (types, keys) = read(text.to_string().as_bytes()).unwrap();
        assert_eq!(types[0].capacity.get("pods").to_string(), "110");
        assert!(types[0].offerings[0].available, "what is listed can be had");
        assert!(keys.contains(&"example.com/rack".to_owned()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = json!([{
            "name": "m5.large", "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": "two"}, "offerings": [],
        }]);
        let error = read(text.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "instance type m5.large: resources.cpu: \"two\" is not a quantity");
    }

    proptest::proptest! {
        #[test]
        fn every_file_is_read_or_refused(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64),
            name in ".{0,12}", cpu in ".{0,8}", key in ".{0,12}", operator in ".{0,6}", price in proptest::prelude::any::<f64>(),
        ) {
            let _ = read(&bytes);
            let line = json!([{
                "name": name, "architecture": name, "operatingSystems": [cpu], "resources": {"cpu": cpu, "pods": "1"},
                "offerings": [{"Price": price, "Requirements": [{"key": key, "operator": operator, "values": [name]}]}],
            }]);
            let _ = read(line.to_string().as_bytes());
        }
    }
}
