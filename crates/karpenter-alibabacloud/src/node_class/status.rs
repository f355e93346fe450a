//! The status of an ECSNodeClass: one shape for every group, of which each group's schema names the fields it publishes.

use k8s_openapi::api::core::v1::NodeSelectorRequirement;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use karpenter_api::labels::ARCH;
use serde::{Deserialize, Serialize};

use super::model::{Dialect, Image, Resolved, SecurityGroup, VSwitch};

/// What was found about an ECSNodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The vSwitches selected, those with most free addresses first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub v_switches: Vec<SelectedVSwitch>,
    /// The security groups selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<SelectedSecurityGroup>,
    /// The images selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<SelectedImage>,
    /// The RAM role in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram_role: Option<String>,
    /// The cluster machines join.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "clusterID")]
    pub cluster_id: Option<String>,
    /// Whether machines can be launched, for clients that read no conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Whether machines can be launched, and why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// A vSwitch that was selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectedVSwitch {
    /// Its id.
    pub id: String,
    /// Its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its zone, by the name other clients read.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "zoneID")]
    pub zone_id: Option<String>,
    /// Addresses that were free when it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "availableIPAddressCount")]
    pub available_ip_address_count: Option<i64>,
}

/// A security group that was selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectedSecurityGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An image that was selected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelectedImage {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The machines it runs on, in the cloud's spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The machines it runs on, as requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<NodeSelectorRequirement>,
}

impl Status {
    /// Takes over what was found, in the fields the dialect has.
    pub fn show(&mut self, dialect: Dialect, resolved: &Resolved) {
        self.v_switches = resolved.v_switches.iter().map(|found| v_switch(dialect, found)).collect();
        self.security_groups = resolved.security_groups.iter().map(security_group).collect();
        self.images = resolved.images.iter().map(|found| image(dialect, found)).collect();
        self.ram_role.clone_from(&resolved.ram_role);
        self.cluster_id = resolved.cluster.as_ref().map(|cluster| cluster.id.to_string());
    }
}

fn v_switch(dialect: Dialect, found: &VSwitch) -> SelectedVSwitch {
    let zone = found.zone.to_string();
    let full = dialect == Dialect::ContainerService;
    SelectedVSwitch {
        id: found.id.to_string(),
        zone: full.then(|| zone.clone()),
        zone_id: Some(zone),
        available_ip_address_count: full.then(|| i64::try_from(found.free_addresses).unwrap_or(i64::MAX)),
    }
}

fn security_group(found: &SecurityGroup) -> SelectedSecurityGroup {
    SelectedSecurityGroup { id: found.id.to_string(), name: found.name.clone() }
}

fn image(dialect: Dialect, found: &Image) -> SelectedImage {
    let plain =
        SelectedImage { id: found.id.to_string(), name: found.name.clone(), ..SelectedImage::default() };
    if dialect == Dialect::ContainerService {
        return SelectedImage { architecture: Some(found.architecture.ecs_name().to_owned()), ..plain };
    }
    let requirement = NodeSelectorRequirement {
        key: ARCH.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![found.architecture.label().to_owned()]),
    };
    SelectedImage { requirements: vec![requirement], ..plain }
}
