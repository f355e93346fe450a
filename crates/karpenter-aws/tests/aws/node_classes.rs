//! The controllers of EC2NodeClasses, on an API server and an AWS account in this process, in simulated time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use karpenter_api::{LabelRules, NodeClaim, NodePool, Provider};
use karpenter_apiserver::{ApiServer, Options};
use karpenter_aws::{
    Account, ClassControllers, EC2NodeClass, HASH_VERSION, Launches, ResolvedClass, ResolvedClasses, Trial,
    TrialError, TrialTemplate, VersionSource, definition,
};
use karpenter_aws_bootstrap::fits;
use karpenter_aws_bootstrap::kubelet::TypeFacts;
use karpenter_aws_client::ec2::{CreateLaunchTemplate, LaunchTemplateData, Tag, TagSpecification};
use karpenter_aws_client::{Client, Config, ErrorKind, TransportError, Variables};
use karpenter_environment::SimulatedEnvironment;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, Runtime, View, Wakes, Watches};
use karpenter_simcloud::{Nobody, Plenty};
use karpenter_simcloud_aws::{
    CapacityReservation, Description, Fault, FaultKind, Image, PlacementGroup, Service,
};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
const HASH_VERSION_KEY: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
const ROLE: &str = "KarpenterNodeRole-local";

struct World {
    kube: kube::Client,
    environment: Arc<SimulatedEnvironment>,
    cloud: Service,
    account: Account,
    resolved: ResolvedClasses,
}

impl World {
    async fn new() -> Self {
        let start: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        let environment = Arc::new(SimulatedEnvironment::new(7, start));
        let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
        let kube = kube::Client::new(server, "default");
        let rules = LabelRules::for_providers(&[Provider::Aws]);
        let crds = karpenter_api::crds(&rules).into_iter().chain([definition()]);
        for crd in crds {
            Api::all(kube.clone()).create(&PostParams::default(), &crd).await.unwrap();
        }
        let cloud =
            Service::new(Description::default(), Arc::new(Plenty), Arc::new(Nobody), environment.clone());
        let account = Account::new(client(&cloud, &environment).await);
        Self { kube, environment, cloud, account, resolved: ResolvedClasses::default() }
    }

    fn controllers(&self) -> ClassControllers {
        ClassControllers {
            account: self.account.clone(),
            cluster: "local".to_owned(),
            ca_bundle: Some("Y2E=".to_owned()),
            reserved_capacity: true,
            formulas: true,
            dry_run: true,
            isolated_vpc: false,
            subnet_refresh: Duration::from_mins(1),
            ami_refresh: Duration::from_mins(1),
            version: VersionSource::Eks("local".to_owned()),
            resolved: self.resolved.clone(),
            launches: Arc::new(OneType { account: self.account.clone(), user_data: 100 }),
        }
    }

    /// Runs the controllers for a while.
    async fn run(&self, controllers: ClassControllers, wait: Duration) {
        let mut runtime = Runtime::new(self.kube.clone(), self.environment.clone());
        runtime.add(Watcher);
        let environment: Arc<dyn karpenter_environment::Environment> = self.environment.clone();
        controllers.install(&mut runtime, &environment);
        runtime.run(tokio::time::sleep(wait)).await;
    }

    async fn run_for(&self, seconds: u64) {
        self.run(self.controllers(), Duration::from_secs(seconds)).await;
    }

    fn classes(&self) -> Api<EC2NodeClass> {
        Api::all(self.kube.clone())
    }

    async fn create(&self, changes: &Value) {
        self.create_named("default", changes).await;
    }

    async fn create_named(&self, name: &str, changes: &Value) {
        let mut spec = json!({
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "local"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
            "role": ROLE,
        });
        for (name, value) in changes.as_object().unwrap() {
            spec[name] = value.clone();
        }
        spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": spec,
        });
        self.classes().create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    }

    async fn change(&self, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.classes().patch("default", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn class(&self) -> EC2NodeClass {
        self.classes().get("default").await.unwrap()
    }

    async fn claim(&self, annotations: Value) -> NodeClaim {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "claim", "annotations": annotations},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
            },
        });
        let claims: Api<NodeClaim> = Api::all(self.kube.clone());
        claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap()
    }

    /// Status, reason and message of a condition.
    async fn condition(&self, type_: &str) -> (String, String, String) {
        let status = self.class().await.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition.type_ == type_);
        let found = found.unwrap_or_else(|| panic!("there is no condition {type_}"));
        (found.status, found.reason, found.message)
    }

    async fn expect(&self, type_: &str, status: &str, reason: &str) -> String {
        let found = self.condition(type_).await;
        assert_eq!((found.0.as_str(), found.1.as_str()), (status, reason), "{type_}: {}", found.2);
        found.2
    }
}

