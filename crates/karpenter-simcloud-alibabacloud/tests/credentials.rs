//! Signatures, times, nonces, tokens and policies.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use jiff::SignedDuration;
use karpenter_environment::Environment as _;
use karpenter_simcloud_alibabacloud::{ACCESS_KEY, ACCESS_SECRET, Policy};
use ring::hmac;

use crate::cloud::{CLUSTER, Signer, cloud, read};

#[test]
fn a_request_is_accepted_once() {
    let cloud = cloud();
    let request = cloud.signed("2014-05-26", "DescribeZones", &[], &Signer::default());
    assert_eq!(read(&cloud.service.handle(&request)).0, 200);
    let (status, answer) = read(&cloud.service.handle(&request));
    assert_eq!((status, answer["Code"].as_str()), (400, Some("SignatureNonceUsed")));
}

#[test]
fn a_request_of_long_ago_is_refused() {
    let cloud = cloud();
    let request = cloud.signed("2014-05-26", "DescribeZones", &[], &Signer::default());
    cloud.environment.set_now(cloud.environment.now() + SignedDuration::from_mins(16));
    let (status, answer) = read(&cloud.service.handle(&request));
    assert_eq!((status, answer["Code"].as_str()), (400, Some("InvalidTimeStamp.Expired")));
}

#[test]
fn a_body_that_was_changed_on_the_way_is_refused() {
    let cloud = cloud();
    let path = format!("/clusters/{CLUSTER}/attachscript");
    let mut request = cloud.sign("POST", &path, "", "2015-12-15", "Any", b"{}", &Signer::default());
    *request.body_mut() = Bytes::from_static(b"{\"expired\": 1}");
    let (status, answer) = read(&cloud.service.handle(&request));
    assert_eq!((status, answer["code"].as_str()), (400, Some("SignatureDoesNotMatch")));
}

#[test]
fn the_older_signature_of_path_services_is_accepted() {
    let cloud = cloud();
    let path = format!("/clusters/{CLUSTER}");
    let date = cloud.environment.now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let text = format!(
        "GET\napplication/json\n\n\n{date}\nx-acs-signature-method:HMAC-SHA1\nx-acs-signature-nonce:n1\n\
         x-acs-signature-version:1.0\nx-acs-version:2015-12-15\n{path}"
    );
    let signed = |secret: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
        let signature = STANDARD.encode(hmac::sign(&key, text.as_bytes()));
        Request::get(&path)
            .header("accept", "application/json")
            .header("date", &date)
            .header("x-acs-signature-method", "HMAC-SHA1")
            .header("x-acs-signature-nonce", "n1")
            .header("x-acs-signature-version", "1.0")
            .header("x-acs-version", "2015-12-15")
            .header("authorization", format!("acs {ACCESS_KEY}:{signature}"))
            .body(Bytes::new())
            .unwrap()
    };
    let (status, answer) = read(&cloud.service.handle(&signed("wrong")));
    assert_eq!((status, answer["code"].as_str()), (400, Some("SignatureDoesNotMatch")));
    let (status, answer) = read(&cloud.service.handle(&signed(ACCESS_SECRET)));
    assert_eq!((status, answer["cluster_id"].as_str()), (200, Some(CLUSTER)));
}

#[test]
fn with_a_policy_exactly_its_actions_are_allowed_and_passing_a_role_is_one() {
    let cloud = cloud();
    let allow = |actions: &[&str]| {
        let policy = Policy::allowing(actions.iter().copied());
        cloud.service.change(|world| world.keys.get_mut(ACCESS_KEY).unwrap().policy = Some(policy));
    };
    allow(&["ecs:RunInstances"]);
    assert_eq!(cloud.run(&[]).0, 200);
    let (status, answer) = cloud.ecs("DescribeInstances", &[]);
    assert_eq!((status, answer["Code"].as_str()), (403, Some("Forbidden.RAM")));
    assert_eq!(answer["AccessDeniedDetail"]["AuthAction"], "ecs:DescribeInstances");
    let (status, answer) = cloud.run(&[("RamRoleName", "KubernetesWorkerRole")]);
    assert_eq!((status, answer["AccessDeniedDetail"]["AuthAction"].as_str()), (403, Some("ram:PassRole")));
    allow(&["ecs:RunInstances", "ram:PassRole"]);
    assert_eq!(cloud.run(&[("RamRoleName", "KubernetesWorkerRole")]).0, 200);
}

#[test]
fn a_request_in_process_is_signed_for_where_it_goes() {
    let cloud = cloud();
    let mut request = cloud.signed("2014-05-26", "DescribeZones", &[], &Signer::default());
    request.headers_mut().remove("host");
    *request.uri_mut() = "http://ecs.simulated/?".parse().unwrap();
    assert_eq!(read(&cloud.service.handle(&request)).0, 200);
}
