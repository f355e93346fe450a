//! Answers as they come: wrapped lists, missing fields, nulls, JSON inside text.

use karpenter_alibabacloud_client::ecs::{
    CreateAutoProvisioningGroup, DescribeAvailableResource, DescribeInstances, DescribePrice,
};
use karpenter_alibabacloud_client::{Operation, cms, cs, ecs, ram, vpc};

#[test]
fn an_instance_with_every_field_is_read() {
    let body = br#"{"Instances":{"Instance":[{"InstanceId":"i-1","InstanceType":"ecs.g7.large","ZoneId":"cn-hangzhou-h",
        "Status":"Running","CreationTime":"2017-12-10T04:04Z","SpotStrategy":"SpotAsPriceGo","InstanceChargeType":"PostPaid",
        "SecurityGroupIds":{"SecurityGroupId":["sg-1"]},"VpcAttributes":{"VSwitchId":"vsw-1","PrivateIpAddress":{"IpAddress":["10.0.0.1"]}},
        "Tags":{"Tag":[{"TagKey":"a","TagValue":"b"}]},"OperationLocks":{"LockReason":[{"LockReason":"Recycling"}]}}]},"NextToken":""}"#;
    let answer = DescribeInstances::read(body).unwrap();
    let instance = &answer.instances[0];
    assert_eq!(instance.tag("a"), Some("b"));
    assert_eq!(instance.creation_time, Some("2017-12-10T04:04:00Z".parse().unwrap()));
    assert!(instance.is_spot());
    assert_eq!(instance.vpc_attributes.private_ip_address, ["10.0.0.1"]);
    assert_eq!(instance.operation_locks[0].lock_reason.as_deref(), Some("Recycling"));
}

#[test]
fn whatever_is_missing_or_null_is_tolerated() {
    for body in [
        r#"{"Instances":{"Instance":[{"InstanceId":"i-1"}]}}"#,
        r#"{"Instances":{"Instance":[{"InstanceId":"i-1","SpotStrategy":null,"VpcAttributes":null,"Tags":null,"CreationTime":"soon"}]}}"#,
        r#"{"Instances":{"Instance":[{"InstanceId":"i-1","Tags":{},"OperationLocks":{"LockReason":null},"SecurityGroupIds":""}]}}"#,
    ] {
        let answer = DescribeInstances::read(body.as_bytes()).unwrap();
        assert_eq!(answer.instances[0].instance_id, "i-1");
        assert!(!answer.instances[0].is_spot());
    }
    for body in ["", "{}", r#"{"Instances":null}"#, r#"{"Instances":{}}"#] {
        assert!(DescribeInstances::read(body.as_bytes()).unwrap().instances.is_empty(), "{body}");
    }
}

/// Reads an answer that says nothing.
fn reads_nothing<O: Operation>() {
    O::read(b"{}").unwrap_or_else(|reason| panic!("{}: {reason}", O::NAME));
}

#[test]
fn no_answer_is_refused_for_what_it_leaves_out() {
    reads_nothing::<ecs::RunInstances>();
    reads_nothing::<ecs::CreateAutoProvisioningGroup>();
    reads_nothing::<ecs::DescribeInstanceTypes>();
    reads_nothing::<ecs::DescribeAvailableResource>();
    reads_nothing::<ecs::DescribeImages>();
    reads_nothing::<ecs::DescribeImageFromFamily>();
    reads_nothing::<ecs::DescribeSecurityGroups>();
    reads_nothing::<ecs::DescribePrice>();
    reads_nothing::<ecs::DescribeSpotPriceHistory>();
    reads_nothing::<ecs::DescribeInstancesFullStatus>();
    reads_nothing::<ecs::DescribeCapacityReservations>();
    reads_nothing::<ecs::ListTagResources>();
    reads_nothing::<ecs::TagResources>();
    reads_nothing::<ecs::DeleteInstances>();
    reads_nothing::<vpc::DescribeVSwitches>();
    reads_nothing::<cs::DescribeClusterDetail>();
    reads_nothing::<cs::DescribeClusterNodePools>();
    reads_nothing::<cs::GetClusterAddonInstance>();
    reads_nothing::<ram::GetRole>();
    reads_nothing::<cms::DescribeSystemEventAttribute>();
}

