//! Which service and operation a request is for: all services share one port.

use bytes::Bytes;
use http::{Method, Request, header};

use crate::wire::signature::Claim;
use crate::wire::uri;

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Api {
    Ec2,
    Iam,
    Sts,
    Eks,
    EksAuth,
    Ssm,
    Sqs,
    Pricing,
    S3,
    ArcZonalShift,
    /// The endpoint beside a container that hands out credentials.
    PodIdentity,
    /// Ours: what a test or a person turns.
    Control,
}

const NAMES: [(&str, Api); 11] = [
    ("ec2", Api::Ec2),
    ("iam", Api::Iam),
    ("sts", Api::Sts),
    ("eks", Api::Eks),
    ("eks-auth", Api::EksAuth),
    ("ssm", Api::Ssm),
    ("sqs", Api::Sqs),
    ("pricing", Api::Pricing),
    ("api.pricing", Api::Pricing),
    ("s3", Api::S3),
    ("arc-zonal-shift", Api::ArcZonalShift),
];

const TARGETS: [(&str, Api); 3] =
    [("AmazonSSM", Api::Ssm), ("AmazonSQS", Api::Sqs), ("AWSPriceListService", Api::Pricing)];

const VERSIONS: [(&str, Api); 3] =
    [("2016-11-15", Api::Ec2), ("2010-05-08", Api::Iam), ("2011-06-15", Api::Sts)];

impl Api {
    /// The XML name space of its answers.
    pub(crate) fn name_space(self) -> &'static str {
        match self {
            Self::Ec2 => "http://ec2.amazonaws.com/doc/2016-11-15/",
            Self::Iam => "https://iam.amazonaws.com/doc/2010-05-08/",
            Self::Sts => "https://sts.amazonaws.com/doc/2011-06-15/",
            Self::S3 => "http://s3.amazonaws.com/doc/2006-03-01/",
            _ => "",
        }
    }

    fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, api)| *api)
    }
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) api: Api,
    pub(crate) operation: String,
}

impl Route {
    /// Finds the route by the signature, the target header, the host, the path and the form, in this order.
    pub(crate) fn find(request: &Request<Bytes>, claim: Option<&Claim>) -> Option<Self> {
        let path = request.uri().path();
        if path.starts_with("/_simulated") {
            return Some(Self { api: Api::Control, operation: path.to_owned() });
        }
        if path == "/v1/credentials" {
            return Some(Self { api: Api::PodIdentity, operation: "GetCredentials".to_owned() });
        }
        let target = request.headers().get("x-amz-target").and_then(|target| target.to_str().ok());
        let form = form(request);
        let field = |name: &str| form.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let by_target = || {
            let prefix = target?.split('.').next()?;
            TARGETS.iter().find(|(known, _)| *known == prefix).map(|(_, api)| *api)
        };
        let by_version = || {
            let version = field("Version")?;
            VERSIONS.iter().find(|(known, _)| *known == version).map(|(_, api)| *api)
        };
        let api = claim
            .and_then(|claim| Api::named(&claim.service))
            .or_else(by_target)
            .or_else(|| by_host(request))
            .or_else(|| by_path(path))
            .or_else(by_version)?;
        let operation = match api {
            Api::Ec2 | Api::Iam | Api::Sts => field("Action")?,
            Api::Ssm | Api::Sqs | Api::Pricing => target?.rsplit('.').next()?.to_owned(),
            _ => rest_operation(api, request)?.to_owned(),
        };
        Some(Self { api, operation })
    }
}

/// The parameters of a query protocol, from the body or the address.
pub(crate) fn form(request: &Request<Bytes>) -> Vec<(String, String)> {
    uri::pairs(&form_text(request), true)
}

/// The same, as it was sent.
pub(crate) fn form_text(request: &Request<Bytes>) -> String {
    let content_type = request.headers().get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    if content_type.is_some_and(|value| value.starts_with(b"application/x-www-form-urlencoded")) {
        String::from_utf8_lossy(request.body()).into_owned()
    } else {
        request.uri().query().unwrap_or("").to_owned()
    }
}

fn by_host(request: &Request<Bytes>) -> Option<Api> {
    let host = request.headers().get(header::HOST)?.to_str().ok()?;
    if host.starts_with("api.pricing.") {
        return Some(Api::Pricing);
    }
    Api::named(host.split('.').next()?)
}

fn by_path(path: &str) -> Option<Api> {
    let known = [("/clusters/", Api::Eks), ("/managedresources/", Api::ArcZonalShift)];
    known.iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, api)| *api)
}

fn rest_operation(api: Api, request: &Request<Bytes>) -> Option<&'static str> {
    let segments = request.uri().path().split('/').filter(|segment| !segment.is_empty()).count();
    match (api, request.method(), segments) {
        (Api::Eks, &Method::GET, 2) => Some("DescribeCluster"),
        (Api::Eks, &Method::GET, 1) => Some("ListClusters"),
        (Api::EksAuth, &Method::POST, _) => Some("AssumeRoleForPodIdentity"),
        (Api::ArcZonalShift, &Method::GET, _) => Some("GetManagedResource"),
        (Api::S3, &Method::GET, 0) => Some("ListBuckets"),
        (Api::S3, &Method::GET, 1) => Some("ListObjectsV2"),
        (Api::S3, &Method::PUT, 1) => Some("CreateBucket"),
        (Api::S3, &Method::GET, _) => Some("GetObject"),
        (Api::S3, &Method::HEAD, 1) => Some("HeadBucket"),
        (Api::S3, &Method::HEAD, _) => Some("HeadObject"),
        (Api::S3, &Method::PUT, _) => Some("PutObject"),
        (Api::S3, &Method::DELETE, _) => Some("DeleteObject"),
        _ => None,
    }
}
