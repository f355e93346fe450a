//! Launches, finds and stops paper machines through the Kubernetes API.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::labels::{CAPACITY_TYPE, ZONE, kwok};
use karpenter_api::{GoDuration, LabelRules, NodeClaim, NodePool};
use karpenter_core::catalog::{InstanceType, Offering};
use karpenter_core::requirements::RequirementSet;
use karpenter_environment::Environment;
use karpenter_kube::resources::resource_list;
use karpenter_kube::selector::api_requirement;
use karpenter_provider::{
    CatalogError, Choice, HeededOverlays, InstanceTypes, LaunchError, Machine, NodeClassKind, OfferingKey,
    Overlays, Provider, ProviderError, RebootError, RepairAction, RepairPolicy, Termination, Unavailable,
    Warning, WarningKind, choices,
};
use karpenter_simcloud::Market;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::task::AbortHandle;

use crate::node::{machine, name, node};
use crate::{KWOKNodeClass, PROVIDER_ID_PREFIX};

/// How long an offering that the market refused is left alone at first, and at most.
const REFUSED_FIRST: SignedDuration = SignedDuration::from_mins(3);
const REFUSED_LONGEST: SignedDuration = SignedDuration::from_mins(30);
/// How often a Node is tried to be created, and how long the first wait between two tries is.
const BOOT_ATTEMPTS: u32 = 10;
const BOOT_RETRY: Duration = Duration::from_millis(100);

/// The NodeClasses of the provider.
pub const NODE_CLASSES: &[NodeClassKind] = &[NodeClassKind {
    group: kwok::GROUP,
    version: "v1alpha1",
    kind: "KWOKNodeClass",
    plural: "kwoknodeclasses",
}];

/// The KWOK provider. Clones share one state.
#[derive(Clone)]
pub struct Kwok {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    environment: Arc<dyn Environment>,
    market: Arc<dyn Market>,
    types: Vec<Listed>,
    rules: LabelRules,
    unavailable: Mutex<Unavailable>,
    /// Machines on their way, so that one that is stopped does not turn up afterwards.
    booting: Mutex<BTreeMap<String, (Machine, AbortHandle)>>,
    overlays: HeededOverlays,
}

/// An instance type as it is listed, and what its offerings are called. They are asked for at every look at the market.
struct Listed {
    instance_type: Arc<InstanceType>,
    keys: Vec<Option<OfferingKey>>,
}

impl Listed {
    fn new(instance_type: InstanceType) -> Self {
        let keys = instance_type
            .offerings
            .iter()
            .map(|offering| offering_key(&instance_type.name, offering))
            .collect();
        Self { instance_type: Arc::new(instance_type), keys }
    }
}

impl Kwok {
    /// A provider that sells `types`; `well_known` are labels of its offerings beyond the usual ones.
    pub fn new(
        client: Client,
        environment: Arc<dyn Environment>,
        market: Arc<dyn Market>,
        types: Vec<InstanceType>,
        well_known: Vec<String>,
    ) -> Self {
        let rules = LabelRules::for_providers(&[karpenter_api::Provider::Kwok]).with_well_known(well_known);
        let unavailable = Mutex::new(Unavailable::new(REFUSED_FIRST, REFUSED_LONGEST));
        let types = types.into_iter().map(Listed::new).collect();
        Self {
            shared: Arc::new(Shared {
                client,
                environment,
                market,
                types,
                rules,
                unavailable,
                booting: Mutex::default(),
                overlays: HeededOverlays::default(),
            }),
        }
    }

