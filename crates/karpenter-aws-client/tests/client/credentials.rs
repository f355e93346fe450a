//! Which credentials are used, how they are fetched, and when anew.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use karpenter_aws_client::{
    Client, Config, ConfigError, Credentials, Profiles, Source, TokenPlace, Variables,
};

use crate::fake::{self, answer};

fn find(pairs: &[(&str, &str)]) -> Result<Source, String> {
    let variables = variables(pairs);
    let profiles = Profiles::load(&variables).map_err(|error| error.to_string())?;
    Source::find(&variables, &profiles).map_err(|error| error.to_string())
}

fn variables(pairs: &[(&str, &str)]) -> Variables {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn sources_are_considered_in_the_sdks_order() {
    let all = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
        ("AWS_ROLE_ARN", "arn:role"),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials"),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/pod/token"),
    ];
    assert_eq!(find(&all).unwrap(), Source::Keys(Credentials::fixed("id", "secret")));
    let web =
        Source::WebIdentity { role_arn: "arn:role".into(), token_file: "/token".into(), session_name: None };
    assert_eq!(find(&all[2..]).unwrap(), web);
    let pod = Source::Container {
        url: "http://169.254.170.23/v1/credentials".into(),
        token: Some(TokenPlace::File("/pod/token".into())),
    };
    assert_eq!(find(&all[4..]).unwrap(), pod);
    assert_eq!(find(&[]).unwrap(), Source::InstanceMetadata);
}

#[test]
fn what_is_set_by_half_is_an_error_that_says_so() {
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("AWS_ACCESS_KEY_ID", "id")], "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set"),
        (&[("AWS_WEB_IDENTITY_TOKEN_FILE", "/t")], "AWS_ROLE_ARN is not: set both"),
        (
            &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://10.0.0.1/x")],
            "only https, loopback and the addresses",
        ),
        (&[("AWS_PROFILE", "none")], "the profile none, which AWS_PROFILE names"),
    ];
    for (set, message) in cases {
        let error = find(set).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

/// Writes a config file and decides with it.
fn with_config(text: &str, profile: &str) -> Result<Source, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, text).unwrap();
    find(&[("AWS_CONFIG_FILE", path.to_str().unwrap()), ("AWS_PROFILE", profile)])
}

