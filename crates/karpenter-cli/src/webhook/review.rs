//! One question of the API server, answered: always yes, with what lint finds as warnings.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::nodepool::NodeClassReference;
use karpenter_api::{LabelRules, NodePool, Provider};
use karpenter_core::catalog::{Catalog, InstanceType};
use karpenter_lint::{Facts, Finding, Severity, lint};
use karpenter_provider::NodeClassKind;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

/// How long the cluster may take to say whether a NodeClass exists; the API server waits as well.
const CLASS_LOOKED_FOR: Duration = Duration::from_secs(1);
/// Clients print warnings as they are; more than this many help nobody.
const WARNINGS: usize = 10;

/// Answers reviews.
pub(super) struct Reviewer {
    client: Client,
    provider: Provider,
    types: Arc<[Arc<InstanceType>]>,
    rules: LabelRules,
}

impl Reviewer {
    /// Judges pools against these machines.
    pub(super) fn new(
        client: Client,
        provider: Provider,
        types: Vec<Arc<InstanceType>>,
        labels: Vec<String>,
    ) -> Self {
        let rules = LabelRules::for_providers(&[provider]).with_well_known(labels);
        Self { client, provider, types: types.into(), rules }
    }

    /// The answer to an `AdmissionReview`.
    pub(super) async fn answer(&self, review: &Value) -> Value {
        let request = &review["request"];
        let mut findings = self.findings(request).await;
        findings.retain(|finding| finding.severity > Severity::Note);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let warnings: Vec<String> = findings.iter().take(WARNINGS).map(ToString::to_string).collect();
        let mut response = json!({ "uid": request["uid"], "allowed": true });
        if !warnings.is_empty() {
            response["warnings"] = json!(warnings);
        }
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
    }

