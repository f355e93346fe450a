//! A planned claim seen as the set of nodes it may become.
//!
//! The provider may launch any listed type in any offering that is in stock and allowed by the claim's
//! requirements. Each such pair is an [`Outcome`]; a plan is right only if it is right for every outcome.

use std::collections::{BTreeMap, BTreeSet};

use crate::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, Labelled, Present, States, ZONE};
use crate::plan::PlannedClaim;
use crate::world::{OfferingFacts, PoolFacts, TypeFacts, World, narrow};

/// A claim of the plan together with the pool and types it names.
pub(crate) struct ClaimView<'w> {
    /// How reports call it: its place in the plan.
    pub(crate) name: String,
    pub(crate) claim: &'w PlannedClaim,
    pub(crate) pool: &'w PoolFacts<'w>,
    /// What the claim's requirements permit, by key.
    pub(crate) permitted: BTreeMap<String, States>,
    pub(crate) types: Vec<ListedType<'w>>,
    /// Labels that come neither from the type nor from the offering.
    own: BTreeMap<String, States>,
    world: &'w World<'w>,
}

/// A type of the claim's list with the offerings the claim may use.
pub(crate) struct ListedType<'w> {
    pub(crate) facts: &'w TypeFacts<'w>,
    pub(crate) offerings: Vec<&'w OfferingFacts<'w>>,
    /// Labels of the type the claim's requirements narrow.
    narrowed: BTreeMap<String, States>,
}

impl ListedType<'_> {
    /// Returns the price of the cheapest usable offering.
    pub(crate) fn price(&self) -> f64 {
        self.offerings.iter().map(|o| o.price).fold(f64::INFINITY, f64::min)
    }
}

/// One node the claim may become.
pub(crate) struct Outcome<'v> {
    pub(crate) view: &'v ClaimView<'v>,
    pub(crate) listed: &'v ListedType<'v>,
    pub(crate) offering: &'v OfferingFacts<'v>,
}

impl Outcome<'_> {
    pub(crate) fn describe(&self) -> String {
        format!("{} in {} as {}", self.listed.facts.name, self.offering.zone, self.offering.capacity_type)
    }
}

impl Labelled for Outcome<'_> {
    fn label(&self, key: &str) -> &States {
        match key {
            ZONE => &self.offering.zone_states,
            CAPACITY_TYPE => &self.offering.capacity_type_states,
            _ => {
                let of_type = self.listed.narrowed.get(key).or_else(|| self.listed.facts.labels.get(key));
                let own = || self.view.own.get(key).unwrap_or_else(|| self.view.world.undefined_label(key));
                of_type.unwrap_or_else(own)
            }
        }
    }
}

impl<'w> ClaimView<'w> {
    /// Returns the view of a claim, or nothing where its pool is unknown. Unknown types are left out.
    pub(crate) fn new(index: usize, claim: &'w PlannedClaim, world: &'w World<'w>) -> Option<Self> {
        let pool = world.pools.get(claim.node_pool.as_str())?;
        let mut permitted = BTreeMap::new();
        narrow(&mut permitted, &claim.requirements);
        let name = format!("newNodeClaims[{index}]");
        let known = claim.instance_types.iter().filter_map(|t| world.types.get(t.as_str()));
        let types = known.map(|facts| listed_type(facts, &permitted)).collect();
        let mut own = own_labels(pool, &permitted, world);
        own.insert(HOSTNAME.to_owned(), States::value(&name));
        Some(ClaimView { name, claim, pool, permitted, types, own, world })
    }

    /// Returns every node the claim may become.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = Outcome<'_>> {
        self.types.iter().flat_map(move |listed| {
            listed.offerings.iter().map(move |offering| Outcome { view: self, listed, offering })
        })
    }

    /// Returns the domains of a topology key the claim's node may be in.
    pub(crate) fn domains(&self, key: &str) -> DomainSet {
        let mut domains = DomainSet::default();
        match key {
            HOSTNAME => {
                domains.values.insert(self.name.clone());
            }
            ZONE => domains.values.extend(self.offerings().map(|o| o.zone.to_owned())),
            CAPACITY_TYPE => domains.values.extend(self.offerings().map(|o| o.capacity_type.to_owned())),
            _ => {
                for outcome in self.types.iter().filter_map(|t| self.outcome_of(t)) {
                    domains.include(outcome.label(key));
                }
            }
        }
        domains
    }

    fn offerings(&self) -> impl Iterator<Item = &'w OfferingFacts<'w>> {
        self.types.iter().flat_map(|t| t.offerings.iter().copied())
    }

    fn outcome_of<'v>(&'v self, listed: &'v ListedType<'v>) -> Option<Outcome<'v>> {
        listed.offerings.first().map(|offering| Outcome { view: self, listed, offering })
    }
}

/// The domains a node may end up in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DomainSet {
    pub(crate) values: BTreeSet<String>,
    /// The node may lack the label.
    pub(crate) may_lack: bool,
    /// The node may have a value nobody can list.
    pub(crate) open: bool,
}

impl DomainSet {
    pub(crate) fn include(&mut self, states: &States) {
        self.may_lack |= states.absent;
        match &states.present {
            Present::Only(values) => self.values.extend(values.iter().cloned()),
            Present::AllBut { .. } => self.open = true,
        }
    }

    /// Returns the domain where there is exactly one it can be.
    pub(crate) fn single(&self) -> Option<&str> {
        let sure = self.values.len() == 1 && !self.may_lack && !self.open;
        sure.then(|| self.values.iter().next().map(String::as_str)).flatten()
    }
}

fn listed_type<'w>(facts: &'w TypeFacts<'w>, permitted: &BTreeMap<String, States>) -> ListedType<'w> {
    let allows = |key: &str, value: &str| permitted.get(key).is_none_or(|p| p.has_value(value));
    let offerings = facts
        .offerings
        .iter()
        .filter(|o| allows(ZONE, o.zone) && allows(CAPACITY_TYPE, o.capacity_type))
        .collect();
    let narrowed = permitted
        .iter()
        .filter(|(key, _)| key.as_str() != INSTANCE_TYPE)
        .filter_map(|(key, p)| {
            let states = facts.labels.get(key)?;
            (!states.is_within(p)).then(|| (key.clone(), states.intersection(p)))
        })
        .collect();
    ListedType { facts, offerings, narrowed }
}

/// Labels the pool gives, and those the pool leaves open, as far as the claim has settled them.
///
/// A custom label the pool does not define never appears on a node, whatever the claim says.
fn own_labels(
    pool: &PoolFacts<'_>,
    permitted: &BTreeMap<String, States>,
    world: &World<'_>,
) -> BTreeMap<String, States> {
    let mut own: BTreeMap<String, States> = pool.permitted.clone();
    for (key, states) in permitted {
        if pool.permitted.contains_key(key) || world.well_known.contains(key.as_str()) {
            own.insert(key.clone(), states.clone());
        }
    }
    own.extend(pool.labels.iter().map(|(key, states)| (key.clone(), states.clone())));
    own
}