#[test]
fn profiles_hold_keys_or_a_role_with_what_takes_it_on() {
    let config = "[profile base]\naws_access_key_id = id\naws_secret_access_key = secret\n\
        [profile dev]\nrole_arn = arn:dev\nsource_profile = base\nexternal_id = x\n\
        [profile web]\nrole_arn = arn:web\nweb_identity_token_file = /t\nrole_session_name = me\n\
        [profile machine]\nrole_arn = arn:m\ncredential_source = Ec2InstanceMetadata\n\
        [profile a]\nrole_arn = arn:a\nsource_profile = b\n[profile b]\nrole_arn = arn:b\nsource_profile = a\n\
        [profile bare]\nrole_arn = arn:bare\n[profile sso]\nsso_session = s\n[profile half]\naws_access_key_id = id\n";
    let keys = Source::Keys(Credentials::fixed("id", "secret"));
    assert_eq!(with_config(config, "base").unwrap(), keys);
    let role = |base, role_arn: &str, external_id: Option<&str>| Source::Role {
        base: Box::new(base),
        role_arn: role_arn.into(),
        session_name: None,
        external_id: external_id.map(str::to_owned),
    };
    assert_eq!(with_config(config, "dev").unwrap(), role(keys, "arn:dev", Some("x")));
    assert_eq!(with_config(config, "machine").unwrap(), role(Source::InstanceMetadata, "arn:m", None));
    let web = Source::WebIdentity {
        role_arn: "arn:web".into(),
        token_file: "/t".into(),
        session_name: Some("me".into()),
    };
    assert_eq!(with_config(config, "web").unwrap(), web);
    for (profile, message) in [
        ("a", "is part of a circle of source_profile settings"),
        ("bare", "needs one of source_profile, web_identity_token_file and credential_source"),
        ("sso", "uses sso_session, which is not supported"),
        ("half", "has only one of aws_access_key_id and aws_secret_access_key"),
    ] {
        let error = with_config(config, profile).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

fn client(
    source: Source,
    answers: impl Fn(&Request<Bytes>, usize) -> Option<Response<Bytes>> + Send + Sync + 'static,
) -> (fake::Seen, Client) {
    let (seen, transport) = fake::transport(answers);
    (seen, Client::new(Config::at("http://cloud", "us-west-2", source), transport, fake::environment()))
}

fn body(request: &Request<Bytes>) -> String {
    String::from_utf8(request.body().to_vec()).unwrap()
}

/// STS's answer: keys named by a number, good until `expiration`.
fn session(number: usize, expiration: &str) -> Response<Bytes> {
    answer(
        200,
        format!(
            "<R><Result><Credentials><AccessKeyId>K{number}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>\
             <SessionToken>t</SessionToken><Expiration>{expiration}</Expiration></Credentials></Result></R>"
        ),
    )
}

fn web_identity(folder: &Path) -> Source {
    let token_file = folder.join("token");
    std::fs::write(&token_file, "first\n").unwrap();
    Source::WebIdentity {
        role_arn: "arn:aws:iam::1:role/karpenter".into(),
        token_file,
        session_name: Some("me".into()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_is_taken_on_with_the_token_of_the_service_account() {
    let folder = tempfile::tempdir().unwrap();
    let (seen, client) = client(web_identity(folder.path()), |_, _| Some(session(1, "2026-11-17T07:00:00Z")));
    let got = client.credentials().await.unwrap();
    assert_eq!((got.access_key_id.as_str(), got.session_token.as_deref()), ("K1", Some("t")));
    let request = &seen.all()[0];
    assert!(!request.headers().contains_key("authorization"), "the token is all the proof there is");
    assert_eq!(
        body(request),
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fkarpenter&RoleSessionName=me&WebIdentityToken=first"
    );
}

#[tokio::test(start_paused = true)]
async fn credentials_are_renewed_before_they_expire_with_the_token_of_that_time() {
    let folder = tempfile::tempdir().unwrap();
    let (seen, client) = client(web_identity(folder.path()), |_, number| {
        Some(session(number, if number == 0 { "2026-11-17T07:00:00Z" } else { "2026-11-17T08:00:00Z" }))
    });
    client.credentials().await.unwrap();
    tokio::time::advance(Duration::from_mins(54)).await;
    assert_eq!(client.credentials().await.unwrap().access_key_id, "K0");
    assert_eq!(seen.count(), 1);
    std::fs::write(folder.path().join("token"), "second\n").unwrap();
    tokio::time::advance(Duration::from_mins(2)).await;
    assert_eq!(client.credentials().await.unwrap().access_key_id, "K1");
    assert!(body(&seen.all()[1]).ends_with("WebIdentityToken=second"));
}

#[tokio::test(start_paused = true)]
async fn credentials_that_cannot_be_renewed_serve_until_they_expire() {
    let folder = tempfile::tempdir().unwrap();
    let (_, client) = client(web_identity(folder.path()), |_, number| {
        Some(if number == 0 { session(0, "2026-11-17T07:00:00Z") } else { answer(500, "") })
    });
    client.credentials().await.unwrap();
    tokio::time::advance(Duration::from_mins(57)).await;
    assert_eq!(client.credentials().await.unwrap().access_key_id, "K0");
    tokio::time::advance(Duration::from_mins(10)).await;
    let error = client.credentials().await.unwrap_err().to_string();
    assert!(
        error.starts_with(
            "cannot get AWS credentials from STS: AssumeRoleWithWebIdentity: the answer was 500"
        ),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn callers_who_come_together_share_one_fetch() {
    let folder = tempfile::tempdir().unwrap();
    let (seen, client) = client(web_identity(folder.path()), |_, _| Some(session(1, "2026-11-17T07:00:00Z")));
    let (one, two) = futures::future::join(client.credentials(), client.credentials()).await;
    assert_eq!(one.unwrap(), two.unwrap());
    assert_eq!(seen.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_refused_for_an_expired_token_is_repeated_with_new_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let (seen, client) = client(web_identity(folder.path()), |request, number| {
        if request.method() == "POST" {
            return Some(session(number, "2026-11-17T07:00:00Z"));
        }
        let expired = request.headers()["authorization"].to_str().unwrap().contains("Credential=K0/");
        let refusal = "<Error><Code>ExpiredToken</Code><Message>old</Message></Error>";
        Some(if expired { answer(400, refusal) } else { answer(200, "content") })
    });
    assert_eq!(client.s3().get("state", "k").await.unwrap().unwrap().content, "content");
    assert_eq!(seen.count(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_role_of_a_profile_is_taken_on_with_a_signed_request() {
    let source = Source::Role {
        base: Box::new(fake::keys()),
        role_arn: "arn:r".into(),
        session_name: None,
        external_id: Some("x".into()),
    };
    let (seen, client) = client(source, |_, _| Some(session(1, "2026-11-17T07:00:00Z")));
    assert_eq!(client.credentials().await.unwrap().access_key_id, "K1");
    let request = &seen.all()[0];
    assert!(
        request.headers()["authorization"]
            .to_str()
            .unwrap()
            .contains("Credential=AKID/20261117/us-west-2/sts/")
    );
    assert_eq!(
        body(request),
        "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Ar&RoleSessionName=karpenter-1794895200&ExternalId=x"
    );
}

const DOCUMENT: &str = r#"{"Code":"Success","AccessKeyId":"PID","SecretAccessKey":"s","Token":"t","Expiration":"2026-11-17T12:00:00Z"}"#;

#[tokio::test(start_paused = true)]
async fn pod_identity_is_shown_the_token_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "eyJ\n").unwrap();
    let source = Source::Container {
        url: "http://169.254.170.23/v1/credentials".into(),
        token: Some(TokenPlace::File(file)),
    };
    let (seen, client) = client(source, |_, _| Some(answer(200, DOCUMENT)));
    let got = client.credentials().await.unwrap();
    assert_eq!(
        (got.access_key_id.as_str(), got.expiration),
        ("PID", Some("2026-11-17T12:00:00Z".parse().unwrap()))
    );
    assert_eq!(seen.lines(), ["GET http://169.254.170.23/v1/credentials"]);
    assert_eq!(seen.all()[0].headers()["authorization"], "eyJ");
}

#[tokio::test(start_paused = true)]
async fn a_token_file_that_is_not_there_is_named() {
    let source = Source::Container {
        url: "http://169.254.170.23/".into(),
        token: Some(TokenPlace::File("/does/not/exist".into())),
    };
    let (_, client) = client(source, |_, _| None);
    let error = client.credentials().await.unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read /does/not/exist, which AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE names"),
        "{error}"
    );
}

/// The metadata service, which insists on its token.
fn metadata(request: &Request<Bytes>) -> Response<Bytes> {
    let token = request.headers().get("x-aws-ec2-metadata-token").is_some_and(|token| token == "T");
    match (request.method().as_str(), request.uri().path()) {
        ("PUT", "/latest/api/token") => answer(200, "T"),
        _ if !token => answer(401, ""),
        (_, "/latest/meta-data/placement/region") => answer(200, "eu-central-1"),
        (_, "/latest/meta-data/iam/security-credentials/") => answer(200, "node-role"),
        (_, "/latest/meta-data/iam/security-credentials/node-role") => answer(200, DOCUMENT),
        _ => answer(404, ""),
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_tells_its_region_and_its_roles_credentials() {
    let (seen, transport) = fake::transport(|request, _| Some(metadata(request)));
    let config = Config::load(&variables(&[]), &*transport).await.unwrap();
    assert_eq!(config.region, "eu-central-1");
    let client = Client::new(config, transport, fake::environment());
    assert_eq!(client.credentials().await.unwrap().access_key_id, "PID");
    assert!(seen.lines().iter().all(|line| line.contains(" http://169.254.169.254/latest/")));
}

#[tokio::test(start_paused = true)]
async fn without_any_source_the_error_says_what_to_do() {
    let (_, transport) = fake::transport(|_, _| None);
    let off = variables(&[("AWS_EC2_METADATA_DISABLED", "true")]);
    let error = Config::load(&off, &*transport).await.unwrap_err();
    assert!(matches!(error, ConfigError::Region(_)));
    assert!(error.to_string().starts_with("no AWS region: set AWS_REGION"), "{error}");
    let config = Config::load(&variables(&[("AWS_REGION", "us-west-2")]), &*transport).await.unwrap();
    let client = Client::new(config, Arc::clone(&transport), fake::environment());
    let error = client.credentials().await.unwrap_err().to_string();
    assert!(
        error.starts_with("no AWS credentials: set AWS_ACCESS_KEY_ID") && error.ends_with("connection reset"),
        "{error}"
    );
    let call = client.s3().get("state", "k").await.unwrap_err().to_string();
    assert!(call.starts_with("GetObject: no AWS credentials"), "{call}");
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_be_are_refused() {
    let (_, transport) = fake::transport(|_, _| None);
    for (name, value, message) in [
        ("AWS_MAX_ATTEMPTS", "0", "AWS_MAX_ATTEMPTS is \"0\": give a number from 1 on"),
        ("AWS_REGION", "us west", "is not a region's name"),
    ] {
        let set = variables(&[("AWS_REGION", "us-west-2"), (name, value)]);
        let set = if name == "AWS_REGION" { variables(&[(name, value)]) } else { set };
        let error = Config::load(&set, &*transport).await.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn secrets_do_not_show_in_debug_output() {
    let shown = format!("{:?}", Credentials::fixed("AKID", "very secret"));
    assert!(shown.contains("AKID") && !shown.contains("very secret"), "{shown}");
}
