//! Launching a machine: what is asked for, what EC2 makes of it, and what is remembered of its answer.
//!
//! A launch is idempotent by the claim's UID: it is the token of the fleet, so EC2 answers a repetition with the same machine. Where EC2
//! refuses the token because the world has changed in between, the machine is found by the claim's tag.

pub(crate) mod candidates;
pub(crate) mod fleet;
pub(crate) mod plan;
pub(crate) mod reasons;
pub(crate) mod refused;
mod subnets;
pub(crate) mod template;
pub(crate) mod templates;
mod trial;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use karpenter_api::NodeClaim;
use karpenter_aws_catalogue::RefusedOffering;
use karpenter_aws_client::ec2::{CreateFleet, FleetOverride};
use karpenter_aws_client::{Error, ErrorKind};
use karpenter_core::catalog::{InstanceType, SPOT};
use karpenter_provider::{HeededOverlays, LaunchError};

use crate::account::Account;
use crate::catalogue::Catalogue;
use crate::instances::Instances;
use crate::metrics::AwsMetrics;
use crate::names::NODE_CLAIM;
use crate::node_class::ResolvedClass;
use candidates::{Candidate, Purchase, select};
use fleet::{Launched, Order, Refusal};
use plan::{Group, Surroundings};
use reasons::{is_missing_spot_role, is_spread_limit, is_subnet_full, is_unfulfillable, reason, sentence};
use refused::{Refusable, Refusals};
use subnets::Addresses;
use templates::Templates;

/// The code by which EC2 says that a token was used for something else.
const TOKEN_USED: &str = "IdempotentParameterMismatch";

/// Launches machines.
pub(crate) struct Launcher {
    pub(crate) account: Account,
    pub(crate) catalogue: Catalogue,
    pub(crate) instances: Instances,
    pub(crate) metrics: AwsMetrics,
    pub(crate) refusals: Refusals,
    pub(crate) surroundings: Surroundings,
    pub(crate) templates: Templates,
    addresses: Addresses,
    /// Fleets that came to nothing, by claim: the next one needs another token.
    failed: Mutex<BTreeMap<String, u32>>,
    /// What operators say of prices and capacities.
    pub(crate) overlays: HeededOverlays,
}

/// What a launch came to.
pub(crate) struct Launch {
    pub(crate) launched: Launched,
    pub(crate) purchase: Purchase,
    pub(crate) reservation: Option<Arc<str>>,
    pub(crate) instance_type: Option<Arc<InstanceType>>,
    pub(crate) tenancy: &'static str,
    pub(crate) partition: Option<u32>,
}

/// What is being launched.
struct Attempt<'a> {
    claim: &'a NodeClaim,
    class: &'a ResolvedClass,
    purchase: Purchase,
    groups: Vec<Group>,
    partition: Option<u32>,
}

impl Launcher {
    pub(crate) fn new(
        account: Account,
        catalogue: Catalogue,
        instances: Instances,
        (metrics, refusals): (AwsMetrics, Refusals),
        surroundings: Surroundings,
    ) -> Self {
        let templates = Templates::new(account.clone(), surroundings.cluster.name.clone());
        let (addresses, failed, overlays) =
            (Addresses::default(), Mutex::default(), HeededOverlays::default());
        Self {
            account,
            catalogue,
            instances,
            metrics,
            refusals,
            surroundings,
            templates,
            addresses,
            failed,
            overlays,
        }
    }

