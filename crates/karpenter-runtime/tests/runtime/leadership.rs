//! Of replicas that share a Lease one acts at a time, and somebody always will.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use karpenter_runtime::{Candidacy, Leadership, Permit};
use kube::Api;
use tokio::time::{Instant, timeout};

use crate::world::World;

fn replica(world: &World, identity: &str) -> Leadership {
    let candidacy = Candidacy {
        namespace: "default".to_owned(),
        name: "karpenter-leader-election".to_owned(),
        identity: identity.to_owned(),
    };
    Leadership::new(world.client.clone(), world.environment.clone(), candidacy, Permit::never())
}

async fn lease(world: &World) -> Lease {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "default");
    leases.get("karpenter-leader-election").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_second_replica_waits_while_the_first_renews() {
    let world = World::new(1);
    let (mut first, mut second) = (replica(&world, "first"), replica(&world, "second"));
    first.acquire().await;
    let both = async { tokio::join!(first.keep(), second.acquire()) };
    assert!(timeout(Duration::from_hours(1), both).await.is_err(), "nobody gives way");
    let spec = lease(&world).await.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("first"));
    assert_eq!(spec.lease_transitions, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_vanishes_is_followed_when_its_lease_ends() {
    let world = World::new(2);
    let (mut first, mut second) = (replica(&world, "first"), replica(&world, "second"));
    first.acquire().await;
    drop(first);
    let vanished = Instant::now();
    second.acquire().await;
    let waited = vanished.elapsed();
    assert!((15..=17).contains(&waited.as_secs()), "waited {waited:?}");
    let spec = lease(&world).await.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("second"));
    assert_eq!(spec.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_politely_is_followed_at_the_next_look() {
    let world = World::new(3);
    let (mut first, mut second) = (replica(&world, "first"), replica(&world, "second"));
    first.acquire().await;
    assert!(timeout(Duration::from_secs(5), second.acquire()).await.is_err());
    first.release().await;
    timeout(Duration::from_secs(3), second.acquire()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_stops() {
    let world = World::new(4);
    let mut first = replica(&world, "first");
    first.acquire().await;
    let mut taken = lease(&world).await;
    taken.spec.as_mut().unwrap().holder_identity = Some("somebody else".to_owned());
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "default");
    leases.replace("karpenter-leader-election", &kube::api::PostParams::default(), &taken).await.unwrap();
    timeout(Duration::from_secs(5), first.keep()).await.expect("it notices at its next renewal");
}
