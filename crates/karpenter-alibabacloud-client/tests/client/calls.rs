//! Requests as they travel, retries, pages, the clock and what refusals say.

use karpenter_alibabacloud_client::cs::{DescribeClusterAttachScripts, DescribeKubernetesVersionMetadata};
use karpenter_alibabacloud_client::ecs::{
    DescribeImages, DescribeInstanceTypes, DescribeInstances, DescribeSpotPriceHistory, RunInstances,
    SystemDisk, Tag,
};
use karpenter_alibabacloud_client::vpc::DescribeVSwitches;
use karpenter_alibabacloud_client::{Client, Config, ErrorKind, Rate, Rates, Source};
use karpenter_environment::Environment as _;
use tokio::time::Instant;

use crate::fake::{self, answer, header, query, refusal};

const NONE: &str = r#"{"Instances":{"Instance":[]}}"#;

#[tokio::test(start_paused = true)]
async fn rpc_requests_carry_everything_in_the_query() {
    let (seen, client) =
        fake::client(|_, _| Some(answer(200, r#"{"InstanceIdSets":{"InstanceIdSet":["i-1"]}}"#)));
    let request = RunInstances {
        client_token: Some("t".into()),
        instance_type: "ecs.g7.large".into(),
        image_id: "m-1".into(),
        v_switch_id: "vsw-1".into(),
        security_group_ids: vec!["sg-1".into(), "sg-2".into()],
        ipv6_address_count: Some(1),
        http_tokens: Some("required".into()),
        spot_price_limit: Some(0.5),
        system_disk: SystemDisk {
            category: Some("cloud_essd".into()),
            encrypted: Some(true),
            kms_key_id: Some("k".into()),
            ..Default::default()
        },
        tags: vec![Tag::new("a/b", "c d"), Tag::key("only")],
        ..Default::default()
    };
    assert_eq!(client.call(&request).await.unwrap().instance_ids, ["i-1"]);
    let sent = &seen.all()[0];
    assert_eq!((sent.method().as_str(), sent.uri().path(), sent.body().len()), ("POST", "/", 0));
    assert_eq!(
        query(sent),
        "ClientToken=t&HttpTokens=required&ImageId=m-1&InstanceType=ecs.g7.large&Ipv6AddressCount=1&RegionId=cn-hangzhou&\
         SecurityGroupIds.1=sg-1&SecurityGroupIds.2=sg-2&SpotPriceLimit=0.5&SystemDisk.Category=cloud_essd&\
         SystemDisk.Encrypted=true&SystemDisk.KMSKeyId=k&Tag.1.Key=a%2Fb&Tag.1.Value=c%20d&Tag.2.Key=only&VSwitchId=vsw-1"
    );
    assert_eq!((header(sent, "x-acs-action"), header(sent, "x-acs-version")), ("RunInstances", "2014-05-26"));
}

#[tokio::test(start_paused = true)]
async fn roa_requests_have_paths_and_bodies_of_their_own() {
    let (seen, client) = fake::client(|request, _| {
        let body = if request.method() == "POST" { "curl x\r\n" } else { "[]" };
        Some(answer(200, body))
    });
    let attach = DescribeClusterAttachScripts {
        cluster_id: "c/1".into(),
        keep_instance_name: Some(true),
        format_disk: Some(false),
        ..Default::default()
    };
    assert_eq!(client.call(&attach).await.unwrap(), "curl x\r\n");
    let versions = DescribeKubernetesVersionMetadata {
        region: "cn-hangzhou".into(),
        cluster_type: "ManagedKubernetes".into(),
        kubernetes_version: Some("1.33.3".into()),
    };
    assert!(client.call(&versions).await.unwrap().is_empty());
    let sent = seen.all();
    assert_eq!(sent[0].uri().path(), "/clusters/c%2F1/attachscript");
    assert_eq!(sent[0].body(), r#"{"format_disk":false,"keep_instance_name":true}"#);
    assert_eq!(header(&sent[0], "content-type"), "application/json; charset=utf-8");
    assert_eq!(
        sent[1].uri().path_and_query().unwrap(),
        "/api/v1/metadata/versions?ClusterType=ManagedKubernetes&KubernetesVersion=1.33.3&Region=cn-hangzhou"
    );
}

#[tokio::test(start_paused = true)]
async fn ids_travel_as_json_and_empty_lists_not_at_all() {
    let (seen, client) = fake::client(|_, _| Some(answer(200, NONE)));
    let request = DescribeInstances { instance_ids: vec!["i-1".into(), "i-2".into()], ..Default::default() };
    client.list(&request).await.unwrap();
    client.list(&DescribeInstances::default()).await.unwrap();
    assert_eq!(query(&seen.all()[0]), "InstanceIds=%5B%22i-1%22%2C%22i-2%22%5D&RegionId=cn-hangzhou");
    assert_eq!(query(&seen.all()[1]), "RegionId=cn-hangzhou");
}

#[tokio::test(start_paused = true)]
async fn throttling_faults_and_broken_lines_are_tried_again_with_a_nonce_of_their_own() {
    let (seen, client) = fake::client(|_, number| match number {
        0 => Some(refusal(400, "Throttling.User")),
        1 => None,
        _ => Some(answer(200, NONE)),
    });
    client.list(&DescribeInstances::default()).await.unwrap();
    let nonces: std::collections::BTreeSet<String> =
        seen.all().iter().map(|request| header(request, "x-acs-signature-nonce").to_owned()).collect();
    assert_eq!(nonces.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_cloud_says_how_long_to_wait() {
    let (_, client) = fake::client(|_, number| {
        let mut response = refusal(429, "Throttling");
        response.headers_mut().insert("x-acs-retry-after", "20".parse().unwrap());
        Some(if number == 0 { response } else { answer(200, NONE) })
    });
    let begun = Instant::now();
    client.list(&DescribeInstances::default()).await.unwrap();
    assert!((20.0..22.0).contains(&begun.elapsed().as_secs_f64()));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_help_is_not_tried_again_and_the_right_that_is_missing_is_named() {
    let (seen, client) = fake::client(|_, _| Some(refusal(403, "Forbidden.RAM")));
    let error = client.list(&DescribeInstances::default()).await.unwrap_err();
    assert_eq!((error.kind, seen.count()), (ErrorKind::Denied, 1));
    assert_eq!(error.missing_action.as_deref(), Some("ecs:DescribeInstances"));
    let (_, client) = fake::client(|_, _| {
        Some(answer(
            403,
            r#"{"Code":"Forbidden.RAM","Message":"m","AccessDeniedDetail":{"AuthAction":"ram:PassRole"}}"#,
        ))
    });
    let error = client.call(&RunInstances::default()).await.unwrap_err();
    assert_eq!(error.missing_action.as_deref(), Some("ram:PassRole"));
}

#[tokio::test(start_paused = true)]
async fn errors_are_read_in_either_case() {
    let (_, client) = fake::client(|_, _| {
        Some(answer(404, r#"{"code":"ErrorClusterNotFound","message":"gone","requestId":"R"}"#))
    });
    let error = client.call(&DescribeClusterAttachScripts::default()).await.unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (ErrorKind::NotFound, "ErrorClusterNotFound"));
    assert_eq!(error.request_id.as_deref(), Some("R"));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_clock_is_corrected_by_the_date_of_the_refusal() {
    let (seen, client) = fake::client(|request, _| {
        if header(request, "x-acs-date").starts_with("2026-11-17T09") {
            return Some(answer(200, NONE));
        }
        let mut response = refusal(400, "InvalidTimeStamp.Expired");
        response.headers_mut().insert("date", "Tue, 17 Nov 2026 09:00:00 GMT".parse().unwrap());
        Some(response)
    });
    client.list(&DescribeInstances::default()).await.unwrap();
    client.list(&DescribeInstances::default()).await.unwrap();
    assert_eq!(seen.count(), 3, "the correction is remembered");
}

#[tokio::test(start_paused = true)]
async fn pages_by_token_are_read_to_the_end() {
    let page = |name: &str, next: &str| {
        answer(
            200,
            format!(
                r#"{{"InstanceTypes":{{"InstanceType":[{{"InstanceTypeId":"{name}"}}]}},"NextToken":"{next}"}}"#
            ),
        )
    };
    let (seen, client) = fake::client(move |request, _| {
        Some(match query(request) {
            text if text.contains("NextToken=b") => page("third", ""),
            text if text.contains("NextToken=a") => page("second", "b"),
            _ => page("first", "a"),
        })
    });
    let found =
        client.list(&DescribeInstanceTypes { max_results: Some(100), ..Default::default() }).await.unwrap();
    let names: Vec<&str> = found.iter().map(|found| found.instance_type_id.as_str()).collect();
    assert_eq!((names, seen.count()), (vec!["first", "second", "third"], 3));
}

#[tokio::test(start_paused = true)]
async fn a_page_that_points_at_itself_is_an_error() {
    let (_, client) = fake::client(|_, _| Some(answer(200, r#"{"NextToken":"a"}"#)));
    let error = client.list(&DescribeInstanceTypes::default()).await.unwrap_err();
    assert!(error.message.contains("same page"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn numbered_pages_are_read_until_all_are_there_even_if_the_cloud_caps_them() {
    let (seen, client) = fake::client(|request, _| {
        let number =
            query(request).split("PageNumber=").nth(1).unwrap().split('&').next().unwrap().to_owned();
        let ids: Vec<String> = match number.as_str() {
            "1" => (0..10).map(|id| format!(r#"{{"VSwitchId":"vsw-{id}"}}"#)).collect(),
            "2" => vec![r#"{"VSwitchId":"vsw-last"}"#.to_owned()],
            _ => Vec::new(),
        };
        Some(answer(200, format!(r#"{{"VSwitches":{{"VSwitch":[{}]}},"TotalCount":11}}"#, ids.join(","))))
    });
    assert_eq!(client.list(&DescribeVSwitches::default()).await.unwrap().len(), 11);
    assert_eq!(seen.count(), 2);
    assert!(query(&seen.all()[0]).contains("PageSize=50"));
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_ends_numbered_pages_and_offsets() {
    let (seen, client) = fake::client(|_, _| Some(answer(200, r#"{"NextOffset":7}"#)));
    assert!(client.list(&DescribeImages::default()).await.unwrap().is_empty());
    assert!(client.list(&DescribeSpotPriceHistory::default()).await.unwrap().is_empty());
    assert_eq!(seen.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_keep_to_their_rate() {
    let (_, transport) = fake::transport(|_, _| Some(answer(200, NONE)));
    let mut config = Config::at("http://cloud", "cn-hangzhou", fake::keys());
    config.rates = Rates::new([("DescribeInstances", Rate { per_second: 1.0, burst: 2.0 })]);
    let client = Client::new(config, transport, fake::environment());
    let begun = Instant::now();
    for _ in 0..5 {
        client.list(&DescribeInstances::default()).await.unwrap();
    }
    assert!((2.9..3.2).contains(&begun.elapsed().as_secs_f64()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_json_is_not_understood_and_not_repeated() {
    let (seen, client) = fake::client(|_, _| Some(answer(200, "<html>")));
    let error = client.list(&DescribeInstances::default()).await.unwrap_err();
    assert_eq!((error.kind, seen.count()), (ErrorKind::Invalid, 1));
}

#[tokio::test(start_paused = true)]
async fn keys_that_expire_under_way_are_fetched_anew_once() {
    let source = Source::InstanceMetadata { role: Some("r".into()) };
    let (seen, client) = fake::client_with(source, |request, number| match request.uri().path() {
        "/latest/api/token" => Some(answer(200, "t")),
        path if path.starts_with("/latest/") => {
            let expiration = "2026-11-17T12:00:00Z";
            Some(answer(
                200,
                format!(
                    r#"{{"AccessKeyId":"k{number}","AccessKeySecret":"s","SecurityToken":"t","Expiration":"{expiration}"}}"#
                ),
            ))
        }
        _ if header(request, "x-acs-accesskey-id") == "k1" => {
            Some(refusal(403, "InvalidSecurityToken.Expired"))
        }
        _ => Some(answer(200, NONE)),
    });
    client.list(&DescribeInstances::default()).await.unwrap();
    assert_eq!(seen.of("DescribeInstances").len(), 2);
    let (seen, client) = fake::client(|_, _| Some(refusal(403, "InvalidSecurityToken.Expired")));
    assert_eq!(client.list(&DescribeInstances::default()).await.unwrap_err().kind, ErrorKind::Credentials);
    assert_eq!(seen.count(), 1, "fixed keys stay what they are");
    assert!(fake::environment().now() >= fake::start());
}
