//! `NodePool`: what kind of nodes may be launched, how many, and how freely they may be replaced.
//!
//! The Rust types keep absent and empty apart, because both the hash of the template and the meaning of
//! budgets depend on it; [`NodePool::defaulted`] fills in what the API server would.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceSubresourceScale, JSONSchemaProps,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::crd::{CrdDocument, column};
use crate::label_rules::{KeyPlace, LabelRules};
use crate::requirement::{Requirement, RequirementList, open_enum, requirements_schema};
use crate::resource::ResourceList;
use crate::schema::{self, ConditionReason, SchemaExt};
use crate::{GoDuration, NillableDuration};

/// When nodes expire unless the template says otherwise.
pub const EXPIRE_AFTER_DEFAULT: &str = "720h";
/// How long a node must be quiet before consolidation unless the pool says otherwise.
pub const CONSOLIDATE_AFTER_DEFAULT: &str = "0s";
/// How many nodes a budget lets go at once unless it says otherwise.
pub const BUDGET_NODES_DEFAULT: &str = "10%";
/// The resource name under which `limits` bounds the number of nodes.
pub const NODES_RESOURCE: &str = "nodes";

crate::custom_resource! {
    /// A pool of nodes that Karpenter launches, keeps and replaces.
    NodePool, list "NodePoolList", group "karpenter.sh", version "v1",
    plural "nodepools", scope ClusterResourceScope, spec NodePoolSpec, status NodePoolStatus
}

/// What a NodePool asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    /// The shape of the NodeClaims made for this pool.
    pub template: NodeClaimTemplate,
    /// How nodes may be disrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,
    /// Resources the pool may not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
    /// Pools of higher weight are tried first; absent counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// A fixed number of nodes instead of as many as pods need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

/// The shape of the NodeClaims a pool makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeClaimTemplate {
    /// Labels and annotations for NodeClaims and nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Specification for NodeClaims.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations that a template hands on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Specification that a template hands on to NodeClaims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints the nodes keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    /// Taints the nodes start with and lose once they are set up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    /// Conditions on the labels of the nodes.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
    /// The provider's own configuration of the machines.
    #[serde(default)]
    pub node_class_ref: NodeClassReference,
    /// The longest time draining may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<GoDuration>,
    /// The age at which nodes are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<NillableDuration>,
}

/// Names an object of the provider that configures machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeClassReference {
    /// API group of the object.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
}

/// How the nodes of a pool may be disrupted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long a node must be free of pod changes before it may be consolidated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidate_after: Option<NillableDuration>,
    /// Which nodes may be consolidated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidation_policy: Option<ConsolidationPolicy>,
    /// How many nodes may be disrupted at once; absent means any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Vec<Budget>>,
}

open_enum! {
    /// Which nodes consolidation may touch.
    ConsolidationPolicy {
        /// Nodes without pods that would have to move.
        WhenEmpty = "WhenEmpty",
        /// Also nodes whose pods fit elsewhere, or on something cheaper.
        WhenEmptyOrUnderutilized = "WhenEmptyOrUnderutilized",
        /// As above, when the saving outweighs the disturbance.
        Balanced = "Balanced",
    }
}

open_enum! {
    /// Why a node is disrupted; budgets can be bound to reasons.
    DisruptionReason {
        /// Its pods fit elsewhere, or on something cheaper.
        Underutilized = "Underutilized",
        /// It has no pods that would have to move.
        Empty = "Empty",
        /// It no longer matches its pool.
        Drifted = "Drifted",
        /// It is broken.
        Unhealthy = "Unhealthy",
    }
}

/// A bound on how many nodes of a pool may be disrupted at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The reasons the budget applies to; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// A number of nodes or a percentage of the pool.
    #[serde(default = "budget_nodes_default")]
    pub nodes: String,
    /// When the budget opens, as a cron expression in UTC; absent means always open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How long the budget stays open after each opening.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<GoDuration>,
}

fn budget_nodes_default() -> String {
    BUDGET_NODES_DEFAULT.to_owned()
}

impl Default for Budget {
    fn default() -> Self {
        Self { reasons: None, nodes: budget_nodes_default(), schedule: None, duration: None }
    }
}

/// What was found about a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Capacity of the pool's nodes, by resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceList>,
    /// Number of the pool's nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// Generation of the NodeClass that registration health was judged for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Conditions; see [`crate::condition::nodepool`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

impl NodePool {
    /// Returns the pool with every absent field that has a default set to it, as the API server does.
    #[must_use]
    pub fn defaulted(mut self) -> Self {
        let disruption = self.spec.disruption.get_or_insert_default();
        disruption.consolidate_after.get_or_insert_with(consolidate_after_default);
        disruption.consolidation_policy.get_or_insert(ConsolidationPolicy::WhenEmptyOrUnderutilized);
        disruption.budgets.get_or_insert_with(|| vec![Budget::default()]);
        self.spec.template.spec.expire_after.get_or_insert_with(expire_after_default);
        if let Some(status) = &mut self.status {
            status.nodes.get_or_insert(0);
        }
        self
    }