async fn client(cloud: &Service, environment: &Arc<SimulatedEnvironment>) -> Client {
    let cloud = cloud.clone();
    let transport = move |request| -> BoxFuture<'static, Result<_, TransportError>> {
        let cloud = cloud.clone();
        async move { cloud.handle(request).await.map_err(|error| TransportError(error.to_string())) }.boxed()
    };
    let variables = Variables::from_iter([
        ("AWS_REGION", "us-west-2"),
        ("AWS_ACCESS_KEY_ID", "AKIASIMULATED0000001"),
        ("AWS_SECRET_ACCESS_KEY", "simulated-secret"),
    ]);
    let config = Config::load(&variables, &transport).await.unwrap();
    Client::new(config, Arc::new(transport), environment.clone())
}

/// Watches what the rest of Karpenter watches.
struct Watcher;

impl Controller for Watcher {
    type Request = std::convert::Infallible;
    type Reply = std::convert::Infallible;

    fn name(&self) -> &'static str {
        "watcher"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<NodeClaim>();
        watches.add::<NodePool>();
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Self::Request> {
        Outcome::done()
    }
}

/// Launches that know one instance type.
struct OneType {
    account: Account,
    user_data: usize,
}

impl Launches for OneType {
    fn types(&self, _: &ResolvedClass) -> Vec<TypeFacts> {
        vec![TypeFacts {
            vcpus: 2,
            memory_mib: 8192,
            default_enis: 3,
            ips_per_eni: 10,
            max_pods: 29,
            instance_type: "m5.large".to_owned(),
        }]
    }

