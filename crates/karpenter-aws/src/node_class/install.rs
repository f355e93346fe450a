//! Puts the controllers of EC2NodeClasses into a runtime.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use karpenter_environment::Environment;
use karpenter_runtime::Runtime;

use super::cloud::ClassCloud;
use super::controller::{ClassSettings, NodeClassController};
use super::garbage::{GarbageRequest, ProfileGarbage};
use super::memory::{Periods, Slot};
use super::parameters::Parameters;
use super::profile::{Home, Protected};
use super::question::Launches;
use super::status::ResolvedClasses;
use super::version::{KubernetesVersion, VersionSource};
use crate::account::Account;
use crate::upkeep::{Periodic, Work};

const VERSION: Duration = Duration::from_mins(5);
const DEPRECATED_IMAGES: Duration = Duration::from_mins(30);

/// All that the controllers of EC2NodeClasses need.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct ClassControllers {
    /// The account they ask.
    pub account: Account,
    /// The cluster's name.
    pub cluster: String,
    /// How nodes trust the API server; part of the hash.
    pub ca_bundle: Option<String>,
    /// Whether the gate `ReservedCapacity` is on.
    pub reserved_capacity: bool,
    /// Whether the gate `NodeClassCEL` is on.
    pub formulas: bool,
    /// Whether launches are tried before a class is ready.
    pub dry_run: bool,
    /// Whether IAM cannot be reached.
    pub isolated_vpc: bool,
    /// How often subnets are looked at.
    pub subnet_refresh: Duration,
    /// How often images are looked at.
    pub ami_refresh: Duration,
    /// Where the cluster's version is asked for.
    pub version: VersionSource,
    /// Where launches find what was resolved.
    pub resolved: ResolvedClasses,
    /// What validation asks of launches.
    pub launches: Arc<dyn Launches>,
}

impl ClassControllers {
    /// Adds the controllers. They read NodeClaims and NodePools, which others watch.
    pub fn install(self, runtime: &mut Runtime, environment: &Arc<dyn Environment>) {
        let home = Home { cluster: self.cluster.clone(), region: self.account.region().to_owned() };
        let (parameters, protected, version) =
            (Parameters::default(), Protected::default(), KubernetesVersion::default());
        let cloud = ClassCloud::new(
            self.account.clone(),
            self.cluster.clone(),
            Arc::clone(environment),
            Arc::clone(&self.launches),
            parameters.clone(),
        );
        if !self.isolated_vpc {
            let garbage = ProfileGarbage { path: home.path(), protected: protected.clone(), listed: None };
            let account = self.account.clone();
            runtime
                .add_with(garbage, move |request: GarbageRequest| request.perform(account.clone()).boxed());
        }
        let controller = NodeClassController {
            settings: ClassSettings {
                home,
                ca_bundle: self.ca_bundle,
                reserved_capacity: self.reserved_capacity,
                formulas: self.formulas,
                dry_run: self.dry_run,
                isolated_vpc: self.isolated_vpc,
                periods: Periods { subnets: self.subnet_refresh, images: self.ami_refresh },
            },
            version: version.clone(),
            resolved: self.resolved,
            launches: self.launches,
            protected,
            service_cidr: Slot::default(),
            classes: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        runtime.add_with(controller, move |request| cloud.answer(request));
        let (account, source) = (self.account.clone(), self.version);
        runtime.add_with(Periodic::new("providers.version", VERSION, None), move |_: Work| {
            let (version, account, source) = (version.clone(), account.clone(), source.clone());
            async move { version.refresh(&account, &source).await }.boxed()
        });
        let (account, environment) = (self.account, Arc::clone(environment));
        let invalidation = Periodic::new("providers.ssm.invalidation", DEPRECATED_IMAGES, None);
        runtime.add_with(invalidation, move |_: Work| {
            let (parameters, account, now) = (parameters.clone(), account.clone(), environment.now());
            async move {
                let forgotten = parameters.forget_deprecated(&account, now).await;
                forgotten.map(drop).map_err(|error| format!("deprecated images cannot be looked up: {error}"))
            }
            .boxed()
        });
    }
}
