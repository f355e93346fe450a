//! Retries, the clock, credentials that expire under way, and one exchange over a real socket.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use karpenter_aws_client::{Client, Config, ErrorKind, HttpTransport, RetryPolicy, TransportError};
use karpenter_environment::Environment as _;

use crate::fake::{self, answer};

const SLOW_DOWN: &str = "<Error><Code>SlowDown</Code><Message>slower</Message></Error>";

#[tokio::test(start_paused = true)]
async fn throttling_broken_lines_and_faults_are_tried_again_after_a_pause() {
    let (seen, client) = fake::client(|_, number| match number {
        0 => Some(answer(503, SLOW_DOWN)),
        1 => None,
        _ => Some(answer(200, "content")),
    });
    let clock = fake::environment();
    assert_eq!(client.s3().get("state", "k").await.unwrap().unwrap().content, "content");
    assert_eq!(seen.count(), 3);
    assert!(clock.now() > fake::start(), "there was a pause");
}

#[tokio::test(start_paused = true)]
async fn after_three_attempts_the_last_error_is_returned() {
    let (seen, client) = fake::client(|_, _| Some(answer(503, SLOW_DOWN)));
    let error = client.s3().get("state", "k").await.unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::Throttled, Some(503)));
    assert_eq!(seen.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_help_is_not_tried_again() {
    let (seen, client) = fake::client(|_, _| {
        Some(answer(403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"))
    });
    assert_eq!(client.s3().get("state", "k").await.unwrap_err().kind, ErrorKind::Unauthorized);
    assert_eq!(seen.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_always_fails_is_not_stormed() {
    let (seen, client) = fake::client(|_, _| Some(answer(500, "")));
    for _ in 0..200 {
        client.s3().get("state", "k").await.unwrap_err();
    }
    assert_eq!(seen.count(), 200 + 100, "the budget allows a hundred retries");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_is_given_up() {
    let transport = |_: http::Request<Bytes>| -> BoxFuture<'static, Result<Response<Bytes>, TransportError>> {
        Box::pin(std::future::pending())
    };
    let mut config = Config::at("http://cloud", "us-west-2", fake::keys());
    config.retry = RetryPolicy::once();
    let client = Client::new(config, Arc::new(transport), fake::environment());
    let error = client.s3().get("state", "k").await.unwrap_err();
    assert_eq!(error.to_string(), "GetObject: no answer within 60 seconds");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_clock_is_corrected_by_the_date_of_the_refusal() {
    let (seen, client) = fake::client(|request, _| {
        if request.headers()["x-amz-date"].to_str().unwrap().starts_with("20261117T09") {
            return Some(answer(200, "content"));
        }
        let mut response =
            answer(403, "<Error><Code>RequestTimeTooSkewed</Code><Message>skew</Message></Error>");
        response.headers_mut().insert("date", "Tue, 17 Nov 2026 09:00:00 GMT".parse().unwrap());
        Some(response)
    });
    client.s3().get("state", "k").await.unwrap();
    client.s3().get("state", "k").await.unwrap();
    assert_eq!(seen.count(), 3, "the correction is remembered");
}

#[tokio::test]
async fn requests_travel_over_a_socket() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                let path = request.uri().path().to_owned();
                let host = request.headers()["host"].to_str().unwrap().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let text = format!("{host}{path} {}", body.len());
                Ok::<_, Infallible>(
                    Response::builder().header("etag", text).body(Full::new(Bytes::new())).unwrap(),
                )
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    let transport = Arc::new(HttpTransport::new(None).unwrap());
    let config = Config::at(&format!("http://{address}/"), "us-west-2", fake::keys());
    let client = Client::new(config, transport, Arc::new(karpenter_environment::SystemEnvironment));
    for _ in 0..2 {
        let object = karpenter_aws_client::PutObject {
            bucket: "state".into(),
            key: "k".into(),
            content: "12345".into(),
            ..Default::default()
        };
        assert_eq!(client.s3().put(object).await.unwrap(), format!("{address}/state/k 5"));
    }
}