    fn template(&self, trial: Trial) -> BoxFuture<'static, Result<TrialTemplate, TrialError>> {
        let (account, user_data) = (self.account.clone(), self.user_data);
        async move {
            if user_data > 16_384 {
                return Err(TrialError::UserDataTooLarge(user_data));
            }
            let tag = |key: &str, value: &str| Tag { key: key.to_owned(), value: value.to_owned() };
            let tags =
                vec![tag("eks:eks-cluster-name", "local"), tag("karpenter.k8s.aws/ec2nodeclass", "default")];
            let label = |key: &str| (key == "kubernetes.io/arch").then_some("amd64");
            let images = &trial.class.amis;
            let image = images.iter().find(|image| fits(&image.requirements, label)).unwrap_or(&images[0]);
            let image_id = image.id.clone();
            let name = format!("karpenter.k8s.aws/{}", trial.class.hash);
            let request = CreateLaunchTemplate {
                launch_template_name: name.clone(),
                launch_template_data: LaunchTemplateData {
                    image_id: Some(image_id.clone()),
                    ..LaunchTemplateData::default()
                },
                tag_specifications: vec![TagSpecification {
                    resource_type: "launch-template".to_owned(),
                    tags: tags.clone(),
                }],
                ..CreateLaunchTemplate::default()
            };
            match account.call(&request).await {
                Err(error) if error.kind != ErrorKind::AlreadyExists => return Err(error.into()),
                _ => {}
            }
            Ok(TrialTemplate {
                launch_template_name: name,
                instance_type: "m5.large".to_owned(),
                image_id,
                tags,
                ..TrialTemplate::default()
            })
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_becomes_ready() {
    let world = World::new().await;
    world.create(&json!({})).await;
    world.run_for(20).await;
    let class = world.class().await;
    for type_ in [
        "AMIsReady",
        "SubnetsReady",
        "SecurityGroupsReady",
        "InstanceProfileReady",
        "PlacementGroupReady",
        "CapacityReservationsReady",
        "ValidationSucceeded",
        "Ready",
    ] {
        world.expect(type_, "True", type_).await;
    }
    let status = class.status.unwrap();
    assert_eq!(status.subnets.len(), 4, "{:?}", status.subnets);
    assert!(status.subnets.iter().all(|subnet| subnet.zone_id.is_some()));
    assert_eq!(status.security_groups.len(), 1);
    assert_eq!(status.amis.len(), 5, "{:?}", status.amis);
    let profiles = world.cloud.instance_profiles();
    assert_eq!(profiles, [(status.instance_profile.unwrap(), Some(ROLE.to_owned()))]);
    let finalizers = class.metadata.finalizers.unwrap();
    assert_eq!(finalizers, ["karpenter.k8s.aws/termination"]);
    let annotations = class.metadata.annotations.unwrap();
    assert_eq!(annotations[HASH_VERSION_KEY], HASH_VERSION);
    let ready = status.conditions.unwrap().into_iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!(ready.observed_generation, class.metadata.generation);
    let resolved = world.resolved.get("default").unwrap();
    assert_eq!(resolved.hash, annotations[HASH]);
    assert_eq!(resolved.service_cidr.as_deref(), Some("10.100.0.0/16"));
    assert!(resolved.subnets.iter().all(|subnet| subnet.free_addresses > 0));
}

#[tokio::test(start_paused = true)]
async fn a_class_at_rest_makes_few_calls_and_writes_nothing() {
    let world = World::new().await;
    world.create(&json!({})).await;
    world.run_for(20).await;
    let before = world.class().await.metadata.resource_version;
    world.cloud.forget_records();
    world.run(world.controllers(), Duration::from_hours(1)).await;
    assert_eq!(world.class().await.metadata.resource_version, before, "nothing is written");
    let records = world.cloud.records();
    // A new process looks at everything once more, then each in its own time.
    let most = [
        ("DescribeSubnets", 61),
        ("DescribeSecurityGroups", 13),
        ("DescribeImages", 15),
        ("GetParameter", 5),
        ("GetInstanceProfile", 5),
        ("CreateInstanceProfile", 0),
        ("CreateFleet", 3),
        ("RunInstances", 3),
        ("DescribeCluster", 14),
        ("DescribeCapacityReservations", 0),
        ("DescribePlacementGroups", 0),
        ("ListInstanceProfiles", 2),
    ];
    for (operation, most) in most {
        assert!(records.count(operation) <= most, "{operation}: {}", records.count(operation));
    }
    let known: BTreeMap<&str, u64> = most.into();
    let others: Vec<&str> = records.counts().into_keys().filter(|name| !known.contains_key(name)).collect();
    assert_eq!(others, ["CreateLaunchTemplate"], "by the launches of this test");
}

#[tokio::test(start_paused = true)]
async fn classes_with_equal_selectors_share_answers() {
    let world = World::new().await;
    for class in 0..10 {
        world.create_named(&format!("class-{class}"), &json!({})).await;
    }
    world.run(world.controllers(), Duration::from_mins(10)).await;
    let records = world.cloud.records();
    for operation in ["DescribeSubnets", "DescribeSecurityGroups", "DescribeImages"] {
        assert!(records.count(operation) <= 12, "{operation}: {}", records.count(operation));
    }
    assert_eq!(records.count("GetParameter"), 5, "parameters are read once");
    assert_eq!(world.resolved.all().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn what_selects_nothing_is_said_with_a_remedy() {
    let world = World::new().await;
    let nothing = json!([{"tags": {"no": "such"}}]);
    let changes = json!({
        "subnetSelectorTerms": nothing, "securityGroupSelectorTerms": nothing,
        "amiSelectorTerms": [{"name": "no-such-image"}], "amiFamily": "AL2023",
    });
    world.create(&changes).await;
    world.run_for(20).await;
    let message = world.expect("SubnetsReady", "False", "SubnetsNotFound").await;
    assert!(message.contains("spec.subnetSelectorTerms"), "{message}");
    world.expect("SecurityGroupsReady", "False", "SecurityGroupsNotFound").await;
    world.expect("AMIsReady", "False", "AMINotFound").await;
    let message = world.expect("ValidationSucceeded", "False", "DependenciesNotReady").await;
    assert!(message.contains("AMIsReady"), "{message}");
    let message = world.expect("Ready", "False", "UnhealthyDependents").await;
    assert!(message.starts_with("AMIsReady=False, SubnetsReady=False"), "{message}");
    assert!(world.resolved.get("default").is_none());
    world.change(&json!({"subnetSelectorTerms": [{"tags": {"Name": "123456789012-private*"}}]})).await;
    world.run_for(20).await;
    world.expect("SubnetsReady", "True", "SubnetsReady").await;
}

#[tokio::test(start_paused = true)]
async fn an_alias_the_cluster_cannot_use_is_final() {
    let world = World::new().await;
    world.create(&json!({"amiSelectorTerms": [{"alias": "al2@latest"}]})).await;
    world.run(world.controllers(), Duration::from_mins(30)).await;
    let message = world.expect("AMIsReady", "False", "UnsupportedAlias").await;
    assert!(message.contains("al2023@latest"), "{message}");
    assert_eq!(world.cloud.records().count("GetParameter"), 0);
}

#[tokio::test(start_paused = true)]
async fn images_come_by_id_name_owner_tags_and_parameter() {
    let world = World::new().await;
    let mut mine = Image::named("mine-1", "arm64", "123456789012", world_time(&world));
    mine.tags = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    mine.deprecated = None;
    let mut other = Image::named("theirs-1", "x86_64", "999999999999", world_time(&world));
    other.deprecated = Some("2026-11-30T00:00:00Z".parse().unwrap());
    world.cloud.put_image(mine.clone());
    world.cloud.put_image(other.clone());
    world.cloud.put_parameter("/my/image", &mine.id);
    world.create(&json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"name": "mine*"}]})).await;
    let cases = [
        (json!([{"name": "mine*"}]), vec![&mine.id]),
        (json!([{"name": "theirs*"}]), vec![]),
        (json!([{"name": "theirs*", "owner": "999999999999"}]), vec![&other.id]),
        (json!([{"tags": {"team": "*"}}]), vec![&mine.id]),
        (json!([{"tags": {"team": "b"}}]), vec![]),
        (json!([{"ssmParameter": "/my/image"}]), vec![&mine.id]),
        (json!([{"ssmParameter": "/no/image"}]), vec![]),
    ];
    for (terms, ids) in cases {
        world.change(&json!({"amiSelectorTerms": terms})).await;
        world.run_for(20).await;
        let status = world.class().await.status.unwrap();
        let found: Vec<&String> = status.amis.iter().map(|image| &image.id).collect();
        assert_eq!(found, ids, "{terms}");
    }
    world.change(&json!({"amiSelectorTerms": [{"id": mine.id}, {"id": other.id}]})).await;
    world.run_for(20).await;
    let images = world.class().await.status.unwrap().amis;
    assert_eq!(images.len(), 2);
    let deprecated: Vec<&String> =
        images.iter().filter(|image| image.deprecated == Some(true)).map(|image| &image.id).collect();
    assert_eq!(deprecated, [&other.id]);
}

