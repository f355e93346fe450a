//! Instance profiles that nobody uses any more: a role was changed, or a class went away while the controller did not look.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use karpenter_api::NodeClaim;
use karpenter_aws_client::Error;
use karpenter_aws_client::iam::{InstanceProfile, ListInstanceProfiles};
use karpenter_runtime::{Caches, Change, Controller, Effect, Key, Outcome, Request, View, Wakes, Watches};

use super::EC2NodeClass;
use super::cloud::delete_profile;
use super::profile::Protected;
use crate::account::Account;
use crate::names::INSTANCE_PROFILE;

const PERIOD: Duration = Duration::from_mins(30);
const AGAIN: Duration = Duration::from_mins(1);

/// The collector of instance profiles.
pub(super) struct ProfileGarbage {
    /// The path of all profiles of the cluster.
    pub(super) path: String,
    pub(super) protected: Protected,
    /// What was listed, until it has been looked through.
    pub(super) listed: Option<Result<Vec<InstanceProfile>, Error>>,
}

/// What the collector asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GarbageRequest {
    List(String),
    Delete { name: String, roles: Vec<String> },
}

impl Request for GarbageRequest {
    fn action(&self) -> Option<String> {
        match self {
            Self::List(_) => None,
            Self::Delete { name, .. } => Some(format!("delete instance profile {name}")),
        }
    }
}

/// What comes back.
pub(super) enum GarbageReply {
    Listed(Result<Vec<InstanceProfile>, Error>),
    Deleted(String, Result<(), Error>),
}

impl GarbageRequest {
    pub(super) async fn perform(self, account: Account) -> GarbageReply {
        match self {
            Self::List(path) => {
                let list = ListInstanceProfiles { path_prefix: Some(path), max_items: None };
                GarbageReply::Listed(account.client().iam().list(&list).await)
            }
            Self::Delete { name, roles } => {
                let result = delete_profile(&account, &name, &roles).await;
                GarbageReply::Deleted(name, result)
            }
        }
    }
}

impl Controller for ProfileGarbage {
    type Request = GarbageRequest;
    type Reply = GarbageReply;

    fn name(&self) -> &'static str {
        "instanceprofile.garbagecollection"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<EC2NodeClass>();
        watches.reads::<NodeClaim>();
    }

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        // A class of which everything is new has a profile that is in no status yet.
        wakes.wake_after(Key::everything(), PERIOD);
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, view: &View<'_>) -> Outcome<GarbageRequest> {
        match self.listed.take() {
            None => Outcome::after(PERIOD).then(Effect::Request(GarbageRequest::List(self.path.clone()))),
            Some(Err(_)) => Outcome::after(AGAIN),
            Some(Ok(profiles)) => {
                self.protected.tidy(view.now);
                let used = used(view);
                let garbage = profiles.into_iter().filter(|profile| self.is_garbage(profile, &used, view));
                let deletions = garbage.map(|profile| {
                    Effect::Request(GarbageRequest::Delete {
                        name: profile.instance_profile_name,
                        roles: profile.roles.into_iter().map(|role| role.role_name).collect(),
                    })
                });
                Outcome::after(PERIOD).then_all(deletions)
            }
        }
    }

    fn hear(&mut self, _: &Key, reply: GarbageReply, _: &View<'_>) {
        match reply {
            GarbageReply::Listed(answer) => {
                if let Err(error) = &answer {
                    tracing::warn!("instance profiles cannot be listed: {error}");
                }
                self.listed = Some(answer);
            }
            GarbageReply::Deleted(name, Ok(())) => {
                tracing::info!("deleted instance profile {name}: nobody uses it");
            }
            GarbageReply::Deleted(name, Err(error)) => {
                tracing::warn!("instance profile {name} cannot be deleted: {error}");
            }
        }
    }
}

impl ProfileGarbage {
    fn is_garbage(&self, profile: &InstanceProfile, used: &BTreeSet<String>, view: &View<'_>) -> bool {
        let name = &profile.instance_profile_name;
        // Another replica may have made it just now.
        let young = profile
            .create_date
            .is_some_and(|created| view.now.duration_since(created) < SignedDuration::from_mins(30));
        // Not every server honours the prefix, and these are deletions.
        profile.path.starts_with(&self.path)
            && !used.contains(name)
            && !young
            && !self.protected.holds(name, view.now)
    }
}

/// Profiles that classes show and that machines were launched with.
fn used(view: &View<'_>) -> BTreeSet<String> {
    let classes = view.caches.of::<EC2NodeClass>();
    let shown = classes.iter().filter_map(|(_, class)| class.status.as_ref()?.instance_profile.clone());
    let claims = view.caches.of::<NodeClaim>();
    let launched = claims
        .iter()
        .filter_map(|(_, claim)| claim.metadata.annotations.as_ref()?.get(INSTANCE_PROFILE).cloned());
    shown.chain(launched).collect()
}
