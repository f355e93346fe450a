//! An account in simulated time, a client of it, and what was told about its machines.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use jiff::Timestamp;
use karpenter_aws_client::ec2::{
    CreateFleet, CreateFleetAnswer, CreateLaunchTemplate, FleetLaunchTemplate, FleetLaunchTemplateConfig,
    FleetOverride, LaunchTemplateData, NetworkInterface, OnDemandOptions, SpotOptions, Tag, TagSpecification,
    TargetCapacitySpecification,
};
use karpenter_aws_client::{Client, Config, Credentials, Source, Transport, TransportError};
use karpenter_environment::SimulatedEnvironment;
use karpenter_simcloud::{MachineEvent, Market, Plenty, Watcher};
use karpenter_simcloud_aws::{Description, Service};

/// A `NodeConfig` for the cluster of the default description.
pub(crate) const NODE_CONFIG: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: local\n    apiServerEndpoint: https://x\n    certificateAuthority: Y2E=\n    cidr: 10.100.0.0/16\n  kubelet:\n    config:\n      maxPods: 29\n      registerWithTaints:\n      - key: karpenter.sh/unregistered\n        effect: NoExecute\n    flags:\n    - --node-labels=karpenter.sh/nodepool=default\n";

pub(crate) fn start() -> Timestamp {
    "2026-11-17T06:00:00Z".parse().unwrap()
}

#[derive(Default)]
pub(crate) struct Told(Mutex<Vec<MachineEvent>>);

impl Watcher for Told {
    fn happened(&self, event: MachineEvent) {
        self.0.lock().unwrap().push(event);
    }
}

pub(crate) struct Account {
    pub(crate) service: Service,
    pub(crate) client: Client,
    told: Arc<Told>,
}

impl Account {
    pub(crate) fn new() -> Self {
        Self::with(Description::default(), Arc::new(Plenty))
    }

    pub(crate) fn with(description: Description, market: Arc<dyn Market>) -> Self {
        let environment = Arc::new(SimulatedEnvironment::new(7, start()));
        let told = Arc::new(Told::default());
        let service = Service::new(description, market, told.clone(), environment.clone());
        let client = client(&service, keys(), environment);
        let running = service.clone();
        tokio::spawn(async move { running.run().await });
        Self { service, client, told }
    }

    pub(crate) fn told(&self) -> Vec<MachineEvent> {
        self.told.0.lock().unwrap().clone()
    }

    pub(crate) fn image(&self, architecture: &str) -> String {
        let path = format!(
            "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/{architecture}/standard/recommended/image_id"
        );
        self.service.parameter(&path).unwrap()
    }

    /// The private subnet of the zone with this letter.
    pub(crate) fn subnet(&self, letter: char) -> String {
        let zone = format!("us-west-2{letter}");
        let subnets = self.service.subnets();
        subnets.into_iter().find(|subnet| subnet.zone.name == zone && !subnet.public).unwrap().id
    }

    pub(crate) async fn template(&self, name: &str, user_data: &str) {
        use base64::Engine as _;
        let groups = self.service.security_groups();
        let group = groups.into_iter().find(|group| group.name == "local-node").unwrap().id;
        let data = LaunchTemplateData {
            image_id: Some(self.image("x86_64")),
            user_data: Some(base64::engine::general_purpose::STANDARD.encode(user_data)),
            network_interfaces: vec![NetworkInterface {
                device_index: Some(0),
                groups: vec![group],
                ..NetworkInterface::default()
            }],
            ..LaunchTemplateData::default()
        };
        self.create(name, data).await;
    }

    pub(crate) async fn create(&self, name: &str, launch_template_data: LaunchTemplateData) {
        let request = CreateLaunchTemplate {
            launch_template_name: name.into(),
            launch_template_data,
            ..CreateLaunchTemplate::default()
        };
        self.client.ec2().call(&request).await.unwrap();
    }

    pub(crate) fn fleet(
        &self,
        template: &str,
        kind: &str,
        total: u32,
        pools: &[(&str, char)],
    ) -> CreateFleet {
        let overrides = pools.iter().map(|(instance_type, zone)| FleetOverride {
            instance_type: Some((*instance_type).into()),
            subnet_id: Some(self.subnet(*zone)),
            ..FleetOverride::default()
        });
        CreateFleet {
            fleet_type: Some("instant".into()),
            launch_template_configs: vec![FleetLaunchTemplateConfig {
                launch_template_specification: FleetLaunchTemplate {
                    launch_template_name: Some(template.into()),
                    version: Some("$Latest".into()),
                    ..FleetLaunchTemplate::default()
                },
                overrides: overrides.collect(),
            }],
            target_capacity_specification: TargetCapacitySpecification {
                total_target_capacity: total,
                default_target_capacity_type: Some(kind.into()),
            },
            spot_options: (kind == "spot")
                .then(|| SpotOptions { allocation_strategy: Some("price-capacity-optimized".into()) }),
            on_demand_options: (kind == "on-demand")
                .then(|| OnDemandOptions { allocation_strategy: Some("lowest-price".into()) }),
            tag_specifications: vec![TagSpecification {
                resource_type: "instance".into(),
                tags: vec![Tag { key: "karpenter.sh/nodepool".into(), value: "default".into() }],
            }],
            ..CreateFleet::default()
        }
    }

    pub(crate) async fn launch(&self, request: &CreateFleet) -> CreateFleetAnswer {
        self.client.ec2().call(request).await.unwrap()
    }

    /// Launches one on-demand machine with this boot script.
    pub(crate) async fn one(&self, user_data: &str) -> String {
        self.template("one", user_data).await;
        let answer = self.launch(&self.fleet("one", "on-demand", 1, &[("m5.large", 'a')])).await;
        answer.instances[0].instance_ids[0].clone()
    }
}

pub(crate) fn keys() -> Source {
    Source::Keys(Credentials::fixed("AKIASIMULATED0000001", "simulated-secret"))
}

pub(crate) fn client(
    service: &Service,
    credentials: Source,
    environment: Arc<SimulatedEnvironment>,
) -> Client {
    let config = Config::at("http://aws.simulated", "us-west-2", credentials);
    Client::new(config, transport(service), environment)
}

/// The account as a transport: no network in between.
pub(crate) fn transport(service: &Service) -> Arc<dyn Transport> {
    let service = service.clone();
    Arc::new(move |request: Request<Bytes>| {
        let service = service.clone();
        let answer =
            async move { service.handle(request).await.map_err(|reset| TransportError(reset.to_string())) };
        Box::pin(answer) as BoxFuture<'static, Result<Response<Bytes>, TransportError>>
    })
}

/// All instances of an answer.
pub(crate) fn ids(answer: &CreateFleetAnswer) -> Vec<String> {
    answer.instances.iter().flat_map(|launched| launched.instance_ids.clone()).collect()
}
