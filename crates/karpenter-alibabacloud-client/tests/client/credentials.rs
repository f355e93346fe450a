//! Where keys come from and when they are fetched anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Response;
use jiff::{SignedDuration, Timestamp};
use karpenter_alibabacloud_client::ecs::DescribeInstances;
use karpenter_alibabacloud_client::{Config, ErrorKind, Source, Variables};

use crate::fake::{self, answer, header, query, refusal};

fn oidc(token_file: &std::path::Path) -> Source {
    Source::Oidc {
        role_arn: "acs:ram::1:role/karpenter".into(),
        provider_arn: "acs:ram::1:oidc-provider/ack".into(),
        token_file: token_file.into(),
        session_name: "karpenter-controller".into(),
    }
}

fn credentials(id: &str, expiration: Timestamp) -> Response<bytes::Bytes> {
    let expiration = expiration.strftime("%Y-%m-%dT%H:%M:%SZ");
    answer(
        200,
        format!(
            r#"{{"Credentials":{{"AccessKeyId":"{id}","AccessKeySecret":"s","SecurityToken":"st","Expiration":"{expiration}"}}}}"#
        ),
    )
}

#[tokio::test(start_paused = true)]
async fn rrsa_takes_on_the_role_without_a_signature_and_renews_before_the_keys_expire() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let hour = SignedDuration::from_hours(1);
    let (seen, client) = fake::client_with(oidc(&file), move |request, number| {
        Some(match header(request, "x-acs-action") {
            "AssumeRoleWithOIDC" if number == 0 => credentials("k1", fake::start() + hour),
            "AssumeRoleWithOIDC" => credentials("k2", fake::start() + hour * 2),
            _ => answer(200, "{}"),
        })
    });
    client.list(&DescribeInstances::default()).await.unwrap();
    let asked = &seen.of("AssumeRoleWithOIDC")[0];
    assert!(!asked.headers().contains_key("authorization"));
    let text = query(asked);
    for part in [
        "OIDCToken=first",
        "RoleSessionName=karpenter-controller",
        "DurationSeconds=3600",
        "Version=2015-04-01",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("first%0A"), "no line break");
    assert_eq!(header(&seen.of("DescribeInstances")[0], "x-acs-security-token"), "st");

    std::fs::write(&file, "second").unwrap();
    tokio::time::advance(Duration::from_mins(40)).await;
    client.list(&DescribeInstances::default()).await.unwrap();
    assert_eq!(seen.of("AssumeRoleWithOIDC").len(), 1, "twenty minutes are left");
    tokio::time::advance(Duration::from_mins(6)).await;
    client.list(&DescribeInstances::default()).await.unwrap();
    let asked = seen.of("AssumeRoleWithOIDC");
    assert_eq!(asked.len(), 2, "less than a quarter of an hour is left");
    assert!(query(&asked[1]).contains("OIDCToken=second"), "the token is read anew");
    assert_eq!(header(&seen.of("DescribeInstances")[2], "x-acs-accesskey-id"), "k2");
}

#[tokio::test(start_paused = true)]
async fn while_sts_fails_the_old_keys_serve_until_they_expire() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "t").unwrap();
    let broken = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&broken);
    let (_, client) = fake::client_with(oidc(&file), move |request, _| {
        Some(match header(request, "x-acs-action") {
            "AssumeRoleWithOIDC" if fails.load(Ordering::Relaxed) => {
                refusal(400, "AuthenticationFail.NoPermission")
            }
            "AssumeRoleWithOIDC" => credentials("k", fake::start() + SignedDuration::from_hours(1)),
            _ => answer(200, "{}"),
        })
    });
    client.list(&DescribeInstances::default()).await.unwrap();
    broken.store(true, Ordering::Relaxed);
    tokio::time::advance(Duration::from_mins(50)).await;
    client.list(&DescribeInstances::default()).await.unwrap();
    tokio::time::advance(Duration::from_mins(11)).await;
    let error = client.list(&DescribeInstances::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Credentials);
    assert!(error.to_string().contains("AuthenticationFail.NoPermission"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_token_file_that_is_missing_is_named_with_its_variable() {
    let (_, client) = fake::client_with(oidc("/nowhere/token".as_ref()), |_, _| None);
    let error = client.list(&DescribeInstances::default()).await.unwrap_err();
    assert!(
        error.to_string().contains("/nowhere/token, which ALIBABA_CLOUD_OIDC_TOKEN_FILE names"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn callers_of_one_moment_share_one_answer_of_sts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "t").unwrap();
    let (seen, client) = fake::client_with(oidc(&file), |request, _| {
        Some(match header(request, "x-acs-action") {
            "AssumeRoleWithOIDC" => credentials("k", fake::start() + SignedDuration::from_hours(1)),
            _ => answer(200, "{}"),
        })
    });
    let request = DescribeInstances::default();
    futures::future::join_all((0..20).map(|_| client.list(&request))).await;
    assert_eq!(seen.of("AssumeRoleWithOIDC").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_machines_role_is_asked_for_with_a_token() {
    let (seen, client) = fake::client_with(Source::InstanceMetadata { role: None }, |request, _| {
        Some(match request.uri().path() {
            "/latest/api/token" => answer(200, "mt"),
            _ if !request.uri().path().starts_with("/latest") => answer(200, "{}"),
            _ if header(request, "x-aliyun-ecs-metadata-token") != "mt" => answer(403, ""),
            "/latest/meta-data/ram/security-credentials/" => answer(200, "node-role"),
            "/latest/meta-data/ram/security-credentials/node-role" => answer(
                200,
                r#"{"AccessKeyId":"mk","AccessKeySecret":"s","SecurityToken":"t","Expiration":"2026-11-17T12:00:00Z","Code":"Success"}"#,
            ),
            _ => answer(404, ""),
        })
    });
    client.list(&DescribeInstances::default()).await.unwrap();
    assert_eq!(seen.all()[0].method(), "PUT");
    assert_eq!(header(&seen.of("DescribeInstances")[0], "x-acs-accesskey-id"), "mk");
}

#[tokio::test(start_paused = true)]
async fn without_any_source_the_error_lists_them() {
    let (_, client) = fake::client_with(Source::InstanceMetadata { role: None }, |_, _| None);
    let error = client.list(&DescribeInstances::default()).await.unwrap_err().to_string();
    for word in ["ALIBABA_CLOUD_ROLE_ARN", "ALIBABA_CLOUD_ACCESS_KEY_ID", "ECS instance"] {
        assert!(error.contains(word), "{word} in {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_region_is_read_from_variables_then_from_the_machine() {
    let (seen, transport) = fake::transport(|request, _| {
        Some(if request.method() == "PUT" { answer(200, "t") } else { answer(200, "cn-beijing\n") })
    });
    let keys = [("ALIBABA_CLOUD_ACCESS_KEY_ID", "a"), ("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "b")];
    let named = Variables::from([keys[0], keys[1], ("REGION_ID", "ap-southeast-1")]);
    assert_eq!(Config::load(&named, &*transport).await.unwrap().region, "ap-southeast-1");
    assert_eq!(seen.count(), 0);
    let config = Config::load(&Variables::from(keys), &*transport).await.unwrap();
    assert_eq!(config.region, "cn-beijing");
    let wrong = Variables::from([keys[0], keys[1], ("REGION_ID", "cn hangzhou/")]);
    let error = Config::load(&wrong, &*transport).await.unwrap_err();
    assert!(error.to_string().contains("cn-hangzhou"), "{error}");
}