#[test]
fn every_result_of_a_group_is_read() {
    let body = br#"{"AutoProvisioningGroupId":"apg-1","LaunchResults":{"LaunchResult":[
        {"InstanceType":"ecs.g7.large","ZoneId":"z","ErrorCode":"NoInstanceStock","ErrorMsg":"none","Amount":0},
        {"InstanceType":"ecs.c7.large","ZoneId":"z","SpotStrategy":"NoSpot","Amount":1,"InstanceIds":{"InstanceId":["i-1"]}}]}}"#;
    let answer = CreateAutoProvisioningGroup::read(body).unwrap();
    assert_eq!(answer.launch_results[0].error_code.as_deref(), Some("NoInstanceStock"));
    assert_eq!(answer.launch_results[1].instance_ids, ["i-1"]);
}

#[test]
fn stock_is_read_by_category() {
    let body = br#"{"AvailableZones":{"AvailableZone":[{"ZoneId":"z","AvailableResources":{"AvailableResource":[{"Type":"InstanceType",
        "SupportedResources":{"SupportedResource":[{"Value":"a","StatusCategory":"WithStock"},{"Value":"b","StatusCategory":"ClosedWithStock"},
        {"Value":"c","StatusCategory":"WithoutStock"},{"Value":"d","StatusCategory":"ClosedWithoutStock"},{"Value":"e","Status":"SoldOut"}]}}]}}]}}"#;
    let answer = DescribeAvailableResource::read(body).unwrap();
    let stocked: Vec<bool> = answer.available_zones[0].available_resources[0]
        .supported_resources
        .iter()
        .map(ecs::SupportedResource::in_stock)
        .collect();
    assert_eq!(stocked, [true, true, false, false, false]);
}

#[test]
fn the_price_of_the_instance_is_told_from_that_of_its_disk() {
    let body = br#"{"PriceInfo":{"Price":{"Currency":"CNY","TradePrice":0.6,"DetailInfos":{"ResourcePriceModel":[
        {"Resource":"instanceType","TradePrice":0.52325},{"Resource":"systemDisk","TradePrice":0.07675}]}}}}"#;
    let price = DescribePrice::read(body).unwrap().price_info.price;
    assert_eq!(price.of_instance(), Some(0.52325));
    let body = br#"{"PriceInfo":{"Price":{"TradePrice":0.6}}}"#;
    assert_eq!(DescribePrice::read(body).unwrap().price_info.price.of_instance(), Some(0.6));
}

#[test]
fn clusters_and_roles_are_read_from_json_inside_text() {
    let body = br#"{"cluster_id":"c1","meta_data":"{\"Capabilities\":{\"Network\":\"terway-eniip\"}}","node_cidr_mask":"26"}"#;
    let cluster = cs::DescribeClusterDetail::read(body).unwrap();
    assert_eq!(
        (cluster.network().as_deref(), cluster.node_cidr_mask.as_deref()),
        (Some("terway-eniip"), Some("26"))
    );
    let role = |document: &str| ram::Role {
        assume_role_policy_document: Some(document.to_owned()),
        ..Default::default()
    };
    assert!(
        role(r#"{"Statement":[{"Effect":"Allow","Principal":{"Service":["ecs.aliyuncs.com"]}}]}"#)
            .trusts_ecs()
    );
    assert!(
        !role(r#"{"Statement":[{"Effect":"Allow","Principal":{"Service":["fc.aliyuncs.com"]}}]}"#)
            .trusts_ecs()
    );
    assert!(!role("not JSON").trusts_ecs());
}
