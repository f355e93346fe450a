//! Says in every NodePool what lint finds in it: as the condition `LintPassed`, which is no part of `Ready`, and in an event.
//!
//! A pool with findings works as upstream's would; this only tells its author, who otherwise would find out from pods that stay pending.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use karpenter_api::condition::nodepool::{DEPENDENTS, LINT_PASSED};
use karpenter_api::{LabelRules, NodePool};
use karpenter_core::catalog::Catalog;
use karpenter_lint::{Facts, Finding, Severity, lint_pool};
use karpenter_provider::{CatalogError, InstanceTypes, NodeClassKind};
use karpenter_runtime::{Caches, Change, Controller, Effect, Key, Outcome, Request, View, Wakes, Watches};

use crate::assortment::Assortment;
use crate::conditions::Conditions;
use crate::events::{EventType, Events, shortened};
use crate::node_class::{NodeClasses, Readiness};
use crate::patches::difference;

/// The name under which changes of NodeClasses wake this controller.
pub(crate) const NAME: &str = "nodepool.lint";
/// What can be bought changes: how often pools are held against it anew.
const PERIOD: SignedDuration = SignedDuration::from_mins(30);
/// How soon it is asked again what can be bought, where the provider does not know yet.
const UNKNOWN_PERIOD: SignedDuration = SignedDuration::from_secs(10);
/// For how long a finding is not told again in an event.
const REPEATED: Duration = Duration::from_hours(6);

/// What was found in a pool, and of which version of it.
struct Judged {
    at: Timestamp,
    generation: Option<i64>,
    has_class: bool,
    /// Whether the pool was held against what can be bought.
    knew_machines: bool,
    findings: Vec<Finding>,
}

impl Judged {
    /// For how long the judgement stands.
    fn period(&self) -> SignedDuration {
        if self.knew_machines { PERIOD } else { UNKNOWN_PERIOD }
    }
}

/// The question what a pool may buy.
pub(crate) struct Purchasable(Arc<NodePool>);

impl Request for Purchasable {
    fn action(&self) -> Option<String> {
        None
    }
}

/// The controller that lints pools.
pub(crate) struct Lint {
    rules: LabelRules,
    served: &'static [NodeClassKind],
    node_classes: NodeClasses,
    judged: BTreeMap<Key, Judged>,
    events: Events,
}

impl Lint {
    /// A controller of the pools whose NodeClass is one of `served`.
    pub(crate) fn new(
        rules: LabelRules,
        served: &'static [NodeClassKind],
        node_classes: NodeClasses,
    ) -> Self {
        Self { rules, served, node_classes, judged: BTreeMap::new(), events: Events::default() }
    }

    fn has_class(&self, pool: &NodePool) -> bool {
        self.node_classes.readiness(&pool.spec.template.spec.node_class_ref) != Readiness::Missing
    }

    fn is_ours(&self, pool: &NodePool) -> bool {
        let class = &pool.spec.template.spec.node_class_ref;
        self.served.iter().any(|known| known.group == class.group && known.kind == class.kind)
    }

    /// What was found in this very version of the pool, unless that was long ago.
    fn fresh(&self, key: &Key, pool: &NodePool, now: Timestamp) -> Option<&Judged> {
        self.judged.get(key).filter(|judged| {
            judged.generation == pool.metadata.generation
                && judged.has_class == self.has_class(pool)
                && now.duration_since(judged.at) < judged.period()
        })
    }

    fn judge(&self, pool: &NodePool, types: Option<InstanceTypes>, now: Timestamp) -> Vec<Finding> {
        let name: Arc<str> = pool.metadata.name.as_deref().unwrap_or_default().into();
        let class = pool.spec.template.spec.node_class_ref.clone();
        let known: BTreeSet<_> = self.has_class(pool).then_some(class).into_iter().collect();
        let facts = Facts {
            now,
            rules: &self.rules,
            node_pools: Vec::new(),
            catalog: &Catalog { by_pool: types.map(|types| (name, types)).into_iter().collect() },
            served: self.served.iter().map(|class| (class.group, class.kind)).collect(),
            node_classes: Some(known),
            disruption_budgets: Vec::new(),
            workloads: Vec::new(),
        };
        let mut findings = lint_pool(&facts, pool);
        findings.retain(|finding| finding.severity > Severity::Note);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }
}

/// The pool with its condition.
fn noted(pool: &NodePool, findings: &[Finding], now: Timestamp) -> NodePool {
    let mut new = pool.clone();
    let list = new.status.get_or_insert_default().conditions.get_or_insert_default();
    let mut conditions = Conditions::new(list, DEPENDENTS, pool.metadata.generation, now);
    match findings.first() {
        None => conditions.set_true(LINT_PASSED),
        Some(worst) => conditions.set_false(LINT_PASSED, worst.code.name(), &message(findings)),
    }
    new
}

fn message(findings: &[Finding]) -> String {
    shortened(&findings.iter().map(ToString::to_string).collect::<Vec<_>>().join(". "))
}

impl Controller for Lint {
    type Request = Purchasable;
    type Reply = Result<InstanceTypes, CatalogError>;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads::<NodePool>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        let Some(delta) = change.of::<NodePool>() else { return };
        if delta.new.is_none() {
            self.judged.remove(change.key());
        } else {
            wakes.wake(change.key().clone());
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Outcome<Purchasable> {
        let Some(pool) = view.caches.of::<NodePool>().get(key) else { return Outcome::done() };
        if pool.metadata.deletion_timestamp.is_some() || !self.is_ours(pool) {
            return Outcome::done();
        }
        let Some(judged) = self.fresh(key, pool, view.now) else {
            return Outcome::done().then(Effect::Request(Purchasable(Arc::clone(pool))));
        };
        let findings = judged.findings.clone();
        // That nothing was found says little before the pool was held against what can be bought.
        let says = judged.knew_machines || !findings.is_empty();
        let update = says.then(|| difference(&**pool, &noted(pool, &findings, view.now))).flatten();
        let again = judged.period() - view.now.duration_since(judged.at);
        let again = Duration::try_from(again).unwrap_or_default();
        // Told once the condition stands, which wakes this pool again: a write that is refused takes what follows it along.
        let told = findings.first().filter(|_| says && update.is_none()).and_then(|worst| {
            let (reason, message) = (worst.code.name(), message(&findings));
            let (now, environment) = (view.now, view.environment);
            self.events.tell_every(REPEATED, &**pool, EventType::Warning, reason, &message, now, environment)
        });
        Outcome::after(again.max(Duration::from_secs(1))).then_all(update).then_all(told)
    }

    fn hear(&mut self, key: &Key, types: Self::Reply, view: &View<'_>) {
        let Some(pool) = view.caches.of::<NodePool>().get(key) else { return };
        let knew_machines = types.is_ok();
        // Without a list of machines the rest can still be judged.
        let findings = self.judge(pool, types.ok(), view.now);
        let (generation, has_class) = (pool.metadata.generation, self.has_class(pool));
        let judged = Judged { at: view.now, generation, has_class, knew_machines, findings };
        self.judged.insert(key.clone(), judged);
    }
}

/// Answers what a pool may buy.
pub(crate) fn handler(
    assortment: Assortment,
) -> impl Fn(Purchasable) -> BoxFuture<'static, Result<InstanceTypes, CatalogError>> + Send + 'static {
    move |Purchasable(pool)| {
        let assortment = assortment.clone();
        async move { assortment.of(pool).await }.boxed()
    }
}
