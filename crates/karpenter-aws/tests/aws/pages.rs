//! Lists that come in pages, within the rates of an account.

use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_aws::Account;
use karpenter_aws_client::ec2::DescribeInstanceTypes;
use karpenter_simcloud::Plenty;
use karpenter_simcloud_aws::{Fault, FaultKind};

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn every_page_of_a_list_waits_for_its_turn() {
    let world = World::new(Arc::new(Plenty)).await;
    let account = Account::new(world.client().await);
    let whole = DescribeInstanceTypes { max_results: Some(100), ..DescribeInstanceTypes::default() };
    let all = account.list(&whole).await.unwrap();
    world.cloud.forget_records();
    world.cloud.inject(Fault::times("DescribeInstanceTypes", 2, FaultKind::Throttle));
    let in_bits = DescribeInstanceTypes { max_results: Some(5), ..DescribeInstanceTypes::default() };
    assert_eq!(account.list(&in_bits).await.unwrap().len(), all.len());
    let records = world.cloud.records();
    let pages = all.len().div_ceil(5) + 2;
    assert_eq!(
        records.count("DescribeInstanceTypes"),
        pages as u64,
        "a page that was throttled counts again"
    );
    let most = records.most_within("DescribeInstanceTypes", SignedDuration::from_secs(1));
    assert!(pages > 200 && most <= 121, "{most} of {pages} calls within a second");
}