    /// Boots the machines that were launched before this process began and whose Nodes have not appeared yet.
    ///
    /// # Errors
    ///
    /// If claims and nodes cannot be listed.
    pub async fn resume(&self) -> Result<(), ProviderError> {
        let claims: Api<NodeClaim> = Api::all(self.shared.client.clone());
        let claims = claims.list(&ListParams::default()).await.map_err(|error| no_answer(&error))?;
        for claim in claims.items {
            let waiting = claim.status.as_ref().is_some_and(|status| {
                status.node_name.is_none()
                    && status.provider_id.as_deref().is_some_and(|id| id.starts_with(PROVIDER_ID_PREFIX))
            });
            if waiting && claim.metadata.deletion_timestamp.is_none() {
                // Launching is idempotent: the same claim is the same machine.
                if let Err(error) = self.shared.launch(&claim).await {
                    tracing::warn!(
                        "cannot boot the machine of NodeClaim {}: {error}",
                        claim.metadata.name.as_deref().unwrap_or_default()
                    );
                }
            }
        }
        Ok(())
    }
}

impl Shared {
    fn now(&self) -> Timestamp {
        self.environment.now()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The instance types at the prices and with the stock of `now`.
    fn instance_types(&self) -> InstanceTypes {
        let now = self.now();
        let unavailable = self.unavailable.lock().unwrap_or_else(PoisonError::into_inner);
        self.types
            .iter()
            .map(|Listed { instance_type, keys }| {
                let mut current = Arc::clone(instance_type);
                for (index, (offering, key)) in instance_type.offerings.iter().zip(keys).enumerate() {
                    let Some(key) = key else { continue };
                    let available = !unavailable.is_refused(key, now);
                    let price = self.market.price(key, offering.price, now);
                    // Most of the time everything is as listed, and nothing has to be copied.
                    if available != offering.available || price.total_cmp(&offering.price).is_ne() {
                        let changed = &mut Arc::make_mut(&mut current).offerings[index];
                        changed.available = available;
                        changed.price = price;
                    }
                }
                current
            })
            .collect()
    }

    async fn launch(self: &Arc<Self>, claim: &NodeClaim) -> Result<Machine, LaunchError> {
        let class = self.node_class(claim).await?;
        if let Some(existing) =
            self.nodes().get_opt(&name(claim)).await.map_err(|error| LaunchError::failed(describe(&error)))?
        {
            return Ok(machine(&existing));
        }
        if let Some((booting, _)) = self.booting().get(&name(claim)) {
            return Ok(booting.clone());
        }
        let delay =
            class.spec.node_registration_delay.as_ref().map_or(SignedDuration::ZERO, GoDuration::value);
        Ok(self.boot(self.buy(claim)?, Duration::try_from(delay).unwrap_or_default()))
    }

    async fn node_class(&self, claim: &NodeClaim) -> Result<KWOKNodeClass, LaunchError> {
        let classes: Api<KWOKNodeClass> = Api::all(self.client.clone());
        let name = &claim.spec.node_class_ref.name;
        let class = classes.get_opt(name).await.map_err(|error| LaunchError::failed(describe(&error)))?;
        let class = class
            .ok_or_else(|| LaunchError::InsufficientCapacity(format!("there is no KWOKNodeClass {name}")))?;
        let conditions = class.status.iter().flat_map(|status| status.conditions.iter().flatten());
        match conditions
            .into_iter()
            .find(|condition| condition.type_ == "Ready" && condition.status == "False")
        {
            Some(condition) => Err(LaunchError::NodeClassNotReady(condition.message.clone())),
            None => Ok(class),
        }
    }

    /// Buys the cheapest machine that can be had; chance decides between equal prices.
    fn buy(&self, claim: &NodeClaim) -> Result<Node, LaunchError> {
        let types = self.overlays.of(claim, self.instance_types());
        let wanted = requirements(claim, &self.rules).map_err(LaunchError::failed)?;
        let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let requests = resource_list(requests).map_err(|error| LaunchError::failed(error.to_string()))?;
        // What no type lists, every paper machine has.
        let listed = |name: &str| types.iter().any(|instance_type| instance_type.capacity.contains(name));
        let requests = requests.iter().filter(|(name, _)| listed(name)).collect();
        let mut left = choices(&types, &wanted, &requests);
        let mut refusals = Vec::new();
        while let Some(choice) = self.take_cheapest(&mut left) {
            let Some(key) = offering_key(&choice.instance_type.name, choice.offering) else { continue };
            let now = self.now();
            let mut unavailable = self.unavailable.lock().unwrap_or_else(PoisonError::into_inner);
            match self.market.buy(&key, &name(claim), now) {
                Ok(()) => {
                    unavailable.accept(&key);
                    return Ok(node(claim, &choice));
                }
                Err(reason) => {
                    refusals.push(format!(
                        "{} {} in {}: {reason}",
                        key.instance_type, key.capacity_type, key.zone
                    ));
                    unavailable.refuse(key, now);
                }
            }
        }
        Err(LaunchError::InsufficientCapacity(if refusals.is_empty() {
            "no offering in stock meets the claim's requirements".to_owned()
        } else {
            refusals.join("; ")
        }))
    }

    fn take_cheapest<'a>(&self, left: &mut Vec<Choice<'a>>) -> Option<Choice<'a>> {
        let price = left.first()?.offering.price;
        let equals = left.iter().take_while(|choice| choice.offering.price.total_cmp(&price).is_eq()).count();
        let pick = usize::try_from(self.environment.below(equals as u64)).unwrap_or_default();
        Some(left.remove(pick))
    }

    fn booting(&self) -> MutexGuard<'_, BTreeMap<String, (Machine, AbortHandle)>> {
        self.booting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn boot(self: &Arc<Self>, node: Node, delay: Duration) -> Machine {
        let launched = machine(&node);
        let name = node.metadata.name.clone().unwrap_or_default();
        let mut booting = self.booting();
        let shared = Arc::clone(self);
        let booted = name.clone();
        let boot = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            shared.join(&node).await;
            shared.booting().remove(&booted);
        });
        booting.insert(name, (launched.clone(), boot.abort_handle()));
        launched
    }

    /// Creates the Node of a machine that has booted.
    async fn join(&self, node: &Node) {
        for attempt in 0..BOOT_ATTEMPTS {
            match self.nodes().create(&PostParams::default(), node).await {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if status.code == 409 => return,
                Err(error) if attempt + 1 == BOOT_ATTEMPTS => {
                    let name = node.metadata.name.as_deref().unwrap_or_default();
                    tracing::error!("node {name} could not join the cluster: {}", describe(&error));
                }
                Err(_) => tokio::time::sleep(BOOT_RETRY * 2u32.pow(attempt)).await,
            }
        }
    }

    /// Takes down machines whose time is over, and returns those that have been warned.
    async fn warnings(&self) -> Result<Vec<Warning>, ProviderError> {
        let now = self.now();
        for name in self.market.taken_back(now) {
            if let Some((_, boot)) = self.booting().remove(&name) {
                boot.abort();
            }
            match self.nodes().delete(&name, &DeleteParams::background()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(no_answer(&error)),
            }
        }
        let warned = self.market.warned(now).into_iter();
        Ok(warned
            .map(|name| Warning::new(format!("{PROVIDER_ID_PREFIX}{name}"), WarningKind::SpotInterruption))
            .collect())
    }

    async fn terminate(&self, claim: &NodeClaim) -> Result<Termination, ProviderError> {
        let Some(name) =
            claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).and_then(node_of)
        else {
            return Ok(Termination::Gone);
        };
        if let Some((_, boot)) = self.booting().remove(name) {
            boot.abort();
        }
        self.market.give_back(name, self.now());
        // A machine that is stopped takes its Node along, unless something still holds on to the object.
        match self.nodes().delete(name, &DeleteParams::background()).await {
            Ok(_) => Ok(Termination::Gone),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Termination::Gone),
            Err(error) => Err(no_answer(&error)),
        }
    }

    async fn find(&self, provider_id: &str) -> Result<Option<Machine>, ProviderError> {
        let Some(name) = node_of(provider_id) else { return Ok(None) };
        let node = self.nodes().get_opt(name).await.map_err(|error| no_answer(&error))?;
        Ok(node.filter(|node| node.metadata.deletion_timestamp.is_none()).as_ref().map(machine))
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        let nodes = self.nodes().list(&ListParams::default()).await.map_err(|error| no_answer(&error))?;
        let ours = |node: &&Node| {
            node.spec
                .as_ref()
                .and_then(|spec| spec.provider_id.as_deref())
                .is_some_and(|id| id.starts_with(PROVIDER_ID_PREFIX))
        };
        Ok(nodes.items.iter().filter(ours).map(machine).collect())
    }

    async fn reboot(&self, claim: &NodeClaim, operation: &str) -> Result<(), RebootError> {
        let node = claim.status.as_ref().and_then(|status| status.node_name.as_deref());
        let node = node.ok_or_else(|| RebootError::Failed("the machine has no node yet".to_owned()))?;
        let patch = Patch::Merge(json!({"status": {"nodeInfo": {"bootID": format!("kwok-{operation}")}}}));
        match self.nodes().patch_status(node, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                Err(RebootError::Final(format!("there is no node {node}")))
            }
            Err(error) => Err(RebootError::Failed(describe(&error))),
        }
    }
}

