//! What the provider remembers of the cluster: its EC2NodeClasses and which claim a machine belongs to.
//!
//! A controller without effects keeps it up to date, so that questions about instances that come without a name (messages, checks) are
//! answered from memory.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use karpenter_api::NodeClaim;
use karpenter_api::labels::aws::{CAPACITY_RESERVATION_ID, PLACEMENT_GROUP_ID};
use karpenter_api::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use karpenter_aws_catalogue::RefusedOffering;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, View, Wakes, Watches};

use crate::names::instance_of;
use crate::node_class::EC2NodeClass;

/// The memory. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Book {
    pages: Arc<Mutex<Pages>>,
}

#[derive(Default)]
struct Pages {
    classes: BTreeMap<String, Arc<EC2NodeClass>>,
    machines: BTreeMap<String, Arc<KnownMachine>>,
    /// The instance of each claim.
    instances: BTreeMap<String, String>,
    /// Claims by name, with their UIDs.
    uids: BTreeMap<String, String>,
}

/// A machine that a claim knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownMachine {
    pub(crate) provider_id: String,
    pub(crate) claim: String,
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    pub(crate) reservation: Option<String>,
    /// Its placement group.
    pub(crate) group: Option<String>,
}

impl KnownMachine {
    /// What it was bought as.
    pub(crate) fn offering(&self) -> RefusedOffering {
        RefusedOffering {
            instance_type: self.instance_type.as_str().into(),
            zone: self.zone.as_str().into(),
            capacity_type: self.capacity_type.as_str().into(),
            group: self.group.as_deref().map(Into::into),
            partition: None,
        }
    }

    fn of(claim: &NodeClaim) -> Option<Self> {
        let label = |key: &str| claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        Some(Self {
            provider_id: claim.status.as_ref()?.provider_id.clone()?,
            claim: claim.metadata.name.clone()?,
            instance_type: label(INSTANCE_TYPE).unwrap_or_default(),
            zone: label(ZONE).unwrap_or_default(),
            capacity_type: label(CAPACITY_TYPE).unwrap_or_default(),
            reservation: label(CAPACITY_RESERVATION_ID),
            group: label(PLACEMENT_GROUP_ID),
        })
    }
}

impl Book {
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The class of this name.
    pub(crate) fn class(&self, name: &str) -> Option<Arc<EC2NodeClass>> {
        self.lock().classes.get(name).cloned()
    }

    /// The machine of an instance.
    pub(crate) fn machine(&self, instance: &str) -> Option<Arc<KnownMachine>> {
        self.lock().machines.get(instance).cloned()
    }

    /// Whether there is a claim with this UID.
    pub(crate) fn knows(&self, uid: &str) -> bool {
        self.lock().uids.values().any(|known| known == uid)
    }

    fn note_claim(&self, name: &str, claim: Option<&NodeClaim>) {
        let mut pages = self.lock();
        match claim.and_then(|claim| claim.metadata.uid.clone()) {
            Some(uid) => pages.uids.insert(name.to_owned(), uid),
            None => pages.uids.remove(name),
        };
        let known = claim.and_then(KnownMachine::of);
        let instance = known.as_ref().and_then(|known| instance_of(&known.provider_id)).map(str::to_owned);
        let before = match &instance {
            Some(instance) => pages.instances.insert(name.to_owned(), instance.clone()),
            None => pages.instances.remove(name),
        };
        if let Some(before) = before.filter(|before| Some(before) != instance.as_ref()) {
            pages.machines.remove(&before);
        }
        if let (Some(instance), Some(known)) = (instance, known) {
            pages.machines.insert(instance, Arc::new(known));
        }
    }
}

/// Keeps the book.
pub(crate) struct BookKeeper {
    pub(crate) book: Book,
}

impl Controller for BookKeeper {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "aws.book"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<EC2NodeClass>();
        watches.reads::<NodeClaim>();
    }

    fn wake(&mut self, change: &Change, caches: &Caches, _: &mut Wakes) {
        let key = change.key();
        if change.of::<EC2NodeClass>().is_some() {
            let class = caches.of::<EC2NodeClass>().get(key).cloned();
            let classes = &mut self.book.lock().classes;
            match class {
                Some(class) => classes.insert(key.name().to_owned(), class),
                None => classes.remove(key.name()),
            };
        }
        if let Some(delta) = change.of::<NodeClaim>() {
            self.book.note_claim(key.name(), delta.new);
        }
    }

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Infallible> {
        Outcome::done()
    }
}
