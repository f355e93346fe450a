//! What a launch template says for each kind of class.

use std::sync::Arc;

use karpenter_aws_bootstrap::AmiFamily;
use serde_json::{Value, json};

use super::*;
use crate::node_class::{EC2NodeClass, ResolvedPlacementGroup, SecurityGroup};

fn class(spec: Value) -> ResolvedClass {
    let class = EC2NodeClass { spec: serde_json::from_value(spec).unwrap(), ..EC2NodeClass::default() };
    ResolvedClass {
        class: Arc::new(class),
        family: AmiFamily::Al2023,
        hash: "1".into(),
        subnets: vec![],
        security_groups: vec![SecurityGroup { id: "sg-1".into(), name: None }],
        amis: vec![],
        instance_profile: Some("profile".into()),
        reservations: vec![],
        placement_group: None,
        service_cidr: None,
    }
}

fn contents(tags: &BTreeMap<String, String>) -> Contents<'_> {
    Contents {
        image_id: "ami-1",
        user_data: "hello",
        efa_interfaces: 0,
        tenancy: "default",
        partition: None,
        enclaves: false,
        purchase: Purchase::OnDemand,
        reservation: None,
        reserves: true,
        ipv6: false,
        tags,
    }
}

fn made(spec: Value, change: impl FnOnce(&mut Contents<'_>)) -> LaunchTemplateData {
    let tags = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    let mut contents = contents(&tags);
    change(&mut contents);
    request(&class(spec), &contents).launch_template_data
}

#[test]
fn a_plain_class_gets_encrypted_gp3_imdsv2_and_one_interface() {
    let data = made(json!({}), |_| {});
    assert_eq!(data.user_data.as_deref(), Some("aGVsbG8="));
    let device = &data.block_device_mappings[0];
    let ebs = device.ebs.as_ref().unwrap();
    assert_eq!((device.device_name.as_deref(), ebs.volume_size), (Some("/dev/xvda"), Some(20)));
    assert_eq!((ebs.volume_type.as_deref(), ebs.encrypted), (Some("gp3"), Some(true)));
    let metadata = data.metadata_options.unwrap();
    assert_eq!(metadata.http_tokens.as_deref(), Some("required"));
    assert_eq!(metadata.http_put_response_hop_limit, Some(1));
    assert_eq!(data.network_interfaces.len(), 1);
    assert_eq!(data.network_interfaces[0].groups, ["sg-1"]);
    assert_eq!(data.network_interfaces[0].device_index, Some(0));
    assert_eq!(data.monitoring, Some(Monitoring { enabled: false }));
    assert_eq!((data.security_group_ids.len(), data.cpu_options, data.enclave_options), (0, None, None));
    assert_eq!(data.iam_instance_profile.unwrap().name, "profile");
}

#[test]
fn sizes_of_volumes_are_rounded_up_to_whole_gibibytes() {
    let cases = [("100Gi", 100), ("100G", 94), ("1Ti", 1024), ("1T", 932), ("1G", 1)];
    for (size, expected) in cases {
        assert_eq!(gibibytes(size), Some(expected), "{size}");
    }
}

#[test]
fn every_setting_of_a_volume_reaches_ec2() {
    let ebs = json!({
        "deleteOnTermination": true, "encrypted": true, "iops": 3000, "kmsKeyID": "key", "snapshotID": "snap-1",
        "throughput": 125, "volumeInitializationRate": 100, "volumeSize": "10Gi", "volumeType": "gp3",
    });
    let spec = json!({"blockDeviceMappings": [{"deviceName": "/dev/xvdb", "rootVolume": true, "ebs": ebs}]});
    let data = made(spec, |_| {});
    let expected = EbsBlockDevice {
        delete_on_termination: Some(true),
        encrypted: Some(true),
        iops: Some(3000),
        kms_key_id: Some("key".into()),
        snapshot_id: Some("snap-1".into()),
        throughput: Some(125),
        volume_initialization_rate: Some(100),
        volume_size: Some(10),
        volume_type: Some("gp3".into()),
    };
    let mappings = data.block_device_mappings;
    assert_eq!((mappings.len(), mappings[0].ebs.as_ref()), (1, Some(&expected)));
}

#[test]
fn network_settings_go_to_the_primary_interface() {
    let spec = json!({"associatePublicIPAddress": false, "ipPrefixCount": 2, "connectionTracking": {"udpTimeout": 30}});
    let data = made(spec.clone(), |_| {});
    let interface = &data.network_interfaces[0];
    assert_eq!(interface.associate_public_ip_address, Some(false));
    assert_eq!((interface.ipv4_prefix_count, interface.ipv6_prefix_count), (Some(2), None));
    assert_eq!(interface.connection_tracking_specification.as_ref().unwrap().udp_timeout, Some(30));
    let data = made(spec, |contents| contents.ipv6 = true);
    let interface = &data.network_interfaces[0];
    assert_eq!((interface.ipv4_prefix_count, interface.ipv6_prefix_count), (None, Some(2)));
    assert_eq!((interface.primary_ipv6, interface.ipv6_address_count), (Some(true), Some(1)));
}

#[test]
fn pods_that_ask_for_efa_get_an_interface_on_every_card() {
    let data = made(json!({}), |contents| contents.efa_interfaces = 3);
    let places: Vec<_> = data
        .network_interfaces
        .iter()
        .map(|interface| {
            (interface.network_card_index, interface.device_index, interface.interface_type.as_deref())
        })
        .collect();
    let efa = Some("efa");
    assert_eq!(places, [(Some(0), Some(0), efa), (Some(1), Some(1), efa), (Some(2), Some(1), efa)]);
}

#[test]
fn interfaces_that_are_listed_are_made_as_listed() {
    let spec = json!({
        "associatePublicIPAddress": true, "ipPrefixCount": 1, "connectionTracking": {"udpTimeout": 30},
        "networkInterfaces": [
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
        ],
    });
    let data = made(spec, |contents| contents.efa_interfaces = 8);
    let [first, second] = data.network_interfaces.as_slice() else { panic!("{data:?}") };
    assert_eq!((first.interface_type.as_deref(), first.ipv4_prefix_count), (Some("interface"), Some(1)));
    assert_eq!((second.network_card_index, second.device_index), (Some(1), Some(1)));
    let nothing = (None, None, None);
    assert_eq!(
        (
            second.ipv4_prefix_count,
            second.associate_public_ip_address,
            second.connection_tracking_specification.clone()
        ),
        nothing
    );
    assert_eq!(second.groups, ["sg-1"]);
}

#[test]
fn reservations_are_used_only_where_they_are_meant() {
    let preference = |data: LaunchTemplateData| {
        let specification = data.capacity_reservation_specification?;
        let target =
            specification.capacity_reservation_target.and_then(|target| target.capacity_reservation_id);
        Some((specification.capacity_reservation_preference?, target))
    };
    assert_eq!(preference(made(json!({}), |_| {})), Some(("none".into(), None)));
    assert_eq!(preference(made(json!({}), |contents| contents.reserves = false)), None);
    let cases = [
        (Purchase::Reserved, None),
        (Purchase::CapacityBlock, Some("capacity-block")),
        (Purchase::Interruptible, Some("interruptible-capacity-reservation")),
    ];
    for (purchase, market) in cases {
        let data = made(json!({}), |contents| {
            contents.purchase = purchase;
            contents.reservation = Some("cr-1");
        });
        let found = data.instance_market_options.as_ref().and_then(|options| options.market_type.clone());
        assert_eq!(found.as_deref(), market);
        assert_eq!(preference(data), Some(("capacity-reservations-only".into(), Some("cr-1".into()))));
    }
}

#[test]
fn spot_requests_are_tagged_and_placement_is_passed_on() {
    let kinds = |data: &LaunchTemplateData| {
        data.tag_specifications.iter().map(|tags| tags.resource_type.clone()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&made(json!({}), |_| {})), ["network-interface"]);
    let spot = made(json!({}), |contents| contents.purchase = Purchase::Spot);
    assert_eq!(kinds(&spot), ["network-interface", "spot-instances-request"]);
    let tags = BTreeMap::new();
    let contents = Contents { tenancy: "dedicated", partition: Some(2), enclaves: true, ..contents(&tags) };
    let group = ResolvedPlacementGroup { id: "pg-1".into(), ..ResolvedPlacementGroup::default() };
    let class = ResolvedClass {
        placement_group: Some(group),
        ..class(json!({"cpuOptions": {"nestedVirtualization": "enabled"}, "detailedMonitoring": true}))
    };
    let data = request(&class, &contents).launch_template_data;
    let placement = data.placement.unwrap();
    assert_eq!(
        (placement.tenancy.as_deref(), placement.group_id.as_deref()),
        (Some("dedicated"), Some("pg-1"))
    );
    assert_eq!(
        (placement.partition_number, data.enclave_options),
        (Some(2), Some(EnclaveOptions { enabled: true }))
    );
    assert_eq!(data.cpu_options.unwrap().nested_virtualization.as_deref(), Some("enabled"));
    assert_eq!(data.monitoring, Some(Monitoring { enabled: true }));
}

#[test]
fn equal_contents_have_one_name_and_different_ones_have_others() {
    let tags = BTreeMap::new();
    let name = |contents: &Contents<'_>| request(&class(json!({})), contents).launch_template_name;
    let plain = contents(&tags);
    assert_eq!(name(&plain), name(&plain.clone()));
    assert!(name(&plain).starts_with("karpenter.k8s.aws/"));
    let others = [
        Contents { image_id: "ami-2", ..plain.clone() },
        Contents { user_data: "bye", ..plain.clone() },
        Contents { purchase: Purchase::Spot, ..plain.clone() },
    ];
    assert!(others.iter().all(|other| name(other) != name(&plain)));
}
