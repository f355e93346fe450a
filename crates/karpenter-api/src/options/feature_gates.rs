//! Feature gates: their table, and the notation `Name=true,Other=false` in which they are set.

use super::value::parse_bool;

/// How settled a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off unless asked for; may change or go.
    Alpha,
    /// On unless refused; may change in details.
    Beta,
}

/// A feature that can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureGate {
    /// Repair of unhealthy nodes.
    NodeRepair,
    /// Launches into capacity reservations.
    ReservedCapacity,
    /// Replacement of spot nodes by cheaper spot nodes.
    SpotToSpotConsolidation,
    /// NodeOverlays.
    NodeOverlay,
    /// NodePools with a fixed number of nodes.
    StaticCapacity,
    /// CapacityBuffers.
    CapacityBuffer,
    /// Drift that ends a node before its replacement when there is no other way.
    TerminateFirstDrift,
    /// Repair that ends a node before its replacement when there is no other way.
    TerminateFirstRepair,
    /// Deletion costs written to pods.
    PodDeletionCostManagement,
}

/// One row of the table of gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGateSpec {
    /// The gate.
    pub gate: FeatureGate,
    /// Its name in `--feature-gates`.
    pub name: &'static str,
    /// Path of its value in the Helm chart.
    pub chart: &'static str,
    /// Whether it is on unless said otherwise.
    pub default: bool,
    /// How settled it is.
    pub stage: Stage,
    /// What switching it on does.
    pub help: &'static str,
}

const fn alpha(
    gate: FeatureGate,
    name: &'static str,
    chart: &'static str,
    help: &'static str,
) -> FeatureGateSpec {
    FeatureGateSpec { gate, name, chart, default: false, stage: Stage::Alpha, help }
}

/// Every gate, in the order in which the default of `--feature-gates` lists them.
pub const FEATURE_GATES: &[FeatureGateSpec] = &[
    alpha(
        FeatureGate::NodeRepair,
        "NodeRepair",
        "settings.featureGates.nodeRepair",
        "Repairs nodes whose conditions match a repair policy of the provider, within the disruption budgets.",
    ),
    FeatureGateSpec {
        gate: FeatureGate::ReservedCapacity,
        name: "ReservedCapacity",
        chart: "settings.featureGates.reservedCapacity",
        default: true,
        stage: Stage::Beta,
        help: "Launches into capacity reservations first, before spot and on-demand.",
    },
    alpha(
        FeatureGate::SpotToSpotConsolidation,
        "SpotToSpotConsolidation",
        "settings.featureGates.spotToSpotConsolidation",
        "Lets consolidation replace spot nodes by cheaper spot nodes.",
    ),
    alpha(
        FeatureGate::NodeOverlay,
        "NodeOverlay",
        "settings.featureGates.nodeOverlay",
        "Applies NodeOverlays: corrected prices and added capacity of instance types.",
    ),
    alpha(
        FeatureGate::StaticCapacity,
        "StaticCapacity",
        "settings.featureGates.staticCapacity",
        "Keeps the number of nodes that a NodePool asks for in replicas.",
    ),
    alpha(
        FeatureGate::CapacityBuffer,
        "CapacityBuffer",
        "settings.featureGates.capacityBuffer",
        "Keeps the room free that CapacityBuffers ask for.",
    ),
    alpha(
        FeatureGate::TerminateFirstDrift,
        "TerminateFirstDrift",
        "settings.featureGates.terminateFirstDrift",
        "Ends a drifted node before its replacement is up where both cannot exist at once, as with a full reservation or a static pool at its limit.",
    ),
    alpha(
        FeatureGate::TerminateFirstRepair,
        "TerminateFirstRepair",
        "settings.featureGates.terminateFirstRepair",
        "Does the same for an unhealthy node. Needs NodeRepair.",
    ),
    alpha(
        FeatureGate::PodDeletionCostManagement,
        "PodDeletionCostManagement",
        "settings.featureGates.podDeletionCostManagement",
        "Writes controller.kubernetes.io/pod-deletion-cost, so that ReplicaSets shrink on the nodes that are to go first.",
    ),
];

