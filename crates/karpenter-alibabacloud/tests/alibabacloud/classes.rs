//! Classes of all groups on a simulated cloud: what their status says, what is asked of the cloud for that, and how they end.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use karpenter_alibabacloud::controllers;
use karpenter_alibabacloud::market::Market;
use karpenter_alibabacloud::node_class::Dialect::{self, CloudPilot, ContainerService, Handbook};
use karpenter_alibabacloud::node_class::{
    ClassKey, Classes, Found, HASH_VERSION, Network, ResolvedClass, cloud_pilot, container_service,
    definitions, handbook,
};
use karpenter_alibabacloud::refresh::Refresh;
use karpenter_alibabacloud::rights::Rights;
use karpenter_alibabacloud_client::{Client, Config, Credentials, Source, TransportError};
use karpenter_api::{LabelRules, NodeClaim};
use karpenter_apiserver::{ApiServer, Options};
use karpenter_environment::SimulatedEnvironment;
use karpenter_runtime::{Caches, Change, Controller, Key, Outcome, Runtime, View, Wakes, Watches};
use karpenter_simcloud_alibabacloud::{ACCESS_KEY, ACCESS_SECRET, Fault, FaultRule, Policy, Service, World};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::seeds::{CONTAINER_SERVICE, HANDBOOK, of_kind};
use crate::server::{class, with};

const CLUSTER: &str = "my-cluster";

/// A cluster, a cloud and the controllers of classes between them.
struct Place {
    kube: kube::Client,
    cloud: Service,
    classes: Classes,
}

/// What Karpenter's other controllers do: they watch claims.
struct Watching;

impl Controller for Watching {
    type Request = Infallible;
    type Reply = Infallible;

    fn name(&self) -> &'static str {
        "watching"
    }

    fn watches(&self, watches: &mut Watches) {
        watches.add::<NodeClaim>();
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Infallible> {
        Outcome::done()
    }
}

impl Place {
    async fn new(cluster_id: Option<&str>) -> Self {
        Self::serving(cluster_id, &Dialect::ALL).await
    }

    /// A place whose API server has the definitions of some groups only.
    async fn serving(cluster_id: Option<&str>, dialects: &[Dialect]) -> Self {
        let start = "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
        let environment = Arc::new(SimulatedEnvironment::new(1, start));
        let server = ApiServer::new(Options { environment: environment.clone(), ..Options::default() });
        let kube = kube::Client::new(server, "default");
        let is_there = |group: &str| dialects.iter().any(|dialect| dialect.group() == group);
        let ours = definitions().into_iter().filter(|definition| is_there(&definition.spec.group));
        for crd in ours.chain(karpenter_api::crds(&LabelRules::default())) {
            Api::all(kube.clone()).create(&PostParams::default(), &crd).await.unwrap();
        }
        let cloud = Service::new(World::standard("cn-hangzhou", CLUSTER), environment.clone());
        let answering = cloud.clone();
        let transport = move |request: http::Request<Bytes>| {
            let cloud = answering.clone();
            async move { cloud.answer(request).await.map_err(|error| TransportError(error.to_string())) }
                .boxed()
        };
        let keys = Credentials::fixed(ACCESS_KEY, ACCESS_SECRET);
        let config = Config::at("http://cloud.invalid", "cn-hangzhou", Source::Keys(keys));
        let client = Client::new(config, Arc::new(transport), environment.clone());
        let classes = Classes::default();
        let mut runtime = Runtime::new(kube.clone(), environment);
        runtime.add(Watching);
        let refresh = Refresh::new(client, Market::default(), classes.clone(), Rights::default());
        controllers::install(&mut runtime, &refresh, &classes, cluster_id.map(str::to_owned));
        tokio::spawn(runtime.run(std::future::pending()));
        Self { kube, cloud, classes }
    }

    async fn create<F: Found + serde::de::DeserializeOwned + serde::Serialize>(
        &self,
        object: &Value,
    ) -> String {
        let object: F = serde_json::from_value(object.clone()).unwrap();
        let created = Api::<F>::all(self.kube.clone()).create(&PostParams::default(), &object).await.unwrap();
        created.meta().name.clone().unwrap()
    }

