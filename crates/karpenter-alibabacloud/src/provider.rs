//! The provider: what Karpenter asks of a cloud, passed on to launches, instances, catalogue and interruption.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use karpenter_alibabacloud_client::ecs::{Instance, RebootInstance};
use karpenter_alibabacloud_client::{Client, Error};
use karpenter_api::nodepool::NodeClassReference;
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_core::catalog::InstanceType;
use karpenter_provider::{
    CatalogError, HeededOverlays, InstanceTypes, LaunchError, Machine, NodeClassKind, OfferingMetrics,
    Overlays, Provider, ProviderError, RebootError, RepairAction, RepairPolicy, Termination, Warning,
};
use karpenter_runtime::Runtime;
use prometheus_client::registry::Registry;

use crate::catalogue::{Catalogue, CatalogueOptions};
use crate::drift;
use crate::instances::Instances;
use crate::interruption::Interruption;
use crate::interruption::conditions::{ExpiredNodes, NodeConditions};
use crate::launch::Launcher;
use crate::machine;
use crate::market::{Market, Sales};
use crate::metrics::AlibabaCloudMetrics;
use crate::node_class::{ClassKey, Classes, NODE_CLASSES, ResolvedClass};
use crate::ownership;
use crate::refresh::{MarketRefresh, Refresh};
use crate::rights::Rights;
use crate::upkeep::{MemoryKeeper, Naming, NamingRequest};

/// What users set for the whole process.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The ACK cluster: `CLUSTER_ID`. Classes that name none join this one.
    pub cluster_id: Option<String>,
    /// The share of a machine's memory that never reaches its system: `VM_MEMORY_OVERHEAD_PERCENT`.
    pub memory_overhead: f64,
    /// Whether the cloud is asked for interruptions.
    pub interruption: bool,
    /// The message queue to which Cloud Monitor delivers events: `INTERRUPTION_QUEUE`.
    pub interruption_queue: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cluster_id: None, memory_overhead: 0.065, interruption: true, interruption_queue: None }
    }
}

/// The Alibaba Cloud provider. Clones share one state.
#[derive(Clone)]
pub struct AlibabaCloud {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    settings: Settings,
    classes: Classes,
    market: Market,
    rights: Rights,
    catalogue: Mutex<Catalogue>,
    instances: Arc<Instances>,
    launcher: Launcher,
    interruption: Interruption,
    nodes: ExpiredNodes,
    /// What launches of the same moment share.
    recent: Mutex<Option<Recent>>,
    overlays: HeededOverlays,
    metrics: AlibabaCloudMetrics,
    /// Restarts that were asked for.
    reboots: Mutex<BTreeSet<String>>,
}

/// The instance types of a class as a launch saw them. Launches leave out themselves what was refused since, so they may be a little old.
struct Recent {
    class: Arc<ResolvedClass>,
    sales: Arc<Sales>,
    seen: Timestamp,
    types: InstanceTypes,
}

/// How old they may be.
const RECENT: SignedDuration = SignedDuration::from_secs(5);

