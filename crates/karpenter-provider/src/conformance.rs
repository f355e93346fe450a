//! What every provider must do, whatever its cloud: the suite that each provider's tests run.
//!
//! It asks a provider what a controller asks it, as often as a controller that crashes and starts anew would, and looks at nothing but the
//! answers. What a cloud refuses, loses or forgets besides is for the provider's own tests. Start at [`check`].

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use karpenter_api::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use karpenter_api::{NodeClaim, NodePool, Operator, Requirement};

use crate::{LaunchError, Machine, Provider, RepairPolicies, Termination};

/// How often a machine is asked to end, with time to settle in between.
const PATIENCE: usize = 60;

/// A provider and what the suite must know of its world.
pub struct Subject {
    /// The provider, with a NodeClass that is ready.
    pub provider: Arc<dyn Provider>,
    /// A NodePool of that NodeClass.
    pub pool: NodePool,
    /// Makes a claim of that pool with this name, not yet in the cluster: its UID follows from the name.
    pub claim: Box<dyn Fn(&str) -> NodeClaim + Send + Sync>,
    /// Lets what was begun in the cloud come to its end.
    pub settle: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
}

/// Holds a provider to the contract.
///
/// # Panics
///
/// With the sentence that does not hold.
pub async fn check(subject: &Subject) {
    sells(subject).await;
    let first = launches_once(subject, "first").await;
    let second = launches_once(subject, "second").await;
    assert_ne!(first.1.provider_id, second.1.provider_id, "two claims have two machines");
    finds(subject, &[&first, &second]).await;
    does_not_drift(subject, &first).await;
    cannot_do_the_impossible(subject).await;
    ends(subject, &first, &second).await;
    warns(subject).await;
    let policies = RepairPolicies::new(subject.provider.repair_policies());
    assert!(policies.is_ok(), "repair policies are sound: {:?}", policies.err());
}

/// A claim as it stands once its machine was written down, and the machine.
type Launched = (Arc<NodeClaim>, Machine);

async fn sells(subject: &Subject) {
    let pool = Arc::new(subject.pool.clone());
    let types = subject.provider.instance_types(pool.clone()).await.expect("a ready NodeClass has types");
    assert!(!types.is_empty(), "something is sold");
    let names: BTreeSet<_> = types.iter().map(|known| known.name.clone()).collect();
    assert_eq!(names.len(), types.len(), "every instance type is listed once");
    for known in types.iter() {
        assert!(known.capacity.contains("cpu") && known.capacity.contains("memory"), "{}", known.name);
        for offering in &known.offerings {
            let complete = offering.zone().is_some() && offering.capacity_type().is_some();
            assert!(complete, "an offering of {} names its zone and its capacity type", known.name);
            assert!(offering.price >= 0.0, "{} is sold for {}", known.name, offering.price);
        }
    }
    let again = subject.provider.instance_types(pool).await.expect("they are known");
    let same = types.iter().zip(again.iter()).all(|(one, other)| Arc::ptr_eq(one, other));
    assert!(same && types.len() == again.len(), "what has not changed is answered from memory");
}

async fn launches_once(subject: &Subject, name: &str) -> Launched {
    let claim = Arc::new((subject.claim)(name));
    let machine = subject.provider.launch(claim.clone()).await;
    let machine = machine.unwrap_or_else(|error| panic!("{name} is launched: {error}"));
    for label in [INSTANCE_TYPE, ZONE, CAPACITY_TYPE] {
        assert!(machine.labels.contains_key(label), "the choice is told: {label}");
    }
    for wanted in &claim.spec.requirements {
        if let (Some(found), "In") = (machine.labels.get(&wanted.key), wanted.operator.as_str()) {
            assert!(wanted.values().contains(found), "{} of {name} is {found}", wanted.key);
        }
    }
    assert!(machine.allocatable.contains_key("cpu"), "what pods may use is told");
    let again = subject.provider.launch(claim.clone()).await.expect("a repeated launch succeeds");
    assert_eq!(again.provider_id, machine.provider_id, "a repeated launch is the same machine");
    (Arc::new(written(&claim, &machine)), machine)
}

