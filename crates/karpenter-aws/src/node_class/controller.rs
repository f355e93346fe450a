//! The controller of EC2NodeClasses: asks AWS what their selectors mean, says in the status what it found, and cleans up behind them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_aws_bootstrap::AmiFamily;
use karpenter_aws_client::Error;
use karpenter_runtime::{Caches, Change, Controller, Effect, Key, Outcome, View, Wakes, Watches, Write};
use serde_json::{Value, json};

use super::assessment::{
    self, Assessment, Surroundings, images_question, profile_question, question, soonest,
};
use super::cloud::template_tags;
use super::memory::{MINUTE, Memory, Periods, Slot};
use super::profile::{Home, Protected, is_name, role_name, serves};
use super::question::{ClassReply, ClassRequest, CleanUp, Launches, NewProfile, Trial, TrialResult};
use super::status::ResolvedClasses;
use super::version::KubernetesVersion;
use super::{EC2NodeClass, EC2NodeClassStatus, FINALIZER, selectors, stamp};
use crate::events::event;

pub(super) const NAME: &str = "ec2nodeclass";
/// How often people are told what a deleted class waits for.
const WAITING: Duration = Duration::from_mins(10);
/// How soon a class is looked at again that waits for what is asked once for all classes.
const SOON: Duration = Duration::from_secs(1);
/// Claims named in an event.
const NAMED: usize = 5;

/// How the controller is set up.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(super) struct ClassSettings {
    pub(super) home: Home,
    pub(super) ca_bundle: Option<String>,
    pub(super) reserved_capacity: bool,
    pub(super) formulas: bool,
    pub(super) dry_run: bool,
    pub(super) isolated_vpc: bool,
    pub(super) periods: Periods,
}

/// The controller.
pub(super) struct NodeClassController {
    pub(super) settings: ClassSettings,
    pub(super) version: KubernetesVersion,
    pub(super) resolved: ResolvedClasses,
    pub(super) launches: Arc<dyn Launches>,
    pub(super) protected: Protected,
    pub(super) service_cidr: Slot<String, Error>,
    pub(super) classes: BTreeMap<String, Memory>,
    /// When people were last told what a deleted class waits for.
    pub(super) told: BTreeMap<String, Timestamp>,
}

type Asked = Outcome<ClassRequest>;

impl Controller for NodeClassController {
    type Request = ClassRequest;
    type Reply = ClassReply;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<EC2NodeClass>();
        watches.reads::<NodeClaim>();
        watches.reads::<NodePool>();
    }

    fn wake(&mut self, change: &Change, _: &Caches, wakes: &mut Wakes) {
        if change.of::<EC2NodeClass>().is_some() {
            wakes.wake(change.key().clone());
        }
        if let Some(delta) = change.of::<NodeClaim>()
            && delta.new.is_none()
        {
            wakes.wake(Key::cluster(&delta.latest().spec.node_class_ref.name));
        }
    }

    fn reconcile(&mut self, key: &Key, view: &View<'_>) -> Asked {
        let Some(class) = view.caches.of::<EC2NodeClass>().get(key).cloned() else {
            self.forget(key.name());
            return Outcome::done();
        };
        let uid = class.metadata.uid.clone().unwrap_or_default();
        let memory = self.classes.entry(key.name().to_owned()).or_default();
        if memory.uid != uid {
            *memory = Memory { uid, ..Memory::default() };
        }
        if class.metadata.deletion_timestamp.is_some() {
            return self.end(key, &class, view);
        }
        if let Some(stamps) = stamp::stamps(key, &class, self.settings.ca_bundle.as_deref(), view) {
            return stamps;
        }
        let questions = self.questions(key, &class, view);
        if !questions.is_empty() {
            return Outcome::done().then_all(questions.into_iter().map(Effect::Request));
        }
        self.settle(key, &class, view)
    }

    fn hear(&mut self, key: &Key, reply: ClassReply, view: &View<'_>) {
        let Some(memory) = self.classes.get_mut(key.name()) else { return };
        let name = key.name();
        if let Some(problem) = problem(&reply) {
            tracing::warn!(ec2nodeclass = name, "{problem}");
        }
        match reply {
            ClassReply::Subnets(answer) => memory.subnets.hear(answer.map(selectors::subnets)),
            ClassReply::SecurityGroups(answer) => {
                memory.security_groups.hear(answer.map(selectors::security_groups));
            }
            ClassReply::Images(answer) => memory.images.hear(answer),
            ClassReply::Reservations(answer) => {
                memory.reservations.hear(answer.map(|found| selectors::reservations(found, view.now)));
            }
            ClassReply::PlacementGroup(answer) => {
                memory.placement_group.hear(answer.map(selectors::placement_group));
            }
            ClassReply::FindProfile(answer) => {
                let class = view.caches.of::<EC2NodeClass>().get(key);
                let role = class.and_then(|class| class.spec.role.clone()).unwrap_or_default();
                let usable = |profile: &karpenter_aws_client::iam::InstanceProfile| {
                    serves(profile, &role) && self.settings.home.owns(profile, &memory.uid)
                };
                let found = answer.map(|found| found.filter(usable));
                memory.profile.hear(found.map(|found| found.map(|profile| profile.instance_profile_name)));
            }
            ClassReply::CreateProfile(answer) => {
                if let Ok(made) = &answer {
                    tracing::info!(ec2nodeclass = name, "created instance profile {made}");
                    self.protected.protect(made, view.now);
                    memory.made_profile = Some(made.clone());
                }
                memory.profile.hear(answer.map(Some));
            }
            ClassReply::ServiceCidr(answer) => self.service_cidr.hear(answer),
            ClassReply::Try(TrialResult::Unclear(problem)) => memory.trial.hear(Err(problem)),
            ClassReply::Try(result) => memory.trial.hear(Ok(result)),
            ClassReply::CleanUp(answer) => memory.clean_up.hear(answer),
        }
    }
}

