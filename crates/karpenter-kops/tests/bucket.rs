//! Clusters in a bucket, and answers of EC2 and SSM. AWS is played in this process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response};
use karpenter_aws_client::{Client, Config, Credentials, Source, TransportError};
use karpenter_environment::SimulatedEnvironment;
use karpenter_kops::{Change, Questions, S3Store, StateStore as _, StoreError, ask, read_cluster, write_all};

type Objects = Arc<Mutex<BTreeMap<String, String>>>;

fn client<F>(answer: F) -> Client
where
    F: Fn(&Request<Bytes>) -> (u16, String) + Send + Sync + 'static,
{
    let transport = move |request: Request<Bytes>| {
        let (status, body) = answer(&request);
        let response = Response::builder().status(status).body(Bytes::from(body)).unwrap();
        Box::pin(std::future::ready(Ok::<_, TransportError>(response)))
            as futures::future::BoxFuture<'static, _>
    };
    let environment = SimulatedEnvironment::new(7, "2026-11-17T06:00:00Z".parse().unwrap());
    let keys = Source::Keys(Credentials::fixed("AKID", "secret"));
    Client::new(Config::at("http://cloud", "us-west-2", keys), Arc::new(transport), Arc::new(environment))
}

/// A bucket named `state`.
fn bucket(objects: &Objects, request: &Request<Bytes>) -> (u16, String) {
    let mut objects = objects.lock().unwrap();
    let key = request.uri().path().trim_start_matches("/state").trim_start_matches('/').to_owned();
    match *request.method() {
        Method::PUT => {
            objects.insert(key, String::from_utf8(request.body().to_vec()).unwrap());
            (200, String::new())
        }
        Method::DELETE => {
            objects.remove(&key);
            (204, String::new())
        }
        _ if key.is_empty() => {
            let query = request.uri().query().unwrap_or_default();
            let prefix =
                query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap().replace("%2F", "/");
            let keys = objects.keys().filter(|key| key.starts_with(&prefix));
            let items = keys.map(|key| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>"));
            let items = items.collect::<Vec<_>>().concat();
            (200, format!("<ListBucketResult><IsTruncated>false</IsTruncated>{items}</ListBucketResult>"))
        }
        _ => match objects.get(&key) {
            Some(text) => (200, text.clone()),
            None => (404, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>".to_owned()),
        },
    }
}

fn store(objects: &Objects, url: &str) -> S3Store {
    let objects = objects.clone();
    S3Store::new(client(move |request| bucket(&objects, request)), url).unwrap()
}

#[tokio::test]
async fn a_cluster_in_a_bucket_is_read_and_written() {
    let objects: Objects = Arc::default();
    for (key, text) in [
        ("stores/one/c.example.com/config", "cluster"),
        ("stores/one/c.example.com/instancegroup/b", "second"),
        ("stores/one/c.example.com/instancegroup/a", "first"),
        ("stores/one/c.example.com.old/config", "other"),
    ] {
        objects.lock().unwrap().insert(key.to_owned(), text.to_owned());
    }
    let store = store(&objects, "s3://state/stores/one/");
    let stored = read_cluster(&store, "c.example.com").await.unwrap();
    let texts: Vec<&str> = stored.objects.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["cluster", "first", "second"]);
    assert_eq!(store.list("c.example.com").await.unwrap(), ["config", "instancegroup"]);
    let path = "c.example.com/instancegroup/c".to_owned();
    let changes = [Change { path, before: None, after: "third".to_owned() }];
    write_all(&store, &changes).await.unwrap();
    assert_eq!(objects.lock().unwrap()["stores/one/c.example.com/instancegroup/c"], "third");
    assert!(matches!(write_all(&store, &changes).await, Err(StoreError::Changed(_))));
    assert!(matches!(read_cluster(&store, "none").await, Err(StoreError::Missing(..))));
}

#[test]
fn a_store_needs_a_bucket() {
    let client = client(|_| (500, String::new()));
    assert!(S3Store::new(client.clone(), "s3:///path").is_err());
    assert!(S3Store::new(client, "gs://bucket").is_err());
}

#[tokio::test]
async fn ec2_and_ssm_answer_what_is_asked() {
    let client = client(|request| {
        let body = String::from_utf8_lossy(request.body()).into_owned();
        let image = |id: &str, date: &str| {
            format!(
                "<item><imageId>{id}</imageId><name>base</name><imageOwnerId>1</imageOwnerId><architecture>x86_64</architecture>\
                 <rootDeviceName>/dev/{id}</rootDeviceName><creationDate>{date}</creationDate></item>"
            )
        };
        let images = |items: String| {
            format!("<DescribeImagesResponse><imagesSet>{items}</imagesSet></DescribeImagesResponse>")
        };
        if body.contains("Action=DescribeInstanceTypes") {
            let machine = "<item><instanceType>m5.large</instanceType><processorInfo><supportedArchitectures>\
                           <item>x86_64</item></supportedArchitectures></processorInfo></item>";
            (
                200,
                format!(
                    "<DescribeInstanceTypesResponse><instanceTypeSet>{machine}</instanceTypeSet></DescribeInstanceTypesResponse>"
                ),
            )
        } else if body.contains("Action=DescribeImages") && body.contains("base-") {
            (
                200,
                images(
                    image("ami-1", "2026-01-01T00:00:00.000Z") + &image("ami-2", "2026-02-01T00:00:00.000Z"),
                ),
            )
        } else if body.contains("Action=DescribeImages") && body.contains("ami-9") {
            (200, images(image("ami-9", "2026-01-01T00:00:00.000Z")))
        } else if body.contains("Action=DescribeImages") {
            (200, images(String::new()))
        } else {
            (200, r#"{"Parameter": {"Name": "/p", "Value": "ami-9", "Version": 1}}"#.to_owned())
        }
    });
    let images = ["base-*", "ssm:/p", "ami-gone"].map(str::to_owned).into();
    let machine_types = ["m5.large", "m5.odd", "m5.large,c5.large"].map(str::to_owned).into();
    let answers = ask(&client, &Questions { images, machine_types, ..Questions::default() }).await.unwrap();
    let device = |name: &str| answers.images[name].as_ref().map(|image| image.root_device_name.as_str());
    assert_eq!(device("base-*"), Ok("/dev/ami-2"));
    assert_eq!(device("ssm:/p"), Ok("/dev/ami-9"));
    assert!(device("ami-gone").is_err());
    assert_eq!(answers.machine_types.keys().collect::<Vec<_>>(), ["m5.large"]);
}
