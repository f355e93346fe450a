//! S3: a state store's list, get, put and delete.

use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;
use http::{Method, Request, Response};
use karpenter_aws_client::{Client, Condition, Config, Encryption, ErrorKind, PutObject};

use crate::fake::{self, answer};

/// A bucket with conditional writes and pages of two objects.
fn bucket() -> impl Fn(&Request<Bytes>, usize) -> Option<Response<Bytes>> {
    let objects: Mutex<BTreeMap<String, Bytes>> = Mutex::default();
    move |request, _| {
        let mut objects = objects.lock().unwrap();
        let path = request.uri().path().strip_prefix("/state").unwrap().trim_start_matches('/').to_owned();
        let missing = || answer(404, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>");
        Some(match *request.method() {
            Method::PUT => {
                let absent = request.headers().get("if-none-match").is_none();
                let same = request.headers().get("if-match").is_none_or(|etag| {
                    objects.get(&path).is_some_and(|content| etag.as_bytes() == content.as_ref())
                });
                if (!absent && objects.contains_key(&path)) || !same {
                    let body = "<Error><Code>PreconditionFailed</Code><Message>changed</Message></Error>";
                    return Some(answer(412, body));
                }
                objects.insert(path, request.body().clone());
                let mut response = answer(200, "");
                response.headers_mut().insert("etag", "\"e\"".parse().unwrap());
                response
            }
            Method::DELETE => {
                objects.remove(&path);
                answer(204, "")
            }
            _ if path.is_empty() => page(&objects, request.uri().query().unwrap()),
            _ => objects.get(&path).map_or_else(missing, |content| answer(200, content.clone())),
        })
    }
}

fn page(objects: &BTreeMap<String, Bytes>, query: &str) -> Response<Bytes> {
    let field = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)).unwrap_or("");
    let prefix = field("prefix=").replace("%2F", "/");
    let after = field("continuation-token=").replace("%2F", "/");
    let mut found = objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
    let page: Vec<_> = found.by_ref().take(2).collect();
    let truncated = found.next().is_some();
    let element = |(key, content): &(&String, &Bytes)| {
        let size = content.len();
        format!("<Contents><Key>{key}</Key><Size>{size}</Size><ETag>&quot;e&quot;</ETag></Contents>")
    };
    let contents: String = page.iter().map(element).collect();
    let next = page.last().map_or("", |(key, _)| key.as_str());
    answer(
        200,
        format!(
            "<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{contents}\
             <NextContinuationToken>{next}</NextContinuationToken></ListBucketResult>"
        ),
    )
}

fn object(key: &str, content: &'static str) -> PutObject {
    PutObject { bucket: "state".into(), key: key.into(), content: content.into(), ..PutObject::default() }
}

#[tokio::test(start_paused = true)]
async fn what_was_put_is_listed_read_and_deleted() {
    let (seen, client) = fake::client(bucket());
    let s3 = client.s3();
    for key in ["c/config", "c/instancegroup/b", "c/instancegroup/a", "c/instancegroup/c", "d/config"] {
        assert_eq!(s3.put(object(key, "text")).await.unwrap(), "\"e\"");
    }
    let listed = s3.list("state", "c/instancegroup/").await.unwrap();
    let keys: Vec<&str> = listed.iter().map(|object| object.key.as_str()).collect();
    assert_eq!(keys, ["c/instancegroup/a", "c/instancegroup/b", "c/instancegroup/c"]);
    assert_eq!((listed[0].size, listed[0].etag.as_str()), (4, "\"e\""));
    assert_eq!(s3.get("state", "c/config").await.unwrap().unwrap().content, "text");
    s3.delete("state", "c/config").await.unwrap();
    s3.delete("state", "c/config").await.unwrap();
    assert_eq!(s3.get("state", "c/config").await.unwrap(), None);
    assert!(seen.all().iter().all(|request| request.headers().contains_key("x-amz-content-sha256")));
}

#[tokio::test(start_paused = true)]
async fn a_write_can_depend_on_what_is_there() {
    let (seen, client) = fake::client(bucket());
    let s3 = client.s3();
    s3.put(PutObject { condition: Condition::Absent, ..object("k", "one") }).await.unwrap();
    let again = s3.put(PutObject { condition: Condition::Absent, ..object("k", "two") }).await.unwrap_err();
    assert_eq!((again.kind, again.code.as_str()), (ErrorKind::Precondition, "PreconditionFailed"));
    s3.put(PutObject { condition: Condition::Unchanged("one".into()), ..object("k", "two") }).await.unwrap();
    let late = PutObject { condition: Condition::Unchanged("one".into()), ..object("k", "three") };
    assert_eq!(s3.put(late).await.unwrap_err().kind, ErrorKind::Precondition);
    assert_eq!(s3.get("state", "k").await.unwrap().unwrap().content, "two");
    assert_eq!(seen.count(), 5, "a condition that does not hold is not tried again");
}