impl NodeClassController {
    fn forget(&mut self, name: &str) {
        self.classes.remove(name);
        self.told.remove(name);
        self.resolved.remove(name);
    }

    fn surroundings(&self) -> Surroundings {
        let error = || self.service_cidr.error("").cloned().map(Err);
        Surroundings {
            ca_bundle: self.settings.ca_bundle.clone(),
            service_cidr: self.service_cidr.value("").cloned().map(Ok).or_else(error),
            reserved_capacity: self.settings.reserved_capacity,
            formulas: self.settings.formulas,
            dry_run: self.settings.dry_run,
            isolated_vpc: self.settings.isolated_vpc,
        }
    }

    /// The cluster's version where it matters: only aliases depend on it.
    fn kubernetes(&self, class: &EC2NodeClass) -> Option<String> {
        if class.spec.alias().is_none() { Some(String::new()) } else { self.version.get() }
    }

    /// Everything that is not known, or not known well enough any more.
    fn questions(&mut self, key: &Key, class: &EC2NodeClass, view: &View<'_>) -> Vec<ClassRequest> {
        let (now, spec, asked) = (view.now, &class.spec, question(class));
        let version = self.kubernetes(class);
        let periods = self.settings.periods;
        let Some(memory) = self.classes.get_mut(key.name()) else { return Vec::new() };
        let mut questions = Vec::new();
        if memory.subnets_good_for(&asked, periods, now).is_none() {
            memory.subnets.ask(&asked, now);
            questions.push(ClassRequest::Subnets(selectors::subnet_queries(&spec.subnet_selector_terms)));
        }
        if memory.security_groups_good_for(&asked, now).is_none() {
            memory.security_groups.ask(&asked, now);
            let queries = selectors::security_group_queries(&spec.security_group_selector_terms);
            questions.push(ClassRequest::SecurityGroups(queries));
        }
        if let Some(version) = version {
            let asked = images_question(class, &version);
            if memory.images_good_for(&asked, periods, now).is_none() {
                memory.images.ask(&asked, now);
                questions.push(ClassRequest::Images(spec.ami_selector_terms.clone(), version));
            }
        }
        if self.settings.reserved_capacity && memory.reservations_good_for(&asked, now).is_none() {
            memory.reservations.ask(&asked, now);
            match spec.capacity_reservation_selector_terms.as_slice() {
                [] => memory.reservations.hear(Ok(Vec::new())),
                terms => questions.push(ClassRequest::Reservations(selectors::reservation_queries(terms))),
            }
        }
        if let Some(selector) = &spec.placement_group_selector
            && memory.placement_group_good_for(&asked, now).is_none()
        {
            memory.placement_group.ask(&asked, now);
            questions.push(ClassRequest::PlacementGroup(selectors::placement_group_query(selector)));
        }
        if spec.family() == AmiFamily::Al2023
            && self.service_cidr.value("").is_none()
            && self.service_cidr.good_for("", MINUTE, now).is_none()
        {
            self.service_cidr.ask("", now);
            questions.push(ClassRequest::ServiceCidr);
        }
        questions.extend(self.profile_question(key, class, view));
        questions
    }

