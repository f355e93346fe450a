//! The provider: what the contract asks, answered by the parts that know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use karpenter_api::condition::READY;
use karpenter_api::labels::aws::{
    CAPACITY_RESERVATION_ID, CAPACITY_RESERVATION_INTERRUPTIBLE, CAPACITY_RESERVATION_TYPE, GROUP,
    INSTANCE_TENANCY, NODE_CLASS, PLACEMENT_GROUP_ID, PLACEMENT_GROUP_PARTITION,
};
use karpenter_api::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use karpenter_api::options::{AwsOptions, FeatureGate, FeatureGates};
use karpenter_api::resource::ResourceList;
use karpenter_api::{LabelRules, NodeClaim, NodePool};
use karpenter_aws_bootstrap::Cluster;
use karpenter_aws_bootstrap::kubelet::TypeFacts;
use karpenter_aws_catalogue::{ControllerSettings, Expressions};
use karpenter_aws_client::{Client, Error};
use karpenter_core::requirements::RequirementSet;
use karpenter_environment::Environment;
use karpenter_provider::{
    CatalogError, InstanceTypes, LaunchError, Machine, NodeClassKind, NodeClassObject, OfferingMetrics,
    Overlays, Provider, ProviderError, RebootError, RepairPolicy, Termination, Warning, WarningKind,
};
use karpenter_runtime::Runtime;
use prometheus_client::registry::Registry;

use crate::account::Account;
use crate::book::{Book, BookKeeper};
use crate::catalogue::{Catalogue, Formulas};
use crate::drift::drift;
use crate::instances::{Instances, machine};
use crate::interruption::Interruptions;
use crate::launch::plan::Surroundings;
use crate::launch::refused::{Refusable, Refusals};
use crate::launch::{Launch, Launcher};
use crate::metrics::AwsMetrics;
use crate::names::{CLASS_HASH, CLASS_HASH_VERSION, INSTANCE_PROFILE, instance_of, provider_id, zone_of};
use crate::node_class::{
    ClassControllers, EC2NodeClass, HASH_VERSION, Launches, ResolvedClass, ResolvedClasses, Trial,
    TrialError, TrialTemplate, VersionSource,
};
use crate::upkeep::{
    self, AGAIN, Expirations, Fallbacks, Look, MemoryKeeper, PartitionQuestion, Partitions, Periodic,
    Tagging, TaggingRequest, Work, ZonalShifts, Zones, awaits_partition,
};

karpenter_runtime::kinds!(EC2NodeClass);

impl NodeClassObject for EC2NodeClass {
    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
    }
}

