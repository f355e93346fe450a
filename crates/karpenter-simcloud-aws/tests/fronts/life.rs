//! What becomes of machines, and who hears of it.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use karpenter_aws_client::ReceiveMessage;
use karpenter_aws_client::ec2::{DescribeInstances, DescribeSpotPriceHistory, TerminateInstances};
use karpenter_simcloud::{MachineEvent, SimulatedCloud};
use karpenter_simcloud_aws::{Description, Happening};

use crate::account::{Account, NODE_CONFIG, ids, start};

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_joins_as_its_boot_script_says() {
    let account = Account::new();
    let id = account.one(NODE_CONFIG).await;
    pass(19).await;
    assert_eq!(account.told(), []);
    pass(2).await;
    let [MachineEvent::Booted(boot)] = &account.told()[..] else { panic!("{:?}", account.told()) };
    assert_eq!(boot.provider_id, format!("aws:///us-west-2a/{id}"));
    assert!(
        boot.node_name.starts_with("ip-10-0-") && boot.node_name.ends_with(".us-west-2.compute.internal")
    );
    assert_eq!(boot.labels["karpenter.sh/nodepool"], "default");
    assert_eq!(boot.labels["node.kubernetes.io/instance-type"], "m5.large");
    assert_eq!(boot.taints[0].key, "karpenter.sh/unregistered");
    assert_eq!((&*boot.capacity["cpu"], &*boot.capacity["pods"]), ("2", "29"));
    // 11 MiB for each pod and 255 MiB, and 70 thousandths of a core, as the images of EKS reserve them.
    assert_eq!(boot.allocatable["cpu"], "1930m");
    let memory = |list: &std::collections::BTreeMap<String, String>| -> u64 {
        list["memory"].strip_suffix("Ki").unwrap().parse().unwrap()
    };
    assert_eq!(memory(&boot.capacity) - memory(&boot.allocatable), (11 * 29 + 255 + 100) * 1024);
}