/// The default of `--feature-gates`; a test holds it to the table.
pub(super) const DEFAULTS: &str = "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false,TerminateFirstDrift=false,TerminateFirstRepair=false,PodDeletionCostManagement=false";

/// Why a list of gates cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// An entry has no equals sign.
    #[error("the entry {0:?} has no value; write Name=true or Name=false")]
    NoValue(String),
    /// The value of an entry is not a boolean.
    #[error("the gate {name:?} is set to {value:?}; set it to true or false")]
    NotBoolean {
        /// The gate.
        name: String,
        /// The value.
        value: String,
    },
}

/// Which gates are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates([bool; FEATURE_GATES.len()]);

impl Default for FeatureGates {
    fn default() -> Self {
        let mut gates = Self([false; FEATURE_GATES.len()]);
        for spec in FEATURE_GATES {
            gates.set(spec.gate, spec.default);
        }
        gates
    }
}

impl FeatureGates {
    /// Says whether a gate is on.
    pub fn is_on(&self, gate: FeatureGate) -> bool {
        self.0[gate as usize]
    }

    /// Switches a gate.
    pub fn set(&mut self, gate: FeatureGate, on: bool) {
        self.0[gate as usize] = on;
    }

    /// Reads a list of entries over the defaults; also returns the names no gate has, which change nothing.
    ///
    /// # Errors
    /// Returns the first entry that is not a name and a boolean.
    pub fn parse(text: &str) -> Result<(Self, Vec<String>), GateError> {
        let mut gates = Self::default();
        let mut unknown = Vec::new();
        for entry in text.split(',').filter(|entry| !entry.is_empty()) {
            let (name, value) = entry.split_once('=').ok_or_else(|| GateError::NoValue(entry.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let on = parse_bool(value)
                .ok_or_else(|| GateError::NotBoolean { name: name.to_owned(), value: value.to_owned() })?;
            match FEATURE_GATES.iter().find(|spec| spec.name == name) {
                Some(spec) => gates.set(spec.gate, on),
                None => unknown.push(name.to_owned()),
            }
        }
        Ok((gates, unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_text_lists_the_table() {
        let listed: Vec<String> =
            FEATURE_GATES.iter().map(|spec| format!("{}={}", spec.name, spec.default)).collect();
        assert_eq!(listed.join(","), DEFAULTS);
        assert_eq!(FeatureGates::parse(DEFAULTS).unwrap(), (FeatureGates::default(), Vec::new()));
    }

    #[test]
    fn every_gate_has_a_place_of_its_own() {
        for spec in FEATURE_GATES {
            let (gates, unknown) = FeatureGates::parse(&format!("{}={}", spec.name, !spec.default)).unwrap();
            assert!(unknown.is_empty());
            for other in FEATURE_GATES {
                assert_eq!(
                    gates.is_on(other.gate),
                    other.default != (other.gate == spec.gate),
                    "{}",
                    other.name
                );
            }
            assert_eq!(format!("{:?}", spec.gate), spec.name);
        }
    }

    #[test]
    fn entries_are_read_as_upstream_reads_them() {
        let (gates, unknown) =
            FeatureGates::parse(" NodeRepair = T ,,Warp=true,ReservedCapacity=0,NodeRepair=1").unwrap();
        assert!(gates.is_on(FeatureGate::NodeRepair));
        assert!(!gates.is_on(FeatureGate::ReservedCapacity));
        assert_eq!(unknown, ["Warp"]);
        assert_eq!(FeatureGates::parse("").unwrap().0, FeatureGates::default());
        assert_eq!(FeatureGates::parse("NodeRepair"), Err(GateError::NoValue("NodeRepair".to_owned())));
        assert!(matches!(FeatureGates::parse("NodeRepair=yes"), Err(GateError::NotBoolean { .. })));
    }
}