    /// What must be asked or made for the role of a class.
    fn profile_question(&mut self, key: &Key, class: &EC2NodeClass, view: &View<'_>) -> Option<ClassRequest> {
        let role = class.spec.role.as_ref()?;
        let memory = self.classes.get_mut(key.name())?;
        let asked = profile_question(class);
        let shown = class.status.as_ref().and_then(|status| status.instance_profile.clone());
        let current = memory.made_profile.clone().or(shown);
        let good = memory.profile_good_for(&asked, view.now).is_some();
        match memory.profile.value(&asked) {
            // It was looked for, and there is none that serves the role.
            Some(None) => {}
            _ if good => return None,
            _ => {
                if let Some(current) = current {
                    memory.profile.ask(&asked, view.now);
                    return Some(ClassRequest::FindProfile(current));
                }
            }
        }
        if good && memory.profile.error(&asked).is_some() {
            return None;
        }
        memory.profile.ask(&asked, view.now);
        let home = &self.settings.home;
        Some(ClassRequest::CreateProfile(NewProfile {
            name: home.name(key.name(), &view.environment.uid()),
            path: home.class_path(&memory.uid),
            role: role_name(role).to_owned(),
            tags: home.tags(class),
        }))
    }

    /// Everything is known that can be: says so, and tries a launch if that is due.
    fn settle(&mut self, key: &Key, class: &Arc<EC2NodeClass>, view: &View<'_>) -> Asked {
        let surroundings = self.surroundings();
        let version = self.kubernetes(class);
        let waits_for_cidr =
            class.spec.family() == AmiFamily::Al2023 && self.service_cidr.value("").is_none();
        let launches = Arc::clone(&self.launches);
        let Some(memory) = self.classes.get_mut(key.name()) else { return Outcome::done() };
        let kubernetes = version.clone().unwrap_or_default();
        let Assessment { status, resolved, trial } = assessment::assess(
            class,
            memory,
            &kubernetes,
            &surroundings,
            |class| launches.types(class),
            view.now,
        );
        if let (Some(class), Some(subject)) = (&resolved, &trial)
            && memory.trial_good_for(subject, view.now).is_none()
        {
            memory.trial.ask(subject, view.now);
            let trial = Trial { class: Arc::clone(class), pools: pools(key, view) };
            return Outcome::done().then(Effect::Request(ClassRequest::Try(trial)));
        }
        let wait = next_look(class, memory, version.as_deref(), trial.as_deref(), &self.settings, view.now);
        let wait = if version.is_none() || waits_for_cidr { wait.min(SOON) } else { wait };
        if let Some(resolved) = resolved
            && self.resolved.get(key.name()).is_none_or(|known| known != resolved)
        {
            self.resolved.put(key.name(), resolved);
        }
        let old = class.status.clone().unwrap_or_default();
        let outcome = Outcome::after(wait);
        if old == status { outcome } else { outcome.then(write_status(key, class, &status)) }
    }

    /// The class is being deleted: waits for its claims, then takes away what was made for it.
    fn end(&mut self, key: &Key, class: &EC2NodeClass, view: &View<'_>) -> Asked {
        let finalizers = class.metadata.finalizers.as_deref().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            self.resolved.remove(key.name());
            return Outcome::done();
        }
        let waiting = stamp::claims_of(key, view);
        if !waiting.is_empty() {
            let names = waiting.iter().map(|claim| claim.name().to_owned()).collect::<Vec<_>>();
            return Outcome::after(WAITING).then_all(self.tell(class, &names, view));
        }
        let Some(memory) = self.classes.get_mut(key.name()) else { return Outcome::done() };
        if memory.clean_up.value("").is_some() {
            let kept: Vec<&String> = finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
            let patch = json!({"metadata": {"finalizers": kept}});
            let write = Write::merge_patch::<EC2NodeClass>(key, patch).tolerating(404);
            self.resolved.remove(key.name());
            return Outcome::done().then(versioned(write, class));
        }
        if let Some(wait) = memory.clean_up.good_for("", Duration::ZERO, view.now) {
            return Outcome::after(wait);
        }
        memory.clean_up.ask("", view.now);
        let home = &self.settings.home;
        let legacy = home.legacy_name(key.name());
        Outcome::done().then(Effect::Request(ClassRequest::CleanUp(CleanUp {
            class: key.name().to_owned(),
            profiles: (!self.settings.isolated_vpc).then(|| home.class_path(&memory.uid)),
            legacy_profile: Some(legacy).filter(|name| is_name(name)),
            template_tags: template_tags(&home.cluster, key.name()),
        })))
    }

    /// An event about the claims a deleted class waits for, every now and then.
    fn tell(&mut self, class: &EC2NodeClass, claims: &[String], view: &View<'_>) -> Option<Write> {
        let name = class.metadata.name.clone().unwrap_or_default();
        let told = self.told.get(&name);
        let silent = told.is_some_and(|told| view.now.duration_since(*told).unsigned_abs() < WAITING);
        if silent {
            return None;
        }
        self.told.insert(name, view.now);
        let mut listed = claims[..claims.len().min(NAMED)].join(", ");
        if claims.len() > NAMED {
            listed = format!("{listed} and {} more", claims.len() - NAMED);
        }
        let message = format!("Waiting on NodeClaim termination: {listed}");
        Some(event(class, "WaitingOnNodeClaimTermination", &message, view))
    }
}