/// The NodeClasses of the provider.
pub const NODE_CLASSES: &[NodeClassKind] =
    &[NodeClassKind { group: GROUP, version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" }];

const TWICE_A_DAY: Duration = Duration::from_hours(12);
const CLEAN_UP: Duration = Duration::from_mins(1);

/// How the provider is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its options.
    pub options: AwsOptions,
    /// Gates of the controller.
    pub gates: FeatureGates,
    /// Whether launches go on when `minValues` cannot be had.
    pub min_values_best_effort: bool,
    /// The cluster that machines join.
    pub cluster: Cluster,
    /// The cluster's ARN, for zonal shifts.
    pub cluster_arn: Option<String>,
}

/// The AWS provider. Clones share one state.
#[derive(Clone)]
pub struct Aws {
    shared: Arc<Shared>,
}

struct Shared {
    client: kube::Client,
    account: Account,
    environment: Arc<dyn Environment>,
    settings: Settings,
    classes: ResolvedClasses,
    book: Book,
    catalogue: Catalogue,
    instances: Instances,
    interruptions: Interruptions,
    launcher: Launcher,
    metrics: AwsMetrics,
    refusals: Refusals,
    rules: LabelRules,
}

impl Aws {
    /// A provider that knows no instance types yet; see [`Self::learn_types`].
    pub fn new(
        client: kube::Client,
        aws: Client,
        settings: Settings,
        environment: Arc<dyn Environment>,
    ) -> Self {
        let (metrics, refusals, book) = (AwsMetrics::default(), Refusals::default(), Book::default());
        aws.measure_with(Arc::new(metrics.clone()));
        let account = Account::new(aws);
        let options = &settings.options;
        let cluster = settings.cluster.name.clone();
        let controller = ControllerSettings {
            vm_memory_overhead_percent: options.vm_memory_overhead_percent,
            reserved_enis: u32::try_from(options.reserved_enis).unwrap_or_default(),
        };
        let formulas = options.aws_feature_gates.node_class_cel;
        let catalogue = Catalogue::new(account.region(), controller, formulas, refusals.clone());
        let instances = Instances::new(account.clone(), cluster, &metrics);
        let rules = LabelRules::for_providers(&[karpenter_api::Provider::Aws]);
        let surroundings = Surroundings {
            cluster: settings.cluster.clone(),
            rules: rules.clone(),
            controller,
            formulas: formulas.then(|| Arc::new(Formulas) as Arc<dyn Expressions>),
            reserves: settings.gates.is_on(FeatureGate::ReservedCapacity),
            min_values_best_effort: settings.min_values_best_effort,
        };
        let launcher = Launcher::new(
            account.clone(),
            catalogue.clone(),
            instances.clone(),
            (metrics.clone(), refusals.clone()),
            surroundings,
        );
        let interruptions = Interruptions::new(
            account.clone(),
            book.clone(),
            metrics.clone(),
            &options.interruption_queue,
            options.replace_on_rebalance,
        );
        let shared = Shared {
            client,
            account,
            environment,
            settings,
            classes: ResolvedClasses::default(),
            book,
            catalogue,
            instances,
            interruptions,
            launcher,
            metrics,
            refusals,
            rules,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Where the controller of EC2NodeClasses puts what their selectors found.
    pub fn classes(&self) -> &ResolvedClasses {
        &self.shared.classes
    }

    /// The account, with its rates.
    pub fn account(&self) -> &Account {
        &self.shared.account
    }

    /// How it was set up.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Asks EC2 what the region sells. Nothing can be launched before this has succeeded once.
    ///
    /// # Errors
    /// What EC2 says.
    pub async fn learn_types(&self) -> Result<(), Error> {
        self.shared.learn_types().await
    }

    /// Adds the provider's own controllers, those of EC2NodeClasses included.
    pub fn install(&self, runtime: &mut Runtime) {
        let shared = &self.shared;
        self.class_controllers().install(runtime, &shared.environment);
        runtime.add(BookKeeper { book: shared.book.clone() });
        runtime.add(MemoryKeeper { catalogue: shared.catalogue.clone(), classes: shared.classes.clone() });
        self.every(runtime, Periodic::new("providers.instancetype", TWICE_A_DAY, None).later(), |shared| {
            async move { shared.learn_types().await.map_err(|error| error.to_string()) }.boxed()
        });
        self.every(runtime, Periodic::new("providers.pricing", TWICE_A_DAY, None), |shared| {
            async move { shared.learn_prices().await }.boxed()
        });
        let clean_up =
            Periodic::new("launchtemplates", CLEAN_UP, Some("delete launch templates that nobody uses"));
        self.every(runtime, clean_up, |shared| async move { shared.clean_up().await }.boxed());
        if shared.settings.options.enable_zonal_shift {
            let looks = Arc::clone(shared);
            runtime.add_with(ZonalShifts::default(), move |_: Look| {
                let shared = Arc::clone(&looks);
                async move { shared.learn_shifts().await }.boxed()
            });
        }
        let tags = Arc::clone(shared);
        let tag = move |request: TaggingRequest| {
            let shared = Arc::clone(&tags);
            async move { shared.tag(request).await }.boxed()
        };
        runtime.add_with(Tagging::new(shared.settings.cluster.name.clone()), tag);
        let instances = shared.instances.clone();
        runtime.add_with(Partitions::new(shared.classes.clone()), move |question: PartitionQuestion| {
            question.perform(instances.clone()).boxed()
        });
        if shared.reserves() {
            runtime.add(Expirations { classes: shared.classes.clone() });
            runtime.add(Fallbacks { instances: shared.instances.clone() });
        }
    }

    fn class_controllers(&self) -> ClassControllers {
        let shared = &self.shared;
        let Settings { options, cluster, .. } = &shared.settings;
        let duration = |chosen| Duration::try_from(chosen).unwrap_or_default();
        ClassControllers {
            account: shared.account.clone(),
            cluster: cluster.name.clone(),
            ca_bundle: cluster.ca_bundle.clone(),
            reserved_capacity: shared.reserves(),
            formulas: options.aws_feature_gates.node_class_cel,
            dry_run: !options.disable_dry_run,
            isolated_vpc: options.isolated_vpc,
            subnet_refresh: duration(options.subnet_refresh_interval),
            ami_refresh: duration(options.ami_refresh_interval),
            version: if options.eks_control_plane {
                VersionSource::Eks(cluster.name.clone())
            } else {
                VersionSource::ApiServer(shared.client.clone())
            },
            resolved: shared.classes.clone(),
            launches: Arc::new(self.clone()),
        }
    }

    fn every(
        &self,
        runtime: &mut Runtime,
        periodic: Periodic,
        work: impl Fn(Arc<Shared>) -> BoxFuture<'static, Result<(), String>> + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        runtime.add_with(periodic, move |_: Work| work(Arc::clone(&shared)));
    }
}

impl Shared {
    fn now(&self) -> Timestamp {
        self.environment.now()
    }

    fn reserves(&self) -> bool {
        self.settings.gates.is_on(FeatureGate::ReservedCapacity)
    }

    async fn learn_types(&self) -> Result<(), Error> {
        let (types, offerings) = futures::future::join(
            self.account.list(&crate::catalogue::types_question()),
            self.account.list(&crate::catalogue::offerings_question()),
        )
        .await;
        let facts = types?.into_iter().map(|info| Arc::new(crate::catalogue::facts(info)));
        let offerings =
            offerings?.into_iter().map(|found| (found.instance_type.into(), found.location.into()));
        let region = self.account.region();
        self.catalogue.learn_types(karpenter_aws_catalogue::RegionTypes::new(region, facts, offerings));
        Ok(())
    }

    async fn learn_prices(&self) -> Result<(), String> {
        let on_demand = !self.settings.options.isolated_vpc;
        upkeep::prices::refresh(&self.account, &self.catalogue, on_demand, self.now()).await
    }

    async fn learn_shifts(&self) -> Result<Zones, String> {
        let Some(arn) = &self.settings.cluster_arn else { return Ok(Zones::default()) };
        let resource = self.account.client().zonal_shifts().managed_resource(arn).await;
        let resource = resource
            .map_err(|error| format!("zonal shifts cannot be looked at and stay as they are: {error}"))?;
        let zones = upkeep::shifted_zones(&resource, &self.classes.all(), self.now());
        self.catalogue.learn_shifted_zones(&zones);
        Ok(zones)
    }

    async fn tag(&self, request: TaggingRequest) -> Result<(), String> {
        self.keep_out_of_shifted(request.zone()).map_err(|error| error.0)?;
        request.perform(self.instances.clone()).await
    }

    async fn clean_up(&self) -> Result<(), String> {
        let names: BTreeSet<String> =
            self.classes.all().iter().filter_map(|class| class.class.metadata.name.clone()).collect();
        self.catalogue.keep_only(&names);
        self.catalogue.forget_old_memory(self.now());
        self.metrics.keep_only(&names);
        self.launcher.forget_claims(|uid| !self.book.knows(uid));
        let (templates, now) = (&self.launcher.templates, self.now());
        templates
            .keep_house(now)
            .await
            .map_err(|error| format!("launch templates cannot be cleaned up: {error}"))
    }

    /// The class of a claim, if it can be used.
    fn class(&self, name: &str) -> Result<Arc<ResolvedClass>, ClassProblem> {
        let class = self.book.class(name).filter(|class| class.metadata.deletion_timestamp.is_none());
        let class = class.ok_or_else(|| ClassProblem::Missing(format!("there is no EC2NodeClass {name}")))?;
        ready(&class)?;
        let unknown = || ClassProblem::Unknown(format!("EC2NodeClass {name} has not been looked at yet"));
        self.classes.get(name).ok_or_else(unknown)
    }

    async fn launch(&self, claim: &NodeClaim) -> Result<Machine, LaunchError> {
        let class = self.class(&claim.spec.node_class_ref.name).map_err(ClassProblem::for_launch)?;
        let launch = self.launcher.launch(claim, &class, self.now()).await?;
        Ok(self.launched(claim, &class, &launch))
    }

    fn launched(&self, claim: &NodeClaim, class: &ResolvedClass, launch: &Launch) -> Machine {
        let launched = &launch.launched;
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        let (mut capacity, mut allocatable) = (ResourceList::default(), ResourceList::default());
        if let Some(instance_type) = &launch.instance_type {
            labels.extend(settled(&instance_type.requirements));
            (capacity, allocatable) =
                (written(&instance_type.capacity), written(&instance_type.allocatable()));
            let bought = instance_type.offerings.iter().find(|offering| {
                offering.zone().is_some_and(|zone| **zone == *launched.zone)
                    && offering
                        .capacity_type()
                        .is_some_and(|found| **found == *launch.purchase.capacity_type())
                    && offering.reservation.as_ref().map(|found| &found.id) == launch.reservation.as_ref()
            });
            if let Some(offering) = bought {
                labels.extend(settled(&offering.requirements));
            }
        }
        if !launch.purchase.is_reserved() {
            // The type says what reservations of it there are; this machine is on none.
            for key in
                [CAPACITY_RESERVATION_ID, CAPACITY_RESERVATION_TYPE, CAPACITY_RESERVATION_INTERRUPTIBLE]
            {
                labels.remove(key);
            }
        }
        // Nobody has partitions but those who ask for them; the machine itself tells which it got.
        labels.remove(PLACEMENT_GROUP_PARTITION);
        let known = [
            (INSTANCE_TYPE, Some(launched.instance_type.clone())),
            (ZONE, Some(launched.zone.clone())),
            (CAPACITY_TYPE, Some(launch.purchase.capacity_type().to_owned())),
            (INSTANCE_TENANCY, Some(launch.tenancy.to_owned())),
            (NODE_CLASS, Some(claim.spec.node_class_ref.name.clone())),
            (PLACEMENT_GROUP_ID, class.placement_group.as_ref().map(|group| group.id.clone())),
            (PLACEMENT_GROUP_PARTITION, launch.partition.map(|number| number.to_string())),
        ];
        labels.extend(known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        let annotations = [
            (CLASS_HASH, Some(class.hash.clone())),
            (CLASS_HASH_VERSION, Some(HASH_VERSION.to_owned())),
            (INSTANCE_PROFILE, class.instance_profile.clone()),
        ];
        Machine {
            provider_id: provider_id(&launched.zone, &launched.instance_id),
            image_id: launched.image_id.clone(),
            claim: claim.metadata.name.clone(),
            labels,
            annotations: annotations
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                .collect(),
            capacity,
            allocatable,
            created: Some(self.now()),
            terminating: false,
        }
    }

    async fn terminate(&self, claim: &NodeClaim) -> Result<Termination, ProviderError> {
        let Some(id) = claim.status.as_ref().and_then(|status| status.provider_id.as_deref()) else {
            return self.terminate_unknown(claim).await;
        };
        let Some(instance) = instance_of(id) else { return Ok(Termination::Gone) };
        self.keep_out_of_shifted(zone_of(id).unwrap_or_default())?;
        let found = self.instances.find(instance).await.map_err(|error| told(&error))?;
        let Some(found) = found else {
            self.gone(instance);
            return Ok(Termination::Gone);
        };
        if machine::is_ending(&found) {
            return Ok(Termination::Started);
        }
        match self.instances.terminate(instance).await {
            Ok(None) => Ok(Termination::Gone),
            Ok(Some(_)) => Ok(Termination::Started),
            Err(error) => {
                let placement = found.placement.clone().unwrap_or_default();
                let zone_id = placement.availability_zone_id.unwrap_or_default();
                self.metrics.termination_failed(machine::zone(&found), &zone_id);
                Err(told(&error))
            }
        }
    }

    /// Ends a machine whose claim never learnt of it.
    async fn terminate_unknown(&self, claim: &NodeClaim) -> Result<Termination, ProviderError> {
        let Some(name) = claim.metadata.name.as_deref() else { return Ok(Termination::Gone) };
        let found = self.instances.of_claim(name).await.map_err(|error| told(&error))?;
        let Some(found) = found else { return Ok(Termination::Gone) };
        self.keep_out_of_shifted(machine::zone(&found))?;
        self.instances.terminate(&found.instance_id).await.map_err(|error| told(&error))?;
        Ok(Termination::Started)
    }

    fn gone(&self, instance: &str) {
        self.instances.forget(instance);
        if let Some(reservation) = self.book.machine(instance).and_then(|known| known.reservation.clone()) {
            self.catalogue.use_reservation(&reservation, false);
        }
    }

    /// Nothing is changed in a zone that traffic is moved away from: its answers may be wrong.
    fn keep_out_of_shifted(&self, zone: &str) -> Result<(), ProviderError> {
        if self.catalogue.is_shifted(zone) {
            return Err(ProviderError(format!(
                "zone {zone} is under a zonal shift; its machines are left alone until that ends"
            )));
        }
        Ok(())
    }

    async fn find(&self, id: &str) -> Result<Option<Machine>, ProviderError> {
        let Some(instance) = instance_of(id) else { return Ok(None) };
        let shifted = self.catalogue.is_shifted(zone_of(id).unwrap_or_default());
        let remembered = self.instances.remembered(instance).filter(|_| shifted);
        let found = match remembered {
            Some(instance) => Some(instance),
            None => self.instances.find(instance).await.map_err(|error| told(&error))?,
        };
        Ok(found.map(|found| machine::machine(&found, self.reserves())))
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        let found = self.instances.list().await.map_err(|error| told(&error))?;
        Ok(found.iter().map(|instance| machine::machine(instance, self.reserves())).collect())
    }

    fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, CatalogError> {
        let name = &pool.spec.template.spec.node_class_ref.name;
        let class = self.class(name).map_err(ClassProblem::for_catalog)?;
        Ok(self.catalogue.instance_types(name, &class, self.now()))
    }

    async fn drift(&self, claim: &NodeClaim) -> Result<Option<String>, ProviderError> {
        let name = &claim.spec.node_class_ref.name;
        // A class that cannot be used now says nothing about machines that run.
        let Ok(class) = self.class(name) else { return Ok(None) };
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).and_then(instance_of);
        let Some(id) = id else { return Ok(None) };
        let label = claim.metadata.labels.as_ref().and_then(|labels| labels.get(INSTANCE_TYPE));
        let types = self.catalogue.instance_types(name, &class, self.now());
        let instance_type = label.and_then(|label| types.iter().find(|found| *found.name == **label));
        let remembered = self.instances.remembered_or_found(id).await.map_err(|error| told(&error))?;
        let drifted = |instance| drift(claim, &class, instance_type, instance);
        let mut found = drifted(remembered.as_deref());
        if found == Some("CapacityReservationDrift") {
            // EC2 moves machines between reservations; what was remembered may be old.
            let fresh = self.instances.find(id).await.map_err(|error| told(&error))?;
            found = drifted(fresh.as_deref());
        }
        Ok(found.map(str::to_owned))
    }

    async fn reboot(&self, claim: &NodeClaim) -> Result<(), RebootError> {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).and_then(instance_of);
        let id = id.ok_or_else(|| RebootError::Failed("the machine is not launched yet".to_owned()))?;
        self.instances.reboot(id).await.map_err(|error| {
            if error.is_not_found() {
                RebootError::Final(format!("instance {id} is gone"))
            } else {
                RebootError::Failed(error.to_string())
            }
        })
    }

    async fn heeded(&self, warnings: &[Warning]) -> Result<(), ProviderError> {
        let now = self.now();
        for warning in warnings {
            let known = instance_of(&warning.provider_id).and_then(|id| self.book.machine(id));
            let Some(known) = known else { continue };
            match (warning.kind, &known.reservation) {
                (WarningKind::SpotInterruption, _) => {
                    self.refusals.refuse(Refusable::Offering(known.offering()), now);
                }
                (WarningKind::ReservationInterruption, Some(id)) => {
                    self.refusals.refuse(Refusable::Reservation(id.as_str().into()), now);
                }
                _ => {}
            }
        }
        self.interruptions.heeded(warnings).await
    }
}

/// Why a class cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ClassProblem {
    Missing(String),
    NotReady(String),
    Unknown(String),
}

impl ClassProblem {
    fn for_launch(self) -> LaunchError {
        match self {
            Self::Missing(message) => LaunchError::InsufficientCapacity(message),
            Self::NotReady(message) => LaunchError::NodeClassNotReady(message),
            Self::Unknown(message) => {
                LaunchError::Failed { reason: "NodeClassReadinessUnknown".to_owned(), message }
            }
        }
    }

    fn for_catalog(self) -> CatalogError {
        let (Self::Missing(message) | Self::NotReady(message) | Self::Unknown(message)) = self;
        CatalogError::NodeClassNotReady(message)
    }
}

/// Whether the class, as it is written now, was found to be ready.
fn ready(class: &EC2NodeClass) -> Result<(), ClassProblem> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let condition = class.conditions().iter().find(|condition| condition.type_ == READY);
    let unknown = |why: &str| ClassProblem::Unknown(format!("EC2NodeClass {name} {why}"));
    let condition = condition.ok_or_else(|| unknown("has not been looked at yet"))?;
    match condition.status.as_str() {
        "False" => Err(ClassProblem::NotReady(condition.message.clone())),
        "True"
            if condition.observed_generation.is_some_and(|seen| Some(seen) != class.metadata.generation) =>
        {
            Err(unknown("has changed and has not been looked at since"))
        }
        "True" => Ok(()),
        _ => Err(unknown("is not known to be ready yet")),
    }
}