    /// Says whether the pool keeps a fixed number of nodes.
    pub fn is_static(&self) -> bool {
        self.spec.replicas.is_some()
    }
}

fn consolidate_after_default() -> NillableDuration {
    NillableDuration::parse(CONSOLIDATE_AFTER_DEFAULT).expect("the default is a duration")
}

pub(crate) fn expire_after_default() -> NillableDuration {
    NillableDuration::parse(EXPIRE_AFTER_DEFAULT).expect("the default is a duration")
}

pub(crate) fn document(rules: &LabelRules) -> CrdDocument {
    CrdDocument {
        short_names: &[],
        category: "karpenter",
        columns: vec![
            column("NodeClass", "string", ".spec.template.spec.nodeClassRef.name", 0),
            column("Nodes", "string", ".status.nodes", 0),
            column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#, 0),
            column("Age", "date", ".metadata.creationTimestamp", 0),
            column("Weight", "integer", ".spec.weight", 1),
            column("CPU", "string", ".status.resources.cpu", 1),
            column("Memory", "string", ".status.resources.memory", 1),
        ],
        scale: Some(CustomResourceSubresourceScale {
            label_selector_path: None,
            spec_replicas_path: ".spec.replicas".to_owned(),
            status_replicas_path: ".status.nodes".to_owned(),
        }),
        schema: schema::root(
            "Describes a pool of nodes: which machines may be launched for it, up to which limits, and how its nodes may be replaced.",
            spec_schema(rules),
            status_schema(),
        ),
    }
}

fn spec_schema(rules: &LabelRules) -> JSONSchemaProps {
    schema::object(
        "What the pool may launch, how much of it, and how its nodes may be disrupted. Pods that wait for capacity narrow this further.",
        [
            ("template", template_schema(rules)),
            ("disruption", disruption_schema()),
            (
                "limits",
                schema::resource_list(
                    "Resources the nodes of this pool may have in total. The name nodes bounds their number; it is the only one allowed together with replicas.",
                ),
            ),
            (
                "weight",
                schema::integer(
                    "Preference among pools that could run the same pod: the highest weight is tried first, none counts as 0. Not allowed together with replicas.",
                    Some("int32"),
                )
                .range(1, 100),
            ),
            (
                "replicas",
                schema::integer(
                    "Alpha. Keeps this many nodes whether or not pods need them. Consolidation settings are then ignored, weight is not allowed, and limits may only name nodes.",
                    Some("int64"),
                )
                .at_least(0),
            ),
        ],
    )
    .require(&["template"])
    .rules([
        (
            "has(self.replicas) == has(oldSelf.replicas)",
            "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
        ),
        (
            "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))",
            "only 'limits.nodes' is supported on static NodePools",
        ),
        ("!has(self.replicas) || !has(self.weight)", "'weight' is not supported on static NodePools"),
    ])
}

fn template_schema(rules: &LabelRules) -> JSONSchemaProps {
    let metadata = schema::object(
        "Labels and annotations given to every NodeClaim and node of the pool.",
        [
            (
                "annotations",
                schema::map("Annotations for NodeClaims and nodes.", schema::plain_string())
                    .map_type("granular"),
            ),
            (
                "labels",
                schema::map(
                    "Labels for NodeClaims and nodes; pods can select nodes by them.",
                    schema::plain_string().max_length(63).pattern(schema::LABEL_VALUE),
                )
                .map_type("atomic")
                .max_properties(100)
                .rules(rules.cel_rules(KeyPlace::NodePoolLabels)),
            ),
        ],
    );
    let node_class_ref = node_class_ref_schema().rules([
        ("self.group == oldSelf.group", "nodeClassRef.group is immutable"),
        ("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"),
    ]);
    let spec = schema::object(
        "Specification of every NodeClaim of the pool. A change here makes existing nodes drift.",
        [
            ("taints", schema::taints("Taints that stay on the nodes; only pods that tolerate them are placed there.")),
            (
                "startupTaints",
                schema::taints(
                    "Taints that a new node carries until something, usually a DaemonSet, removes them. Pods need not tolerate them to get a node.",
                ),
            ),
            ("requirements", requirements_schema(RequirementList::Pool, rules)),
            ("nodeClassRef", node_class_ref),
            ("terminationGracePeriod", termination_grace_period_schema()),
            ("expireAfter", expire_after_schema()),
        ],
    )
    .require(&["nodeClassRef", "requirements"]);
    schema::object(
        "Template of the NodeClaims made for this pool; each is narrowed further to the pods it is made for.",
        [("metadata", metadata), ("spec", spec)],
    )
    .require(&["spec"])
}

pub(crate) fn node_class_ref_schema() -> JSONSchemaProps {
    schema::object(
        "The provider's object that configures the machines: images, networks, disks and the like.",
        [
            (
                "group",
                schema::string("API group of the object, without a version.")
                    .pattern("^[^/]*$")
                    .rules([("self != ''", "group may not be empty")]),
            ),
            ("kind", schema::string("Kind of the object.").rules([("self != ''", "kind may not be empty")])),
            ("name", schema::string("Name of the object.").rules([("self != ''", "name may not be empty")])),
        ],
    )
    .require(&["group", "kind", "name"])
}