    /// Launches the machine of a claim, or finds the one that was launched before.
    pub(crate) async fn launch(
        &self,
        claim: &NodeClaim,
        class: &Arc<ResolvedClass>,
        now: Timestamp,
    ) -> Result<Launch, LaunchError> {
        let name = claim.spec.node_class_ref.name.as_str();
        let types = self.overlays.of(claim, self.catalogue.instance_types(name, class, now));
        let wanted = plan::wanted(claim, &self.surroundings.rules)?;
        let mut selection = select(&types, &wanted, self.surroundings.min_values_best_effort)
            .map_err(|error| LaunchError::InsufficientCapacity(error.to_string()))?;
        let (purchase, tenancy) = (selection.purchase, selection.tenancy);
        let settings = self.catalogue.settings(name, class);
        let region = self.catalogue.types();
        let partition = plan::partition(&wanted, class, &selection.candidates);
        if let Some(partition) = partition {
            selection.candidates = plan::in_partition(selection.candidates, partition);
        }
        let chosen = (&wanted, selection, partition);
        let groups = plan::groups(claim, class, &settings, &region, chosen, &self.surroundings)?;
        let attempt = Attempt { claim, class, purchase, groups, partition };
        let launched = self.try_launch(&attempt, now).await?;
        let instance_type = types.iter().find(|found| *found.name == *launched.instance_type).cloned();
        let reservation = attempt.reservation_of(&launched);
        Ok(Launch { launched, purchase, reservation, instance_type, tenancy, partition })
    }

    /// Asks for the fleet; once more if a template was gone.
    async fn try_launch(&self, attempt: &Attempt<'_>, now: Timestamp) -> Result<Launched, LaunchError> {
        match self.ask(attempt, now).await {
            Err(Asked::TemplateGone) => self.ask(attempt, now).await.map_err(Asked::into_error),
            result => result.map_err(Asked::into_error),
        }
    }

    async fn ask(&self, attempt: &Attempt<'_>, now: Timestamp) -> Result<Launched, Asked> {
        for group in &attempt.groups {
            let ensured = self.templates.ensure(&group.template, now).await;
            ensured.map_err(|error| Asked::Failed(failure(&error)))?;
        }
        let (chosen, promise) = self.addresses.choose(&attempt.class.subnets, &attempt.pods_by_zone());
        let configs: Vec<(String, Vec<FleetOverride>)> = attempt
            .groups
            .iter()
            .map(|group| {
                let name = group.template.launch_template_name.clone();
                (name, fleet::overrides(&group.candidates, &chosen, &group.image_id))
            })
            .filter(|(_, overrides)| !overrides.is_empty())
            .collect();
        if configs.is_empty() {
            self.addresses.settle(promise, None);
            let message = "the EC2NodeClass has no subnet in the zones of the instance types".to_owned();
            return Err(Asked::Failed(LaunchError::InsufficientCapacity(message)));
        }
        let request = self.request(attempt, configs);
        let answer = self.account.call(&request).await;
        let outcome = match answer {
            Ok(answer) => {
                let zone_of = |subnet: &str| {
                    let found = attempt.class.subnets.iter().find(|known| known.id == subnet);
                    found.map(|found| found.zone.clone())
                };
                fleet::read(&answer, zone_of)
            }
            Err(error) => {
                self.addresses.settle(promise, None);
                return self.call_failed(attempt, &request, &error, now).await;
            }
        };
        let used = outcome.launched.as_ref().and_then(|launched| launched.subnet_id.as_deref());
        self.addresses.settle(promise, used);
        for refusal in &outcome.refusals {
            self.note_refusal(attempt, refusal, now);
        }
        if let Some(launched) = outcome.launched {
            self.note_launch(attempt, &launched, now);
            return Ok(launched);
        }
        self.note_failed(attempt.uid());
        Err(Asked::Failed(refused(&outcome.refusals)))
    }

    fn request(&self, attempt: &Attempt<'_>, configs: Vec<(String, Vec<FleetOverride>)>) -> CreateFleet {
        let claim = attempt.claim;
        let tags = plan::tags(claim, attempt.class, &self.surroundings.cluster.name);
        let name = claim.metadata.name.clone().unwrap_or_default();
        fleet::request(Order {
            token: self.token(attempt.uid()),
            purchase: attempt.purchase,
            priced_by_overlay: plan::priced_by_overlay(claim),
            context: plan::context(claim, attempt.class),
            configs,
            tags: &tags,
            instance_tags: &BTreeMap::from([(NODE_CLAIM.to_owned(), name)]),
        })
    }