/// Labels that can have only one value.
fn settled(requirements: &RequirementSet) -> impl Iterator<Item = (String, String)> {
    requirements.iter().filter_map(|(key, set)| Some((key.to_string(), set.single()?.to_string())))
}

fn written(resources: &karpenter_quantity::ResourceList) -> ResourceList {
    let listed = resources.iter().filter(|(_, quantity)| !quantity.is_zero());
    listed.map(|(name, quantity)| (name.to_owned(), Text(quantity.to_string()))).collect()
}

fn told(error: &Error) -> ProviderError {
    ProviderError(error.to_string())
}

impl Launches for Aws {
    fn types(&self, class: &ResolvedClass) -> Vec<TypeFacts> {
        self.shared.launcher.types(class)
    }

    fn template(&self, trial: Trial) -> BoxFuture<'static, Result<TrialTemplate, TrialError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.launcher.try_template(&trial, shared.now()).await }.boxed()
    }
}

impl Provider for Aws {
    fn name(&self) -> &'static str {
        "aws"
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

    fn instance_types(&self, pool: Arc<NodePool>) -> BoxFuture<'static, Result<InstanceTypes, CatalogError>> {
        futures::future::ready(self.shared.instance_types(&pool)).boxed()
    }

    fn drift(&self, claim: Arc<NodeClaim>) -> BoxFuture<'static, Result<Option<String>, ProviderError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.drift(&claim).await }.boxed()
    }

    fn reboot(&self, claim: Arc<NodeClaim>, _: String) -> BoxFuture<'static, Result<(), RebootError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.reboot(&claim).await }.boxed()
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        crate::repair::policies()
    }

    fn warns(&self) -> bool {
        true
    }

    fn warnings(&self) -> BoxFuture<'static, Result<Vec<Warning>, ProviderError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.interruptions.warnings(shared.now()).await }.boxed()
    }

    fn heeded(&self, warnings: Vec<Warning>) -> BoxFuture<'static, Result<(), ProviderError>> {
        let shared = Arc::clone(&self.shared);
        async move { shared.heeded(&warnings).await }.boxed()
    }

    fn delays_registration(&self, claim: &NodeClaim) -> Option<Duration> {
        awaits_partition(claim, &self.shared.classes).then_some(AGAIN)
    }

    fn heed_overlays(&self, overlays: Overlays) {
        self.shared.catalogue.stand_in(overlays.prices_by_type());
        self.shared.launcher.overlays.heed(overlays);
    }

    fn register_metrics(&self, registry: &mut Registry) {
        let shared = &self.shared;
        shared.metrics.register(registry);
        let (catalogue, classes) = (shared.catalogue.clone(), shared.classes.clone());
        let environment = Arc::clone(&shared.environment);
        let sold = move || {
            let now = environment.now();
            let of_class = |class: &Arc<ResolvedClass>| {
                let name = class.class.metadata.name.as_deref().unwrap_or_default();
                catalogue.instance_types(name, class, now)
            };
            classes.all().iter().map(of_class).collect()
        };
        registry.register_collector(Box::new(OfferingMetrics::new(sold, shared.reserves())));
    }
}
