//! What clouds, kOps and descriptions of simulated clouds say.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Request, Response};
use jiff::Timestamp;
use karpenter_alibabacloud::interruption::{events, message};
use karpenter_alibabacloud_client::mns::BatchReceiveMessage;
use karpenter_alibabacloud_client::{Operation, cms, cs, ecs, ram, sts, vpc};
use karpenter_aws::read_message;
use karpenter_aws_client::ec2::{DescribeImages, DescribeInstanceTypes, DescribeInstances, DescribeSubnets};
use karpenter_aws_client::{Client, Config, Credentials, ReceiveMessage, Source};
use karpenter_environment::SimulatedEnvironment;
use karpenter_kops::{Answers, CloudFacts, Inventory, Source as Origin, validate};
use karpenter_kwok::read_instance_types;
use karpenter_simcloud::CloudDescription;

/// A client whose every call is answered with the same bytes.
fn client(status: u16, body: &[u8]) -> Client {
    let body = Bytes::copy_from_slice(body);
    let transport = move |_: Request<Bytes>| {
        let answer = Response::builder().status(status).body(body.clone()).expect("a response");
        std::future::ready(Ok(answer)).boxed()
    };
    let keys = Source::Keys(Credentials {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: "secret".to_owned(),
        session_token: None,
        expiration: None,
    });
    let mut config = Config::at("http://127.0.0.1:1", "us-west-2", keys);
    config.retry = karpenter_aws_client::RetryPolicy::once();
    Client::new(config, Arc::new(transport), Arc::new(SimulatedEnvironment::new(1, Timestamp::UNIX_EPOCH)))
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime starts").block_on(future)
}

/// The first byte says whether the call succeeds.
pub(crate) fn aws_answers(data: &[u8]) {
    let Some((first, body)) = data.split_first() else { return };
    let client = client(if first % 2 == 0 { 200 } else { 400 }, body);
    wait(async {
        let ec2 = client.ec2();
        let _ = ec2.call(&DescribeSubnets::default()).await;
        let _ = ec2.call(&DescribeImages::default()).await;
        let _ = ec2.call(&DescribeInstances::default()).await;
        let _ = ec2.call(&DescribeInstanceTypes::default()).await;
        let _ = client.ssm().parameter("name").await;
        let _ = client.eks().describe_cluster("name").await;
        let _ = client.s3().list("bucket", "prefix").await;
        let _ = client.sts().caller_identity().await;
    });
}

/// An answer of a queue, or the body of a message in it.
pub(crate) fn aws_messages(data: &[u8]) {
    let _ = read_message(&String::from_utf8_lossy(data));
    let client = client(200, data);
    wait(async {
        let request = ReceiveMessage {
            queue_url: "http://127.0.0.1:1/queue".to_owned(),
            max_number_of_messages: 10,
            visibility_timeout: 20,
            wait_time_seconds: 0,
        };
        let _ = client.sqs().receive(&request).await;
    });
}

/// The same bytes as the answer of every service.
pub(crate) fn alibabacloud_answers(data: &[u8]) {
    let _ = ecs::DescribeInstances::read(data);
    let _ = ecs::DescribeInstanceTypes::read(data);
    let _ = ecs::DescribeAvailableResource::read(data);
    let _ = ecs::DescribeImages::read(data);
    let _ = ecs::DescribePrice::read(data);
    let _ = ecs::DescribeInstancesFullStatus::read(data);
    let _ = vpc::DescribeVSwitches::read(data);
    let _ = cs::DescribeClusterDetail::read(data);
    let _ = cs::DescribeClusterNodePools::read(data);
    let _ = cms::DescribeSystemEventAttribute::read(data);
    let _ = ram::GetRole::read(data);
    let _ = sts::GetCallerIdentity::read(data);
}

/// An answer of a queue, or the body of a message in it.
pub(crate) fn alibabacloud_messages(data: &[u8]) {
    let answer = BatchReceiveMessage::read(data).unwrap_or_default();
    let body = String::from_utf8_lossy(data);
    for body in answer.iter().map(|message| message.body.as_str()).chain([&*body]) {
        let _ = message::read(body).map(|event| events::of_event(&event));
    }
}

pub(crate) fn cloud_description(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = serde_saphyr::from_str::<CloudDescription>(text);
    }
}

pub(crate) fn instance_types_file(data: &[u8]) {
    let _ = read_instance_types(data);
}

pub(crate) fn kops(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = CloudFacts::read(text);
    if let Ok(inventory) = Inventory::read([("fuzz.yaml", text)]) {
        let _ = validate(&inventory, &Answers::default(), Origin::Files);
    }
}