pub(crate) fn termination_grace_period_schema() -> JSONSchemaProps {
    schema::string(
        "Longest time a node may take to drain once its deletion began. When it runs out, remaining pods are deleted even if a PodDisruptionBudget or the karpenter.sh/do-not-disrupt annotation protects them; pods are told early enough to use their own grace period. Without it draining waits for as long as it takes.",
    )
    .pattern(schema::DURATION)
}

pub(crate) fn expire_after_schema() -> JSONSchemaProps {
    schema::string("Age at which a node is replaced, counted from its creation, or Never.")
        .default_to(json!(EXPIRE_AFTER_DEFAULT))
        .pattern(schema::DURATION_OR_NEVER)
}

fn disruption_schema() -> JSONSchemaProps {
    schema::object(
        "How freely the nodes of this pool may be replaced.",
        [
            (
                "consolidateAfter",
                schema::string(
                    "How long no pod may have come or gone before a node is considered for consolidation, or Never. Ignored together with replicas.",
                )
                .default_to(json!(CONSOLIDATE_AFTER_DEFAULT))
                .pattern(schema::DURATION_OR_NEVER),
            ),
            (
                "consolidationPolicy",
                schema::string(
                    "Which nodes consolidation may remove: WhenEmpty only those without pods, WhenEmptyOrUnderutilized also those whose pods fit elsewhere or on cheaper nodes, Balanced the latter when the saving outweighs the disturbance. Ignored together with replicas.",
                )
                .default_to(json!(ConsolidationPolicy::WhenEmptyOrUnderutilized))
                .one_of(ConsolidationPolicy::WORDS),
            ),
            ("budgets", budgets_schema()),
        ],
    )
    .default_to(json!({"consolidateAfter": CONSOLIDATE_AFTER_DEFAULT}))
}

fn budgets_schema() -> JSONSchemaProps {
    let reason = schema::string("A reason for disruption.").one_of(DisruptionReason::WORDS);
    let budget = schema::object(
        "Bounds how many nodes of the pool may be on their way out at the same time.",
        [
            (
                "duration",
                schema::string("How long the budget stays open after each opening, in hours and minutes. Goes together with schedule.")
                    .pattern("^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"),
            ),
            (
                "nodes",
                schema::string("Most nodes that may be disrupted at once: a number, or a percentage of the pool rounded up. 0 blocks disruption.")
                    .default_to(json!(BUDGET_NODES_DEFAULT))
                    .pattern("^((100|[0-9]{1,2})%|[0-9]+)$"),
            ),
            (
                "reasons",
                schema::list("Reasons for disruption this budget applies to; all if left out.", reason)
                    .list_type("set")
                    .max_items(50),
            ),
            (
                "schedule",
                schema::string("When the budget opens, as a cron expression or a macro such as @daily, in UTC. Goes together with duration; without both the budget is always open.")
                    .pattern(r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"),
            ),
        ],
    )
    .require(&["nodes"]);
    schema::list("Budgets for disruption; of several that are open, the tightest counts.", budget)
        .default_to(json!([{"nodes": BUDGET_NODES_DEFAULT}]))
        .list_type("atomic")
        .max_items(50)
        .rules([(
            "self.all(x, has(x.schedule) == has(x.duration))",
            "'schedule' must be set with 'duration'",
        )])
}

fn status_schema() -> JSONSchemaProps {
    schema::object(
        "What was last observed about the pool.",
        [
            (
                "conditions",
                schema::conditions("Whether the pool is usable, and why not.", ConditionReason::Required),
            ),
            (
                "nodeClassObservedGeneration",
                schema::integer(
                    "Generation of the NodeClass for which registration health was judged; a newer generation is judged afresh.",
                    Some("int64"),
                ),
            ),
            ("nodes", schema::integer("Number of nodes of the pool.", Some("int64")).default_to(json!(0))),
            ("resources", schema::resource_list("Total capacity of the pool's nodes.")),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_filled_in_as_the_api_server_does() {
        let minimal = json!({"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}
        }}});
        let pool = NodePool { spec: serde_json::from_value(minimal).unwrap(), ..NodePool::default() };
        let spec = serde_json::to_value(pool.defaulted().spec).unwrap();
        assert_eq!(
            spec["disruption"],
            json!({
                "consolidateAfter": "0s",
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "budgets": [{"nodes": "10%"}]
            })
        );
        assert_eq!(spec["template"]["spec"]["expireAfter"], "720h");
    }

    #[test]
    fn what_is_set_is_not_defaulted() {
        let mut pool = NodePool::default();
        pool.spec.disruption = Some(Disruption { budgets: Some(Vec::new()), ..Disruption::default() });
        pool.spec.template.spec.expire_after = Some(NillableDuration::Never);
        let pool = pool.defaulted();
        assert_eq!(pool.spec.disruption.unwrap().budgets, Some(Vec::new()));
        assert_eq!(pool.spec.template.spec.expire_after, Some(NillableDuration::Never));
    }
}
