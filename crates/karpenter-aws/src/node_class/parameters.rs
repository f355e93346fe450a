//! Parameters of SSM, remembered: AWS publishes the newest images in them, and they change rarely.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_aws_client::Error;
use karpenter_aws_client::ec2::{DescribeImages, Filter};

use super::images::{WantedParameter, is_deprecated};
use crate::account::Account;

/// Parameters that AWS publishes.
const PUBLISHED: SignedDuration = SignedDuration::from_hours(24);
/// Parameters of users, who expect to see their own changes.
const OWN: SignedDuration = SignedDuration::from_mins(5);
/// What does not exist is looked for again soon.
const MISSING: SignedDuration = SignedDuration::from_mins(5);

/// The parameters. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    known: Arc<Mutex<BTreeMap<String, Known>>>,
}

#[derive(Clone, Debug)]
struct Known {
    value: Option<String>,
    until: Timestamp,
    /// Whether AWS may make it hold another image.
    mutable: bool,
}

impl Parameters {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a parameter holds; `None` if it does not exist.
    pub(super) async fn get(
        &self,
        account: &Account,
        wanted: &WantedParameter,
        now: Timestamp,
    ) -> Result<Option<String>, Error> {
        if let Some(known) = self.lock().get(&wanted.path).filter(|known| now < known.until) {
            return Ok(known.value.clone());
        }
        let value = account.client().ssm().parameter(&wanted.path).await?.map(|parameter| parameter.value);
        let ttl = match (&value, wanted.published) {
            (None, _) => MISSING,
            (Some(_), true) => PUBLISHED,
            (Some(_), false) => OWN,
        };
        let until = now.saturating_add(ttl).unwrap_or(Timestamp::MAX);
        let known = Known { value: value.clone(), until, mutable: wanted.mutable };
        self.lock().insert(wanted.path.clone(), known);
        Ok(value)
    }

    /// The images that parameters hold which AWS may change.
    fn mutable_images(&self) -> BTreeSet<String> {
        let known = self.lock();
        known.values().filter(|known| known.mutable).filter_map(|known| known.value.clone()).collect()
    }

    /// Forgets parameters that hold one of these images.
    fn forget(&self, images: &BTreeSet<String>) -> usize {
        let mut known = self.lock();
        let before = known.len();
        known.retain(|_, known| {
            !known.value.as_ref().is_some_and(|value| known.mutable && images.contains(value))
        });
        before - known.len()
    }

    /// Forgets parameters whose image is deprecated, so that the newer one is read; returns how many.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub(super) async fn forget_deprecated(&self, account: &Account, now: Timestamp) -> Result<usize, Error> {
        let ids = self.mutable_images();
        if ids.is_empty() {
            return Ok(0);
        }
        let request = DescribeImages {
            filters: vec![Filter::new("image-id", ids)],
            include_deprecated: Some(true),
            ..DescribeImages::default()
        };
        let images = account.list(&request).await?;
        let deprecated = images.iter().filter(|image| is_deprecated(image, now));
        Ok(self.forget(&deprecated.map(|image| image.image_id.clone()).collect()))
    }
}
