//! Which objects of the kind EC2NodeClass the API server takes, and what it says to the others: a server of ours, with our definition.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use karpenter_apiserver::{ApiServer, Options};
use karpenter_aws::definition;
use serde_json::{Value, json};

struct Server(ApiServer);

impl Server {
    async fn new() -> Self {
        let server = Self(ApiServer::new(Options::default()));
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let mut crd = serde_json::to_value(definition()).unwrap();
        crd["apiVersion"] = json!("apiextensions.k8s.io/v1");
        crd["kind"] = json!("CustomResourceDefinition");
        let (status, body) = server.post(path, &crd).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        server
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = Bytes::from(body.to_string());
        let (parts, body) =
            self.0.answer(&Method::POST, &path.parse().unwrap(), &headers, &body).into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, serde_json::from_slice(&body).unwrap())
    }

    /// Creates a class, or says why not.
    async fn create(&self, spec: &Value) -> Result<Value, String> {
        let object = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": { "generateName": "class-" }, "spec": spec,
        });
        let (status, body) = self.post("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", &object).await;
        if status == StatusCode::CREATED {
            Ok(body)
        } else {
            Err(body["message"].as_str().unwrap().to_owned())
        }
    }
}

fn base() -> Value {
    json!({
        "amiSelectorTerms": [{ "alias": "al2023@latest" }],
        "subnetSelectorTerms": [{ "tags": { "Name": "123-private*" } }],
        "securityGroupSelectorTerms": [{ "tags": { "Name": "cluster-node" } }],
        "role": "cluster-karpenter-node-role",
    })
}

/// The base with fields replaced; null takes a field away.
fn with(changes: &Value) -> Value {
    let mut spec = base();
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            spec.as_object_mut().unwrap().remove(name);
        } else {
            spec[name] = value.clone();
        }
    }
    spec
}

fn volume(ebs: &Value) -> Value {
    json!({ "blockDeviceMappings": [{ "deviceName": "/dev/xvda", "ebs": ebs }] })
}

fn images(terms: &Value) -> Value {
    json!({ "amiSelectorTerms": terms, "amiFamily": "AL2023" })
}