    async fn get<F: Found + serde::de::DeserializeOwned>(&self, name: &str) -> F {
        Api::<F>::all(self.kube.clone()).get(name).await.unwrap()
    }

    /// A class of a group, by the name it got.
    async fn asking(&self, dialect: Dialect, changes: &Value) -> String {
        let object = class(dialect, &with(dialect, changes));
        match dialect {
            ContainerService => self.create::<container_service::ECSNodeClass>(&object).await,
            Handbook => self.create::<handbook::ECSNodeClass>(&object).await,
            CloudPilot => self.create::<cloud_pilot::ECSNodeClass>(&object).await,
        }
    }

    /// Status, reason and message of a condition of a class.
    async fn says<F: Found + serde::de::DeserializeOwned>(
        &self,
        name: &str,
        type_: &str,
    ) -> (String, String, String) {
        let object: F = self.get(name).await;
        let conditions = object.status().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition.type_ == type_);
        let found = found.unwrap_or_else(|| panic!("{name} has no condition {type_}"));
        (found.status, found.reason, found.message)
    }

    fn known(&self, dialect: Dialect, name: &str) -> Arc<ResolvedClass> {
        self.classes.by_key(&ClassKey { dialect, name: name.into() }).unwrap()
    }

    fn calls(&self) -> u64 {
        self.cloud.change(|world| world.records.counts().values().map(|count| count.total).sum())
    }

    async fn events(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::all(self.kube.clone());
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason))
            .filter_map(|event| event.message)
            .collect()
    }
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

const SOON: Duration = Duration::from_secs(5);

fn private() -> Value {
    json!({
        "vSwitchSelectorTerms": [{ "tags": { "Name": "my-cluster-private*" } }],
        "securityGroupSelectorTerms": [{ "tags": { "Name": "my-cluster-node" } }],
    })
}

