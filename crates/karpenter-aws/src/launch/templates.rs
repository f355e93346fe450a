//! The launch templates that exist: each is made once, used by many launches, and deleted when nobody has used it for a while.
//!
//! Names follow from contents, so whoever finds a template with the right name may use it. What a process before this one left behind is
//! taken over, and goes the same way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_aws_client::ec2::{
    CreateLaunchTemplate, DeleteLaunchTemplate, DescribeLaunchTemplates, Filter,
};
use karpenter_aws_client::{Error, ErrorKind};
use tokio::sync::OnceCell;

use super::template::PREFIX;
use crate::account::Account;
use crate::names::EKS_CLUSTER;

/// How long a template is kept that nobody uses.
const UNUSED: SignedDuration = SignedDuration::from_mins(5);
const PAGE: u32 = 200;

/// The templates. Clones share them.
#[derive(Clone)]
pub(crate) struct Templates {
    account: Account,
    cluster: String,
    known: Arc<Mutex<BTreeMap<String, Arc<Template>>>>,
    /// Whether templates of a process before this one are known.
    taken_over: Arc<OnceCell<()>>,
}

struct Template {
    /// Its id, once it is known to exist.
    id: OnceCell<String>,
    used: Mutex<Timestamp>,
}

impl Templates {
    pub(crate) fn new(account: Account, cluster: String) -> Self {
        Self { account, cluster, known: Arc::default(), taken_over: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Template>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that the template exists, and returns its name.
    pub(crate) async fn ensure(
        &self,
        request: &CreateLaunchTemplate,
        now: Timestamp,
    ) -> Result<String, Error> {
        let name = &request.launch_template_name;
        let template =
            Arc::clone(self.lock().entry(name.clone()).or_insert_with(|| Arc::new(Template::new(now))));
        template.use_at(now);
        // Whoever comes while it is looked for or made waits for the same answer.
        template.id.get_or_try_init(|| self.find_or_create(request)).await?;
        Ok(name.clone())
    }

    async fn find_or_create(&self, request: &CreateLaunchTemplate) -> Result<String, Error> {
        let name = &request.launch_template_name;
        if let Some(id) = self.find(name).await? {
            return Ok(id);
        }
        match self.account.call(request).await {
            Ok(answer) => Ok(answer.launch_template.launch_template_id),
            // Another replica was quicker.
            Err(error) if error.kind == ErrorKind::AlreadyExists => self.find(name).await?.ok_or(error),
            Err(error) => Err(error),
        }
    }

    async fn find(&self, name: &str) -> Result<Option<String>, Error> {
        let request = DescribeLaunchTemplates {
            launch_template_names: vec![name.to_owned()],
            ..DescribeLaunchTemplates::default()
        };
        match self.account.list(&request).await {
            Ok(found) => Ok(found.into_iter().next().map(|template| template.launch_template_id)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Forgets templates that turned out not to exist.
    pub(crate) fn invalidate<'a>(&self, names: impl IntoIterator<Item = &'a String>) {
        let mut known = self.lock();
        for name in names {
            known.remove(name);
        }
    }

    /// Takes over what is there already, once, and deletes what nobody has used for a while.
    pub(crate) async fn keep_house(&self, now: Timestamp) -> Result<(), Error> {
        self.taken_over.get_or_try_init(|| self.take_over(now)).await?;
        self.clean_up(now).await
    }

    /// Takes over the templates of this cluster that are there already.
    async fn take_over(&self, now: Timestamp) -> Result<(), Error> {
        let request = DescribeLaunchTemplates {
            filters: vec![Filter::new(format!("tag:{EKS_CLUSTER}"), [self.cluster.as_str()])],
            max_results: Some(PAGE),
            ..DescribeLaunchTemplates::default()
        };
        let found = self.account.list(&request).await?;
        let mut known = self.lock();
        let ours = found.into_iter().filter(|template| template.launch_template_name.starts_with(PREFIX));
        for template in ours {
            known.entry(template.launch_template_name).or_insert_with(|| {
                let taken_over = Template::new(now);
                let _ = taken_over.id.set(template.launch_template_id);
                Arc::new(taken_over)
            });
        }
        Ok(())
    }

    /// Deletes templates that nobody has used for a while.
    async fn clean_up(&self, now: Timestamp) -> Result<(), Error> {
        let unused: Vec<(String, Arc<Template>)> = {
            let mut known = self.lock();
            let old = |template: &Template| now.duration_since(template.used()) >= UNUSED;
            let names: Vec<String> =
                known.iter().filter(|(_, template)| old(template)).map(|(name, _)| name.clone()).collect();
            names.into_iter().filter_map(|name| known.remove_entry(&name)).collect()
        };
        for (name, template) in unused {
            let Some(id) = template.id.get().cloned() else { continue };
            let request = DeleteLaunchTemplate { launch_template_id: Some(id), launch_template_name: None };
            match self.account.call(&request).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    // It is tried again at the next cleaning.
                    self.lock().entry(name).or_insert(template);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl Template {
    fn new(now: Timestamp) -> Self {
        Self { id: OnceCell::new(), used: Mutex::new(now) }
    }

    fn used(&self) -> Timestamp {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn use_at(&self, now: Timestamp) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}
