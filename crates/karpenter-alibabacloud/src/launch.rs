//! Starts machines for claims.
//!
//! What may be tried, the calls and what refusals mean are functions in the files below; here they are carried out. A refusal is remembered
//! and the candidates are drawn up anew, so the memory itself leads to the next attempt, and to what other claims do not ask for.

pub mod addresses;
mod attach;
pub mod candidates;
pub mod requests;
pub mod user_data;
pub mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint;
use karpenter_alibabacloud_client::ecs::{
    CreateAutoProvisioningGroup, CreateAutoProvisioningGroupAnswer, LaunchResult, RunInstances, Tag,
};
use karpenter_alibabacloud_client::{Client, ErrorKind};
use karpenter_api::labels::NODEPOOL;
use karpenter_api::{LabelRules, NodeClaim};
use karpenter_core::catalog::InstanceType;
use karpenter_core::requirements::RequirementSet;
use karpenter_kube::resources::resource_list;
use karpenter_kube::selector::api_requirement;
use karpenter_provider::{LaunchError, Machine};
use karpenter_quantity::ResourceList;

use self::addresses::Addresses;
use self::attach::{AttachScripts, ScriptKey};
use self::candidates::{Candidate, Moment, Wanted, candidates};
use self::requests::{Common, MOST_IN_GROUP};
use self::user_data::Joining;
use self::verdict::{Verdict, failure, judge, note};
use crate::instances::Instances;
use crate::machine;
use crate::market::Market;
use crate::node_class::{Architecture, ResolvedClass, VSwitch};
use crate::ownership;
use crate::rights::Rights;

/// More calls are not made for one launch: the claim is given up, and its pods are planned anew.
const MOST_ATTEMPTS: usize = 12;
/// How long groups are left alone after the policy refused them.
const GROUPS_REFUSED: SignedDuration = SignedDuration::from_mins(10);

/// Starts machines.
pub struct Launcher {
    client: Client,
    market: Market,
    instances: Arc<Instances>,
    rules: LabelRules,
    rights: Rights,
    scripts: AttachScripts,
    memory: Mutex<Memory>,
    /// Claims older than this may have been launched by another process.
    started: Timestamp,
}

/// What launches tell each other.
#[derive(Default)]
struct Memory {
    addresses: Addresses,
    /// Claims of which nobody knows whether they have a machine, and how many tokens they have used up.
    undecided: BTreeMap<String, u32>,
    /// Types that refused a category of system disk.
    unsupported_disks: BTreeSet<(Arc<str>, Arc<str>)>,
    groups_refused: Option<Timestamp>,
}

/// One launch.
struct Launch<'a> {
    claim: &'a NodeClaim,
    class: &'a ResolvedClass,
    types: &'a [Arc<InstanceType>],
    cluster: Arc<str>,
    requirements: RequirementSet,
    requests: ResourceList,
    tags: Vec<Tag>,
    pool: Arc<str>,
}

impl Launch<'_> {
    fn uid(&self) -> &str {
        self.claim.metadata.uid.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.claim.metadata.name.as_deref().unwrap_or_default()
    }
}

/// What came of one call.
enum Attempt {
    Started(Machine),
    Refused(Vec<String>),
    Failed(LaunchError),
}

impl Launcher {
    /// A launcher without memory.
    pub fn new(
        client: Client,
        market: Market,
        instances: Arc<Instances>,
        rules: LabelRules,
        rights: Rights,
    ) -> Self {
        let started = client.environment().now();
        Self {
            client,
            market,
            instances,
            rules,
            rights,
            scripts: AttachScripts::default(),
            memory: Mutex::default(),
            started,
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.client.environment().now()
    }

    /// Starts a machine for `claim`, or returns the one that was started for it before.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn launch(
        &self,
        claim: &NodeClaim,
        class: &ResolvedClass,
        cluster: &str,
        types: &[Arc<InstanceType>],
    ) -> Result<Machine, LaunchError> {
        if let Some(reason) = &class.not_ready {
            return Err(LaunchError::NodeClassNotReady(reason.clone()));
        }
        let launch = self.prepare(claim, class, cluster, types)?;
        if self.may_have_a_machine(&launch)
            && let Some(machine) = self.find_started(&launch).await?
        {
            return Ok(machine);
        }
        let mut refusals = Vec::new();
        for _ in 0..MOST_ATTEMPTS {
            let candidates = self.candidates(&launch);
            let Some(first) = candidates.first() else { break };
            match self.attempt(&launch, first, &candidates).await? {
                Attempt::Started(machine) => {
                    self.memory().undecided.remove(launch.uid());
                    return Ok(machine);
                }
                Attempt::Refused(reasons) => refusals.extend(reasons),
                Attempt::Failed(error) => return Err(error),
            }
        }
        Err(LaunchError::InsufficientCapacity(if refusals.is_empty() {
            self.close_full_v_switches(class);
            why_no_candidate(&launch)
        } else {
            refusals.join("; ")
        }))
    }

