//! Leadership: of several replicas that share a Lease, one acts at a time.
//!
//! The Lease is Kubernetes' own and is used as client-go uses it, so a controller written in Go and this one never act
//! together. A holder that has not renewed for the length of its lease, by *our* clock since we last saw it change, has lost it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use karpenter_environment::Environment;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::perform::describe;
use crate::permit::Permit;

/// How long a lease lasts that is not renewed.
const LASTS: Duration = Duration::from_secs(15);
/// A leader that could not renew for this long stops, well before anybody else begins.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);
/// How often a leader renews, and others look.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Which Lease, and who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidacy {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Our name in it; no two replicas may share one.
    pub identity: String,
}

/// A replica that wants to lead, or leads.
pub struct Leadership {
    leases: Api<Lease>,
    environment: Arc<dyn Environment>,
    candidacy: Candidacy,
    /// Covers what we do while the lease surely lasts.
    permit: Permit,
    /// The Lease as it was last seen to change, and when that was.
    seen: Option<(Lease, Instant)>,
}

impl Leadership {
    /// A replica that does not lead yet. `permit` is valid while the lease surely is ours: it ends by itself when that was not renewed,
    /// well before anybody else may lead.
    pub fn new(
        client: Client,
        environment: Arc<dyn Environment>,
        candidacy: Candidacy,
        permit: Permit,
    ) -> Self {
        let leases = Api::namespaced(client, &candidacy.namespace);
        Self { leases, environment, candidacy, permit, seen: None }
    }

    /// Waits until we lead.
    pub async fn acquire(&mut self) {
        let mut failed = false;
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => failed = false,
                Err(error) => {
                    if !std::mem::replace(&mut failed, true) {
                        let Candidacy { namespace, name, .. } = &self.candidacy;
                        tracing::warn!("cannot get the Lease {namespace}/{name}: {error}; trying again");
                    }
                }
            }
            tokio::time::sleep(self.next_look()).await;
        }
    }

    /// How long until the lease is worth another look: at the latest when it ends.
    fn next_look(&self) -> Duration {
        let Some((lease, since)) = &self.seen else { return LOOK_EVERY };
        let left = lasts(lease).saturating_sub(since.elapsed());
        if left.is_zero() { LOOK_EVERY } else { left.min(LOOK_EVERY) }
    }

    /// Renews until that fails for too long: then others may lead, and we must stop.
    pub async fn keep(&mut self) {
        // Others count from when they see a renewal, so from the moment it is asked for the lease surely lasts.
        let mut renewed = Instant::now();
        while self.permit.is_valid() && renewed.elapsed() < GIVE_UP_AFTER {
            tokio::time::sleep(LOOK_EVERY).await;
            let left = GIVE_UP_AFTER.saturating_sub(renewed.elapsed());
            let asked = Instant::now();
            match tokio::time::timeout(left, self.attempt()).await {
                Ok(Ok(true)) => renewed = asked,
                Ok(Ok(false)) => return,
                Ok(Err(error)) => tracing::warn!("cannot renew the lease: {error}; trying again"),
                Err(_) => tracing::warn!("the API server has not answered the renewal of the lease"),
            }
        }
    }

    /// Gives the Lease up, so that the next leader need not wait for its end.
    pub async fn release(mut self) {
        self.permit.end();
        let Some((lease, _)) = self.seen.take().filter(|(lease, _)| self.is_ours(lease)) else { return };
        let now = Some(MicroTime(self.environment.now()));
        let mut freed = lease;
        let spec = freed.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time.clone_from(&now);
        spec.acquire_time = now;
        if let Err(error) = self.leases.replace(&self.candidacy.name, &PostParams::default(), &freed).await {
            tracing::warn!("cannot release the lease: {}; it ends by itself", describe(&error));
        }
    }

    /// Takes or renews the Lease if that is possible now, and returns whether it is ours.
    async fn attempt(&mut self) -> Result<bool, String> {
        let name = self.candidacy.name.clone();
        let (asked, now) = (Instant::now(), self.environment.now());
        let Some(found) = self.leases.get_opt(&name).await.map_err(|error| describe(&error))? else {
            let created = self.leases.create(&PostParams::default(), &self.first(now)).await;
            return self.settle(created, asked);
        };
        if self.is_held_by_another(&found) {
            self.permit.end();
            return Ok(false);
        }
        let claimed = self.claimed(found, now);
        let replaced = self.leases.replace(&name, &PostParams::default(), &claimed).await;
        self.settle(replaced, asked)
    }

    /// Looks at a Lease: remembers when it last changed, and says whether somebody else holds it.
    fn is_held_by_another(&mut self, found: &Lease) -> bool {
        let unchanged = self.seen.as_ref().is_some_and(|(seen, _)| seen.spec == found.spec);
        if !unchanged {
            self.seen = Some((found.clone(), Instant::now()));
        }
        let spec = found.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        if holder.is_empty() || self.is_ours(found) {
            return false;
        }
        self.seen.as_ref().is_some_and(|(_, since)| since.elapsed() < lasts(found))
    }

    fn is_ours(&self, lease: &Lease) -> bool {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        holder == Some(&self.candidacy.identity)
    }

    fn first(&self, now: Timestamp) -> Lease {
        let Candidacy { namespace, name, .. } = &self.candidacy;
        let metadata = ObjectMeta {
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            ..ObjectMeta::default()
        };
        let spec = LeaseSpec { lease_transitions: Some(0), ..self.holding(now) };
        Lease { metadata, spec: Some(spec) }
    }

    /// The Lease with us as its holder. Its version goes along, so of two who try at once one is refused.
    fn claimed(&self, mut lease: Lease, now: Timestamp) -> Lease {
        let ours = self.is_ours(&lease);
        let old = lease.spec.take().unwrap_or_default();
        let mut spec = self.holding(now);
        if ours {
            spec.acquire_time = old.acquire_time.or(spec.acquire_time);
        }
        spec.lease_transitions = Some(old.lease_transitions.unwrap_or_default() + i32::from(!ours));
        lease.spec = Some(spec);
        lease
    }

    fn holding(&self, now: Timestamp) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.candidacy.identity.clone()),
            lease_duration_seconds: i32::try_from(LASTS.as_secs()).ok(),
            acquire_time: Some(MicroTime(now)),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }
    }

    fn settle(&mut self, written: kube::Result<Lease>, asked: Instant) -> Result<bool, String> {
        match written {
            Ok(lease) => {
                self.permit.extend(asked + GIVE_UP_AFTER);
                self.seen = Some((lease, Instant::now()));
                Ok(true)
            }
            // Somebody else was quicker.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.permit.end();
                Ok(false)
            }
            Err(error) => Err(describe(&error)),
        }
    }
}

/// How long a lease lasts from its last renewal.
fn lasts(lease: &Lease) -> Duration {
    let chosen = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    chosen.and_then(|seconds| u64::try_from(seconds).ok()).map_or(LASTS, Duration::from_secs)
}
