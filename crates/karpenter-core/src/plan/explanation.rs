//! Why a pod got no place: one structured reason per NodePool, rendered as a sentence a person can act on.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Why a pod was not considered at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ignored(pub String);

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a pod has no place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unschedulable {
    /// What stands in the way for every pool alike, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Obstacle>,
    /// What stands in the way, pool by pool, in the order the pools were tried.
    pub node_pools: Vec<PoolObstacle>,
}

/// What stands in the way in one NodePool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolObstacle {
    /// The pool.
    pub node_pool: Arc<str>,
    /// What stands in the way.
    #[serde(flatten)]
    pub obstacle: Obstacle,
}

/// One thing that stands in the way of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Obstacle {
    /// There is no NodePool to create nodes from.
    NoNodePools,
    /// Dynamic resource claims are refused by configuration.
    DynamicResources,
    /// The pod's own conditions contradict each other.
    Contradiction {
        /// On this label.
        key: Arc<str>,
    },
    /// A taint of the pool is not tolerated.
    Taint {
        /// `key=value:effect`.
        taint: String,
    },
    /// The pod requires something the pool's own requirements and labels rule out.
    Requirement {
        /// The label.
        key: Arc<str>,
        /// What the pod asks.
        wanted: String,
        /// What the pool has, if it says anything about the label.
        #[serde(skip_serializing_if = "Option::is_none")]
        offered: Option<String>,
        /// A key the user may have meant.
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<Arc<str>>,
    },
    /// A volume of the pod can only be attached elsewhere.
    Volume {
        /// The label that says where.
        key: Arc<str>,
    },
    /// A spread, affinity or anti-affinity rule leaves no domain.
    Topology {
        /// `spread`, `affinity` or `anti-affinity`.
        rule: &'static str,
        /// The topology key.
        key: Arc<str>,
        /// Domains and the number of pods that count there, at most 25.
        domains: Vec<(Arc<str>, u32)>,
    },
    /// No instance type is left.
    InstanceTypes {
        /// Types of the pool.
        total: usize,
        /// Removed because their labels do not satisfy the pod.
        removed_by_requirements: usize,
        /// Of the rest, removed because nothing in stock satisfies zone and capacity type.
        removed_by_offerings: usize,
        /// Of the rest, removed because they are too small.
        removed_by_resources: usize,
        /// The resource that removes most types, with the request and the largest amount available.
        #[serde(skip_serializing_if = "Option::is_none")]
        scarcest: Option<Scarcity>,
    },
    /// Too few distinct values are left for `minValues`.
    MinValues {
        /// The label.
        key: Arc<str>,
        /// What the pool demands.
        wanted: u32,
        /// What is left.
        found: u32,
    },
    /// The pool's limit is used up.
    Limit {
        /// The limited resource.
        resource: String,
        /// The limit.
        limit: String,
        /// What is left of it.
        remaining: String,
    },
    /// The host ports of the pod are taken by DaemonSets.
    HostPort,
    /// More volumes than any instance type can attach.
    VolumeLimit,
    /// Reserved capacity would fit, but all of it is taken; the pod waits for the next round.
    Reserved,
    /// A node could be made, but the pods it has to run beside (or apart from) leave no room for it.
    NoRoomBesidePeers,
}

/// A resource of which too little can be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scarcity {
    /// Its name.
    pub resource: String,
    /// What the pod and the DaemonSets ask.
    pub requested: String,
    /// The most any type of the pool has.
    pub largest: String,
}

impl fmt::Display for Unschedulable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cause) = &self.cause {
            return write!(f, "{cause}");
        }
        for (index, pool) in self.node_pools.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}nodepool {}: {}", pool.node_pool, pool.obstacle)?;
        }
        Ok(())
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodePools => write!(
                f,
                "there is no ready NodePool to create nodes from: create one, or look at the Ready condition of those you have"
            ),
            Self::DynamicResources => write!(
                f,
                "the pod uses dynamic resource claims, which are ignored: set --ignore-dra-requests=false"
            ),
            Self::Contradiction { key } => {
                write!(f, "the pod's own node selector and node affinity contradict each other on {key}")
            }
            Self::Taint { taint } => write!(f, "taint {taint} is not tolerated: add a toleration to the pod"),
            Self::Requirement { key, wanted, offered, hint } => {
                display_requirement(f, key, wanted, offered.as_deref(), hint.as_deref())
            }
            Self::Volume { key } => write!(
                f,
                "a volume of the pod can only be attached where the pool has no nodes (label {key})"
            ),
            Self::Topology { rule, key, domains } => display_topology(f, rule, key, domains),
            Self::InstanceTypes { .. } => self.display_instance_types(f),
            Self::MinValues { key, wanted, found } => write!(
                f,
                "minValues asks for {wanted} different values of {key}, but the types that fit have {found}"
            ),
            Self::Limit { resource, limit, remaining } => write!(
                f,
                "the pool's limit of {limit} {resource} leaves {remaining}, less than any type that fits needs: raise spec.limits"
            ),
            Self::HostPort => write!(f, "a DaemonSet takes a host port of the pod on every type that fits"),
            Self::VolumeLimit => write!(f, "the pod mounts more volumes than any type that fits can attach"),
            Self::Reserved => write!(f, "only reserved capacity fits and all of it is taken for now"),
            Self::NoRoomBesidePeers => write!(
                f,
                "the nodes that hold the pods it must run with have no room, and no type is large enough for all of them"
            ),
        }
    }
}

fn display_requirement(
    f: &mut fmt::Formatter<'_>,
    key: &str,
    wanted: &str,
    offered: Option<&str>,
    hint: Option<&str>,
) -> fmt::Result {
    match offered {
        Some(offered) => write!(f, "the pod asks for {wanted}, but the pool has {offered}")?,
        None => write!(f, "the pod asks for {wanted}, but the pool does not define the label {key}")?,
    }
    hint.map_or(Ok(()), |hint| write!(f, " (did you mean {hint}?)"))
}

fn display_topology(
    f: &mut fmt::Formatter<'_>,
    rule: &str,
    key: &str,
    domains: &[(Arc<str>, u32)],
) -> fmt::Result {
    write!(f, "its {rule} rule on {key} leaves no place")?;
    let counts: Vec<String> = domains.iter().map(|(domain, count)| format!("{domain}: {count}")).collect();
    if counts.is_empty() { Ok(()) } else { write!(f, " (pods counted: {})", counts.join(", ")) }
}

impl Obstacle {
    fn display_instance_types(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::InstanceTypes {
            total,
            removed_by_requirements,
            removed_by_offerings,
            removed_by_resources,
            scarcest,
        } = self
        else {
            return Ok(());
        };
        if *total == 0 {
            return write!(f, "the pool has no instance types");
        }
        write!(f, "none of its {total} instance types fits: ")?;
        let mut parts = Vec::new();
        if *removed_by_requirements > 0 {
            parts.push(
                counted(*removed_by_requirements, "does not match", "do not match") + " the required labels",
            );
        }
        if *removed_by_offerings > 0 {
            parts.push(
                counted(*removed_by_offerings, "is", "are")
                    + " not in stock in the required zone and capacity type (allow others, or wait)",
            );
        }
        if *removed_by_resources > 0 {
            let small = counted(*removed_by_resources, "is too small", "are too small");
            parts.push(match scarcest {
                Some(Scarcity { resource, requested, largest }) => {
                    format!(
                        "{small} ({requested} {resource} needed with DaemonSets, the largest has {largest})"
                    )
                }
                None => format!("{small} in one resource or another"),
            });
        }
        f.write_str(&parts.join(", "))
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