#[tokio::test(start_paused = true)]
async fn a_machine_with_a_wrong_boot_script_never_joins() {
    let account = Account::new();
    let id = account.one("#!/bin/bash\necho hello\n").await;
    pass(60).await;
    let [MachineEvent::Lost { provider_id, why }] = &account.told()[..] else {
        panic!("{:?}", account.told())
    };
    assert!(provider_id.ends_with(&id));
    assert_eq!(why, "the boot script holds no NodeConfig, and nodeadm needs one");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_terminated_goes_through_its_states_and_is_forgotten() {
    let account = Account::new();
    let id = account.one(NODE_CONFIG).await;
    let state = || async {
        let request = DescribeInstances { instance_ids: vec![id.clone()], ..DescribeInstances::default() };
        let found = account.client.ec2().list(&request).await;
        found.map_or_else(|error| error.code, |found| found[0].state.clone().unwrap().name)
    };
    let mut seen = vec![state().await];
    pass(30).await;
    seen.push(state().await);
    let terminate = TerminateInstances { instance_ids: vec![id.clone()] };
    account.client.ec2().call(&terminate).await.unwrap();
    account.client.ec2().call(&terminate).await.unwrap();
    seen.push(state().await);
    pass(11).await;
    seen.push(state().await);
    pass(3600).await;
    seen.push(state().await);
    assert_eq!(seen, ["pending", "running", "shutting-down", "terminated", "InvalidInstanceID.NotFound"]);
    let gone = account.told().into_iter().filter(|event| matches!(event, MachineEvent::Gone { .. }));
    assert_eq!(gone.count(), 1);
    assert!(account.service.subnets().iter().all(|subnet| subnet.taken == 0));
}

#[tokio::test(start_paused = true)]
async fn a_machine_terminated_before_it_booted_never_joins() {
    let account = Account::new();
    let id = account.one(NODE_CONFIG).await;
    account.client.ec2().call(&TerminateInstances { instance_ids: vec![id] }).await.unwrap();
    pass(60).await;
    assert!(matches!(account.told()[..], [MachineEvent::Gone { .. }]));
}

#[tokio::test(start_paused = true)]
async fn the_market_warns_through_the_queue_and_takes_machines_back() {
    let moods = r#"{"interruptions": [{"capacityType": "spot", "every": "1h", "notice": "2m"}]}"#;
    let market = SimulatedCloud::new(serde_json::from_str(moods).unwrap(), 7, start());
    let account = Account::with(Description::default(), Arc::new(market));
    account.template("nodes", NODE_CONFIG).await;
    let id = ids(&account.launch(&account.fleet("nodes", "spot", 1, &[("m5.large", 'a')])).await).remove(0);
    let sqs = account.client.sqs();
    let queue_url = sqs.queue_url("local").await.unwrap();
    let receive = ReceiveMessage {
        queue_url: queue_url.clone(),
        max_number_of_messages: 10,
        visibility_timeout: 20,
        wait_time_seconds: 20,
    };
    let mut kinds = Vec::new();
    while !kinds.contains(&"terminated".to_owned()) {
        for message in sqs.receive(&receive).await.unwrap() {
            let body: serde_json::Value = serde_json::from_str(&message.body).unwrap();
            assert_eq!(body["detail"]["instance-id"], id);
            let state = body["detail"]["state"].as_str().or(body["detail-type"].as_str());
            kinds.push(state.unwrap().to_owned());
            sqs.delete(&queue_url, &message.receipt_handle).await.unwrap();
        }
    }
    let expected =
        ["pending", "running", "EC2 Spot Instance Interruption Warning", "shutting-down", "terminated"];
    assert_eq!(kinds, expected);
    assert!(account.service.living().is_empty() && account.service.messages().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_interruption_on_demand_comes_two_minutes_before_the_end() {
    let account = Account::new();
    let id = account.one(NODE_CONFIG).await;
    account.service.happen(Happening::SpotInterruption { instance: id.clone() }).unwrap();
    assert!(account.service.messages().iter().any(|body| body.contains("Interruption Warning")));
    pass(119).await;
    assert_eq!(account.service.living().len(), 1);
    pass(2).await;
    assert_eq!(account.service.living().len(), 0);
    assert!(account.service.happen(Happening::Rebalance { instance: id }).is_err());
}

#[tokio::test(start_paused = true)]
async fn spot_prices_move_with_the_market() {
    let moods = r#"{"prices": [{"capacityType": "spot", "swing": 20, "every": "1h"}]}"#;
    let market = SimulatedCloud::new(serde_json::from_str(moods).unwrap(), 7, start());
    let account = Account::with(Description::default(), Arc::new(market));
    let prices = || async {
        let request = DescribeSpotPriceHistory {
            product_descriptions: vec!["Linux/UNIX".into(), "Linux/UNIX (Amazon VPC)".into()],
            max_results: Some(2000),
            ..DescribeSpotPriceHistory::default()
        };
        account.client.ec2().list(&request).await.unwrap()
    };
    let before = prices().await;
    assert!(before.len() > 4000, "{}", before.len());
    pass(3600).await;
    let after = prices().await;
    assert_eq!(before.len(), after.len());
    assert!(before.iter().zip(&after).any(|(before, after)| before.spot_price != after.spot_price));
}

#[tokio::test(start_paused = true)]
async fn what_was_launched_is_not_seen_before_it_has_settled() {
    let description = Description { settle_time: SignedDuration::from_secs(5), ..Description::default() };
    let account = Account::with(description, Arc::new(karpenter_simcloud::Plenty));
    account.template("nodes", NODE_CONFIG).await;
    let request = account.fleet("nodes", "on-demand", 1, &[("m5.large", 'a')]);
    let error = account.client.ec2().call(&request).await.unwrap_err();
    assert_eq!(error.code, "InvalidLaunchTemplateName.NotFoundException");
    pass(5).await;
    let id = ids(&account.launch(&request).await).remove(0);
    let described = DescribeInstances { instance_ids: vec![id], ..DescribeInstances::default() };
    let error = account.client.ec2().list(&described).await.unwrap_err();
    assert_eq!(error.code, "InvalidInstanceID.NotFound");
    pass(5).await;
    assert_eq!(account.client.ec2().list(&described).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ticks_say_when_something_is_due() {
    let account = Account::new();
    assert_eq!(account.service.tick(start()), None);
    account.one(NODE_CONFIG).await;
    let running = start().saturating_add(SignedDuration::from_secs(5)).unwrap();
    assert_eq!(account.service.tick(start()), Some(running));
    let boots = start().saturating_add(SignedDuration::from_secs(20)).unwrap();
    assert_eq!(account.service.tick(running), Some(boots));
    assert_eq!(account.service.tick(boots), None);
    assert!(matches!(account.told()[..], [MachineEvent::Booted(_)]));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_is_the_same_bytes() {
    let run = || async {
        let account = Account::new();
        account.template("nodes", NODE_CONFIG).await;
        account.launch(&account.fleet("nodes", "spot", 20, &[("m5.large", 'a'), ("c5.large", 'b')])).await;
        pass(60).await;
        (account.service.instances(), account.service.messages(), account.told())
    };
    assert_eq!(run().await, run().await);
}