/// The claim with its machine written down, as the controllers do.
fn written(claim: &NodeClaim, machine: &Machine) -> NodeClaim {
    let mut claim = claim.clone();
    claim.metadata.annotations.get_or_insert_default().extend(machine.annotations.clone());
    claim.metadata.labels.get_or_insert_default().extend(machine.labels.clone());
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(machine.provider_id.clone());
    status.image_id.clone_from(&machine.image_id);
    claim
}

async fn finds(subject: &Subject, launched: &[&Launched]) {
    (subject.settle)().await;
    let listed = subject.provider.list().await.expect("machines are listed");
    assert_eq!(listed.len(), launched.len(), "every machine is listed, and only ours");
    for (_, machine) in launched {
        let id = &machine.provider_id;
        assert!(listed.iter().any(|other| other.provider_id == *id), "{id} is listed");
        let found = subject.provider.find(id.as_str().into()).await.expect("it is looked up");
        let found = found.unwrap_or_else(|| panic!("{id} is found"));
        assert!(!found.terminating, "{id} runs");
        assert_eq!(found.labels.get(INSTANCE_TYPE), machine.labels.get(INSTANCE_TYPE));
        assert_eq!(found.labels.get(ZONE), machine.labels.get(ZONE));
        assert_eq!(found.labels.get(CAPACITY_TYPE), machine.labels.get(CAPACITY_TYPE));
    }
}

async fn does_not_drift(subject: &Subject, (claim, _): &Launched) {
    let drift = subject.provider.drift(claim.clone()).await.expect("drift can be told");
    assert_eq!(drift, None, "a machine is what was asked for");
}

async fn cannot_do_the_impossible(subject: &Subject) {
    let mut claim = (subject.claim)("impossible");
    claim.spec.requirements.retain(|line| line.key != INSTANCE_TYPE);
    claim.spec.requirements.push(Requirement::new(INSTANCE_TYPE, Operator::In, ["no.such-machine"]));
    let refused = subject.provider.launch(Arc::new(claim)).await;
    let says = matches!(refused, Err(LaunchError::InsufficientCapacity(_)));
    assert!(says, "what nobody sells cannot be had: {refused:?}");
}

async fn ends(subject: &Subject, first: &Launched, second: &Launched) {
    end(subject, &first.0).await;
    let id: Arc<str> = first.1.provider_id.as_str().into();
    let found = subject.provider.find(id.clone()).await.expect("it is looked up");
    assert!(found.is_none_or(|found| found.terminating), "{id} is gone");
    let listed = subject.provider.list().await.expect("machines are listed");
    let running: Vec<_> = listed.iter().filter(|machine| !machine.terminating).collect();
    assert!(
        running.len() == 1 && running[0].provider_id == second.1.provider_id,
        "who ends one machine leaves the others alone: {running:?}"
    );
    end(subject, &first.0).await;
    end(subject, &second.0).await;
    let never = Arc::new((subject.claim)("never"));
    let gone = subject.provider.terminate(never).await;
    assert_eq!(gone, Ok(Termination::Gone), "who never had a machine has none");
}

/// Asks until the machine is gone.
async fn end(subject: &Subject, claim: &Arc<NodeClaim>) {
    for _ in 0..PATIENCE {
        let ended = subject.provider.terminate(claim.clone()).await;
        if ended.expect("a termination can be repeated") == Termination::Gone {
            return;
        }
        (subject.settle)().await;
    }
    panic!("a machine ends in good time");
}

async fn warns(subject: &Subject) {
    if subject.provider.warns() {
        let warnings = subject.provider.warnings().await.expect("warnings are told");
        subject.provider.heeded(warnings).await.expect("what was heeded is heard");
    }
}
