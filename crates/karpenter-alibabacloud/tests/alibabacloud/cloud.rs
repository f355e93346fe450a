//! The provider on a simulated cloud, in process and on tokio's clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use jiff::Timestamp;
use karpenter_alibabacloud::node_class::{
    Architecture, Cluster, Dialect, Image, Network, Resolved, ResolvedClass, SecurityGroup, VSwitch,
    container_service, read,
};
use karpenter_alibabacloud::refresh::Part;
use karpenter_alibabacloud::{AlibabaCloud, Settings};
use karpenter_alibabacloud_client::{Client, Config, Credentials, Source, TransportError};
use karpenter_api::NodeClaim;
use karpenter_environment::{Environment as _, SimulatedEnvironment};
use karpenter_provider::{LaunchError, Machine, Provider as _, Termination};
use karpenter_simcloud_alibabacloud::{
    ACCESS_KEY, ACCESS_SECRET, Instance, Market, Recorded, SECURITY_GROUP, Service, Stock, StockRule, World,
};
use serde_json::{Value, json};

use crate::server::{class, with};

pub(crate) const CLUSTER: &str = "c1";
pub(crate) const REGION: &str = "cn-hangzhou";

/// A provider and its cloud.
pub(crate) struct Rig {
    pub(crate) service: Service,
    pub(crate) provider: AlibabaCloud,
    pub(crate) environment: Arc<SimulatedEnvironment>,
}

impl Rig {
    /// A provider that knows a class with `changes` and what is sold.
    pub(crate) async fn new(changes: &Value) -> Self {
        Self::prepared(changes, |_| {}).await
    }

    /// The same, in a world that was changed before the provider looked.
    pub(crate) async fn prepared(changes: &Value, prepare: impl FnOnce(&mut World)) -> Self {
        let start: Timestamp = "2026-11-17T06:00:30Z".parse().unwrap();
        let environment = Arc::new(SimulatedEnvironment::new(7, start));
        let service = Service::new(World::standard(REGION, CLUSTER), environment.clone());
        service.change(prepare);
        let provider = provider(&service, &environment);
        let rig = Self { service, provider, environment };
        rig.know(&rig.class(changes));
        rig.look().await;
        rig
    }

    /// Another process on the same cloud, as after a restart.
    pub(crate) async fn restarted(self, changes: &Value) -> Self {
        let provider = provider(&self.service, &self.environment);
        let rig = Self { provider, ..self };
        rig.know(&rig.class(changes));
        rig.look().await;
        rig
    }

    pub(crate) fn know(&self, class: &ResolvedClass) {
        self.provider.classes().put(class.clone());
    }

    /// Asks what is sold.
    pub(crate) async fn look(&self) {
        for part in [Part::Types, Part::Stock] {
            self.provider.refresh().part(part).await;
        }
    }

    /// A class of the cluster as its controller would resolve it.
    pub(crate) fn class(&self, changes: &Value) -> ResolvedClass {
        resolved_class(&self.service, changes)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.environment.now()
    }

    pub(crate) async fn launch(&self, claim: &NodeClaim) -> Result<Machine, LaunchError> {
        self.provider.launch(Arc::new(claim.clone())).await
    }

    pub(crate) async fn terminate(&self, claim: &NodeClaim) -> Result<Termination, String> {
        self.provider.terminate(Arc::new(claim.clone())).await.map_err(|error| error.to_string())
    }

    pub(crate) fn instances(&self) -> Vec<Instance> {
        self.service.change(|world| world.instances.values().cloned().collect())
    }

    /// The only machine there is.
    pub(crate) fn only(&self) -> Instance {
        let all = self.instances();
        assert_eq!(all.len(), 1, "{all:?}");
        all.into_iter().next().unwrap()
    }

    /// How often an action was called.
    pub(crate) fn calls(&self, action: &str) -> usize {
        self.requests(action).len()
    }

    pub(crate) fn requests(&self, action: &str) -> Vec<Recorded> {
        self.service.change(|world| world.records.of(action).cloned().collect())
    }

    pub(crate) fn sell_out(&self, instance_type: Option<&str>, zone: Option<&str>, market: Option<Market>) {
        self.service.change(|world| world.stock.push(sold_out(instance_type, zone, market)));
    }

    /// A claim made now, with requirements and labels.
    pub(crate) fn claim(&self, name: &str, requirements: &Value) -> NodeClaim {
        claim(name, self.now(), requirements)
    }
}