impl Provider for Kwok {
    fn name(&self) -> &'static str {
        "kwok"
    }

    fn node_classes(&self) -> &'static [NodeClassKind] {
        NODE_CLASSES
    }

    fn label_rules(&self) -> LabelRules {
        self.shared.rules.clone()
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

    fn instance_types(&self, _: Arc<NodePool>) -> BoxFuture<'static, Result<InstanceTypes, CatalogError>> {
        futures::future::ready(Ok(self.shared.instance_types())).boxed()
    }

    fn drift(&self, _: Arc<NodeClaim>) -> BoxFuture<'static, Result<Option<String>, ProviderError>> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn reboot(
        &self,
        claim: Arc<NodeClaim>,
        operation: String,
    ) -> BoxFuture<'static, Result<(), RebootError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.reboot(&claim, &operation).await }.boxed()
    }

    fn heed_overlays(&self, overlays: Overlays) {
        self.shared.overlays.heed(overlays);
    }

    fn warns(&self) -> bool {
        self.shared.market.warns()
    }

    fn warnings(&self) -> BoxFuture<'static, Result<Vec<Warning>, ProviderError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.warnings().await }.boxed()
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        let policy = |condition, status, reason, toleration, grace, action| RepairPolicy {
            condition,
            status,
            reason,
            toleration,
            grace_period: Some(grace),
            priority: 0,
            action,
        };
        let (half_minute, ten_minutes) = (Duration::from_secs(30), Duration::from_mins(10));
        vec![
            policy("Ready", "False", None, ten_minutes, Duration::ZERO, RepairAction::ReplaceNode),
            policy("Ready", "Unknown", Some(".*"), ten_minutes, Duration::ZERO, RepairAction::ReplaceNode),
            policy(
                "KWOKUnhealthy",
                "True",
                Some(".*"),
                half_minute,
                Duration::from_secs(45),
                RepairAction::ReplaceNode,
            ),
            policy(
                "KWOKRebootRequired",
                "True",
                Some(".*"),
                half_minute,
                Duration::from_mins(1),
                RepairAction::RebootNode,
            ),
        ]
    }
}

fn requirements(claim: &NodeClaim, rules: &LabelRules) -> Result<RequirementSet, String> {
    let mut wanted = RequirementSet::default();
    for line in &claim.spec.requirements {
        wanted.require(&api_requirement(line, rules).map_err(|error| error.to_string())?);
    }
    Ok(wanted)
}

fn offering_key(instance_type: &Arc<str>, offering: &Offering) -> Option<OfferingKey> {
    let label = |key| offering.requirements.get(key).and_then(|set| set.single()).cloned();
    Some(OfferingKey {
        instance_type: instance_type.clone(),
        zone: label(ZONE)?,
        capacity_type: label(CAPACITY_TYPE)?,
    })
}

/// The node of a paper machine.
fn node_of(provider_id: &str) -> Option<&str> {
    provider_id.strip_prefix(PROVIDER_ID_PREFIX)
}

fn no_answer(error: &kube::Error) -> ProviderError {
    ProviderError(describe(error))
}

fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
