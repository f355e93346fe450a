//! Answers the questions of the EC2NodeClass controller by asking AWS.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use karpenter_aws_client::ec2::{
    CreateFleet, DeleteLaunchTemplate, DescribeImages, DescribeLaunchTemplates, Filter, FleetLaunchTemplate,
    FleetLaunchTemplateConfig, FleetOverride, LaunchTemplateChoice, RunInstances, TagSpecification,
    TargetCapacitySpecification,
};
use karpenter_aws_client::iam::{
    AddRoleToInstanceProfile, CreateInstanceProfile, DeleteInstanceProfile, GetInstanceProfile,
    InstanceProfile, ListInstanceProfiles, RemoveRoleFromInstanceProfile,
};
use karpenter_aws_client::{Error, ErrorKind, PagedOperation};
use karpenter_environment::Environment;
use tokio::sync::Mutex;

use super::images::{self, Values, WantedParameter};
use super::parameters::Parameters;
use super::question::{
    ClassReply, ClassRequest, CleanUp, ImagesError, Launches, NewProfile, Trial, TrialResult, TrialTemplate,
};
use super::{Ami, AmiSelectorTerm, validation};
use crate::account::Account;

/// Classes with equal selectors share answers that are younger than this.
const SHARED: SignedDuration = SignedDuration::from_secs(30);
/// What EC2 says of a placement group that does not exist.
const UNKNOWN_GROUP: &str = "InvalidPlacementGroup.Unknown";
const TEMPLATES_PAGE: u32 = 200;

/// AWS, as the EC2NodeClass controller sees it. Clones share answers.
#[derive(Clone)]
pub(super) struct ClassCloud {
    shared: Arc<Shared>,
}

struct Shared {
    account: Account,
    cluster: String,
    environment: Arc<dyn Environment>,
    launches: Arc<dyn Launches>,
    parameters: Parameters,
    subnets: Recent<karpenter_aws_client::ec2::DescribeSubnets>,
    security_groups: Recent<karpenter_aws_client::ec2::DescribeSecurityGroups>,
    images: Recent<DescribeImages>,
    reservations: Recent<karpenter_aws_client::ec2::DescribeCapacityReservations>,
}

/// Answers that others may use for a while.
type Recent<Q> = Mutex<Vec<(Q, Timestamp, Vec<<Q as PagedOperation>::Item>)>>;

impl ClassCloud {
    /// The account's view of `cluster`.
    pub(super) fn new(
        account: Account,
        cluster: String,
        environment: Arc<dyn Environment>,
        launches: Arc<dyn Launches>,
        parameters: Parameters,
    ) -> Self {
        let shared = Shared {
            account,
            cluster,
            environment,
            launches,
            parameters,
            subnets: Mutex::default(),
            security_groups: Mutex::default(),
            images: Mutex::default(),
            reservations: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Answers a request.
    pub(super) fn answer(&self, request: ClassRequest) -> BoxFuture<'static, ClassReply> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.answer(request).await })
    }
}

impl Shared {
    async fn answer(&self, request: ClassRequest) -> ClassReply {
        match request {
            ClassRequest::Subnets(queries) => ClassReply::Subnets(self.all(&self.subnets, queries).await),
            ClassRequest::SecurityGroups(queries) => {
                ClassReply::SecurityGroups(self.all(&self.security_groups, queries).await)
            }
            ClassRequest::Images(terms, kubernetes) => {
                ClassReply::Images(self.images(&terms, &kubernetes).await)
            }
            ClassRequest::Reservations(queries) => {
                ClassReply::Reservations(self.all(&self.reservations, queries).await)
            }
            ClassRequest::PlacementGroup(query) => {
                ClassReply::PlacementGroup(match self.account.call(&query).await {
                    Err(error) if error.is_not_found() || error.code == UNKNOWN_GROUP => Ok(Vec::new()),
                    answer => answer.map(|answer| answer.placement_groups),
                })
            }
            ClassRequest::FindProfile(name) => ClassReply::FindProfile(self.find_profile(&name).await),
            ClassRequest::CreateProfile(profile) => {
                ClassReply::CreateProfile(self.create_profile(&profile).await.map(|()| profile.name))
            }
            ClassRequest::ServiceCidr => ClassReply::ServiceCidr(self.service_cidr().await),
            ClassRequest::Try(trial) => ClassReply::Try(self.try_launch(trial).await),
            ClassRequest::CleanUp(left) => ClassReply::CleanUp(self.clean_up(&left).await),
        }
    }