#[tokio::test]
async fn classes_that_can_work_are_taken() {
    let server = Server::new().await;
    let accepted = [
        json!({}),
        json!({ "role": null, "instanceProfile": "profile" }),
        json!({ "amiFamily": "Custom" }),
        json!({ "amiFamily": "AL2023" }),
        images(&json!([{ "id": "ami-1" }, { "name": "my-*", "owner": "self" }, { "tags": { "a": "*" } }])),
        images(&json!([{ "ssmParameter": "/my/image" }])),
        json!({ "amiSelectorTerms": [{ "alias": "bottlerocket@v1.20.0" }] }),
        json!({ "amiSelectorTerms": [{ "alias": "windows2022@latest" }] }),
        // Only a list in which every term mixes is refused: upstream's rule, kept.
        json!({ "subnetSelectorTerms": [{ "id": "subnet-1", "tags": { "a": "b" } }, { "id": "subnet-2" }] }),
        json!({ "securityGroupSelectorTerms": [{ "name": "nodes" }, { "id": "sg-1" }] }),
        json!({ "capacityReservationSelectorTerms": [{ "id": "cr-1" }, { "instanceMatchCriteria": "open", "ownerID": "123456789012" }] }),
        json!({ "placementGroupSelector": { "id": "pg-1" } }),
        json!({ "tags": { "team": "data", "karpenter.sh/other": "x" } }),
        json!({ "kubelet": { "maxPods": 110, "anything": { "goes": [1, "two"] } } }),
        volume(
            &json!({ "volumeSize": "59000Gi", "volumeType": "gp3", "encrypted": true, "iops": 3000, "throughput": 125 }),
        ),
        volume(&json!({ "snapshotID": "snap-1", "volumeInitializationRate": 300 })),
        json!({ "networkInterfaces": [
            { "networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface" },
            { "networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only" },
            { "networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "efa-only" },
        ] }),
        json!({ "networkInterfaces": [] }),
        json!({ "connectionTracking": { "udpTimeout": 60 }, "cpuOptions": { "nestedVirtualization": "enabled" } }),
        json!({ "instanceStorePolicy": "RAID0", "detailedMonitoring": true, "ipPrefixCount": 0, "context": "x" }),
    ];
    for changes in accepted {
        let taken = server.create(&with(&changes)).await;
        assert!(taken.is_ok(), "{changes}: {taken:?}");
    }
}

#[tokio::test]
async fn the_server_fills_in_that_metadata_needs_a_token() {
    let server = Server::new().await;
    let defaults = json!({
        "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required",
    });
    assert_eq!(server.create(&base()).await.unwrap()["spec"]["metadataOptions"], defaults);
    let some = with(&json!({ "metadataOptions": { "httpPutResponseHopLimit": 2 } }));
    let mut expected = defaults;
    expected["httpPutResponseHopLimit"] = json!(2);
    assert_eq!(server.create(&some).await.unwrap()["spec"]["metadataOptions"], expected);
}

async fn refused(cases: &[(Value, &str)]) {
    let server = Server::new().await;
    for (changes, message) in cases {
        match server.create(&with(changes)).await {
            Ok(_) => panic!("{changes} was taken"),
            Err(said) => assert!(said.contains(message), "{changes}: {said}"),
        }
    }
}

#[tokio::test]
async fn selectors_that_select_nothing_or_contradict_themselves_are_refused() {
    let id_and_more = json!({ "id": "sg-1", "tags": { "a": "b" } });
    refused(&[
        (json!({ "subnetSelectorTerms": null }), "spec.subnetSelectorTerms: Required value"),
        (json!({ "subnetSelectorTerms": [] }), "subnetSelectorTerms cannot be empty"),
        (json!({ "subnetSelectorTerms": [{}] }), "expected at least one, got none, ['tags', 'id']"),
        (json!({ "subnetSelectorTerms": [{ "id": "subnet-1", "tags": { "a": "b" } }] }), "in a subnet selector term"),
        (json!({ "subnetSelectorTerms": [{ "id": "vpc-1" }] }), "should match 'subnet-[0-9a-z]+'"),
        (json!({ "subnetSelectorTerms": [{ "tags": { "a": "" } }] }), "empty tag keys or values aren't supported"),
        (json!({ "subnetSelectorTerms": [{ "tags": { "": "a" } }] }), "empty tag keys or values aren't supported"),
        (json!({ "securityGroupSelectorTerms": null }), "spec.securityGroupSelectorTerms: Required value"),
        (json!({ "securityGroupSelectorTerms": [] }), "securityGroupSelectorTerms cannot be empty"),
        (json!({ "securityGroupSelectorTerms": [{}] }), "expected at least one, got none, ['tags', 'id', 'name']"),
        (json!({ "securityGroupSelectorTerms": [id_and_more] }), "'id' is mutually exclusive"),
        (json!({ "securityGroupSelectorTerms": [{ "name": "n", "tags": { "a": "b" } }] }), "'name' is mutually exclusive"),
        (json!({ "capacityReservationSelectorTerms": [{ "ownerID": "123456789012" }] }), "['tags', 'id', 'instanceMatchCriteria']"),
        (json!({ "capacityReservationSelectorTerms": [{ "id": "cr-1", "instanceMatchCriteria": "open" }] }), "in a capacity reservation selector term"),
        (json!({ "capacityReservationSelectorTerms": [{ "instanceMatchCriteria": "closed" }] }), "supported values: \"open\", \"targeted\""),
        (json!({ "placementGroupSelector": {} }), "expected at least one, got none, ['name', 'id']"),
        (json!({ "placementGroupSelector": { "name": "n", "id": "pg-1" } }), "'name' and 'id' are mutually exclusive"),
    ])
    .await;
}

#[tokio::test]
async fn images_and_families_that_do_not_go_together_are_refused() {
    refused(&[
        (json!({ "amiSelectorTerms": null }), "spec.amiSelectorTerms: Required value"),
        (json!({ "amiSelectorTerms": [] }), "spec.amiSelectorTerms"),
        (images(&json!([{}])), "['tags', 'id', 'name', 'alias', 'ssmParameter']"),
        (images(&json!([{ "owner": "self" }])), "['tags', 'id', 'name', 'alias', 'ssmParameter']"),
        (images(&json!([{ "id": "ami-1" }, { "id": "ami-2", "name": "n" }])), "'id' is mutually exclusive"),
        (
            images(&json!([{ "alias": "al2023@latest", "owner": "self" }])),
            "combination of other fields in amiSelectorTerms",
        ),
        (
            images(&json!([{ "alias": "al2023@latest" }, { "id": "ami-1" }])),
            "combination of other amiSelectorTerms",
        ),
        (json!({ "amiSelectorTerms": [{ "alias": "al2023" }] }), "must match the format 'family@version'"),
        (json!({ "amiSelectorTerms": [{ "alias": "ubuntu@latest" }] }), "family is not supported"),
        (
            json!({ "amiSelectorTerms": [{ "alias": "windows2022@v1" }] }),
            "windows families may only specify version 'latest'",
        ),
        (
            json!({ "amiSelectorTerms": [{ "id": "ami-1" }] }),
            "must specify amiFamily if amiSelectorTerms does not contain an alias",
        ),
        (json!({ "amiFamily": "Ubuntu" }), "spec.amiFamily"),
        (
            json!({ "amiFamily": "Bottlerocket" }),
            "if set, amiFamily must be 'AL2023' or 'Custom' when using an AL2023 alias",
        ),
    ])
    .await;
    let families = ["AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025"];
    for family in families {
        let other = if family == "AL2" { "AL2023" } else { "AL2" };
        let alias = format!("{}@latest", family.to_lowercase());
        let changes = json!({ "amiFamily": other, "amiSelectorTerms": [{ "alias": alias }] });
        refused(&[(changes, &format!("if set, amiFamily must be '{family}' or 'Custom'"))]).await;
    }
}

#[tokio::test]
async fn identities_and_tags_that_are_not_the_users_to_set_are_refused() {
    let mut cases = vec![
        (json!({ "role": null }), "must specify exactly one of ['role', 'instanceProfile']"),
        (json!({ "instanceProfile": "p" }), "must specify exactly one of ['role', 'instanceProfile']"),
        (json!({ "role": "" }), "role cannot be empty"),
        (json!({ "role": null, "instanceProfile": "" }), "instanceProfile cannot be empty"),
        (json!({ "tags": { "": "x" } }), "empty tag keys aren't supported"),
        (
            json!({ "tags": { "kubernetes.io/cluster/c": "owned" } }),
            "restricted tag matching kubernetes.io/cluster/",
        ),
    ];
    for key in [
        "eks:eks-cluster-name",
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
        "karpenter.k8s.aws/ec2nodeclass",
    ] {
        cases.push((json!({ "tags": { key: "x" } }), "tag contains a restricted tag matching"));
    }
    refused(&cases).await;
}

#[tokio::test]
async fn devices_and_options_out_of_bounds_are_refused() {
    let interface = |card: i32, device: i32, kind: &str| json!({ "networkCardIndex": card, "deviceIndex": device, "interfaceType": kind });
    let primary = interface(0, 0, "interface");
    let root = json!({ "rootVolume": true, "ebs": { "volumeSize": "1Gi" } });
    refused(&[
        (volume(&json!({})), "snapshotID or volumeSize must be defined"),
        (volume(&json!({ "volumeSize": "59001Gi" })), "volumeSize"),
        (volume(&json!({ "volumeSize": "20" })), "volumeSize"),
        (volume(&json!({ "volumeSize": "20Gi", "volumeType": "gp4" })), "volumeType"),
        (volume(&json!({ "volumeSize": "20Gi", "volumeInitializationRate": 100 })), "snapshotID must be set when volumeInitializationRate is set"),
        (volume(&json!({ "snapshotID": "snap-1", "volumeInitializationRate": 301 })), "volumeInitializationRate"),
        (json!({ "blockDeviceMappings": [root, root] }), "must have only one blockDeviceMappings with rootVolume"),
        (json!({ "instanceStorePolicy": "RAID1" }), "instanceStorePolicy"),
        (json!({ "ipPrefixCount": -1 }), "ipPrefixCount"),
        (json!({ "networkInterfaces": [interface(1, 0, "interface")] }), "must include a primary interface"),
        (json!({ "networkInterfaces": [primary, primary] }), "must not have duplicate networkCardIndex and deviceIndex pairs"),
        (json!({ "networkInterfaces": [primary, interface(0, 1, "efa-only"), interface(0, 2, "efa-only")] }), "at most one efa device per network card"),
        (json!({ "networkInterfaces": [interface(0, 0, "efa")] }), "interfaceType"),
        (json!({ "metadataOptions": { "httpPutResponseHopLimit": 65 } }), "httpPutResponseHopLimit"),
        (json!({ "metadataOptions": { "httpTokens": "never" } }), "httpTokens"),
        (json!({ "connectionTracking": {} }), "at least one of tcpEstablishedTimeout"),
        (json!({ "connectionTracking": { "udpStreamTimeout": 30 } }), "udpStreamTimeout"),
        (json!({ "cpuOptions": { "nestedVirtualization": "maybe" } }), "nestedVirtualization"),
    ])
    .await;
}
