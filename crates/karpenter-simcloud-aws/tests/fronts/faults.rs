//! What goes wrong, and how our client takes it.

use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_aws_client::ErrorKind;
use karpenter_aws_client::ec2::{DescribeSubnets, TerminateInstances};
use karpenter_aws_client::{Credentials, Source, TokenPlace};
use karpenter_environment::SimulatedEnvironment;
use karpenter_simcloud::{Nobody, Plenty};
use karpenter_simcloud_aws::{Description, Fault, FaultKind, Service};

use crate::account::{Account, NODE_CONFIG, client, ids, start};

#[tokio::test(start_paused = true)]
async fn throttled_calls_are_tried_again_and_counted() {
    let account = Account::new();
    account.service.inject(Fault::times("DescribeSubnets", 2, FaultKind::Throttle));
    account.client.ec2().list(&DescribeSubnets::default()).await.unwrap();
    let records = account.service.records();
    assert_eq!(records.count("DescribeSubnets"), 3);
    assert_eq!(records.errors("DescribeSubnets", "RequestLimitExceeded"), 2);
    assert!(records.most_within("DescribeSubnets", SignedDuration::from_hours(1)) == 3);
    account.service.forget_records();
    assert!(account.service.records().counts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_launches_nothing_twice() {
    let account = Account::new();
    account.template("nodes", NODE_CONFIG).await;
    account.service.inject(Fault::times("CreateFleet", 1, FaultKind::ResetAfter));
    let mut request = account.fleet("nodes", "on-demand", 2, &[("m5.large", 'a')]);
    request.client_token = Some("claim-1".into());
    let answer = account.launch(&request).await;
    assert_eq!(account.service.records().count("CreateFleet"), 2);
    let living: Vec<String> = account.service.living().into_iter().map(|instance| instance.id).collect();
    let mut launched = ids(&answer);
    launched.sort();
    assert_eq!(launched, living);
}

#[tokio::test(start_paused = true)]
async fn what_is_denied_is_said_to_be() {
    let account = Account::new();
    account.service.inject(Fault::times("DescribeSubnets", 1, FaultKind::Denied));
    let error = account.client.ec2().list(&DescribeSubnets::default()).await.unwrap_err();
    assert_eq!((error.kind, &*error.code), (ErrorKind::Unauthorized, "UnauthorizedOperation"));
    account.service.inject(Fault::chance("GetCallerIdentity", 1.0, FaultKind::Denied));
    assert!(account.client.sts().caller_identity().await.is_err());
    account.service.heal();
    assert!(account.client.sts().caller_identity().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn wrong_keys_are_refused() {
    let environment = Arc::new(SimulatedEnvironment::new(7, start()));
    let service =
        Service::new(Description::default(), Arc::new(Plenty), Arc::new(Nobody), environment.clone());
    let wrong = Source::Keys(Credentials::fixed("AKIASIMULATED0000001", "not the secret"));
    let error = client(&service, wrong, environment).sts().caller_identity().await.unwrap_err();
    assert_eq!(error.code, "SignatureDoesNotMatch");
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_clock_is_wrong_learns_the_time() {
    let environment = Arc::new(SimulatedEnvironment::new(7, start()));
    let service = Service::new(Description::default(), Arc::new(Plenty), Arc::new(Nobody), environment);
    let late = start().saturating_sub(SignedDuration::from_mins(30)).unwrap();
    let late = Arc::new(SimulatedEnvironment::new(8, late));
    let client = client(&service, crate::account::keys(), late);
    assert!(client.sts().caller_identity().await.is_ok());
    assert_eq!(service.records().count("GetCallerIdentity"), 2);
}

#[tokio::test(start_paused = true)]
async fn temporary_keys_of_a_pod_are_fetched_again_when_they_end() {
    let environment = Arc::new(SimulatedEnvironment::new(7, start()));
    let service =
        Service::new(Description::default(), Arc::new(Plenty), Arc::new(Nobody), environment.clone());
    let source = Source::Container {
        url: "http://aws.simulated/v1/credentials".into(),
        token: Some(TokenPlace::Value("a token".into())),
    };
    let client = client(&service, source, environment);
    let identity = client.sts().caller_identity().await.unwrap();
    assert_eq!(identity.arn, "arn:aws:sts::123456789012:assumed-role/karpenter/eks-local-karpenter");
    tokio::time::sleep(std::time::Duration::from_hours(2)).await;
    client.sts().caller_identity().await.unwrap();
    service.inject(Fault::times("GetCallerIdentity", 1, FaultKind::ExpiredCredentials));
    client.sts().caller_identity().await.unwrap();
    assert_eq!(service.records().count("GetCredentials"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_launches_leaves_nothing_behind() {
    let account = Account::new();
    account.template("nodes", NODE_CONFIG).await;
    account.service.inject(Fault::no_capacity("InsufficientInstanceCapacity", 0.3));
    account.service.inject(Fault::chance("CreateFleet", 0.1, FaultKind::Throttle));
    let types =
        ["m5.large", "m5.xlarge", "c5.large", "c5.xlarge", "r5.large", "m6i.large", "c6i.large", "r6i.large"];
    let pools: Vec<(&str, char)> =
        types.iter().flat_map(|name| "abc".chars().map(move |zone| (*name, zone))).collect();
    let request = account.fleet("nodes", "spot", 50, &pools);
    let mut launched = 0;
    while launched < 2000 {
        launched += ids(&account.launch(&request).await).len();
    }
    let living: Vec<String> = account.service.living().into_iter().map(|instance| instance.id).collect();
    assert_eq!(living.len(), launched);
    for batch in living.chunks(500) {
        let request = TerminateInstances { instance_ids: batch.to_vec() };
        account.client.ec2().call(&request).await.unwrap();
    }
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert!(account.service.living().is_empty());
    assert!(account.service.subnets().iter().all(|subnet| subnet.taken == 0));
}