    async fn findings(&self, request: &Value) -> Vec<Finding> {
        let object = &request["object"];
        match request.pointer("/kind/kind").and_then(Value::as_str) {
            Some("NodePool") => {
                // What cannot be read was not admitted by the definition, or is older than it: neither is ours to judge.
                let Ok(pool) = serde_json::from_value::<NodePool>(object.clone()) else { return Vec::new() };
                let classes = self.classes_of(&pool).await;
                self.judge(Some(&pool), classes, None)
            }
            Some("PodDisruptionBudget") => {
                let budget = serde_json::from_value::<PodDisruptionBudget>(object.clone());
                budget.map(|budget| self.judge(None, None, Some(&budget))).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    fn judge(
        &self,
        pool: Option<&NodePool>,
        node_classes: Option<BTreeSet<NodeClassReference>>,
        budget: Option<&PodDisruptionBudget>,
    ) -> Vec<Finding> {
        let names = pool.map(|pool| pool.metadata.name.as_deref().unwrap_or_default().into());
        lint(&Facts {
            now: Timestamp::now(),
            rules: &self.rules,
            node_pools: pool.into_iter().collect(),
            catalog: &Catalog::shared(names, Arc::clone(&self.types)),
            // Pools of other providers are none of our business.
            served: Vec::new(),
            node_classes,
            disruption_budgets: budget.into_iter().collect(),
            workloads: Vec::new(),
        })
    }

    /// The pool's NodeClass, if it exists; nothing if the cluster does not say, or if the kind is not ours.
    async fn classes_of(&self, pool: &NodePool) -> Option<BTreeSet<NodeClassReference>> {
        let named = &pool.spec.template.spec.node_class_ref;
        let ours = |served: &&NodeClassKind| named.kind == served.kind && named.group == served.group;
        let served = node_classes(self.provider).iter().find(ours)?;
        let group = GroupVersionKind::gvk(served.group, served.version, served.kind);
        let resource = ApiResource::from_gvk_with_plural(&group, served.plural);
        let classes: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let looked = tokio::time::timeout(CLASS_LOOKED_FOR, classes.get_opt(&named.name)).await;
        let found = looked.ok()?.ok()?;
        Some(found.map(|_| named.clone()).into_iter().collect())
    }
}

fn node_classes(provider: Provider) -> &'static [NodeClassKind] {
    match provider {
        Provider::Kwok => karpenter_kwok::NODE_CLASSES,
        Provider::Aws => karpenter_aws::NODE_CLASSES,
        Provider::AlibabaCloud => karpenter_alibabacloud::node_class::NODE_CLASSES,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use karpenter_apiserver::{ApiServer, Options};
    use kube::api::PostParams;
    use proptest::prelude::*;

    use super::*;
    use crate::lint::machines;

    /// The answer where the cluster knows nothing of Karpenter.
    fn answered(review: &Value) -> Value {
        answered_with(&[], Provider::Kwok, review)
    }

    /// The answer where a provider's definitions are served, and no object of them is there.
    fn answered_by(provider: Provider, review: &Value) -> Value {
        answered_with(&crate::crds::definitions(&[provider]), provider, review)
    }

    fn answered_with(definitions: &[CustomResourceDefinition], provider: Provider, review: &Value) -> Value {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::new(ApiServer::new(Options::default()), "default");
            for definition in definitions {
                Api::all(client.clone()).create(&PostParams::default(), definition).await.unwrap();
            }
            let (types, labels) = machines(None, Some(provider), "us-west-2").unwrap();
            Reviewer::new(client, provider, types, labels).answer(review).await
        })
    }

    #[test]
    fn a_pool_that_no_machine_suits_is_admitted_with_a_warning() {
        let arm = json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]});
        let amd = json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"]});
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        let pool = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {
            "nodeClassRef": class, "requirements": [arm, amd],
        }}}});
        let answer =
            answered(&json!({"request": {"uid": "7", "kind": {"kind": "NodePool"}, "object": pool}}));
        assert_eq!((&answer["response"]["uid"], &answer["response"]["allowed"]), (&json!("7"), &json!(true)));
        let warnings = answer["response"]["warnings"].to_string();
        assert!(warnings.contains("RequirementsUnsatisfiable"), "{warnings}");
        let budget = json!({"metadata": {"name": "a"}, "spec": {"maxUnavailable": 0}});
        let answer =
            answered(&json!({"request": {"kind": {"kind": "PodDisruptionBudget"}, "object": budget}}));
        assert!(answer["response"]["warnings"].to_string().contains("NeverDrains"), "{answer}");
    }

    #[test]
    fn pools_are_held_against_what_ec2_sells_in_the_region() {
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "missing"});
        let asked = |arch: &str| {
            let arch = json!({"key": "kubernetes.io/arch", "operator": "In", "values": [arch]});
            let known =
                json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]});
            let pool = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {
                "nodeClassRef": class, "requirements": [arch, known],
            }}}});
            let review = json!({"request": {"kind": {"kind": "NodePool"}, "object": pool}});
            answered_by(Provider::Aws, &review)["response"]["warnings"].to_string()
        };
        let impossible = asked("arm64");
        assert!(impossible.contains("RequirementsUnsatisfiable"), "{impossible}");
        assert!(impossible.contains("NodeClassMissing"), "{impossible}");
        assert!(!asked("amd64").contains("RequirementsUnsatisfiable"));
    }

    #[test]
    fn where_machines_are_not_known_the_rest_is_judged() {
        let class = json!({"group": "karpenter.alibabacloud.com", "kind": "ECSNodeClass", "name": "missing"});
        let pool = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {
            "nodeClassRef": class, "requirements": [],
        }}}});
        let review = json!({"request": {"kind": {"kind": "NodePool"}, "object": pool}});
        let warnings = answered_by(Provider::AlibabaCloud, &review)["response"]["warnings"].to_string();
        assert!(warnings.contains("NodeClassMissing"), "{warnings}");
        assert!(!warnings.contains("RequirementsUnsatisfiable"), "{warnings}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_question_is_answered_with_yes(kind in "NodePool|PodDisruptionBudget|[A-Z]{0,3}", text in ".{0,12}", number in any::<i64>()) {
            for object in [json!(text), json!({"spec": text}), json!({"spec": {"template": {"spec": {"requirements": [{"key": text, "operator": text, "values": [number]}]}}}}), json!({"spec": {"limits": {(text.clone()): number}, "maxUnavailable": number}})] {
                let answer = answered(&json!({"request": {"uid": text, "kind": {"kind": kind}, "object": object}}));
                prop_assert_eq!(&answer["response"]["allowed"], &json!(true));
            }
        }
    }
}
