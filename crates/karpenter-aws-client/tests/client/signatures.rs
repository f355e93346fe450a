//! Signatures equal those AWS publishes and those botocore computes.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use karpenter_aws_client::{Credentials, Scope, sign};
use serde_json::Value;

/// The first nine are AWS's published examples; all were computed by botocore 1.44 too, except the fourth of S3's, whose `Date`
/// header botocore would sign in another place.
const CASES: &str = include_str!("../data/signatures.jsonl");

fn request(case: &Value) -> Request<Bytes> {
    let text = |name: &str| case[name].as_str().unwrap();
    let mut request = Request::builder()
        .method(text("method"))
        .uri(text("url"))
        .body(Bytes::from(text("body").to_owned()))
        .unwrap();
    for (name, value) in case["headers"].as_object().unwrap() {
        let name: HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, HeaderValue::from_str(value.as_str().unwrap()).unwrap());
    }
    request
}

#[test]
fn signatures_equal_the_published_ones_and_botocores() {
    let mut compared = 0;
    for line in CASES.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| case[name].as_str().unwrap();
        let credentials = Credentials {
            session_token: case["token"].as_str().map(str::to_owned),
            ..Credentials::fixed(text("key"), text("secret"))
        };
        let scope =
            Scope { region: text("region"), service: text("service"), time: text("time").parse().unwrap() };
        let mut request = request(&case);
        sign(&mut request, &credentials, &scope).unwrap();
        assert_eq!(request.headers()["authorization"], text("authorization"), "{}", text("name"));
        compared += 1;
    }
    assert_eq!(compared, 17);
}

#[test]
fn a_second_attempt_replaces_the_first_ones_signature() {
    let case: Value = serde_json::from_str(CASES.lines().next().unwrap()).unwrap();
    let mut twice = request(&case);
    let credentials = Credentials::fixed("a", "b");
    let scope = |time: &str| Scope { region: "r", service: "ec2", time: time.parse().unwrap() };
    sign(&mut twice, &credentials, &scope("2026-01-01T00:00:00Z")).unwrap();
    sign(&mut twice, &credentials, &scope("2026-01-01T00:00:09Z")).unwrap();
    let mut once = request(&case);
    sign(&mut once, &credentials, &scope("2026-01-01T00:00:09Z")).unwrap();
    assert_eq!(twice.headers(), once.headers());
}

#[test]
fn keys_that_no_header_can_carry_are_named() {
    let case: Value = serde_json::from_str(CASES.lines().next().unwrap()).unwrap();
    let credentials = Credentials { session_token: Some("a\nb".into()), ..Credentials::fixed("a", "b") };
    let scope = Scope { region: "r", service: "ec2", time: "2026-01-01T00:00:00Z".parse().unwrap() };
    let error = sign(&mut request(&case), &credentials, &scope).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the session token contains characters that no header can carry: check it for line breaks"
    );
}
