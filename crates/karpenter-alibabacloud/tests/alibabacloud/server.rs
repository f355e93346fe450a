//! An API server of ours with the definitions of Karpenter and of this provider.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use karpenter_alibabacloud::node_class::{Dialect, definitions};
use karpenter_api::{LabelRules, Provider, crds};
use karpenter_apiserver::{ApiServer, Options};
use serde_json::{Value, json};

pub(crate) struct Server(ApiServer);

impl Server {
    pub(crate) async fn new() -> Self {
        let server = Self(ApiServer::new(Options::default()));
        let rules = LabelRules::for_providers(&[Provider::AlibabaCloud]);
        for definition in definitions().into_iter().chain(crds(&rules)) {
            let mut crd = serde_json::to_value(definition).unwrap();
            crd["apiVersion"] = json!("apiextensions.k8s.io/v1");
            crd["kind"] = json!("CustomResourceDefinition");
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let (status, body) = server.post(path, &crd).await;
            assert_eq!(status, StatusCode::CREATED, "{body}");
        }
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

    /// Creates an object, or says why not. Fields that are not in the schema are refused, as `kubectl apply --validate=strict` asks.
    pub(crate) async fn apply(&self, object: &Value) -> Result<Value, String> {
        let kind = object["kind"].as_str().unwrap();
        let plural = format!("{}s", kind.to_lowercase()).replace("classs", "classes");
        let path =
            format!("/apis/{}/{plural}?fieldValidation=Strict", object["apiVersion"].as_str().unwrap());
        let (status, body) = self.post(&path, object).await;
        if status == StatusCode::CREATED {
            Ok(body)
        } else {
            Err(body["message"].as_str().unwrap_or_default().to_owned())
        }
    }

    /// Creates a class of a group, or says why not.
    pub(crate) async fn create(&self, dialect: Dialect, spec: &Value) -> Result<Value, String> {
        self.apply(&class(dialect, spec)).await
    }
}

/// A class of a group.
pub(crate) fn class(dialect: Dialect, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{}/v1alpha1", dialect.group()), "kind": "ECSNodeClass",
        "metadata": { "generateName": "class-" }, "spec": spec,
    })
}

/// The least a class of a group must say.
pub(crate) fn base(dialect: Dialect) -> Value {
    let image = match dialect {
        Dialect::ContainerService => json!({ "imageFamily": "acs:alibaba_cloud_linux_3_2104_lts_x64" }),
        Dialect::Handbook | Dialect::CloudPilot => json!({ "alias": "ContainerOS" }),
    };
    json!({
        "imageSelectorTerms": [image],
        "vSwitchSelectorTerms": [{ "tags": { "Name": "123-private*" } }],
        "securityGroupSelectorTerms": [{ "id": "sg-1" }],
    })
}

/// The least with fields replaced; null takes a field away.
pub(crate) fn with(dialect: Dialect, changes: &Value) -> Value {
    let mut spec = base(dialect);
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            spec.as_object_mut().unwrap().remove(name);
        } else {
            spec[name] = value.clone();
        }
    }
    spec
}
