//! Every operation: the request is the one botocore sends for the same parameters, and every field of the answer is found.
//!
//! `answers.jsonl` is made from botocore's models: texts hold their member's name, numbers are 7 or 2.5, flags are true, times are
//! six o'clock. A field that stays at its default is a field we do not read.

use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use http::{Request, Response};
use karpenter_aws_client::ec2::*;
use karpenter_aws_client::iam::*;
use karpenter_aws_client::{Client, ReceiveMessage};
use serde_json::{Value, json};

use crate::fake::{self, Seen, answer};

const REQUESTS: &str = include_str!("../data/requests.jsonl");
const ANSWERS: &str = include_str!("../data/answers.jsonl");

fn rows(text: &str) -> impl Iterator<Item = Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}

fn form(request: &Request<Bytes>) -> BTreeMap<String, String> {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            if *first == b'%' {
                bytes.push(u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap());
                rest = &after[2..];
            } else {
                bytes.push(*first);
                rest = after;
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    let body = std::str::from_utf8(request.body()).unwrap();
    body.split('&').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (decode(k), decode(v))).collect()
}

/// A cloud that answers every operation with what the models say.
fn cloud() -> (Seen, Client) {
    let answers: BTreeMap<String, String> = rows(ANSWERS)
        .map(|row| (row["operation"].as_str().unwrap().into(), row["body"].as_str().unwrap().into()))
        .collect();
    fake::client(move |request: &Request<Bytes>, _| -> Option<Response<Bytes>> {
        let action = form(request).remove("Action").unwrap_or_default();
        Some(answer(200, answers.get(&action).cloned().unwrap_or_else(|| "<Response/>".into())))
    })
}

/// Compares the last request with botocore's.
fn assert_request(seen: &Seen, operation: &str) {
    let expected = rows(REQUESTS).find(|row| row["operation"] == operation).unwrap();
    let request = seen.all().pop().unwrap();
    assert_eq!(request.method().as_str(), expected["method"].as_str().unwrap(), "{operation}");
    assert_eq!(request.uri().path(), expected["path"].as_str().unwrap(), "{operation}");
    for (name, value) in expected["headers"].as_object().unwrap() {
        assert_eq!(request.headers()[name.as_str()], value.as_str().unwrap(), "{operation}");
    }
    let sent = if request.body().is_empty() {
        json!({})
    } else if request.body().starts_with(b"{") {
        serde_json::from_slice(request.body()).unwrap()
    } else {
        json!(form(&request))
    };
    assert_eq!(sent, expected["body"], "{operation}");
}

/// No field may be at its default, and a text must be the one of its own member.
fn assert_complete(answer: &impl Debug) {
    let shown = format!("{answer:?}");
    for default in ["None", "[]", "\"\"", ": 0,", ": 0 ", "false"] {
        assert!(!shown.contains(default), "{default} in {shown}");
    }
    for (before, after) in shown
        .match_indices(": \"")
        .map(|(at, mark)| (&shown[..at], &shown[at + mark.len()..]))
        .chain(shown.match_indices(": Some(\"").map(|(at, mark)| (&shown[..at], &shown[at + mark.len()..])))
    {
        let field = before.rsplit([' ', '{']).next().unwrap();
        let text = after.split('"').next().unwrap();
        assert_eq!(field, text, "in {shown}");
    }
}

fn filters() -> Vec<Filter> {
    vec![Filter::new("tag:Name", ["a*", "b"]), Filter::new("tag-key", ["k"])]
}

