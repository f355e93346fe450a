//! Finds, lists and stops machines.
//!
//! Questions about single machines are gathered for a moment and asked together. Nothing is stopped that does not carry our tags.

mod batch;
pub mod guard;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use karpenter_alibabacloud_client::ecs::{
    DeleteInstances, DescribeInstances, Done, Instance, ListTagResources, RebootInstance, Tag, TagResources,
};
use karpenter_alibabacloud_client::{Client, Error, ErrorKind};
use karpenter_provider::Termination;

use self::batch::Batch;
use crate::ownership;

/// The greatest page.
const PAGE: u32 = 100;
/// By tags, no more machines are described.
const MOST_BY_TAGS: usize = 1000;
/// How long a new machine may be missing from descriptions.
const MAY_BE_UNSEEN: SignedDuration = SignedDuration::from_mins(1);

/// The machines of this cluster.
pub struct Instances {
    client: Client,
    census: Mutex<Census>,
    described: Batch<Option<Instance>>,
    deleted: Batch<Done>,
}

/// Where machines are, as launches and lists told.
#[derive(Default)]
struct Census {
    machines: BTreeMap<String, Resident>,
}

struct Resident {
    pool: Arc<str>,
    zone: Arc<str>,
    /// When we started it; `None` if only a list told.
    started: Option<Timestamp>,
}

impl Instances {
    /// Machines seen through `client`.
    pub fn new(client: Client) -> Self {
        let (describing, deleting) = (client.clone(), client.clone());
        Self {
            client,
            census: Mutex::default(),
            described: Batch::new(move |ids| Box::pin(describe(describing.clone(), ids))),
            deleted: Batch::new(move |ids| Box::pin(delete_all(deleting.clone(), ids))),
        }
    }