    /// The token of a claim's next fleet. A process that begins anew goes through the same tokens, and so meets what was launched before.
    fn token(&self, uid: &str) -> String {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).get(uid).copied();
        failed.map_or_else(|| uid.to_owned(), |number| format!("{uid}-{number}"))
    }

    fn note_failed(&self, uid: &str) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed.entry(uid.to_owned()).or_default() += 1;
    }

    /// Forgets claims that are no more.
    pub(crate) fn forget_claims(&self, gone: impl Fn(&str) -> bool) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| !gone(uid));
    }

    /// What a call means that failed as a whole.
    async fn call_failed(
        &self,
        attempt: &Attempt<'_>,
        request: &CreateFleet,
        error: &Error,
        now: Timestamp,
    ) -> Result<Launched, Asked> {
        if error.code == TOKEN_USED {
            let name = attempt.claim.metadata.name.as_deref().unwrap_or_default();
            let found =
                self.instances.of_claim(name).await.map_err(|error| Asked::Failed(failure(&error)))?;
            if let Some(instance) = found {
                return Ok(Launched::of(&instance));
            }
            self.note_failed(attempt.uid());
            return Err(Asked::Failed(failure(error)));
        }
        if error.code.starts_with("InvalidLaunchTemplate") && error.is_not_found() {
            let configs = request.launch_template_configs.iter();
            let names = configs
                .filter_map(|config| config.launch_template_specification.launch_template_name.as_ref());
            self.templates.invalidate(names);
            return Err(Asked::TemplateGone);
        }
        if is_missing_spot_role(&error.code) || error.kind == ErrorKind::InsufficientCapacity {
            // The call says it of everything it asked for.
            for wanted in request.launch_template_configs.iter().flat_map(|config| &config.overrides) {
                let refusal = Refusal {
                    code: error.code.clone(),
                    message: error.message.clone(),
                    instance_type: wanted.instance_type.clone(),
                    zone: wanted.availability_zone.clone(),
                    subnet_id: wanted.subnet_id.clone(),
                };
                self.note_refusal(attempt, &refusal, now);
            }
            self.note_failed(attempt.uid());
            let message = sentence(&error.code, &error.message);
            return Err(Asked::Failed(LaunchError::InsufficientCapacity(message)));
        }
        Err(Asked::Failed(failure(error)))
    }

    fn note_refusal(&self, attempt: &Attempt<'_>, refusal: &Refusal, now: Timestamp) {
        let zone = refusal.zone.as_deref().unwrap_or_default();
        let capacity_type = attempt.purchase.capacity_type();
        let why = reason(&refusal.code, &refusal.message);
        let zone_id = attempt.class.subnets.iter().find(|subnet| subnet.zone == zone);
        let zone_id = zone_id.and_then(|subnet| subnet.zone_id.as_deref()).unwrap_or_default();
        self.metrics.launch_failed(zone, zone_id, capacity_type, why);
        for what in attempt.refuses(refusal) {
            if let Refusable::Subnet(subnet) = &what {
                self.addresses.exhaust(subnet);
            }
            self.refusals.refuse(what, now);
        }
    }

    fn note_launch(&self, attempt: &Attempt<'_>, launched: &Launched, now: Timestamp) {
        if let Some(id) = attempt.reservation_of(launched) {
            self.catalogue.use_reservation(&id, true);
            self.refusals.accept(&Refusable::Reservation(id), now);
        }
        let offering = attempt.offering(&launched.instance_type, &launched.zone);
        self.refusals.accept(&Refusable::Offering(offering), now);
    }
}