/// A class as its controller would resolve it in the cloud.
pub(crate) fn resolved_class(service: &Service, changes: &Value) -> ResolvedClass {
    let dialect = Dialect::ContainerService;
    let mut object = class(dialect, &with(dialect, changes));
    object["metadata"] = json!({"name": "default", "uid": "class-uid", "generation": 1});
    let object: container_service::ECSNodeClass = serde_json::from_value(object).unwrap();
    let mut class = read(&object).class;
    class.cluster.id.get_or_insert_with(|| CLUSTER.to_owned());
    let ram_role = class.ram_role.clone();
    ResolvedClass { class, resolved: service.change(|world| resolved(world, ram_role)), not_ready: None }
}

/// A claim made at `now`.
pub(crate) fn claim(name: &str, now: Timestamp, requirements: &Value) -> NodeClaim {
    let created = karpenter_environment::format_time(now);
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name, "uid": format!("uid-of-{name}"), "creationTimestamp": created,
            "labels": {"karpenter.sh/nodepool": "default"},
        },
        "spec": {
            "requirements": requirements,
            "nodeClassRef": {"group": Dialect::ContainerService.group(), "kind": "ECSNodeClass", "name": "default"},
        },
    }))
    .unwrap()
}

pub(crate) fn sold_out(instance_type: Option<&str>, zone: Option<&str>, market: Option<Market>) -> StockRule {
    StockRule {
        instance_type: instance_type.map(str::to_owned),
        zone: zone.map(str::to_owned),
        market,
        stock: Stock::WithoutStock,
    }
}

/// The claim with its machine written down.
pub(crate) fn recorded(claim: &NodeClaim, machine: &Machine) -> NodeClaim {
    let mut claim = claim.clone();
    claim.metadata.annotations.get_or_insert_default().extend(machine.annotations.clone());
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(machine.provider_id.clone());
    status.image_id.clone_from(&machine.image_id);
    claim
}

/// Requirements: key and values each.
pub(crate) fn wants(lines: &[(&str, &[&str])]) -> Value {
    let line = |(key, values): &(&str, &[&str])| json!({"key": key, "operator": "In", "values": values});
    Value::Array(lines.iter().map(line).collect())
}

pub(crate) const TYPE: &str = "node.kubernetes.io/instance-type";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const CAPACITY: &str = "karpenter.sh/capacity-type";

fn provider(service: &Service, environment: &Arc<SimulatedEnvironment>) -> AlibabaCloud {
    let cloud = service.clone();
    let transport =
        move |request: Request<Bytes>| -> BoxFuture<'static, Result<Response<Bytes>, TransportError>> {
            let cloud = cloud.clone();
            async move { cloud.answer(request).await.map_err(|error| TransportError(error.to_string())) }
                .boxed()
        };
    let keys = Source::Keys(Credentials::fixed(ACCESS_KEY, ACCESS_SECRET));
    let config = Config::at("http://simulated", REGION, keys);
    let client = Client::new(config, Arc::new(transport), environment.clone());
    // A queue that is there is listened to.
    let interruption_queue = service.change(|world| world.queues.keys().next().cloned());
    let cluster_id = Some(CLUSTER.to_owned());
    AlibabaCloud::new(client, Settings { cluster_id, interruption_queue, ..Settings::default() })
}

fn resolved(world: &mut World, ram_role: Option<String>) -> Resolved {
    let private = world.vswitches.values().filter(|one| one.name.contains("-private-"));
    let v_switches = private.map(|one| VSwitch {
        id: one.id.as_str().into(),
        zone: one.zone.as_str().into(),
        vpc: one.vpc.clone(),
        free_addresses: u64::from(one.free()),
    });
    let images: BTreeMap<&str, &karpenter_simcloud_alibabacloud::Image> = world
        .images
        .values()
        .filter(|image| image.id.contains("G_alibase"))
        .map(|image| (image.architecture.as_str(), image))
        .collect();
    let images = images.into_iter().filter_map(|(architecture, image)| {
        Some(Image {
            id: image.id.as_str().into(),
            name: None,
            architecture: Architecture::parse(architecture)?,
            size_gib: Some(20),
        })
    });
    let cluster = Cluster {
        id: CLUSTER.into(),
        version: "1.33.3-aliyun.1".to_owned(),
        vpc: None,
        network: Network::Terway,
        dual_stack: false,
    };
    Resolved {
        v_switches: v_switches.collect(),
        security_groups: vec![SecurityGroup { id: SECURITY_GROUP.into(), name: None, vpc: String::new() }],
        images: images.collect(),
        cluster: Some(Arc::new(cluster)),
        ram_role,
        ..Resolved::default()
    }
}

/// How many launches a storm has: few, unless `KARPENTER_TEST_STORM` says otherwise.
pub(crate) fn storm(few: usize) -> usize {
    std::env::var("KARPENTER_TEST_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(few)
}