    /// What other launches have taken is not planned with any more.
    fn close_full_v_switches(&self, class: &ResolvedClass) {
        let now = self.now();
        let is_full = |addresses: &Addresses, one: &VSwitch| addresses.free(one, now) == 0;
        let memory = self.memory();
        let full = class.resolved.v_switches.iter().filter(|one| is_full(&memory.addresses, one));
        full.for_each(|one| self.market.refusals().refuse_v_switch(&one.id, now));
    }

    /// Forgets what was undecided about a claim that has ended.
    pub fn forget(&self, uid: &str) {
        self.memory().undecided.remove(uid);
    }

    fn prepare<'a>(
        &self,
        claim: &'a NodeClaim,
        class: &'a ResolvedClass,
        cluster: &str,
        types: &'a [Arc<InstanceType>],
    ) -> Result<Launch<'a>, LaunchError> {
        let mut requirements = RequirementSet::default();
        for line in &claim.spec.requirements {
            let requirement = api_requirement(line, &self.rules);
            requirements.require(&requirement.map_err(|error| LaunchError::failed(error.to_string()))?);
        }
        let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let requests = resource_list(requests).map_err(|error| LaunchError::failed(error.to_string()))?;
        let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get(NODEPOOL));
        Ok(Launch {
            tags: ownership::launch_tags(&class.class, claim, cluster),
            pool: pool.map_or("", String::as_str).into(),
            cluster: cluster.into(),
            claim,
            class,
            types,
            requirements,
            requests,
        })
    }

    /// A claim that is older than this process, or whose last launch was not answered, may have a machine.
    fn may_have_a_machine(&self, launch: &Launch<'_>) -> bool {
        let created = launch.claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
        created.is_none_or(|created| created < self.started)
            || self.memory().undecided.contains_key(launch.uid())
    }

    async fn find_started(&self, launch: &Launch<'_>) -> Result<Option<Machine>, LaunchError> {
        let found = self.instances.of_claim(&launch.cluster, launch.name()).await;
        let found = found.map_err(|error| failure(&error))?;
        let instance = found.into_iter().find(|instance| !machine::is_terminating(instance));
        Ok(instance.map(|instance| {
            let known =
                launch.types.iter().find(|known| Some(&*known.name) == instance.instance_type.as_deref());
            machine::of_instance(
                &instance,
                self.client.region(),
                known.map(|known| &**known),
                Some(&launch.class.class),
            )
        }))
    }

    fn candidates(&self, launch: &Launch<'_>) -> Vec<Candidate> {
        let now = self.now();
        let population = self.instances.population(&launch.pool);
        let sales = self.market.sales();
        let memory = self.memory();
        let refusals = self.market.refusals();
        let moment = Moment {
            now,
            sales: &sales,
            refusals: &refusals,
            unsupported_disks: &memory.unsupported_disks,
            addresses: &memory.addresses,
            population: &population,
        };
        let wanted = Wanted { requirements: &launch.requirements, requests: &launch.requests };
        candidates(launch.class, launch.types, wanted, moment)
    }

    /// Makes one call: for several candidates at once where that serves, else for the first.
    async fn attempt(
        &self,
        launch: &Launch<'_>,
        first: &Candidate,
        candidates: &[Candidate],
    ) -> Result<Attempt, LaunchError> {
        let user_data = self.user_data(launch, first).await?;
        let generation = self.memory().undecided.get(launch.uid()).copied().unwrap_or(0);
        let common = Common {
            class: launch.class,
            claim: launch.name(),
            uid: launch.uid(),
            generation,
            tags: &launch.tags,
            user_data: user_data.as_deref(),
        };
        let alike: Vec<Candidate> = candidates
            .iter()
            .filter(|one| one.architecture == first.architecture && one.is_spot() == first.is_spot())
            .filter(|one| one.disk == first.disk && one.reservation.is_none())
            .take(MOST_IN_GROUP)
            .cloned()
            .collect();
        if first.reservation.is_none() && alike.len() > 1 && common.group_serves() && self.may_use_groups() {
            self.start_group(launch, &common, &alike).await
        } else {
            self.start_one(launch, &common, first).await
        }
    }

    fn may_use_groups(&self) -> bool {
        self.memory().groups_refused.is_none_or(|until| self.now() >= until)
    }

    async fn start_one(
        &self,
        launch: &Launch<'_>,
        common: &Common<'_>,
        candidate: &Candidate,
    ) -> Result<Attempt, LaunchError> {
        let request = common.run_instances(candidate);
        self.promise(launch, candidate);
        let answer = self.client.call(&request).await;
        self.rights.hear::<RunInstances, _>(&answer, self.now());
        let error = match answer {
            Ok(answer) => match answer.instance_ids.split_first() {
                Some((id, more)) => return Ok(self.started(launch, candidate, id, more).await),
                None => {
                    return Ok(Attempt::Failed(LaunchError::failed(
                        "RunInstances: the answer names no instance",
                    )));
                }
            },
            Err(error) => error,
        };
        self.memory().addresses.release(&candidate.v_switch, launch.uid());
        self.note_undecided(launch, &error);
        let verdict = judge(&error, candidate, &mut self.market.refusals(), self.now());
        match verdict {
            Verdict::Next => Ok(Attempt::Refused(vec![refusal(candidate, &error.code)])),
            Verdict::OtherDisk => {
                self.memory()
                    .unsupported_disks
                    .insert((candidate.key.instance_type.clone(), candidate.disk.clone()));
                Ok(Attempt::Refused(vec![refusal(candidate, &error.code)]))
            }
            Verdict::LookUp => self.look_up(launch).await,
            Verdict::Fail(error) => Ok(Attempt::Failed(error)),
        }
    }

    /// The token was used with other parameters, by a process before us perhaps: its machine is ours, and without one a new token serves.
    async fn look_up(&self, launch: &Launch<'_>) -> Result<Attempt, LaunchError> {
        *self.memory().undecided.entry(launch.uid().to_owned()).or_default() += 1;
        match self.find_started(launch).await? {
            Some(machine) => Ok(Attempt::Started(machine)),
            None => {
                Ok(Attempt::Refused(vec!["the client token had been used for another request".to_owned()]))
            }
        }
    }

    async fn start_group(
        &self,
        launch: &Launch<'_>,
        common: &Common<'_>,
        alike: &[Candidate],
    ) -> Result<Attempt, LaunchError> {
        let request = common.group(alike, ownership::group_tags(&launch.cluster));
        let answer = self.client.call(&request).await;
        self.rights.hear::<CreateAutoProvisioningGroup, _>(&answer, self.now());
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.kind == ErrorKind::Denied => {
                let until = self.now().saturating_add(GROUPS_REFUSED).unwrap_or(Timestamp::MAX);
                self.memory().groups_refused = Some(until);
                return Ok(Attempt::Refused(Vec::new()));
            }
            Err(error) if error.kind == ErrorKind::TokenReused => return self.look_up(launch).await,
            // The whole call was refused for one reason; the candidates are tried one by one, which tells whose it was.
            Err(error)
                if matches!(error.kind, ErrorKind::NoStock | ErrorKind::NoAddresses | ErrorKind::Quota) =>
            {
                let Some(first) = alike.first() else { return Ok(Attempt::Failed(failure(&error))) };
                note(&error.code, first, &mut self.market.refusals(), self.now());
                return Ok(Attempt::Refused(vec![refusal(first, &error.code)]));
            }
            Err(error) => {
                self.note_undecided(launch, &error);
                return Ok(Attempt::Failed(failure(&error)));
            }
        };
        Ok(self.read_group(launch, alike, &answer).await)
    }

    /// Reads every result of a group: the machine may be in any of them.
    async fn read_group(
        &self,
        launch: &Launch<'_>,
        alike: &[Candidate],
        answer: &CreateAutoProvisioningGroupAnswer,
    ) -> Attempt {
        let now = self.now();
        let mut reasons = Vec::new();
        let mut started: Vec<(&Candidate, &String)> = Vec::new();
        for result in &answer.launch_results {
            let Some(candidate) = candidate_of(alike, result) else { continue };
            started.extend(result.instance_ids.iter().map(|id| (candidate, id)));
            if let (true, Some(code)) = (result.instance_ids.is_empty(), result.error_code.as_deref()) {
                note(code, candidate, &mut self.market.refusals(), now);
                reasons.push(refusal(candidate, code));
            }
        }
        let known: BTreeSet<&String> = started.iter().map(|(_, id)| *id).collect();
        let all = answer.launch_results.iter().flat_map(|result| &result.instance_ids);
        let unknown: Vec<String> = all.filter(|id| !known.contains(id)).cloned().collect();
        let Some(((candidate, id), more)) = started.split_first() else {
            self.give_back(&unknown).await;
            if reasons.is_empty() {
                // Nothing was started and nothing was said about it: nobody else should ask for the same at once.
                alike.iter().for_each(|one| self.market.refusals().refuse(one.key.clone(), now));
                reasons.push("the auto-provisioning group started nothing and gave no reason".to_owned());
            }
            return Attempt::Refused(reasons);
        };
        let more: Vec<String> = more.iter().map(|(_, id)| (*id).clone()).chain(unknown).collect();
        self.promise(launch, candidate);
        self.started(launch, candidate, id, &more).await
    }

    /// One machine was asked for: it is taken in, and whatever came besides is given back at once.
    async fn started(
        &self,
        launch: &Launch<'_>,
        candidate: &Candidate,
        id: &str,
        more: &[String],
    ) -> Attempt {
        self.market.refusals().accept(&candidate.key);
        if let Some(reservation) = &candidate.reservation {
            self.market.refusals().take(reservation, self.now());
        }
        self.give_back(more).await;
        self.instances.note_started(id, &launch.pool, &candidate.key.zone);
        let region = self.client.region();
        Attempt::Started(machine::of_candidate(
            launch.claim,
            candidate,
            &launch.class.class,
            region,
            id,
            self.now(),
        ))
    }

    async fn give_back(&self, ids: &[String]) {
        if ids.is_empty() {
            return;
        }
        tracing::warn!("more machines came than were asked for, and are given back: {}", ids.join(", "));
        for id in ids {
            if let Err(error) = self.instances.delete(id).await {
                tracing::warn!("machine {id} is left to garbage collection: {error}");
            }
        }
    }

    fn promise(&self, launch: &Launch<'_>, candidate: &Candidate) {
        let now = self.now();
        let mut memory = self.memory();
        memory.addresses.forget_old(now);
        memory.addresses.promise(&candidate.v_switch, &launch.uid().into(), now);
    }

    fn note_undecided(&self, launch: &Launch<'_>, error: &karpenter_alibabacloud_client::Error) {
        if error.is_undecided() {
            self.memory().undecided.entry(launch.uid().to_owned()).or_default();
        }
    }

    /// What the machine runs at its first start.
    async fn user_data(
        &self,
        launch: &Launch<'_>,
        candidate: &Candidate,
    ) -> Result<Option<String>, LaunchError> {
        let class = &launch.class.class;
        let ack = launch.class.resolved.cluster.is_some() || class.cluster.endpoint.is_none();
        let script = if ack {
            let key = ScriptKey {
                cluster: launch.cluster.clone(),
                format_disk: class.format_data_disk,
                architecture: candidate.architecture,
            };
            Some(self.scripts.get(&self.client, &key).await.map_err(|error| failure(&error))?)
        } else {
            None
        };
        let runtime =
            if ack { self.scripts.runtime(&self.client, &self.rights, &launch.cluster).await } else { None };
        let labels = machine::node_labels(launch.claim, &candidate.key.capacity_type);
        let taints: Vec<Taint> = [&launch.claim.spec.taints, &launch.claim.spec.startup_taints]
            .into_iter()
            .flatten()
            .flatten()
            .cloned()
            .collect();
        user_data::user_data(&Joining {
            attach_script: script.as_deref(),
            cluster: &launch.cluster,
            runtime: runtime.as_ref().map(|runtime| (runtime.0.as_str(), runtime.1.as_str())),
            labels: &labels,
            taints: &taints,
            kubelet: Some(&class.kubelet),
            user_data: class.user_data.as_deref(),
        })
        .map_err(|message| LaunchError::Failed { reason: "UserDataTooLong".to_owned(), message })
    }
}