    fn census(&self) -> MutexGuard<'_, Census> {
        self.census.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.client.environment().now()
    }

    /// Notes a machine that was just started.
    pub fn note_started(&self, id: &str, pool: &Arc<str>, zone: &Arc<str>) {
        let resident = Resident { pool: pool.clone(), zone: zone.clone(), started: Some(self.now()) };
        self.census().machines.insert(id.to_owned(), resident);
    }

    /// How many machines of a pool are in each zone.
    pub fn population(&self, pool: &str) -> BTreeMap<Arc<str>, usize> {
        let mut counts = BTreeMap::new();
        for resident in self.census().machines.values().filter(|resident| &*resident.pool == pool) {
            *counts.entry(resident.zone.clone()).or_default() += 1;
        }
        counts
    }

    /// Whether we started a machine so lately that the cloud may not describe it yet.
    fn may_be_unseen(&self, id: &str) -> bool {
        let now = self.now();
        let started = self.census().machines.get(id).and_then(|resident| resident.started);
        started.is_some_and(|started| now.duration_since(started) < MAY_BE_UNSEEN)
    }

    /// What was described once is gone when it no longer is.
    fn note_seen(&self, id: &str) {
        if let Some(resident) = self.census().machines.get_mut(id) {
            resident.started = None;
        }
    }

    /// Describes a machine; `None` if there is none.
    ///
    /// # Errors
    /// When the cloud does not answer, or when a new machine cannot be seen yet.
    pub async fn get(&self, id: &str) -> Result<Option<Instance>, Error> {
        let found = self.described.ask(id).await?;
        if found.is_some() {
            self.note_seen(id);
        } else if self.may_be_unseen(id) {
            let message = format!("{id} was started a moment ago and is not described yet: ask again");
            return Err(Error::local("DescribeInstances", ErrorKind::Transient, message));
        }
        Ok(found)
    }

    /// The machines started for a claim.
    ///
    /// # Errors
    /// When the cloud does not answer.
    pub async fn of_claim(&self, cluster: &str, claim: &str) -> Result<Vec<Instance>, Error> {
        self.by_tags(ownership::claim_filter(cluster, claim)).await
    }

    /// Every machine of the clusters, each once.
    ///
    /// # Errors
    /// When the cloud does not answer. A list with gaps would look like machines that are gone, so there is none then.
    pub async fn list(&self, clusters: &[String]) -> Result<Vec<Instance>, Error> {
        let filters = clusters.iter().flat_map(|cluster| ownership::filters(cluster));
        let lists = try_join_all(filters.map(|tags| self.by_tags(tags))).await?;
        let found: BTreeMap<String, Instance> = lists
            .into_iter()
            .flatten()
            .filter(|instance| ownership::is_ours(instance, clusters))
            .map(|instance| (instance.instance_id.clone(), instance))
            .collect();
        self.take_census(&found);
        Ok(found.into_values().collect())
    }

    fn take_census(&self, found: &BTreeMap<String, Instance>) {
        let now = self.now();
        let mut census = self.census();
        census.machines.retain(|id, resident| {
            let fresh = resident.started.is_some_and(|started| now.duration_since(started) < MAY_BE_UNSEEN);
            fresh || found.contains_key(id)
        });
        for (id, instance) in found {
            let pool = instance.tag(karpenter_api::labels::NODEPOOL).unwrap_or_default();
            census.machines.entry(id.clone()).or_insert_with(|| Resident {
                pool: pool.into(),
                zone: instance.zone_id.as_deref().unwrap_or_default().into(),
                started: None,
            });
        }
    }

    async fn by_tags(&self, tags: Vec<Tag>) -> Result<Vec<Instance>, Error> {
        let request = DescribeInstances { tags: tags.clone(), max_results: Some(PAGE), ..Default::default() };
        let found = self.client.list(&request).await?;
        if found.len() < MOST_BY_TAGS {
            return Ok(found);
        }
        // There may be more than are described by tags: the tags themselves can be listed to the end.
        let request = ListTagResources { resource_type: "instance".to_owned(), tags };
        let mut ids: Vec<String> =
            self.client.list(&request).await?.into_iter().map(|resource| resource.resource_id).collect();
        ids.sort_unstable();
        ids.dedup();
        let pages = ids.chunks(PAGE as usize).map(|page| describe(self.client.clone(), page.to_vec()));
        let pages = try_join_all(pages).await?;
        Ok(pages.into_iter().flatten().filter_map(|(_, instance)| instance).collect())
    }

    /// The machines the cloud is about to take back.
    ///
    /// # Errors
    /// When the cloud does not answer.
    pub async fn recycled(&self, cluster: &str) -> Result<Vec<Instance>, Error> {
        let [tags, _] = ownership::filters(cluster);
        let lock_reason = Some("Recycling".to_owned());
        self.client
            .list(&DescribeInstances { lock_reason, tags, max_results: Some(PAGE), ..Default::default() })
            .await
    }

    /// Ends a machine.
    ///
    /// # Errors
    /// What the cloud says.
    pub async fn delete(&self, id: &str) -> Result<(), Error> {
        self.deleted.ask(id).await.map(|_| ())
    }

    /// Restarts a machine.
    ///
    /// # Errors
    /// What the cloud says.
    pub async fn reboot(&self, id: &str) -> Result<(), Error> {
        self.client
            .call(&RebootInstance { instance_id: id.to_owned(), force_stop: Some(true) })
            .await
            .map(|_| ())
    }

    /// Gives a machine the name that the console shows.
    ///
    /// # Errors
    /// What the cloud says.
    pub async fn name(&self, id: &str, name: &str) -> Result<(), Error> {
        let request = TagResources {
            resource_type: "instance".to_owned(),
            resource_ids: vec![id.to_owned()],
            tags: vec![Tag::new(ownership::NAME_TAG, name)],
        };
        self.client.call(&request).await.map(|_| ())
    }

    /// Ends a machine that is ours; to be repeated until it is gone.
    ///
    /// # Errors
    /// What the cloud says, or why the machine is left alone.
    pub async fn terminate(
        &self,
        id: &str,
        clusters: &[String],
        orphan: bool,
    ) -> Result<Termination, String> {
        let instance = match self.get(id).await {
            Ok(Some(instance)) => instance,
            Ok(None) => {
                self.census().machines.remove(id);
                return Ok(Termination::Gone);
            }
            Err(error) => return Err(error.to_string()),
        };
        guard::may_be_stopped(&instance, clusters, orphan, self.now())?;
        match self.delete(id).await {
            Ok(()) => Ok(Termination::Started),
            Err(error) if error.is_not_found() => Ok(Termination::Gone),
            Err(error) if error.code == "OperationDenied.DeletionProtection" => {
                Err(format!("{error}; switch off the deletion protection of {id}"))
            }
            // It is still being set up, or already on its way out.
            Err(error) if error.kind == ErrorKind::State => Ok(Termination::Started),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Describes up to a hundred machines; who is missing in the answer does not exist.
async fn describe(client: Client, ids: Vec<String>) -> Result<BTreeMap<String, Option<Instance>>, Error> {
    let request =
        DescribeInstances { instance_ids: ids.clone(), max_results: Some(PAGE), ..Default::default() };
    let mut found: BTreeMap<String, Option<Instance>> = ids.into_iter().map(|id| (id, None)).collect();
    for instance in client.list(&request).await? {
        found.insert(instance.instance_id.clone(), Some(instance));
    }
    Ok(found)
}

/// Ends machines together. One that cannot be ended makes the whole call fail; the caller then asks for each alone.
async fn delete_all(client: Client, ids: Vec<String>) -> Result<BTreeMap<String, Done>, Error> {
    let request =
        DeleteInstances { instance_ids: ids.clone(), force: Some(true), terminate_subscription: Some(true) };
    let done = client.call(&request).await?;
    Ok(ids.into_iter().map(|id| (id, done.clone())).collect())
}