    /// The answers to all queries. Nobody asks twice at the same time; an empty answer is not shared, it is what people are about to
    /// change. A reservation that does not exist is an empty answer.
    async fn all<Q: PagedOperation + PartialEq>(
        &self,
        recent: &Recent<Q>,
        queries: Vec<Q>,
    ) -> Result<Vec<Q::Item>, Error>
    where
        Q::Item: Clone,
    {
        let mut recent = recent.lock().await;
        let now = self.environment.now();
        recent.retain(|(_, at, _)| now.duration_since(*at) < SHARED);
        let mut all = Vec::new();
        for query in queries {
            if let Some((_, _, items)) = recent.iter().find(|(known, ..)| *known == query) {
                all.extend(items.iter().cloned());
                continue;
            }
            let items = match self.account.list(&query).await {
                Err(error) if error.is_not_found() => Vec::new(),
                answer => answer?,
            };
            all.extend(items.iter().cloned());
            if !items.is_empty() {
                recent.push((query, now, items));
            }
        }
        Ok(all)
    }

    async fn images(&self, terms: &[AmiSelectorTerm], kubernetes: &str) -> Result<Vec<Ami>, ImagesError> {
        let wanted = images::parameters(terms, kubernetes)?;
        let values = self.values(&wanted).await?;
        let mut found = Vec::new();
        for query in images::queries(terms, &wanted, &values) {
            let answer = self.all(&self.images, vec![query.request.clone()]).await?;
            found.push((query, answer));
        }
        Ok(images::images(&found, self.environment.now()))
    }

