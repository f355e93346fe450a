//! Simulated accounts with the real providers on them: everything the providers ask goes over loopback, as it would over the network.

use std::any::Any;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use jiff::SignedDuration;
use karpenter_alibabacloud::AlibabaCloud;
use karpenter_api::GoDuration;
use karpenter_api::options::{AWS_OPTIONS, AwsOptions, FeatureGates, Source};
use karpenter_aws::Aws;
use karpenter_environment::Environment;
use karpenter_simcloud::{Market, Watcher};
use karpenter_simcloud_alibabacloud::{ACCESS_KEY, ACCESS_SECRET, Times, World};
use karpenter_simcloud_aws::Description;
use karpenter_transport::HttpTransport;
use kube::Client;

use crate::Cloud;

/// The name of the local cluster, by which clouds know it.
pub const CLUSTER_NAME: &str = "local";
/// Where the simulated Alibaba Cloud is.
const HANGZHOU: &str = "cn-hangzhou";

/// A simulated account, served on loopback until this is dropped, and the provider on it.
pub struct Account {
    /// The provider.
    pub cloud: Cloud,
    /// Where the account is served.
    pub url: String,
    /// Environment variables by which other clients reach it.
    pub variables: Vec<(&'static str, String)>,
    /// Serves the account.
    pub served: Box<dyn Any + Send>,
}

/// What an account is made of.
pub struct Parts {
    /// The cluster that machines join.
    pub client: Client,
    /// Time and chance.
    pub environment: Arc<dyn Environment>,
    /// What can be had at which price.
    pub market: Arc<dyn Market>,
    /// Who is told what happens to machines.
    pub watcher: Arc<dyn Watcher>,
    /// How long a machine takes from its launch until its node appears.
    pub boot_time: GoDuration,
    /// The port of 127.0.0.1 to serve it at; zero takes any free one.
    pub port: u16,
}

/// An AWS account with a cluster's VPC, roles and queue in it.
///
/// # Errors
///
/// If the port is taken, or the provider cannot start.
pub async fn aws(parts: Parts) -> anyhow::Result<Account> {
    let description = Description {
        cluster_name: CLUSTER_NAME.to_owned(),
        start_time: parts.boot_time.value().min(SignedDuration::from_secs(2)),
        boot_time: parts.boot_time.value(),
        ..Description::default()
    };
    let region = description.region.clone();
    let trust = Some(description.certificate_authority.clone());
    let (id, secret) = description.access_keys.first_key_value().context("an account has keys")?;
    let (id, secret) = (id.clone(), secret.clone());
    let Parts { client, environment, market, watcher, port, .. } = parts;
    let service = karpenter_simcloud_aws::Service::new(description, market, watcher, environment.clone());
    let served = service.serve(port).await.with_context(|| format!("serving AWS on port {port}"))?;
    let url = served.url();
    let keys = karpenter_aws_client::Credentials {
        access_key_id: id.clone(),
        secret_access_key: secret.clone(),
        session_token: None,
        expiration: None,
    };
    let source = karpenter_aws_client::Source::Keys(keys);
    let config = karpenter_aws_client::Config::at(&url, &region, source);
    let transport = Arc::new(HttpTransport::new(None).context("preparing to call AWS")?);
    let wire = karpenter_aws_client::Client::new(config, transport, environment.clone());
    let flags = ["cluster-name", "interruption-queue"].map(|name| format!("--{name}={CLUSTER_NAME}"));
    let options = AwsOptions::read(&mut Source::new(&flags, &|_| None, &[AWS_OPTIONS])?)?;
    let gates = FeatureGates::default();
    let provider = Aws::connect(client, wire, options, (gates, false), trust, environment.clone()).await;
    let provider = provider.map_err(|error| anyhow!("the AWS provider cannot start: {error}"))?;
    let variables = vec![
        ("AWS_ENDPOINT_URL", url.clone()),
        ("AWS_REGION", region),
        ("AWS_ACCESS_KEY_ID", id),
        ("AWS_SECRET_ACCESS_KEY", secret),
    ];
    Ok(Account { cloud: Cloud::aws(provider), url, variables, served: Box::new(served) })
}

/// A region of Alibaba Cloud with a cluster's VPC and roles in it.
///
/// # Errors
///
/// If the port is taken, or the provider cannot start.
pub async fn alibabacloud(parts: Parts) -> anyhow::Result<Account> {
    let Parts { environment, market, watcher, boot_time, port, .. } = parts;
    let mut world = World::standard(HANGZHOU, CLUSTER_NAME);
    // So that every type can be had: under Terway the small ones, ecs.g6.large and all of ecs.t6 among them, have too few addresses.
    world.use_flannel(CLUSTER_NAME);
    world.times = Times {
        pending: SignedDuration::ZERO,
        starting: SignedDuration::ZERO,
        booting: boot_time.value(),
        ..Times::default()
    };
    let service = karpenter_simcloud_alibabacloud::Service::with(world, environment.clone(), market, watcher);
    let served =
        service.serve(port).await.with_context(|| format!("serving Alibaba Cloud on port {port}"))?;
    let url = served.url();
    let keys = karpenter_alibabacloud_client::Credentials::fixed(ACCESS_KEY, ACCESS_SECRET);
    let source = karpenter_alibabacloud_client::Source::Keys(keys);
    let config = karpenter_alibabacloud_client::Config::at(&url, HANGZHOU, source);
    let transport = Arc::new(HttpTransport::new(None).context("preparing to call Alibaba Cloud")?);
    let wire = karpenter_alibabacloud_client::Client::new(config, transport, environment);
    let settings = karpenter_alibabacloud::Settings {
        cluster_id: Some(CLUSTER_NAME.to_owned()),
        ..karpenter_alibabacloud::Settings::default()
    };
    let provider = AlibabaCloud::new(wire, settings);
    let variables = vec![
        ("ALIBABA_CLOUD_ENDPOINT", url.clone()),
        ("ALIBABA_CLOUD_REGION_ID", HANGZHOU.to_owned()),
        ("ALIBABA_CLOUD_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
        ("ALIBABA_CLOUD_ACCESS_KEY_SECRET", ACCESS_SECRET.to_owned()),
    ];
    Ok(Account { cloud: Cloud::alibabacloud(provider), url, variables, served: Box::new(served) })
}
