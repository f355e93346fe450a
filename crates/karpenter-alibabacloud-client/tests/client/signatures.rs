//! The published example, and what is signed besides.

use bytes::Bytes;
use http::Request;
use karpenter_alibabacloud_client::{Credentials, Seal, sign, sign_mns};

fn seal() -> Seal<'static> {
    Seal {
        action: "RunInstances",
        version: "2014-05-26",
        time: "2023-10-26T10:22:32Z".parse().unwrap(),
        nonce: "3156853299f313e23d1673dc12e1703d",
    }
}

fn example() -> Request<Bytes> {
    let query = "ImageId=win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd&RegionId=cn-shanghai";
    Request::post(format!("https://ecs.cn-shanghai.aliyuncs.com/?{query}")).body(Bytes::new()).unwrap()
}

#[test]
fn the_published_example_is_signed_as_published() {
    let mut request = example();
    let credentials = Credentials::fixed("YourAccessKeyId", "YourAccessKeySecret");
    sign(&mut request, Some(&credentials), &seal()).unwrap();
    assert_eq!(
        request.headers()["authorization"],
        "ACS3-HMAC-SHA256 Credential=YourAccessKeyId,SignedHeaders=host;x-acs-action;x-acs-content-sha256;x-acs-date;\
         x-acs-signature-nonce;x-acs-version,Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"
    );
}

#[test]
fn a_temporary_key_and_the_kind_of_the_body_are_signed_too() {
    let mut request = example();
    request.headers_mut().insert("content-type", "application/json; charset=utf-8".parse().unwrap());
    request.headers_mut().insert("user-agent", "any".parse().unwrap());
    let credentials =
        Credentials { security_token: Some("token".into()), ..Credentials::fixed("id", "secret") };
    sign(&mut request, Some(&credentials), &seal()).unwrap();
    let authorization = request.headers()["authorization"].to_str().unwrap();
    let signed = "content-type;host;x-acs-accesskey-id;x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-security-token;\
                  x-acs-signature-nonce;x-acs-version";
    assert!(authorization.contains(&format!("SignedHeaders={signed},")), "{authorization}");
    assert_eq!(request.headers()["x-acs-security-token"], "token");
}

#[test]
fn without_keys_nothing_is_signed() {
    let mut request = example();
    sign(&mut request, None, &seal()).unwrap();
    assert!(!request.headers().contains_key("authorization"));
}

#[test]
fn keys_that_no_header_can_hold_are_refused_with_their_name() {
    let error = sign(&mut example(), Some(&Credentials::fixed("a\nb", "c")), &seal()).unwrap_err();
    assert!(error.to_string().contains("access key id"), "{error}");
}

/// What the cloud's own Python client signs for the same requests.
#[test]
fn requests_to_queues_are_signed_as_the_official_client_signs_them() {
    let signed = |mut request: Request<Bytes>, token: Option<&str>| {
        let credentials =
            Credentials { security_token: token.map(str::to_owned), ..Credentials::fixed("AK", "secret") };
        let time = "2026-11-17T06:00:00Z".parse().unwrap();
        sign_mns(&mut request, &credentials, "2015-06-06", time).unwrap();
        assert_eq!(request.headers()["date"], "Tue, 17 Nov 2026 06:00:00 GMT");
        request
    };
    let messages = "https://12.mns.cn-hangzhou.aliyuncs.com/queues/warnings/messages";
    let receive = Request::get(format!("{messages}?numOfMessages=16&waitseconds=5"));
    let receive = signed(receive.body(Bytes::new()).unwrap(), Some("token"));
    assert_eq!(receive.headers()["authorization"], "MNS AK:U28xOC5xNmSCUR8L7cs6CskdmG8=");
    assert_eq!(receive.headers()["security-token"], "token");
    let delete = Request::delete(format!("{messages}?ReceiptHandle=1-ODU4OTkz-NA=="));
    let delete = signed(delete.body(Bytes::new()).unwrap(), None);
    assert_eq!(delete.headers()["authorization"], "MNS AK:Qtz+bS8xkU8gMmYPqFtuYYo2Xdk=");
    assert!(!delete.headers().contains_key("security-token"));
    let send = Request::post(messages).header("content-type", "text/xml;charset=UTF-8");
    let send = signed(send.header("content-md5", "YWJj").body(Bytes::new()).unwrap(), None);
    assert_eq!(send.headers()["authorization"], "MNS AK:6/q2URv9PYJgiLK2YKpTlrl6moo=");
}