    /// What parameters hold. Those AWS publishes are left out when they cannot be read, unless none can.
    async fn values(&self, wanted: &[WantedParameter]) -> Result<Values, Error> {
        let mut values = Values::new();
        let mut failed = None;
        for parameter in wanted {
            match self.parameters.get(&self.account, parameter, self.environment.now()).await {
                Ok(value) => {
                    values.insert(parameter.path.clone(), value);
                }
                Err(error) if parameter.published => {
                    tracing::warn!("SSM parameter {} is left out: {error}", parameter.path);
                    failed = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match failed {
            Some(error) if values.values().all(Option::is_none) => Err(error),
            _ => Ok(values),
        }
    }

    async fn find_profile(&self, name: &str) -> Result<Option<InstanceProfile>, Error> {
        let request = GetInstanceProfile { instance_profile_name: name.to_owned() };
        match self.account.client().iam().call(&request).await {
            Ok(answer) => Ok(Some(answer.instance_profile)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create_profile(&self, profile: &NewProfile) -> Result<(), Error> {
        let iam = self.account.client().iam();
        let create = CreateInstanceProfile {
            instance_profile_name: profile.name.clone(),
            path: Some(profile.path.clone()),
            tags: profile.tags.clone(),
        };
        match iam.call(&create).await {
            Err(error) if error.kind != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let add = AddRoleToInstanceProfile {
            instance_profile_name: profile.name.clone(),
            role_name: profile.role.clone(),
        };
        if let Err(error) = iam.call(&add).await {
            // Without its role the profile is of no use to anybody.
            if let Err(left) = self.delete_profile(&profile.name, &[]).await {
                tracing::warn!("instance profile {} is left behind: {left}", profile.name);
            }
            return Err(error);
        }
        Ok(())
    }

    async fn delete_profile(&self, name: &str, roles: &[String]) -> Result<(), Error> {
        delete_profile(&self.account, name, roles).await
    }

    async fn service_cidr(&self) -> Result<String, Error> {
        let cluster = self.account.client().eks().describe_cluster(&self.cluster).await?;
        let network = cluster.kubernetes_network_config;
        network.service_ipv4_cidr.or(network.service_ipv6_cidr).ok_or_else(|| Error {
            operation: "DescribeCluster",
            kind: ErrorKind::Invalid,
            code: String::new(),
            message: format!("cluster {} has no addresses for services", self.cluster),
            status: None,
            request_id: None,
        })
    }

    async fn try_launch(&self, trial: Trial) -> TrialResult {
        let class = Arc::clone(&trial.class);
        let context = class.class.spec.context.clone();
        let template = match self.launches.template(trial).await {
            Ok(template) => template,
            Err(error) => return validation::without_template(&error),
        };
        let there = |zone: &String| template.zones.is_empty() || template.zones.contains(zone);
        let subnets = class.subnets.iter().filter(|subnet| there(&subnet.zone));
        let subnets: Vec<String> = subnets.map(|subnet| subnet.id.clone()).collect();
        let fleet = fleet(&template, subnets.first(), context);
        match validation::of_fleet(&self.account.call_once(&fleet).await) {
            TrialResult::Allowed => {}
            other => return other,
        }
        let mut first = None;
        for subnet in &subnets {
            let result = validation::of_instance(&self.account.call_once(&instance(&template, subnet)).await);
            if result == TrialResult::Allowed {
                return result;
            }
            first.get_or_insert(result);
        }
        first.unwrap_or(TrialResult::Allowed)
    }

    async fn clean_up(&self, left: &CleanUp) -> Result<(), Error> {
        if let Some(path) = &left.profiles {
            let list = ListInstanceProfiles { path_prefix: Some(path.clone()), max_items: None };
            let profiles = self.account.client().iam().list(&list).await?;
            // Not every server honours the prefix, and these are deletions.
            for profile in profiles.iter().filter(|profile| profile.path.starts_with(path)) {
                let roles: Vec<String> = profile.roles.iter().map(|role| role.role_name.clone()).collect();
                self.delete_profile(&profile.instance_profile_name, &roles).await?;
            }
            if let Some(name) = &left.legacy_profile
                && let Some(profile) = self.find_profile(name).await?
            {
                let roles: Vec<String> = profile.roles.iter().map(|role| role.role_name.clone()).collect();
                self.delete_profile(name, &roles).await?;
            }
        }
        let filters =
            left.template_tags.iter().map(|(key, value)| Filter::new(format!("tag:{key}"), [value.as_str()]));
        let list = DescribeLaunchTemplates {
            filters: filters.collect(),
            max_results: Some(TEMPLATES_PAGE),
            ..DescribeLaunchTemplates::default()
        };
        for template in self.account.list(&list).await? {
            let delete = DeleteLaunchTemplate {
                launch_template_id: Some(template.launch_template_id),
                launch_template_name: None,
            };
            match self.account.call(&delete).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Deletes a profile and takes its roles out of it first; one that is gone is deleted.
pub(super) async fn delete_profile(account: &Account, name: &str, roles: &[String]) -> Result<(), Error> {
    let gone = |result: Result<karpenter_aws_client::iam::IamDone, Error>| match result {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    };
    let iam = account.client().iam();
    for role in roles {
        let remove =
            RemoveRoleFromInstanceProfile { instance_profile_name: name.to_owned(), role_name: role.clone() };
        gone(iam.call(&remove).await)?;
    }
    gone(iam.call(&DeleteInstanceProfile { instance_profile_name: name.to_owned() }).await)
}

/// A fleet of one machine that is not launched.
fn fleet(template: &TrialTemplate, subnet: Option<&String>, context: Option<String>) -> CreateFleet {
    let specification =
        |resource: &str| TagSpecification { resource_type: resource.to_owned(), tags: template.tags.clone() };
    CreateFleet {
        dry_run: Some(true),
        fleet_type: Some("instant".to_owned()),
        context,
        launch_template_configs: vec![FleetLaunchTemplateConfig {
            launch_template_specification: FleetLaunchTemplate {
                launch_template_id: None,
                launch_template_name: Some(template.launch_template_name.clone()),
                version: Some("$Latest".to_owned()),
            },
            overrides: vec![FleetOverride {
                instance_type: Some(template.instance_type.clone()),
                subnet_id: subnet.cloned(),
                image_id: Some(template.image_id.clone()),
                ..FleetOverride::default()
            }],
        }],
        target_capacity_specification: TargetCapacitySpecification {
            total_target_capacity: 1,
            default_target_capacity_type: Some("on-demand".to_owned()),
        },
        tag_specifications: ["instance", "volume", "fleet"].map(specification).to_vec(),
        ..CreateFleet::default()
    }
}

/// A machine in a subnet that is not launched.
fn instance(template: &TrialTemplate, subnet: &str) -> RunInstances {
    let specification =
        |resource: &str| TagSpecification { resource_type: resource.to_owned(), tags: template.tags.clone() };
    RunInstances {
        dry_run: Some(true),
        image_id: Some(template.image_id.clone()),
        instance_type: Some(template.instance_type.clone()),
        subnet_id: Some(subnet.to_owned()),
        min_count: 1,
        max_count: 1,
        launch_template: Some(LaunchTemplateChoice {
            launch_template_name: Some(template.launch_template_name.clone()),
            version: Some("$Latest".to_owned()),
        }),
        tag_specifications: ["instance", "volume", "network-interface"].map(specification).to_vec(),
    }
}

/// Tags by which the launch templates of a class are found.
pub(super) fn template_tags(cluster: &str, class: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("eks:eks-cluster-name".to_owned(), cluster.to_owned()),
        ("karpenter.k8s.aws/ec2nodeclass".to_owned(), class.to_owned()),
    ])
}