/// The candidate a result is about.
fn candidate_of<'a>(alike: &'a [Candidate], result: &LaunchResult) -> Option<&'a Candidate> {
    let of_type =
        |candidate: &&Candidate| Some(&*candidate.key.instance_type) == result.instance_type.as_deref();
    let in_zone =
        |candidate: &&Candidate| result.zone_id.as_deref().is_none_or(|zone| *candidate.key.zone == *zone);
    alike.iter().filter(of_type).find(in_zone)
}

fn refusal(candidate: &Candidate, code: &str) -> String {
    let key = &candidate.key;
    format!("{} {} in {}: {code}", key.instance_type, key.capacity_type, key.zone)
}

/// Says why not even one candidate is left.
fn why_no_candidate(launch: &Launch<'_>) -> String {
    let choices = karpenter_provider::choices(launch.types, &launch.requirements, &launch.requests);
    if choices.is_empty() {
        return "no instance type in stock meets the claim's requirements: allow more types, zones or capacity types in the NodePool"
            .to_owned();
    }
    let wanted: BTreeSet<Architecture> =
        choices.iter().map(|choice| candidates::architecture(choice.instance_type)).collect();
    if let Some(lacking) = wanted.iter().find(|one| launch.class.resolved.image(**one).is_none()) {
        return format!(
            "the ECSNodeClass has no image for {}: add one to imageSelectorTerms",
            lacking.label()
        );
    }
    let zones: BTreeSet<&str> =
        choices.iter().filter_map(|choice| choice.offering.zone()).map(|zone| &**zone).collect();
    let zones: Vec<&str> = zones.into_iter().collect();
    format!(
        "no vSwitch of the ECSNodeClass has a free address in {}, or what is sold there was refused a moment ago: add vSwitches or wait",
        zones.join(", ")
    )
}