fn world_time(world: &World) -> Timestamp {
    karpenter_environment::Environment::now(&*world.environment)
}

#[tokio::test(start_paused = true)]
async fn reservations_are_found_and_end() {
    let world = World::new().await;
    let now = world_time(&world);
    let mut block = CapacityReservation::targeted("cr-1", "p5.48xlarge", "us-west-2a", 2);
    block.kind = "capacity-block".to_owned();
    block.end = Some(now + SignedDuration::from_mins(90));
    world.cloud.put_capacity_reservation(block);
    world.cloud.put_capacity_reservation(CapacityReservation::targeted("cr-2", "m5.large", "us-west-2b", 3));
    world
        .create(
            &json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}, {"id": "cr-2"}, {"id": "cr-3"}]}),
        )
        .await;
    world.run_for(20).await;
    world.expect("CapacityReservationsReady", "True", "CapacityReservationsReady").await;
    let found = |class: EC2NodeClass| -> Vec<(String, String)> {
        let all = class.status.unwrap().capacity_reservations;
        all.into_iter().map(|found| (found.id, found.state.unwrap())).collect()
    };
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(id, state)| ((*id).to_owned(), (*state).to_owned())).collect()
    };
    assert_eq!(found(world.class().await), pairs(&[("cr-1", "active"), ("cr-2", "active")]));
    assert_eq!(world.resolved.get("default").unwrap().reservations[1].available, 3);
    world.run(world.controllers(), Duration::from_mins(52)).await;
    assert_eq!(found(world.class().await), pairs(&[("cr-1", "expiring"), ("cr-2", "active")]));
    world.run(world.controllers(), Duration::from_mins(45)).await;
    assert_eq!(found(world.class().await), pairs(&[("cr-2", "active")]));
}