fn tags(resource_type: &str) -> TagSpecification {
    let tag = |key: &str, value: &str| Tag { key: key.into(), value: value.into() };
    TagSpecification { resource_type: resource_type.into(), tags: vec![tag("k1", "v 1"), tag("k2", "")] }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Sends a request of EC2, compares it, and looks at the answer.
macro_rules! ec2 {
    ($request:expr, $operation:literal, $how:ident) => {{
        let (seen, client) = cloud();
        let answer = client.ec2().$how(&$request).await.unwrap();
        assert_request(&seen, $operation);
        assert_complete(&answer);
    }};
}

#[tokio::test(start_paused = true)]
async fn what_the_account_has_is_asked_and_read_as_botocore_does() {
    let filters = filters();
    let max = |number| Some(number);
    ec2!(DescribeSubnets { filters: filters.clone(), max_results: max(500) }, "DescribeSubnets", list);
    ec2!(
        DescribeSecurityGroups { filters: filters.clone(), max_results: max(500) },
        "DescribeSecurityGroups",
        list
    );
    let images = DescribeImages {
        filters: filters.clone(),
        owners: strings(&["self", "amazon"]),
        include_deprecated: Some(true),
        max_results: max(1000),
    };
    ec2!(images, "DescribeImages", list);
    let reservations = DescribeCapacityReservations {
        capacity_reservation_ids: strings(&["cr-1", "cr-2"]),
        filters: filters.clone(),
        max_results: max(1000),
    };
    ec2!(reservations, "DescribeCapacityReservations", list);
    let groups = DescribePlacementGroups {
        filters: filters.clone(),
        group_ids: strings(&["pg-1"]),
        group_names: strings(&["n"]),
    };
    ec2!(groups, "DescribePlacementGroups", call);
    let prices = DescribeSpotPriceHistory {
        product_descriptions: strings(&["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]),
        start_time: Some(fake::start()),
        max_results: max(2000),
    };
    ec2!(prices, "DescribeSpotPriceHistory", list);
    ec2!(DescribeInstanceStatus { filters, max_results: max(1000) }, "DescribeInstanceStatus", list);
}

#[tokio::test(start_paused = true)]
async fn instance_types_and_offerings_are_asked_and_read_as_botocore_does() {
    let types = DescribeInstanceTypes { filters: filters(), max_results: Some(100), dry_run: Some(true) };
    ec2!(types, "DescribeInstanceTypes", list);
    let offerings = DescribeInstanceTypeOfferings {
        location_type: Some("availability-zone".into()),
        filters: filters(),
        max_results: Some(1000),
    };
    ec2!(offerings, "DescribeInstanceTypeOfferings", list);
}

#[tokio::test(start_paused = true)]
async fn instances_are_found_tagged_restarted_and_ended_as_botocore_does() {
    let ids = strings(&["i-1", "i-2"]);
    let instances =
        DescribeInstances { instance_ids: ids.clone(), filters: filters(), max_results: Some(1000) };
    ec2!(instances, "DescribeInstances", list);
    ec2!(TerminateInstances { instance_ids: ids }, "TerminateInstances", call);
    ec2!(RebootInstances { instance_ids: strings(&["i-1"]) }, "RebootInstances", call);
    let tag = Tag { key: "Name".into(), value: "n".into() };
    ec2!(CreateTags { resources: strings(&["i-1"]), tags: vec![tag] }, "CreateTags", call);
    let run = RunInstances {
        dry_run: Some(true),
        image_id: Some("ami-1".into()),
        instance_type: Some("m5.large".into()),
        subnet_id: Some("subnet-1".into()),
        min_count: 1,
        max_count: 1,
        launch_template: Some(LaunchTemplateChoice {
            launch_template_name: Some("template".into()),
            version: Some("$Latest".into()),
        }),
        tag_specifications: vec![tags("instance")],
    };
    ec2!(run, "RunInstances", call_once);
}

fn launch_template_data() -> LaunchTemplateData {
    LaunchTemplateData {
        image_id: Some("ami-1".into()),
        user_data: Some("dXNlcg==".into()),
        iam_instance_profile: Some(InstanceProfileChoice { name: "profile".into() }),
        monitoring: Some(Monitoring { enabled: true }),
        metadata_options: Some(MetadataOptions {
            http_endpoint: Some("enabled".into()),
            http_protocol_ipv6: Some("disabled".into()),
            http_put_response_hop_limit: Some(1),
            http_tokens: Some("required".into()),
            instance_metadata_tags: Some("disabled".into()),
        }),
        cpu_options: Some(CpuOptions { nested_virtualization: Some("enabled".into()) }),
        enclave_options: Some(EnclaveOptions { enabled: true }),
        placement: Some(LaunchTemplatePlacement {
            tenancy: Some("dedicated".into()),
            group_id: Some("pg-1".into()),
            partition_number: Some(2),
        }),
        block_device_mappings: vec![BlockDeviceMapping {
            device_name: Some("/dev/xvda".into()),
            ebs: Some(EbsBlockDevice {
                delete_on_termination: Some(true),
                encrypted: Some(true),
                iops: Some(3000),
                kms_key_id: Some("key".into()),
                snapshot_id: Some("snap-1".into()),
                throughput: Some(125),
                volume_initialization_rate: Some(200),
                volume_size: Some(20),
                volume_type: Some("gp3".into()),
            }),
        }],
        network_interfaces: vec![NetworkInterface {
            associate_public_ip_address: Some(true),
            connection_tracking_specification: Some(ConnectionTracking {
                tcp_established_timeout: Some(60),
                udp_stream_timeout: Some(60),
                udp_timeout: Some(30),
            }),
            device_index: Some(0),
            groups: strings(&["sg-1", "sg-2"]),
            interface_type: Some("efa".into()),
            ipv4_prefix_count: Some(1),
            ipv6_address_count: Some(1),
            ipv6_prefix_count: Some(1),
            network_card_index: Some(0),
            primary_ipv6: Some(true),
        }],
        security_group_ids: strings(&["sg-1"]),
        tag_specifications: vec![tags("network-interface")],
        capacity_reservation_specification: Some(CapacityReservationSpecification {
            capacity_reservation_preference: Some("capacity-reservations-only".into()),
            capacity_reservation_target: Some(CapacityReservationTarget {
                capacity_reservation_id: Some("cr-1".into()),
            }),
        }),
        instance_market_options: Some(InstanceMarketOptions { market_type: Some("capacity-block".into()) }),
    }
}

#[tokio::test(start_paused = true)]
async fn launch_templates_are_written_and_read_as_botocore_does() {
    let describe = DescribeLaunchTemplates {
        launch_template_names: strings(&["template"]),
        filters: filters(),
        max_results: Some(200),
    };
    ec2!(describe, "DescribeLaunchTemplates", list);
    let delete = DeleteLaunchTemplate {
        launch_template_id: Some("lt-1".into()),
        launch_template_name: Some("template".into()),
    };
    ec2!(delete, "DeleteLaunchTemplate", call);
    let create = CreateLaunchTemplate {
        client_token: Some("token".into()),
        dry_run: Some(true),
        launch_template_name: "template".into(),
        launch_template_data: launch_template_data(),
        tag_specifications: vec![tags("launch-template")],
    };
    ec2!(create, "CreateLaunchTemplate", call);
}

#[tokio::test(start_paused = true)]
async fn fleets_are_asked_for_and_read_as_botocore_does() {
    let first = FleetOverride {
        instance_type: Some("m5.large".into()),
        subnet_id: Some("subnet-1".into()),
        availability_zone: Some("us-west-2a".into()),
        image_id: Some("ami-1".into()),
        priority: Some(0.5),
    };
    let second = FleetOverride { instance_type: Some("c5.large".into()), ..FleetOverride::default() };
    let fleet = CreateFleet {
        client_token: Some("token".into()),
        dry_run: Some(true),
        fleet_type: Some("instant".into()),
        context: Some("ctx".into()),
        launch_template_configs: vec![FleetLaunchTemplateConfig {
            launch_template_specification: FleetLaunchTemplate {
                launch_template_id: None,
                launch_template_name: Some("template".into()),
                version: Some("$Latest".into()),
            },
            overrides: vec![first, second],
        }],
        target_capacity_specification: TargetCapacitySpecification {
            total_target_capacity: 3,
            default_target_capacity_type: Some("spot".into()),
        },
        spot_options: Some(SpotOptions { allocation_strategy: Some("price-capacity-optimized".into()) }),
        on_demand_options: Some(OnDemandOptions { allocation_strategy: Some("lowest-price".into()) }),
        reserved_capacity_options: Some(ReservedCapacityOptions {
            reservation_types: strings(&["interruptible-capacity-reservation"]),
        }),
        tag_specifications: vec![tags("instance"), tags("fleet")],
    };
    ec2!(fleet, "CreateFleet", call);
}

#[tokio::test(start_paused = true)]
async fn profiles_roles_and_the_caller_are_asked_and_read_as_botocore_does() {
    let profile = || "p".to_owned();
    let role = || "r".to_owned();
    let tag = |key: &str, value: &str| IamTag { key: key.into(), value: value.into() };
    let tags = vec![tag("k", "v"), tag("l", "w")];
    macro_rules! iam {
        ($request:expr, $operation:literal) => {{
            let (seen, client) = cloud();
            let answer = client.iam().call(&$request).await.unwrap();
            assert_request(&seen, $operation);
            answer
        }};
    }
    assert_complete(&iam!(GetInstanceProfile { instance_profile_name: profile() }, "GetInstanceProfile"));
    let create = CreateInstanceProfile {
        instance_profile_name: profile(),
        path: Some("/karpenter/".into()),
        tags: tags.clone(),
    };
    assert_complete(&iam!(create, "CreateInstanceProfile"));
    iam!(DeleteInstanceProfile { instance_profile_name: profile() }, "DeleteInstanceProfile");
    iam!(TagInstanceProfile { instance_profile_name: profile(), tags }, "TagInstanceProfile");
    let add = AddRoleToInstanceProfile { instance_profile_name: profile(), role_name: role() };
    iam!(add, "AddRoleToInstanceProfile");
    let remove = RemoveRoleFromInstanceProfile { instance_profile_name: profile(), role_name: role() };
    iam!(remove, "RemoveRoleFromInstanceProfile");
    assert_complete(&iam!(GetRole { role_name: role() }, "GetRole"));

    let (seen, client) = cloud();
    let list = ListInstanceProfiles { path_prefix: Some("/karpenter/".into()), max_items: Some(100) };
    assert_complete(&client.iam().list(&list).await.unwrap());
    assert_request(&seen, "ListInstanceProfiles");

    let (seen, client) = cloud();
    assert_complete(&client.sts().caller_identity().await.unwrap());
    assert_request(&seen, "GetCallerIdentity");
}

#[tokio::test(start_paused = true)]
async fn parameters_are_found_or_missing() {
    let (seen, client) = fake::client(|request, _| {
        Some(if request.body().windows(4).any(|part| part == b"gone") {
            answer(400, r#"{"__type":"ParameterNotFound"}"#)
        } else {
            answer(
                200,
                r#"{"Parameter":{"Name":"/aws/service/x","Value":"ami-1","Version":3,"Type":"String"}}"#,
            )
        })
    });
    let found = client.ssm().parameter("/aws/service/x").await.unwrap().unwrap();
    assert_eq!((found.value.as_str(), found.version), ("ami-1", 3));
    assert_request(&seen, "GetParameter");
    assert_eq!(client.ssm().parameter("gone").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn messages_are_received_sent_and_deleted() {
    let (seen, client) = fake::client(|request, _| {
        Some(answer(
            200,
            match request.headers()["x-amz-target"].to_str().unwrap() {
                "AmazonSQS.GetQueueUrl" => r#"{"QueueUrl":"http://q"}"#,
                "AmazonSQS.ReceiveMessage" => {
                    r#"{"Messages":[{"MessageId":"m","ReceiptHandle":"h","Body":"{}"}]}"#
                }
                "AmazonSQS.SendMessage" => r#"{"MessageId":"m"}"#,
                _ => "",
            },
        ))
    });
    let sqs = client.sqs();
    assert_eq!(sqs.queue_url("q").await.unwrap(), "http://q");
    assert_request(&seen, "GetQueueUrl");
    let request = ReceiveMessage {
        queue_url: "http://q".into(),
        max_number_of_messages: 10,
        visibility_timeout: 20,
        wait_time_seconds: 20,
    };
    let received = sqs.receive(&request).await.unwrap();
    assert_eq!((received[0].receipt_handle.as_str(), received[0].body.as_str()), ("h", "{}"));
    assert_request(&seen, "ReceiveMessage");
    sqs.delete("http://q", "h").await.unwrap();
    assert_request(&seen, "DeleteMessage");
    sqs.send("http://q", "{}").await.unwrap();
    assert_request(&seen, "SendMessage");
}

#[tokio::test(start_paused = true)]
async fn prices_come_in_pages_and_free_products_are_left_out() {
    let product = |name: &str, price: &str| {
        let dimension = json!({ "pricePerUnit": { "USD": price } });
        json!({
            "product": { "attributes": { "instanceType": name } },
            "terms": { "OnDemand": { "a": { "priceDimensions": { "b": dimension } } } },
        })
        .to_string()
    };
    let pages = [
        json!({ "PriceList": [product("m5.large", "0.0960000000"), product("free", "0.0")], "NextToken": "n" }),
        json!({ "PriceList": [product("c5.large", "0.085"), "{}"] }),
    ]
    .map(|page| page.to_string());
    let (seen, client) = fake::client(move |_, number| Some(answer(200, pages[number].clone())));
    let prices = client.pricing().on_demand(&[("regionCode", "us-west-2")], "USD").await.unwrap();
    let found: Vec<_> = prices.iter().map(|price| (price.instance_type.as_str(), price.price)).collect();
    assert_eq!(found, [("m5.large", 0.096), ("c5.large", 0.085)]);
    let second: Value = serde_json::from_slice(seen.all()[1].body()).unwrap();
    assert_eq!(second["NextToken"], "n");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_and_its_zonal_shifts_are_described() {
    let (seen, client) = fake::client(|request, _| {
        Some(answer(
            200,
            if request.uri().path().starts_with("/clusters") {
                r#"{"cluster":{"arn":"a","version":"1.34","endpoint":"https://e","kubernetesNetworkConfig":{"serviceIpv4Cidr":"10.100.0.0/16"},"certificateAuthority":{"data":"Q0E="}}}"#
            } else {
                r#"{"arn":"a","zonalShifts":[{"appliedStatus":"APPLIED","awayFrom":"usw2-az1","expiryTime":1794895200.5}]}"#
            },
        ))
    });
    let cluster = client.eks().describe_cluster("my cluster").await.unwrap();
    assert_eq!(cluster.version, "1.34");
    assert_eq!(cluster.kubernetes_network_config.service_ipv4_cidr.as_deref(), Some("10.100.0.0/16"));
    assert_request(&seen, "DescribeCluster");
    let resource = client.zonal_shifts().managed_resource("arn:aws:eks:us-west-2:1:cluster/c").await.unwrap();
    assert_eq!(resource.zonal_shifts[0].away_from, "usw2-az1");
    assert_eq!(resource.zonal_shifts[0].expiry_time, Some("2026-11-17T06:00:00.5Z".parse().unwrap()));
    assert_request(&seen, "GetManagedResource");
}

#[tokio::test(start_paused = true)]
async fn pages_are_gathered_and_a_page_that_points_at_itself_is_an_error() {
    let page = |id: &str, next: &str| {
        format!(
            "<R><subnetSet><item><subnetId>{id}</subnetId></item></subnetSet><nextToken>{next}</nextToken></R>"
        )
    };
    let pages = [page("one", "2"), page("two", "")];
    let (seen, client) = fake::client(move |_, number| Some(answer(200, pages[number].clone())));
    let subnets = client.ec2().list(&DescribeSubnets::default()).await.unwrap();
    assert_eq!(subnets.iter().map(|subnet| subnet.subnet_id.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(form(&seen.all()[1])["NextToken"], "2");

    let (_, client) = fake::client(move |_, _| Some(answer(200, page("one", "same"))));
    let error = client.ec2().list(&DescribeSubnets::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "DescribeSubnets: the answer points to the same page again");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_answer_is_an_error_with_the_reason() {
    let (_, client) = fake::client(|_, _| {
        Some(answer(
            200,
            "<R><subnetSet><item><availableIpAddressCount>x</availableIpAddressCount></item></subnetSet></R>",
        ))
    });
    let error = client.ec2().list(&DescribeSubnets::default()).await.unwrap_err();
    assert!(
        error.message.starts_with("the answer is not understood: availableIpAddressCount is \"x\""),
        "{error}"
    );
    let (_, client) = fake::client(|_, _| Some(answer(200, "<html>")));
    assert!(
        client
            .eks()
            .describe_cluster("c")
            .await
            .unwrap_err()
            .message
            .starts_with("the answer is not understood")
    );
}