/// What went wrong, if anything did.
fn problem(reply: &ClassReply) -> Option<String> {
    let error = match reply {
        ClassReply::Subnets(answer) => answer.as_ref().err(),
        ClassReply::SecurityGroups(answer) => answer.as_ref().err(),
        ClassReply::Reservations(answer) => answer.as_ref().err(),
        ClassReply::PlacementGroup(answer) => answer.as_ref().err(),
        ClassReply::FindProfile(answer) => answer.as_ref().err(),
        ClassReply::CreateProfile(answer) | ClassReply::ServiceCidr(answer) => answer.as_ref().err(),
        ClassReply::CleanUp(answer) => answer.as_ref().err(),
        ClassReply::Images(answer) => return answer.as_ref().err().map(ToString::to_string),
        ClassReply::Try(TrialResult::Refused { message, .. } | TrialResult::Unclear(message)) => {
            return Some(message.clone());
        }
        ClassReply::Try(TrialResult::Allowed) => None,
    };
    error.map(ToString::to_string)
}

/// When something is due.
fn next_look(
    class: &EC2NodeClass,
    memory: &Memory,
    kubernetes: Option<&str>,
    trial: Option<&str>,
    settings: &ClassSettings,
    now: Timestamp,
) -> Duration {
    let asked = question(class);
    let mut waits = vec![
        memory.subnets_good_for(&asked, settings.periods, now),
        memory.security_groups_good_for(&asked, now),
    ];
    if let Some(kubernetes) = kubernetes {
        waits.push(memory.images_good_for(&images_question(class, kubernetes), settings.periods, now));
    }
    if settings.reserved_capacity && !class.spec.capacity_reservation_selector_terms.is_empty() {
        waits.push(memory.reservations_good_for(&asked, now));
    }
    if class.spec.placement_group_selector.is_some() {
        waits.push(memory.placement_group_good_for(&asked, now));
    }
    if class.spec.role.is_some() {
        waits.push(memory.profile_good_for(&profile_question(class), now));
    }
    if let Some(subject) = trial {
        waits.push(memory.trial_good_for(subject, now));
    }
    soonest(waits)
}

/// The NodePools that use a class.
fn pools(key: &Key, view: &View<'_>) -> Vec<Arc<NodePool>> {
    let all = view.caches.of::<NodePool>();
    let ours = |pool: &&Arc<NodePool>| stamp::refers(&pool.spec.template.spec.node_class_ref, key);
    all.iter().map(|(_, pool)| pool).filter(ours).cloned().collect()
}

/// The write of a whole status: what is no longer in it is taken away.
fn write_status(key: &Key, class: &EC2NodeClass, status: &EC2NodeClassStatus) -> Write {
    let mut fields = json!(status);
    for name in ["subnets", "securityGroups", "capacityReservations", "amis", "instanceProfile"] {
        if fields.get(name).is_none() {
            fields[name] = Value::Null;
        }
    }
    versioned(Write::merge_patch::<EC2NodeClass>(key, json!({"status": fields})).status(), class)
}

/// A write that is refused if the class is no longer the one it was decided on.
pub(super) fn versioned(write: Write, class: &EC2NodeClass) -> Write {
    match class.metadata.resource_version.as_deref() {
        Some(version) => write.if_version(version),
        None => write,
    }
}