impl AlibabaCloud {
    /// A provider that speaks through `client`.
    pub fn new(client: Client, settings: Settings) -> Self {
        let (market, rights, nodes) = (Market::default(), Rights::default(), ExpiredNodes::default());
        let instances = Arc::new(Instances::new(client.clone()));
        let options =
            CatalogueOptions { region: client.region().into(), memory_overhead: settings.memory_overhead };
        let launcher =
            Launcher::new(client.clone(), market.clone(), Arc::clone(&instances), rules(), rights.clone());
        let interruption = Interruption::new(
            client.clone(),
            Arc::clone(&instances),
            market.clone(),
            rights.clone(),
            nodes.clone(),
        )
        .with_queue(settings.interruption_queue.as_deref());
        let shared = Shared {
            settings,
            classes: Classes::default(),
            market,
            rights,
            catalogue: Mutex::new(Catalogue::new(options)),
            instances,
            launcher,
            interruption,
            nodes,
            recent: Mutex::default(),
            overlays: HeededOverlays::default(),
            metrics: AlibabaCloudMetrics::default(),
            reboots: Mutex::default(),
            client,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Adds the controllers that are this provider's own. Karpenter's are added with `Karpenter::install_for`.
    pub fn install(&self, runtime: &mut Runtime) {
        let Shared { classes, settings, .. } = &*self.shared;
        crate::controllers::install(runtime, &self.refresh(), classes, settings.cluster_id.clone());
        runtime.add_with(MarketRefresh::default(), MarketRefresh::handler(self.refresh()));
        runtime.add(NodeConditions::new(self.shared.nodes.clone()));
        runtime.add(MemoryKeeper::new(self.shared.market.clone()));
        let (instances, rights) = (Arc::clone(&self.shared.instances), self.shared.rights.clone());
        runtime.add_with(Naming::new(self.shared.classes.clone()), move |request: NamingRequest| {
            request.perform(Arc::clone(&instances), rights.clone()).boxed()
        });
    }

    /// Brings the market up to date.
    pub fn refresh(&self) -> Refresh {
        let Shared { client, market, classes, rights, .. } = &*self.shared;
        Refresh::new(client.clone(), market.clone(), classes.clone(), rights.clone())
    }

    /// The classes as launches see them.
    pub fn classes(&self) -> &Classes {
        &self.shared.classes
    }

    /// What is sold and what was refused.
    pub fn market(&self) -> &Market {
        &self.shared.market
    }

    /// Which rights turned out to be missing.
    pub fn rights(&self) -> &Rights {
        &self.shared.rights
    }

    /// The client it speaks through.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// What users set.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}

fn rules() -> LabelRules {
    LabelRules::for_providers(&[karpenter_api::Provider::AlibabaCloud])
}

fn no_answer(error: &Error) -> ProviderError {
    ProviderError(error.to_string())
}

impl Shared {
    /// The clusters whose machines are ours.
    fn clusters(&self) -> Result<Vec<String>, ProviderError> {
        let of_classes = self.classes.all().into_iter().filter_map(|class| class.class.cluster.id.clone());
        let all: BTreeSet<String> = self.settings.cluster_id.clone().into_iter().chain(of_classes).collect();
        if all.is_empty() {
            // An empty list would look like machines that are gone.
            let message = "the cluster is not known: set CLUSTER_ID, or clusterID in the ECSNodeClass";
            return Err(ProviderError(message.to_owned()));
        }
        Ok(all.into_iter().collect())
    }

    fn class(&self, reference: &NodeClassReference) -> Result<Arc<ResolvedClass>, String> {
        let class = self.classes.get(reference).ok_or_else(|| {
            format!(
                "there is no {} {} of {}, or it has not been looked at yet",
                reference.kind, reference.name, reference.group
            )
        })?;
        match &class.not_ready {
            Some(reason) => Err(reason.clone()),
            None => Ok(class),
        }
    }

    fn types(&self, class: &ResolvedClass) -> InstanceTypes {
        let sales = self.market.sales();
        let now = self.client.environment().now();
        let mut catalogue = self.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        let refusals = self.market.refusals();
        catalogue.instance_types(class, &sales, &refusals, now)
    }

    fn recent_types(&self, class: &Arc<ResolvedClass>) -> InstanceTypes {
        let (now, sales) = (self.client.environment().now(), self.market.sales());
        let is_fresh = |recent: &&Recent| {
            Arc::ptr_eq(&recent.class, class)
                && Arc::ptr_eq(&recent.sales, &sales)
                && now.duration_since(recent.seen) < RECENT
        };
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recent) = recent.as_ref().filter(is_fresh) {
            return Arc::clone(&recent.types);
        }
        let types = self.types(class);
        *recent = Some(Recent { class: Arc::clone(class), sales, seen: now, types: Arc::clone(&types) });
        types
    }

    fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, CatalogError> {
        let class =
            self.class(&pool.spec.template.spec.node_class_ref).map_err(CatalogError::NodeClassNotReady)?;
        if self.market.sales().types.is_empty() {
            let lacking = self
                .rights
                .missing()
                .into_iter()
                .map(|(action, cost)| format!("{action} is missing: {cost}"));
            let lacking: Vec<String> = lacking.collect();
            let message = format!(
                "Alibaba Cloud has not said yet which instance types it sells. {}",
                lacking.join("; ")
            );
            return Err(CatalogError::Failed(message.trim_end().to_owned()));
        }
        Ok(self.types(&class))
    }

    async fn launch(&self, claim: &NodeClaim) -> Result<Machine, LaunchError> {
        let class = self.class(&claim.spec.node_class_ref).map_err(LaunchError::NodeClassNotReady)?;
        let cluster = class.class.cluster.id.clone().or_else(|| self.settings.cluster_id.clone());
        let cluster = cluster.ok_or_else(|| {
            let message =
                "no cluster to join: set CLUSTER_ID of the controller, or clusterID in the ECSNodeClass";
            LaunchError::NodeClassNotReady(message.to_owned())
        })?;
        let types = self.overlays.of(claim, self.recent_types(&class));
        self.launcher.launch(claim, &class, &cluster, &types).await
    }

    async fn terminate(&self, claim: &NodeClaim) -> Result<Termination, ProviderError> {
        let ended = self.end(claim).await?;
        if ended == Termination::Gone {
            self.launcher.forget(claim.metadata.uid.as_deref().unwrap_or_default());
        }
        Ok(ended)
    }

    async fn end(&self, claim: &NodeClaim) -> Result<Termination, ProviderError> {
        let clusters = self.clusters()?;
        // Garbage collection makes up a claim for a machine that has none; it has no uid.
        let orphan = claim.metadata.uid.is_none();
        let recorded = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let Some(recorded) = recorded.filter(|id| !id.is_empty()) else {
            return self.terminate_unrecorded(claim, &clusters).await;
        };
        let Some(id) = ownership::instance_id(recorded) else { return Ok(Termination::Gone) };
        self.instances.terminate(id, &clusters, orphan).await.map_err(ProviderError)
    }

    /// A launch may have succeeded without its answer being written down.
    async fn terminate_unrecorded(
        &self,
        claim: &NodeClaim,
        clusters: &[String],
    ) -> Result<Termination, ProviderError> {
        let Some(name) = claim.metadata.name.as_deref() else { return Ok(Termination::Gone) };
        let mut answer = Termination::Gone;
        for cluster in clusters {
            for instance in self.instances.of_claim(cluster, name).await.map_err(|error| no_answer(&error))? {
                let ended = self.instances.terminate(&instance.instance_id, clusters, false).await;
                if ended.map_err(ProviderError)? == Termination::Started {
                    answer = Termination::Started;
                }
            }
        }
        Ok(answer)
    }

    /// The machines behind descriptions. What their classes say now is not what they were launched with, so no hash is told.
    fn machines(&self, instances: &[Instance]) -> Vec<Machine> {
        let mut types: BTreeMap<ClassKey, BTreeMap<Arc<str>, Arc<InstanceType>>> = BTreeMap::new();
        let mut known = |instance: &Instance| {
            let (dialect, name) = ownership::class_of(instance)?;
            let key = ClassKey { dialect, name: name.into() };
            let of_class = types.entry(key).or_insert_with_key(|key| {
                let class = self.classes.by_key(key);
                let types = class.map(|class| self.recent_types(&class)).unwrap_or_default();
                types.iter().map(|known| (known.name.clone(), Arc::clone(known))).collect()
            });
            of_class.get(instance.instance_type.as_deref()?).cloned()
        };
        instances
            .iter()
            .map(|instance| {
                machine::of_instance(instance, self.client.region(), known(instance).as_deref(), None)
            })
            .collect()
    }

    async fn find(&self, provider_id: &str) -> Result<Option<Machine>, ProviderError> {
        let Some(id) = ownership::instance_id(provider_id) else { return Ok(None) };
        let found = self.instances.get(id).await.map_err(|error| no_answer(&error))?;
        Ok(found.and_then(|instance| self.machines(&[instance]).pop()))
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        let found = self.instances.list(&self.clusters()?).await.map_err(|error| no_answer(&error))?;
        Ok(self.machines(&found))
    }

    async fn drift(&self, claim: &NodeClaim) -> Result<Option<String>, ProviderError> {
        let Some(class) = self.classes.get(&claim.spec.node_class_ref) else { return Ok(None) };
        if class.not_ready.is_some() {
            return Ok(None);
        }
        if let Some(reason) = drift::reason(claim, &class, None) {
            return Ok(Some(reason.to_owned()));
        }
        let recorded = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let Some(id) = recorded.and_then(ownership::instance_id) else { return Ok(None) };
        let instance = self.instances.get(id).await.map_err(|error| no_answer(&error))?;
        Ok(instance.and_then(|instance| drift::reason(claim, &class, Some(&instance))).map(str::to_owned))
    }

    async fn reboot(&self, claim: &NodeClaim, operation: String) -> Result<(), RebootError> {
        let recorded = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let id = recorded.and_then(ownership::instance_id);
        let id = id.ok_or_else(|| RebootError::Final("the NodeClaim has no machine".to_owned()))?;
        if self.reboots.lock().unwrap_or_else(PoisonError::into_inner).contains(&operation) {
            return Ok(());
        }
        let asked = self.instances.reboot(id).await;
        self.rights.hear::<RebootInstance, _>(&asked, self.client.environment().now());
        match asked {
            Ok(()) => {
                self.reboots.lock().unwrap_or_else(PoisonError::into_inner).insert(operation);
                Ok(())
            }
            Err(error) if error.is_not_found() => {
                Err(RebootError::Final(format!("there is no machine {id}")))
            }
            Err(error) => Err(RebootError::Failed(error.to_string())),
        }
    }
}

impl Provider for AlibabaCloud {
    fn name(&self) -> &'static str {
        "alibabacloud"
    }

    fn node_classes(&self) -> &'static [NodeClassKind] {
        NODE_CLASSES
    }