#[tokio::test(start_paused = true)]
async fn a_placement_group_must_be_there() {
    let world = World::new().await;
    world.create(&json!({"placementGroupSelector": {"name": "near"}})).await;
    world.run_for(20).await;
    let message = world.expect("PlacementGroupReady", "False", "PlacementGroupNotFound").await;
    assert!(message.contains("near"), "{message}");
    world.cloud.put_placement_group(PlacementGroup {
        id: "pg-1".to_owned(),
        name: "near".to_owned(),
        strategy: "cluster".to_owned(),
        partitions: None,
        spread_level: None,
        tags: BTreeMap::new(),
    });
    world.run(world.controllers(), Duration::from_secs(90)).await;
    world.expect("PlacementGroupReady", "True", "PlacementGroupReady").await;
    assert_eq!(world.resolved.get("default").unwrap().placement_group.as_ref().unwrap().id, "pg-1");
}

#[tokio::test(start_paused = true)]
async fn another_role_gets_another_profile_and_the_old_one_is_collected() {
    let world = World::new().await;
    world.create(&json!({})).await;
    world.run_for(20).await;
    let first = world.class().await.status.unwrap().instance_profile.unwrap();
    world.change(&json!({"role": "local-node"})).await;
    world.run_for(20).await;
    let second = world.class().await.status.unwrap().instance_profile.unwrap();
    assert_ne!(first, second);
    assert_eq!(world.cloud.instance_profiles().len(), 2, "machines may still use the first");
    world.run(world.controllers(), Duration::from_mins(31)).await;
    let left: Vec<String> = world.cloud.instance_profiles().into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, [second]);
}