#[tokio::test(start_paused = true)]
async fn encryption_is_asked_for_by_header() {
    let (seen, client) = fake::client(bucket());
    let key = "arn:aws:kms:us-west-2:1:key/k".to_owned();
    for encryption in [Encryption::Aes256, Encryption::Kms(Some(key.clone()))] {
        client.s3().put(PutObject { encryption, ..object("k", "x") }).await.unwrap();
    }
    let header = |number: usize, name: &str| seen.all()[number].headers().get(name).cloned();
    assert_eq!(header(0, "x-amz-server-side-encryption").unwrap(), "AES256");
    assert_eq!(header(1, "x-amz-server-side-encryption").unwrap(), "aws:kms");
    assert_eq!(header(1, "x-amz-server-side-encryption-aws-kms-key-id").unwrap(), key.as_str());
}

/// A client for AWS itself, as far as addresses go.
async fn aws(
    answers: impl Fn(&Request<Bytes>, usize) -> Option<Response<Bytes>> + Send + Sync + 'static,
) -> (fake::Seen, Client) {
    let (seen, transport) = fake::transport(answers);
    let variables = karpenter_aws_client::Variables::from([
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "AKID"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ]);
    let config = Config::load(&variables, &*transport).await.unwrap();
    (seen, Client::new(config, transport, fake::environment()))
}

#[tokio::test(start_paused = true)]
async fn a_bucket_is_followed_to_its_region_and_found_there_ever_after() {
    let (seen, client) = aws(|request, _| {
        if request.uri().host().unwrap().contains("eu-west-1") {
            return Some(answer(200, "<ListBucketResult/>"));
        }
        let mut response =
            answer(301, "<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>");
        response.headers_mut().insert("x-amz-bucket-region", "eu-west-1".parse().unwrap());
        Some(response)
    })
    .await;
    client.s3().list("kops-state", "a b/").await.unwrap();
    client.s3().list("kops-state", "c").await.unwrap();
    let list = "?list-type=2&max-keys=1000&prefix=";
    assert_eq!(
        seen.lines(),
        [
            format!("GET https://kops-state.s3.us-east-1.amazonaws.com/{list}a%20b%2F"),
            format!("GET https://kops-state.s3.eu-west-1.amazonaws.com/{list}a%20b%2F"),
            format!("GET https://kops-state.s3.eu-west-1.amazonaws.com/{list}c"),
        ]
    );
    let signed = seen.all()[1].headers()["authorization"].to_str().unwrap().to_owned();
    assert!(signed.contains("/eu-west-1/s3/aws4_request"), "{signed}");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_with_dots_goes_into_the_path_and_keys_are_encoded() {
    let (seen, client) = aws(|_, _| Some(answer(200, "<ListBucketResult/>"))).await;
    client.s3().list("state.example.com", "").await.unwrap();
    client.s3().get("state.example.com", "c/é +x").await.unwrap();
    assert_eq!(
        seen.lines(),
        [
            "GET https://s3.us-east-1.amazonaws.com/state.example.com?list-type=2&max-keys=1000&prefix=",
            "GET https://s3.us-east-1.amazonaws.com/state.example.com/c/%C3%A9%20%2Bx",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_no_buckets_name_is_refused_before_anything_is_sent() {
    let (seen, client) = fake::client(bucket());
    for name in ["", "ab", "a/b", "evil.com#", "Upper", ".hidden"] {
        let error = client.s3().list(name, "").await.unwrap_err();
        assert!(error.message.contains("is not a bucket's name"), "{error}");
    }
    assert!(client.s3().get("state", "").await.unwrap_err().message.contains("must not be empty"));
    assert_eq!(seen.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_bucket_is_an_error_and_not_a_missing_object() {
    let (_, client) = fake::client(|_, _| {
        Some(answer(404, "<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>"))
    });
    let error = client.s3().get("state", "k").await.unwrap_err();
    assert_eq!(error.to_string(), "GetObject: NoSuchBucket: none");
    assert!(error.is_not_found());
}
