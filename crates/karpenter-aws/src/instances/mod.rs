//! Instances that run: finding, listing, ending, restarting and tagging them, many with one call.

mod batch;
pub(crate) mod machine;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use karpenter_api::labels::NODEPOOL;
use karpenter_api::labels::aws::NODE_CLASS;
use karpenter_aws_client::Error;
use karpenter_aws_client::ec2::{
    CreateTags, DescribeInstances, Filter, Instance, RebootInstances, Tag, TerminateInstances,
};

use crate::account::Account;
use crate::metrics::AwsMetrics;
use crate::names::{EKS_CLUSTER, NODE_CLAIM};
use batch::Batcher;
use machine::STATES;

/// The most values a filter takes.
const DESCRIBED_AT_ONCE: usize = 200;
const ENDED_AT_ONCE: usize = 500;
const PAGE: u32 = 1000;

/// The instances of a cluster. Clones share batches and memory.
#[derive(Clone)]
pub(crate) struct Instances {
    account: Account,
    cluster: String,
    describe: Batcher<Arc<Instance>>,
    terminate: Batcher<String>,
    /// As they were when they were last seen.
    seen: Arc<Mutex<BTreeMap<String, Arc<Instance>>>>,
}

impl Instances {
    pub(crate) fn new(account: Account, cluster: String, metrics: &AwsMetrics) -> Self {
        let asks = account.clone();
        let describe = move |ids: Vec<String>| {
            let account = asks.clone();
            async move { described(&account, ids).await }.boxed()
        };
        let asks = account.clone();
        let terminate = move |ids: Vec<String>| {
            let account = asks.clone();
            async move { terminated(&account, ids).await }.boxed()
        };
        let measured = |name: &'static str| {
            let metrics = metrics.clone();
            move |size, wait| metrics.batched(name, size, wait)
        };
        Self {
            account,
            cluster,
            describe: Batcher::new(DESCRIBED_AT_ONCE, describe, measured("describe_instances")),
            terminate: Batcher::new(ENDED_AT_ONCE, terminate, measured("terminate_instances")),
            seen: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Instance>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks an instance up; `None` if it is gone.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<Arc<Instance>>, Error> {
        let found = self.describe.ask(id).await?;
        match &found {
            Some(instance) => self.lock().insert(id.to_owned(), Arc::clone(instance)),
            None => self.lock().remove(id),
        };
        Ok(found)
    }

    /// The instance as it was last seen.
    pub(crate) fn remembered(&self, id: &str) -> Option<Arc<Instance>> {
        self.lock().get(id).cloned()
    }

    /// The instance as it was last seen; it is looked up if it never was.
    pub(crate) async fn remembered_or_found(&self, id: &str) -> Result<Option<Arc<Instance>>, Error> {
        match self.remembered(id) {
            Some(instance) => Ok(Some(instance)),
            None => self.find(id).await,
        }
    }

    /// Every instance of the cluster that Karpenter launched.
    pub(crate) async fn list(&self) -> Result<Vec<Arc<Instance>>, Error> {
        let mut filters = self.ours();
        filters.push(Filter::new("tag-key", [NODEPOOL]));
        filters.push(Filter::new("tag-key", [NODE_CLASS]));
        let found = self.look(filters).await?;
        *self.lock() =
            found.iter().map(|instance| (instance.instance_id.clone(), Arc::clone(instance))).collect();
        Ok(found)
    }

    /// The instance that was launched for a claim.
    pub(crate) async fn of_claim(&self, claim: &str) -> Result<Option<Arc<Instance>>, Error> {
        let mut filters = self.ours();
        filters.push(Filter::new(format!("tag:{NODE_CLAIM}"), [claim]));
        let found = self.look(filters).await?;
        Ok(found.into_iter().find(|instance| !machine::is_ending(instance)))
    }

    fn ours(&self) -> Vec<Filter> {
        vec![
            Filter::new(format!("tag:{EKS_CLUSTER}"), [self.cluster.as_str()]),
            Filter::new("instance-state-name", STATES),
        ]
    }

    async fn look(&self, filters: Vec<Filter>) -> Result<Vec<Arc<Instance>>, Error> {
        let request = DescribeInstances { instance_ids: Vec::new(), filters, max_results: Some(PAGE) };
        Ok(self.account.list(&request).await?.into_iter().map(Arc::new).collect())
    }

    /// Ends an instance, and returns its state; `None` if there is none.
    pub(crate) async fn terminate(&self, id: &str) -> Result<Option<String>, Error> {
        self.terminate.ask(id).await
    }

    /// Forgets an instance that is gone.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Restarts an instance.
    pub(crate) async fn reboot(&self, id: &str) -> Result<(), Error> {
        self.account.call(&RebootInstances { instance_ids: vec![id.to_owned()] }).await.map(|_| ())
    }

    /// Tags an instance.
    pub(crate) async fn tag(&self, id: &str, tags: Vec<Tag>) -> Result<(), Error> {
        self.account.call(&CreateTags { resources: vec![id.to_owned()], tags }).await.map(|_| ())
    }
}

/// Describes instances by a filter, which does not mind those that are gone.
async fn described(account: &Account, ids: Vec<String>) -> Result<BTreeMap<String, Arc<Instance>>, Error> {
    let filters = vec![Filter::new("instance-id", ids), Filter::new("instance-state-name", STATES)];
    let request = DescribeInstances { instance_ids: Vec::new(), filters, max_results: Some(PAGE) };
    let found = account.list(&request).await?;
    Ok(found.into_iter().map(|instance| (instance.instance_id.clone(), Arc::new(instance))).collect())
}

async fn terminated(account: &Account, ids: Vec<String>) -> Result<BTreeMap<String, String>, Error> {
    let answer = account.call(&TerminateInstances { instance_ids: ids }).await?;
    Ok(answer.instances.into_iter().map(|change| (change.instance_id, change.current_state.name)).collect())
}