    fn label_rules(&self) -> LabelRules {
        rules()
    }

    fn launch(&self, claim: Arc<NodeClaim>) -> BoxFuture<'static, Result<Machine, LaunchError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.launch(&claim).await }.boxed()
    }

    fn terminate(&self, claim: Arc<NodeClaim>) -> BoxFuture<'static, Result<Termination, ProviderError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.terminate(&claim).await }.boxed()
    }

    fn find(&self, provider_id: Arc<str>) -> BoxFuture<'static, Result<Option<Machine>, ProviderError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.find(&provider_id).await }.boxed()
    }

    fn list(&self) -> BoxFuture<'static, Result<Vec<Machine>, ProviderError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.list().await }.boxed()
    }

    fn instance_types(&self, pool: Arc<NodePool>) -> BoxFuture<'static, Result<InstanceTypes, CatalogError>> {
        futures::future::ready(self.shared.instance_types(&pool)).boxed()
    }

    fn drift(&self, claim: Arc<NodeClaim>) -> BoxFuture<'static, Result<Option<String>, ProviderError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.drift(&claim).await }.boxed()
    }

    fn reboot(
        &self,
        claim: Arc<NodeClaim>,
        operation: String,
    ) -> BoxFuture<'static, Result<(), RebootError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.reboot(&claim, operation).await }.boxed()
    }

    fn warns(&self) -> bool {
        self.shared.settings.interruption
    }

    fn warnings(&self) -> BoxFuture<'static, Result<Vec<Warning>, ProviderError>> {
        let shared = Arc::clone(&self.shared);
        async move {
            // Before a cluster is known there is nothing to warn of.
            let clusters = shared.clusters().unwrap_or_default();
            let warnings = shared.interruption.warnings(&clusters).await;
            shared.metrics.heard(&warnings);
            Ok(warnings)
        }
        .boxed()
    }

    fn heeded(&self, warnings: Vec<Warning>) -> BoxFuture<'static, Result<(), ProviderError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.interruption.heeded(warnings).await }.boxed()
    }

    fn register_metrics(&self, registry: &mut Registry) {
        self.shared.metrics.register(registry);
        let shared = Arc::clone(&self.shared);
        let sold = move || shared.classes.all().iter().map(|class| shared.types(class)).collect();
        registry.register_collector(Box::new(OfferingMetrics::new(sold, false)));
    }

    fn heed_overlays(&self, overlays: Overlays) {
        self.shared.overlays.heed(overlays);
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        let policy = |status, reason| RepairPolicy {
            condition: "Ready",
            status,
            reason,
            toleration: Duration::from_mins(30),
            grace_period: None,
            priority: 0,
            action: RepairAction::ReplaceNode,
        };
        // Exactly one policy covers what the others do not.
        vec![policy("False", None), policy("Unknown", Some(".*"))]
    }
}
