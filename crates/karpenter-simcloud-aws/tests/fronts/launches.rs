//! Which offerings fleets take, and what lands on instances.

use jiff::SignedDuration;
use karpenter_aws_client::ec2::{
    BlockDeviceMapping, CapacityReservationSpecification, CapacityReservationTarget, DescribeInstances,
    EbsBlockDevice, InstanceMarketOptions, LaunchTemplateData, LaunchTemplatePlacement, MetadataOptions,
    NetworkInterface, RunInstances,
};
use karpenter_aws_client::{ErrorKind, classify};
use karpenter_simcloud_aws::{CapacityReservation, CapacityType, Fault, Happening, PlacementGroup};

use crate::account::{Account, NODE_CONFIG, ids, start};

fn codes(answer: &karpenter_aws_client::ec2::CreateFleetAnswer) -> Vec<&str> {
    answer.errors.iter().map(|error| &*error.error_code).collect()
}

#[tokio::test(start_paused = true)]
async fn the_lowest_price_wins_whatever_the_order() {
    let account = Account::new();
    account.template("nodes", NODE_CONFIG).await;
    let request =
        account.fleet("nodes", "on-demand", 3, &[("m5.4xlarge", 'a'), ("m5.large", 'b'), ("m5.xlarge", 'a')]);
    let answer = account.launch(&request).await;
    assert_eq!(answer.instances.len(), 1);
    assert_eq!(answer.instances[0].instance_type.as_deref(), Some("m5.large"));
    assert_eq!(answer.instances[0].instance_ids.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn priorities_win_over_prices_when_asked_for() {
    let account = Account::new();
    account.template("nodes", NODE_CONFIG).await;
    let mut request = account.fleet("nodes", "on-demand", 1, &[("m5.large", 'a'), ("m5.4xlarge", 'a')]);
    request.on_demand_options.as_mut().unwrap().allocation_strategy = Some("prioritized".into());
    request.launch_template_configs[0].overrides[0].priority = Some(2.0);
    request.launch_template_configs[0].overrides[1].priority = Some(1.0);
    let answer = account.launch(&request).await;
    assert_eq!(answer.instances[0].instance_type.as_deref(), Some("m5.4xlarge"));
}

#[tokio::test(start_paused = true)]
async fn all_templates_of_a_fleet_count() {
    let account = Account::new();
    account.template("first", NODE_CONFIG).await;
    account.template("second", NODE_CONFIG).await;
    let mut request = account.fleet("first", "on-demand", 1, &[("m5.4xlarge", 'a')]);
    let cheaper = account.fleet("second", "on-demand", 1, &[("m5.large", 'a')]);
    request.launch_template_configs.extend(cheaper.launch_template_configs);
    let answer = account.launch(&request).await;
    let used = answer.instances[0].launch_template_and_overrides.clone().unwrap();
    assert_eq!(used.launch_template_specification.unwrap().launch_template_name.as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn a_subnet_without_addresses_gives_what_it_has_and_another_the_rest() {
    let account = Account::new();
    account.template("nodes", NODE_CONFIG).await;
    let id = account.subnet('a');
    let mut small = account.service.subnets().into_iter().find(|subnet| subnet.id == id).unwrap();
    small.addresses = 2;
    account.service.put_subnet(small);
    let request = account.fleet("nodes", "on-demand", 5, &[("m5.large", 'a'), ("m5.xlarge", 'b')]);
    let answer = account.launch(&request).await;
    let counts: Vec<usize> = answer.instances.iter().map(|launched| launched.instance_ids.len()).collect();
    assert_eq!(counts, [2, 3]);
    assert_eq!(codes(&answer), ["InsufficientFreeAddressesInSubnet"]);
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_gets_too_little_says_so_for_each_offering() {
    let account = Account::new();
    account.template("nodes", NODE_CONFIG).await;
    account.service.happen(Happening::Limits { on_demand_vcpus: None, spot_instances: Some(2) }).unwrap();
    let request = account.fleet("nodes", "spot", 4, &[("m5.large", 'a'), ("m5.large", 'b')]);
    let answer = account.launch(&request).await;
    assert_eq!(ids(&answer).len(), 2);
    assert_eq!(codes(&answer), ["MaxSpotInstanceCountExceeded"; 2]);
    assert!(answer.errors.iter().all(|e| classify(&e.error_code, None) == ErrorKind::InsufficientCapacity));
}

#[tokio::test(start_paused = true)]
async fn chance_decides_about_capacity_and_follows_from_the_seed() {
    let run = || async {
        let account = Account::new();
        account.template("nodes", NODE_CONFIG).await;
        account.service.inject(Fault::no_capacity("InsufficientInstanceCapacity", 0.3));
        let mut refused = Vec::new();
        for _ in 0..100 {
            let answer = account.launch(&account.fleet("nodes", "on-demand", 1, &[("m5.large", 'a')])).await;
            refused.push(answer.instances.is_empty());
        }
        refused
    };
    let first = run().await;
    let count = first.iter().filter(|refused| **refused).count();
    assert!((15..=45).contains(&count), "{count} of 100");
    assert_eq!(first, run().await);
}

#[tokio::test(start_paused = true)]
async fn everything_in_the_template_lands_on_the_instance() {
    let account = Account::new();
    account.service.put_placement_group(PlacementGroup {
        id: "pg-1".into(),
        name: "near".into(),
        strategy: "cluster".into(),
        partitions: None,
        spread_level: None,
        tags: [].into(),
    });
    let interface = |card: u32| NetworkInterface {
        network_card_index: Some(card),
        device_index: Some(u32::from(card > 0)),
        interface_type: Some("efa".into()),
        groups: vec![account.service.security_groups()[0].id.clone()],
        ..NetworkInterface::default()
    };
    let data = LaunchTemplateData {
        image_id: Some(account.image("x86_64")),
        metadata_options: Some(MetadataOptions {
            http_tokens: Some("required".into()),
            ..MetadataOptions::default()
        }),
        placement: Some(LaunchTemplatePlacement {
            tenancy: Some("dedicated".into()),
            group_id: Some("pg-1".into()),
            ..LaunchTemplatePlacement::default()
        }),
        block_device_mappings: vec![BlockDeviceMapping {
            device_name: Some("/dev/xvda".into()),
            ebs: Some(EbsBlockDevice {
                volume_size: Some(100),
                encrypted: Some(true),
                ..EbsBlockDevice::default()
            }),
        }],
        network_interfaces: vec![interface(0), interface(1)],
        ..LaunchTemplateData::default()
    };
    account.create("nodes", data).await;
    let zones: Vec<char> = "abcd".chars().collect();
    let pools: Vec<(&str, char)> = zones.iter().map(|zone| ("p4d.24xlarge", *zone)).collect();
    let answer = account.launch(&account.fleet("nodes", "on-demand", 1, &pools)).await;
    let described = DescribeInstances { instance_ids: ids(&answer), ..DescribeInstances::default() };
    let instance = account.client.ec2().list(&described).await.unwrap().remove(0);
    let placement = instance.placement.unwrap();
    assert_eq!(
        (placement.tenancy.as_deref(), placement.group_id.as_deref()),
        (Some("dedicated"), Some("pg-1"))
    );
    assert_eq!(instance.network_interfaces.len(), 2);
    assert!(instance.network_interfaces.iter().all(|found| found.interface_type.as_deref() == Some("efa")));
    let kept = &account.service.living()[0];
    assert_eq!((kept.volumes[0].gib, kept.volumes[0].encrypted), (100, true));
    assert_eq!(kept.setting("MetadataOptions.HttpTokens"), Some("required"));
}

#[tokio::test(start_paused = true)]
async fn an_open_reservation_is_used_unless_none_is_wanted() {
    let account = Account::new();
    account.template("nodes", NODE_CONFIG).await;
    let open = CapacityReservation {
        match_criteria: "open".into(),
        ..CapacityReservation::targeted("cr-1", "m5.large", "us-west-2a", 1)
    };
    account.service.put_capacity_reservation(open);
    account.launch(&account.fleet("nodes", "on-demand", 2, &[("m5.large", 'a')])).await;
    let living = account.service.living();
    let reserved = living.iter().filter(|instance| instance.capacity_reservation.is_some());
    assert_eq!(reserved.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_capacity_block_sells_what_it_has() {
    let account = Account::new();
    let block = CapacityReservation {
        kind: "capacity-block".into(),
        end: start().checked_add(SignedDuration::from_hours(2)).ok(),
        ..CapacityReservation::targeted("cr-2", "m5.large", "us-west-2a", 1)
    };
    account.service.put_capacity_reservation(block);
    let data = LaunchTemplateData {
        image_id: Some(account.image("x86_64")),
        capacity_reservation_specification: Some(CapacityReservationSpecification {
            capacity_reservation_preference: Some("capacity-reservations-only".into()),
            capacity_reservation_target: Some(CapacityReservationTarget {
                capacity_reservation_id: Some("cr-2".into()),
            }),
        }),
        instance_market_options: Some(InstanceMarketOptions { market_type: Some("capacity-block".into()) }),
        ..LaunchTemplateData::default()
    };
    account.create("nodes", data).await;
    let answer = account.launch(&account.fleet("nodes", "capacity-block", 2, &[("m5.large", 'a')])).await;
    assert_eq!(ids(&answer).len(), 1);
    assert_eq!(codes(&answer), ["ReservationCapacityExceeded"]);
    let kept = &account.service.living()[0];
    assert_eq!(kept.capacity_type, CapacityType::Reserved);
    assert_eq!(kept.lifecycle.as_deref(), Some("capacity-block"));
    tokio::time::sleep(std::time::Duration::from_mins(91)).await;
    assert!(account.service.living().is_empty(), "half an hour before the block ends, its machines do");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_says_what_would_be_wrong() {
    let account = Account::new();
    let request = RunInstances {
        dry_run: Some(true),
        image_id: Some(account.image("arm64")),
        instance_type: Some("m5.large".into()),
        subnet_id: Some(account.subnet('a')),
        min_count: 1,
        max_count: 1,
        ..RunInstances::default()
    };
    let error = account.client.ec2().call_once(&request).await.unwrap_err();
    assert_eq!(error.code, "InvalidParameterValue");
    let fitting = RunInstances { image_id: Some(account.image("x86_64")), ..request };
    let error = account.client.ec2().call_once(&fitting).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::DryRun);
    assert!(account.service.instances().is_empty());
}