#[tokio::test(start_paused = true)]
async fn a_profile_that_machines_use_is_not_collected() {
    let world = World::new().await;
    world.create(&json!({})).await;
    world.run_for(20).await;
    let first = world.class().await.status.unwrap().instance_profile.unwrap();
    world.claim(json!({"karpenter.k8s.aws/instance-profile-name": first})).await;
    world.change(&json!({"role": "local-node"})).await;
    world.run(world.controllers(), Duration::from_hours(2)).await;
    assert_eq!(world.cloud.instance_profiles().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_missing_role_is_said_and_leaves_no_profiles() {
    let world = World::new().await;
    world.create(&json!({"role": "no-such-role"})).await;
    world.run(world.controllers(), Duration::from_mins(5)).await;
    let (status, _, message) = world.condition("InstanceProfileReady").await;
    assert_eq!(status, "False");
    assert!(message.contains("create the role no-such-role"), "{message}");
    assert_eq!(world.cloud.instance_profiles(), []);
    let attempts = world.cloud.records().count("CreateInstanceProfile");
    assert!((2..=6).contains(&attempts), "once a minute, not {attempts} times");
    world.cloud.put_role("no-such-role");
    world.run(world.controllers(), Duration::from_mins(2)).await;
    world.expect("InstanceProfileReady", "True", "InstanceProfileReady").await;
}

#[tokio::test(start_paused = true)]
async fn a_profile_of_the_users_needs_no_iam() {
    let world = World::new().await;
    world.create(&json!({"role": null, "instanceProfile": "mine"})).await;
    world.run_for(20).await;
    world.expect("InstanceProfileReady", "True", "InstanceProfileReady").await;
    assert_eq!(world.class().await.status.unwrap().instance_profile.as_deref(), Some("mine"));
    for operation in ["GetInstanceProfile", "CreateInstanceProfile"] {
        assert_eq!(world.cloud.records().count(operation), 0, "{operation}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_would_be_refused_is_found_out_before() {
    let cases = [
        ("CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed", "ec2:CreateLaunchTemplate"),
        ("CreateFleet", "CreateFleetAuthCheckFailed", "ec2:CreateFleet"),
        ("RunInstances", "RunInstancesAuthCheckFailed", "iam:PassRole"),
    ];
    for (operation, reason, right) in cases {
        let world = World::new().await;
        world.cloud.inject(Fault::times(operation, 1000, FaultKind::Denied));
        world.create(&json!({})).await;
        world.run_for(20).await;
        let message = world.expect("ValidationSucceeded", "False", reason).await;
        assert!(message.contains(right), "{message}");
        world.cloud.heal();
        world.run_for(20).await;
        world.expect("Ready", "True", "Ready").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_remembered_for_half_an_hour() {
    let world = World::new().await;
    world.cloud.inject(Fault::times("CreateFleet", 1000, FaultKind::Denied));
    world.create(&json!({})).await;
    world.run(world.controllers(), Duration::from_mins(29)).await;
    assert_eq!(world.cloud.records().count("CreateFleet"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_passes_is_no_verdict() {
    let world = World::new().await;
    world.cloud.inject(Fault::times("CreateFleet", 2, FaultKind::InternalError));
    world.cloud.inject(Fault::times("DescribeSubnets", 2, FaultKind::Throttle));
    world.create(&json!({})).await;
    world.run_for(60).await;
    world.expect("Ready", "True", "Ready").await;
}

#[tokio::test(start_paused = true)]
async fn without_dry_runs_nothing_is_tried() {
    let world = World::new().await;
    world.create(&json!({})).await;
    world.run(ClassControllers { dry_run: false, ..world.controllers() }, Duration::from_secs(20)).await;
    world.expect("Ready", "True", "Ready").await;
    assert_eq!(world.cloud.records().count("CreateFleet"), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_class_is_found_without_ec2() {
    let cases = [
        (json!({"kubelet": {"maxpods": 1}}), "InvalidKubeletConfiguration"),
        (json!({"kubelet": {"maxPods": "vcpus +"}}), "KubeletExpressionInvalid"),
        (json!({"kubelet": {"maxPods": "vcpus - 5"}}), "KubeletExpressionEvaluationFailed"),
        (
            json!({"kubelet": {"cpuManagerPolicy": "static"}, "amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}),
            "UnsupportedKubeletConfiguration",
        ),
    ];
    for (changes, reason) in cases {
        let world = World::new().await;
        world.create(&changes).await;
        world.run_for(20).await;
        world.expect("ValidationSucceeded", "False", reason).await;
        assert_eq!(world.cloud.records().count("CreateFleet"), 0, "{changes}");
    }
    let world = World::new().await;
    world.create(&json!({"kubelet": {"maxPods": "vcpus * 10"}})).await;
    world.run(ClassControllers { formulas: false, ..world.controllers() }, Duration::from_secs(20)).await;
    let message = world.expect("ValidationSucceeded", "False", "KubeletExpressionsDisabled").await;
    assert!(message.contains("NodeClassCEL=true"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn user_data_that_is_too_large_is_said() {
    let world = World::new().await;
    world.create(&json!({})).await;
    let launches = Arc::new(OneType { account: world.account.clone(), user_data: 20_000 });
    world.run(ClassControllers { launches, ..world.controllers() }, Duration::from_secs(20)).await;
    let message = world.expect("ValidationSucceeded", "False", "UserDataSizeLimitExceeded").await;
    assert!(message.contains("20000 bytes"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn al2023_needs_the_addresses_of_services() {
    let world = World::new().await;
    world.cloud.inject(Fault::times("DescribeCluster", 1000, FaultKind::Denied));
    world.create(&json!({})).await;
    let version = VersionSource::ApiServer(world.kube.clone());
    world.run(ClassControllers { version, ..world.controllers() }, Duration::from_secs(20)).await;
    let message = world.expect("ValidationSucceeded", "False", "ClusterCIDRResolutionFailed").await;
    assert!(message.contains("eks:DescribeCluster"), "{message}");
    let version = VersionSource::ApiServer(world.kube.clone());
    world.change(&json!({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]})).await;
    world.run(ClassControllers { version, ..world.controllers() }, Duration::from_secs(20)).await;
    world.expect("Ready", "True", "Ready").await;
}

#[tokio::test(start_paused = true)]
async fn another_way_to_hash_is_no_drift() {
    let world = World::new().await;
    world.create(&json!({})).await;
    world.claim(json!({HASH: "1", HASH_VERSION_KEY: "v6"})).await;
    world.run_for(20).await;
    let claims: Api<NodeClaim> = Api::all(world.kube.clone());
    let stamped = claims.get("claim").await.unwrap().metadata.annotations.unwrap();
    let class = world.class().await.metadata.annotations.unwrap();
    assert_eq!((&stamped[HASH], &stamped[HASH_VERSION_KEY]), (&class[HASH], &class[HASH_VERSION_KEY]));
    world.change(&json!({"detailedMonitoring": true})).await;
    world.run_for(20).await;
    let later = claims.get("claim").await.unwrap().metadata.annotations.unwrap();
    assert_eq!(later[HASH], stamped[HASH], "a change of the class is drift");
    assert_ne!(world.class().await.metadata.annotations.unwrap()[HASH], stamped[HASH]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_has_drifted_keeps_its_hash() {
    let world = World::new().await;
    world.create(&json!({})).await;
    world.claim(json!({HASH: "1", HASH_VERSION_KEY: "v6"})).await;
    let claims: Api<NodeClaim> = Api::all(world.kube.clone());
    let drifted = json!({"status": {"conditions": [{
        "type": "Drifted", "status": "True", "reason": "NodeClassDrift", "message": "",
        "lastTransitionTime": "2026-12-01T00:00:00Z",
    }]}});
    claims.patch_status("claim", &PatchParams::default(), &Patch::Merge(drifted)).await.unwrap();
    world.run_for(20).await;
    let stamped = claims.get("claim").await.unwrap().metadata.annotations.unwrap();
    assert_eq!((stamped[HASH].as_str(), stamped[HASH_VERSION_KEY].as_str()), ("1", HASH_VERSION));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_class_waits_for_its_claims_and_leaves_nothing_behind() {
    let world = World::new().await;
    world.create(&json!({})).await;
    world.run_for(20).await;
    assert_eq!(world.cloud.launch_templates().len(), 1);
    world.claim(json!({})).await;
    world.classes().delete("default", &DeleteParams::default()).await.unwrap();
    world.run_for(60).await;
    assert!(world.classes().get_opt("default").await.unwrap().is_some());
    let events: Api<Event> = Api::all(world.kube.clone());
    let told = events.list(&kube::api::ListParams::default()).await.unwrap().items;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].reason.as_deref(), Some("WaitingOnNodeClaimTermination"));
    assert!(told[0].message.as_deref().unwrap().ends_with("claim"));
    let claims: Api<NodeClaim> = Api::all(world.kube.clone());
    claims.delete("claim", &DeleteParams::default()).await.unwrap();
    world.cloud.inject(Fault::times("DeleteLaunchTemplate", 1, FaultKind::Denied));
    world.run_for(60).await;
    assert!(world.classes().get_opt("default").await.unwrap().is_none());
    assert_eq!(world.cloud.instance_profiles(), []);
    assert_eq!(world.cloud.launch_templates().len(), 0);
    assert!(world.resolved.get("default").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deprecated_image_makes_its_parameter_be_read_again() {
    let world = World::new().await;
    world.create(&json!({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]})).await;
    let path = "/aws/service/bottlerocket/aws-k8s-1.34/arm64/latest/image_id";
    let old = world.cloud.parameter(path).unwrap();
    let run = async {
        world.run(world.controllers(), Duration::from_mins(90)).await;
    };
    let change = async {
        tokio::time::sleep(Duration::from_mins(5)).await;
        let mut image = world.cloud.image(&old).unwrap();
        let newer = Image { id: "ami-0123456789abcdef0".to_owned(), ..image.clone() };
        world.cloud.put_image(newer);
        world.cloud.put_parameter(path, "ami-0123456789abcdef0");
        image.deprecated = Some("2026-11-30T00:00:00Z".parse().unwrap());
        tokio::time::sleep(Duration::from_mins(10)).await;
        let known = world.class().await.status.unwrap().amis;
        assert!(known.iter().any(|image| image.id == old), "parameters are remembered");
        world.cloud.put_image(image);
    };
    tokio::join!(run, change);
    let known = world.class().await.status.unwrap().amis;
    assert!(known.iter().any(|image| image.id == "ami-0123456789abcdef0"), "{known:?}");
    assert!(known.iter().all(|image| image.id != old));
}