fn and(changes: &Value) -> Value {
    let mut all = private();
    for (key, value) in changes.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

#[tokio::test(start_paused = true)]
async fn the_classes_of_both_manifests_become_ready() {
    let place = Place::new(Some(CLUSTER)).await;
    let mut by_tag = of_kind::<Value>(HANDBOOK, "ECSNodeClass").remove(0);
    by_tag["spec"] =
        serde_json::from_str(&by_tag["spec"].to_string().replace("123-", "my-cluster-")).unwrap();
    by_tag["spec"]["ramRoleName"] = json!("KubernetesWorkerRole");
    let by_id = of_kind::<Value>(CONTAINER_SERVICE, "ECSNodeClass").remove(0);
    let one = place.create::<handbook::ECSNodeClass>(&by_tag).await;
    let two = place.create::<container_service::ECSNodeClass>(&by_id).await;
    pass(SOON).await;
    assert_eq!(place.says::<handbook::ECSNodeClass>(&one, "Ready").await.0, "True");
    let (status, _, message) = place.says::<container_service::ECSNodeClass>(&two, "Ready").await;
    assert_eq!((status.as_str(), message.as_str()), ("True", ""));
    let (_, _, note) = place.says::<container_service::ECSNodeClass>(&two, "VSwitchResolved").await;
    assert_eq!(note, "nothing was found by id vsw-bp1h5w0001");
    let known = place.known(Handbook, &one);
    assert_eq!(known.not_ready, None);
    assert_eq!(known.resolved.zones().len(), 4);
    assert!(known.resolved.v_switches.iter().all(|v_switch| v_switch.id.ends_with("private")));
    let images: Vec<&str> = known.resolved.images.iter().map(|image| &*image.id).collect();
    assert_eq!(images, ["aliyun_3_x64_20G_alibase_20250629.vhd", "aliyun_3_arm64_20G_alibase_20250629.vhd"]);
    assert_eq!(known.resolved.cluster.as_ref().unwrap().network, Network::Terway);
    let known = place.known(ContainerService, &two);
    assert_eq!(known.class.cluster.id.as_deref(), Some(CLUSTER));
    let images: Vec<&str> = known.resolved.images.iter().map(|image| &*image.id).collect();
    assert_eq!(
        images,
        [
            "aliyun_3_x64_20G_alibase_20250629.vhd",
            "aliyun_3_x64_20G_container_optimized_alibase_20250629.vhd"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn each_group_shows_its_own_status_conditions_hash_and_finalizer() {
    let place = Place::new(Some(CLUSTER)).await;
    let one = place.asking(ContainerService, &private()).await;
    let two = place.asking(CloudPilot, &private()).await;
    pass(SOON).await;
    let object: container_service::ECSNodeClass = place.get(&one).await;
    let status = object.status.unwrap();
    assert_eq!(status.ready, Some(true));
    assert_eq!(status.v_switches[0].available_ip_address_count, Some(16_380));
    assert_eq!(status.images[0].architecture.as_deref(), Some("x86_64"));
    assert_eq!(status.security_groups[0].name.as_deref(), Some("my-cluster-node"));
    assert_eq!(object.metadata.finalizers.unwrap(), ["karpenter.alibabacloud.com/termination"]);
    let annotations = object.metadata.annotations.unwrap();
    assert_eq!(annotations["karpenter.alibabacloud.com/ecsnodeclass-hash-version"], HASH_VERSION);
    assert_eq!(
        annotations["karpenter.alibabacloud.com/ecsnodeclass-hash"],
        place.known(ContainerService, &one).class.hash
    );
    let object: cloud_pilot::ECSNodeClass = place.get(&two).await;
    let status = object.status.unwrap();
    assert_eq!(status.images[0].requirements[0].key, "kubernetes.io/arch");
    assert_eq!(object.metadata.finalizers.unwrap(), ["karpenter.k8s.alibabacloud/termination"]);
    let types = |conditions: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>| -> Vec<String> {
        conditions.into_iter().map(|condition| condition.type_).collect()
    };
    assert_eq!(
        types(status.conditions.unwrap()),
        [
            "ValidationSucceeded",
            "ClusterReady",
            "VSwitchesReady",
            "SecurityGroupsReady",
            "ImagesReady",
            "RAMRoleReady",
            "InstanceTypesReady",
            "PermissionsComplete",
            "Ready"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn without_any_cluster_id_the_condition_says_so() {
    let place = Place::new(None).await;
    let one = place.asking(ContainerService, &private()).await;
    let two = place.asking(Handbook, &private()).await;
    let named = place.asking(ContainerService, &and(&json!({ "clusterID": CLUSTER }))).await;
    pass(SOON).await;
    let (status, reason, message) =
        place.says::<container_service::ECSNodeClass>(&one, "ClusterResolved").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ClusterIDMissing"));
    assert!(message.contains("spec.clusterID is empty and the controller has no CLUSTER_ID"), "{message}");
    assert_eq!(place.says::<container_service::ECSNodeClass>(&one, "Ready").await.0, "False");
    let (_, _, message) = place.says::<handbook::ECSNodeClass>(&two, "ClusterReady").await;
    assert!(message.contains("set it to the id of the ACK cluster"), "{message}");
    assert_eq!(place.says::<container_service::ECSNodeClass>(&named, "Ready").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn an_empty_selector_is_named_and_heals_when_the_tags_come() {
    let place = Place::new(Some(CLUSTER)).await;
    let missing = json!([{ "tags": { "Name": "nobody*" } }]);
    let name = place.asking(CloudPilot, &and(&json!({ "vSwitchSelectorTerms": missing }))).await;
    pass(SOON).await;
    let (status, reason, message) = place.says::<cloud_pilot::ECSNodeClass>(&name, "VSwitchesReady").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "vSwitchesNotFound"));
    assert_eq!(
        message,
        "no vSwitch was found by tag Name=nobody*; correct spec.vSwitchSelectorTerms, or the tags in the cloud"
    );
    assert!(place.known(CloudPilot, &name).not_ready.as_ref().unwrap().contains("nobody*"));
    place.cloud.change(|world| {
        let found = world.vswitches.values_mut().next().unwrap();
        found.tags.insert("Name".to_owned(), "nobody-any-more".to_owned());
    });
    pass(Duration::from_secs(30)).await;
    assert_eq!(place.says::<cloud_pilot::ECSNodeClass>(&name, "Ready").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn more_matches_than_one_page_are_all_found() {
    let place = Place::new(Some(CLUSTER)).await;
    place.cloud.change(|world| {
        let model = world.vswitches.values().find(|found| found.name.contains("private")).unwrap().clone();
        for number in 0..120 {
            let id = format!("vsw-many{number}");
            world
                .vswitches
                .insert(id.clone(), karpenter_simcloud_alibabacloud::VSwitch { id, ..model.clone() });
        }
        let model =
            world.security_groups.values().find(|found| found.name == "my-cluster-node").unwrap().clone();
        for number in 0..120 {
            let id = format!("sg-many{number}");
            let group = karpenter_simcloud_alibabacloud::SecurityGroup { id: id.clone(), ..model.clone() };
            world.security_groups.insert(id, group);
        }
    });
    let name = place.asking(CloudPilot, &private()).await;
    pass(SOON).await;
    let known = place.known(CloudPilot, &name);
    assert_eq!((known.resolved.v_switches.len(), known.resolved.security_groups.len()), (124, 121));
}

#[tokio::test(start_paused = true)]
async fn zones_and_names_of_terms_count() {
    let place = Place::new(Some(CLUSTER)).await;
    let by_zone = json!([{ "zoneID": "cn-hangzhou-h", "tags": { "Name": "my-cluster-*" } }]);
    let by_name = json!([{ "name": "my-cluster-node" }]);
    let name = place
        .asking(
            ContainerService,
            &json!({ "vSwitchSelectorTerms": by_zone, "securityGroupSelectorTerms": by_name }),
        )
        .await;
    pass(SOON).await;
    let known = place.known(ContainerService, &name);
    assert_eq!(known.resolved.zones(), ["cn-hangzhou-h".into()]);
    assert_eq!(known.resolved.security_groups.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_steady_cluster_asks_each_question_once_per_period_however_many_classes_there_are() {
    let place = Place::new(Some(CLUSTER)).await;
    for _ in 0..4 {
        place.asking(ContainerService, &private()).await;
        place.asking(CloudPilot, &private()).await;
    }
    pass(Duration::from_mins(2)).await;
    let calls = place.calls();
    // Instance types are four pages, and stock is asked for on demand and spot.
    assert!(calls <= 12, "{calls} calls for six questions");
    pass(Duration::from_hours(1)).await;
    let an_hour = place.calls() - calls;
    // vSwitches 12 times, security groups and two lists of images 4 times each, the cluster twice.
    assert!(an_hour <= 28, "{an_hour} calls in an hour");
    let writes = |place: &Place| place.kube.clone();
    let before: container_service::ECSNodeClass = Api::<container_service::ECSNodeClass>::all(writes(&place))
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .remove(0);
    pass(Duration::from_hours(1)).await;
    let after: container_service::ECSNodeClass = place.get(before.metadata.name.as_deref().unwrap()).await;
    assert_eq!(
        before.metadata.resource_version, after.metadata.resource_version,
        "nothing changed, nothing is written"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_keeps_the_class_ready_and_tells_why() {
    let place = Place::new(Some(CLUSTER)).await;
    let name = place.asking(CloudPilot, &private()).await;
    pass(SOON).await;
    let fault = Fault::Throttle { retry_after: None };
    let rule = FaultRule { action: "DescribeVSwitches".to_owned(), fault, times: None, per_mille: None };
    place.cloud.change(|world| world.faults.add(rule));
    pass(Duration::from_mins(8)).await;
    assert_eq!(place.says::<cloud_pilot::ECSNodeClass>(&name, "Ready").await.0, "True");
    let told = place.events("Throttled").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("VSwitchesReady is as it was last known"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_and_a_dead_key_are_conditions_with_remedies_and_heal() {
    let place = Place::new(Some(CLUSTER)).await;
    let allowed = ["cs:*", "ecs:*", "ram:*"];
    place.cloud.change(|world| {
        world.keys.get_mut(ACCESS_KEY).unwrap().policy = Some(Policy::allowing(allowed));
    });
    let name = place.asking(CloudPilot, &private()).await;
    pass(SOON).await;
    let (status, reason, message) = place.says::<cloud_pilot::ECSNodeClass>(&name, "VSwitchesReady").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "PermissionDenied"));
    assert!(message.contains("allow the action vpc:DescribeVSwitches in a RAM policy"), "{message}");
    place.cloud.change(|world| world.keys.get_mut(ACCESS_KEY).unwrap().policy = None);
    pass(Duration::from_mins(1)).await;
    assert_eq!(place.says::<cloud_pilot::ECSNodeClass>(&name, "Ready").await.0, "True");
    let fault = Fault::Refuse {
        status: 403,
        code: "InvalidSecurityToken.Expired".to_owned(),
        message: String::new(),
    };
    let rule = FaultRule { action: "*".to_owned(), fault, times: None, per_mille: None };
    place.cloud.change(|world| world.faults.add(rule));
    let other =
        place.asking(CloudPilot, &and(&json!({ "securityGroupSelectorTerms": [{ "name": "x" }] }))).await;
    pass(SOON).await;
    let (_, reason, message) = place.says::<cloud_pilot::ECSNodeClass>(&other, "SecurityGroupsReady").await;
    assert_eq!(reason, "CredentialsUnusable");
    assert!(message.contains("check the role, the OIDC provider and the token file"), "{message}");
    place.cloud.change(|world| world.faults.clear());
}

#[tokio::test(start_paused = true)]
async fn roles_are_checked_and_a_class_works_without_the_right_to_check() {
    let place = Place::new(Some(CLUSTER)).await;
    let role = |name: &str| and(&json!({ "role": name }));
    let good = place.asking(ContainerService, &role("KubernetesWorkerRole")).await;
    let wrong = place.asking(ContainerService, &role("NotForMachines")).await;
    let missing = place.asking(ContainerService, &role("Nobody")).await;
    pass(SOON).await;
    assert_eq!(place.says::<container_service::ECSNodeClass>(&good, "RAMRoleResolved").await.0, "True");
    assert_eq!(
        place.known(ContainerService, &good).resolved.ram_role.as_deref(),
        Some("KubernetesWorkerRole")
    );
    let (_, reason, message) = place.says::<container_service::ECSNodeClass>(&wrong, "RAMRoleResolved").await;
    assert_eq!(reason, "InvalidAssumePolicy");
    assert!(message.contains("add the service ecs.aliyuncs.com to its trust policy"), "{message}");
    let (_, reason, _) = place.says::<container_service::ECSNodeClass>(&missing, "RAMRoleResolved").await;
    assert_eq!(reason, "RoleNotFound");
    place.cloud.change(|world| {
        world.keys.get_mut(ACCESS_KEY).unwrap().policy = Some(Policy::allowing(["cs:*", "ecs:*", "vpc:*"]));
    });
    let unchecked = place.asking(ContainerService, &role("Another")).await;
    pass(SOON).await;
    let (status, _, message) =
        place.says::<container_service::ECSNodeClass>(&unchecked, "RAMRoleResolved").await;
    assert_eq!(status, "True");
    assert!(message.contains("not checked") && message.contains("ram:GetRole"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_disk_smaller_than_the_image_and_mistakes_in_the_class_are_said() {
    let place = Place::new(Some(CLUSTER)).await;
    let small =
        json!({ "imageSelectorTerms": [{ "id": "m-simulated0custom" }], "systemDisk": { "size": 20 } });
    let name = place.asking(ContainerService, &and(&small)).await;
    let kept = json!({ "systemDisk": { "deleteWithInstance": false } });
    let other = place.asking(Handbook, &and(&kept)).await;
    pass(SOON).await;
    let (_, reason, message) = place.says::<container_service::ECSNodeClass>(&name, "ImageResolved").await;
    assert_eq!(reason, "DiskSmallerThanImage");
    assert!(message.contains("set spec.systemDisk to at least 40 GiB"), "{message}");
    let (status, _, message) = place.says::<handbook::ECSNodeClass>(&other, "ValidationSucceeded").await;
    assert_eq!(status, "False");
    assert!(message.contains("set it to true"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn images_by_family_name_and_alias_give_one_per_architecture() {
    let place = Place::new(Some(CLUSTER)).await;
    let images = |terms: Value| and(&json!({ "imageSelectorTerms": terms }));
    let containers = place.asking(CloudPilot, &images(json!([{ "alias": "ContainerOS" }]))).await;
    let own = json!([{ "name": "golden-*", "imageOwnerAlias": "self" }]);
    let golden = place.asking(ContainerService, &images(own)).await;
    pass(SOON).await;
    let found = |class: Arc<ResolvedClass>| -> Vec<String> {
        class.resolved.images.iter().map(|image| image.id.to_string()).collect()
    };
    assert_eq!(
        found(place.known(CloudPilot, &containers)),
        [
            "lifsea_3_x64_10G_containerd_2_0_alibase_20250527.vhd",
            "lifsea_3_arm64_10G_containerd_2_0_alibase_20250527.vhd"
        ]
    );
    assert_eq!(found(place.known(ContainerService, &golden)), ["m-simulated0custom"]);
}

fn claim(name: &str, dialect: Dialect, class: &str) -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "requirements": [],
            "nodeClassRef": { "group": dialect.group(), "kind": "ECSNodeClass", "name": class },
        },
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_class_stays_until_its_own_claims_are_gone() {
    let place = Place::new(Some(CLUSTER)).await;
    let classes: Api<cloud_pilot::ECSNodeClass> = Api::all(place.kube.clone());
    let claims: Api<NodeClaim> = Api::all(place.kube.clone());
    let name = place.asking(CloudPilot, &private()).await;
    claims.create(&PostParams::default(), &claim("mine", CloudPilot, &name)).await.unwrap();
    claims.create(&PostParams::default(), &claim("another-group", Handbook, &name)).await.unwrap();
    pass(SOON).await;
    classes.delete(&name, &DeleteParams::default()).await.unwrap();
    pass(SOON).await;
    assert!(classes.get_opt(&name).await.unwrap().is_some());
    let told = place.events("WaitingOnNodeClaimTermination").await;
    assert_eq!(told, ["the class stays until these NodeClaims are gone: mine"]);
    claims.delete("mine", &DeleteParams::default()).await.unwrap();
    pass(SOON).await;
    assert!(classes.get_opt(&name).await.unwrap().is_none(), "a claim of another group does not hold it");
    assert!(place.classes.by_key(&ClassKey { dialect: CloudPilot, name: name.as_str().into() }).is_none());
}

#[tokio::test(start_paused = true)]
async fn claims_of_another_provider_get_the_hash_and_do_not_drift() {
    let place = Place::new(Some(CLUSTER)).await;
    let claims: Api<NodeClaim> = Api::all(place.kube.clone());
    let mut old = claim("old", CloudPilot, "c");
    let annotations = old.metadata.annotations.get_or_insert_default();
    annotations.insert(CloudPilot.hash_annotation(), "42".to_owned());
    annotations.insert(CloudPilot.hash_version_annotation(), "v3".to_owned());
    claims.create(&PostParams::default(), &old).await.unwrap();
    let status = json!({ "status": { "providerID": "cn-hangzhou.i-1" } });
    claims.patch_status("old", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let mut object = class(CloudPilot, &with(CloudPilot, &private()));
    object["metadata"] = json!({ "name": "c" });
    place.create::<cloud_pilot::ECSNodeClass>(&object).await;
    pass(SOON).await;
    let annotations = claims.get("old").await.unwrap().metadata.annotations.unwrap();
    assert_eq!(annotations[&CloudPilot.hash_version_annotation()], HASH_VERSION);
    assert_eq!(annotations[&CloudPilot.hash_annotation()], place.known(CloudPilot, "c").class.hash);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_serves_one_group_only_works() {
    let place = Place::serving(Some(CLUSTER), &[Handbook]).await;
    let name = place.asking(Handbook, &private()).await;
    pass(SOON).await;
    assert_eq!(place.says::<handbook::ECSNodeClass>(&name, "Ready").await.0, "True");
}