impl Attempt<'_> {
    fn uid(&self) -> &str {
        self.claim.metadata.uid.as_deref().unwrap_or_default()
    }

    fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.groups.iter().flat_map(|group| &group.candidates)
    }

    /// How many addresses a launch may take in each zone: those of the smallest type that may come.
    fn pods_by_zone(&self) -> BTreeMap<Arc<str>, u32> {
        let mut zones: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        for candidate in self.candidates() {
            let pods =
                u32::try_from(candidate.instance_type.capacity.get("pods").ceil_units()).unwrap_or(u32::MAX);
            for zone in candidate.offerings.iter().filter_map(|offering| offering.zone()) {
                let least = zones.entry(Arc::clone(zone)).or_insert(pods);
                *least = pods.min(*least);
            }
        }
        zones
    }

    fn reservation_of(&self, launched: &Launched) -> Option<Arc<str>> {
        let candidate =
            self.candidates().filter(|found| *found.instance_type.name == *launched.instance_type);
        let mut offerings = candidate.flat_map(|candidate| &candidate.offerings);
        let offering = offerings.find(|o| o.zone().is_some_and(|zone| **zone == *launched.zone))?;
        offering.reservation.as_ref().map(|found| Arc::clone(&found.id))
    }

    fn offering(&self, instance_type: &str, zone: &str) -> RefusedOffering {
        let group = self.class.placement_group.as_ref();
        RefusedOffering {
            instance_type: instance_type.into(),
            zone: zone.into(),
            capacity_type: self.purchase.capacity_type().into(),
            group: group.map(|group| group.id.as_str().into()),
            partition: group.and(self.partition).map(|number| number.to_string().into()),
        }
    }

    /// What follows from a refusal.
    fn refuses(&self, refusal: &Refusal) -> Vec<Refusable> {
        let Refusal { code, message, instance_type, zone, subnet_id } = refusal;
        if is_missing_spot_role(code) {
            return vec![Refusable::CapacityType(SPOT.into())];
        }
        if is_subnet_full(code) {
            return subnet_id.iter().map(|subnet| Refusable::Subnet(subnet.as_str().into())).collect();
        }
        let (Some(instance_type), Some(zone)) = (instance_type, zone) else { return Vec::new() };
        if is_spread_limit(message) && self.class.placement_group.is_some() {
            let names = self.candidates().map(|candidate| &candidate.instance_type.name);
            return names.map(|name| Refusable::Offering(self.offering(name, zone))).collect();
        }
        if !is_unfulfillable(code) {
            return Vec::new();
        }
        if self.purchase.is_reserved() {
            let used = self.candidates().filter(|found| *found.instance_type.name == **instance_type);
            let offerings = used.flat_map(|candidate| &candidate.offerings);
            let there = offerings.filter(|o| o.zone().is_some_and(|found| **found == **zone));
            let ids = there.filter_map(|o| o.reservation.as_ref()).map(|found| Arc::clone(&found.id));
            return ids.map(Refusable::Reservation).collect();
        }
        vec![Refusable::Offering(self.offering(instance_type, zone))]
    }
}

/// Why there is no machine.
enum Asked {
    /// Templates were deleted behind our back; they are made anew.
    TemplateGone,
    Failed(LaunchError),
}

impl Asked {
    fn into_error(self) -> LaunchError {
        match self {
            Self::TemplateGone => LaunchError::Failed {
                reason: "LaunchTemplateNotFound".to_owned(),
                message: "launch templates were deleted while they were used; trying again".to_owned(),
            },
            Self::Failed(error) => error,
        }
    }
}

/// What an answer without a machine means: nothing could be had, or something is wrong.
fn refused(refusals: &[Refusal]) -> LaunchError {
    let told = |refusal: &Refusal| {
        let place = [refusal.instance_type.as_deref(), refusal.zone.as_deref()];
        let place: Vec<&str> = place.into_iter().flatten().collect();
        format!("{}: {}", place.join(" in "), sentence(&refusal.code, &refusal.message))
    };
    let wrong = refusals
        .iter()
        .find(|refusal| !is_unfulfillable(&refusal.code) && !is_missing_spot_role(&refusal.code));
    if let Some(refusal) = wrong {
        let reason = reason(&refusal.code, &refusal.message).to_owned();
        return LaunchError::Failed { reason, message: told(refusal) };
    }
    let mut messages: Vec<String> = refusals.iter().map(told).collect();
    messages.sort();
    messages.dedup();
    let more = messages.len().saturating_sub(5);
    messages.truncate(5);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    let told = if messages.is_empty() {
        "EC2 launched nothing and gave no reason".to_owned()
    } else {
        messages.join("; ")
    };
    LaunchError::InsufficientCapacity(format!("{told}{rest}"))
}

/// What a failed call means to the claim.
fn failure(error: &Error) -> LaunchError {
    let reason = match error.kind {
        ErrorKind::Throttled => "RequestLimitExceeded",
        _ => reason(&error.code, &error.message),
    };
    LaunchError::Failed { reason: reason.to_owned(), message: error.to_string() }
}
