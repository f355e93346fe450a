//! Objects in buckets, as far as a state store needs them: list, get, put, delete.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use karpenter_transport::{Element, encoding};

use crate::client::{Call, Client, Failure, TIMEOUT};
use crate::endpoint::Service;
use crate::error::{Error, ErrorKind};

/// S3.
pub struct S3<'a> {
    client: &'a Client,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSummary {
    /// Its key.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// What changes with its content.
    pub etag: String,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its bytes.
    pub content: Bytes,
    /// What changes with its content.
    pub etag: String,
}

/// When an object may be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    #[default]
    None,
    /// Only where there is none yet.
    Absent,
    /// Only over the content with this etag.
    Unchanged(String),
}

/// Who encrypts an object at rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// As the bucket says.
    #[default]
    BucketDefault,
    /// S3 with its own keys.
    Aes256,
    /// S3 with a key of KMS; `None` is the account's key for S3.
    Kms(Option<String>),
}

/// An object to write.
#[derive(Clone, Debug, Default)]
pub struct PutObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The bytes.
    pub content: Bytes,
    /// When it may be written.
    pub condition: Condition,
    /// Who encrypts it.
    pub encryption: Encryption,
}

const PAGE: &str = "1000";

impl Client {
    /// S3.
    pub fn s3(&self) -> S3<'_> {
        S3 { client: self }
    }
}

impl S3<'_> {
    /// All objects whose keys start with `prefix`, in the order of their keys.
    ///
    /// # Errors
    /// When a page cannot be had.
    pub async fn list(&self, bucket: &str, prefix: &str) -> Result<Vec<ObjectSummary>, Error> {
        const OPERATION: &str = "ListObjectsV2";
        let mut objects = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut query = vec![("list-type", "2"), ("max-keys", PAGE), ("prefix", prefix)];
            query.extend(token.as_deref().map(|token| ("continuation-token", token)));
            let request = BucketRequest::get(OPERATION, bucket, "", encoding::encode_pairs(query));
            let response = self.send(request).await.map_err(|failure| failure.error)?;
            let page = Page::read(OPERATION, response.body())?;
            objects.extend(page.objects);
            match page.next {
                Some(next) if token.as_ref() != Some(&next) => token = Some(next),
                _ => return Ok(objects),
            }
        }
    }

    /// The object at `key`; `None` if there is none.
    ///
    /// # Errors
    /// When it cannot be read, or when there is no such bucket.
    pub async fn get(&self, bucket: &str, key: &str) -> Result<Option<Object>, Error> {
        const OPERATION: &str = "GetObject";
        check_key(OPERATION, key)?;
        match self.send(BucketRequest::get(OPERATION, bucket, key, String::new())).await {
            Ok(response) => {
                let etag = etag(response.headers());
                Ok(Some(Object { content: response.into_body(), etag }))
            }
            Err(failure) if failure.error.code == "NoSuchKey" => Ok(None),
            Err(failure) => Err(failure.error),
        }
    }

    /// Writes an object and returns its etag.
    ///
    /// # Errors
    /// Of kind [`ErrorKind::Precondition`] when the condition does not hold; otherwise when it cannot be written.
    pub async fn put(&self, object: PutObject) -> Result<String, Error> {
        const OPERATION: &str = "PutObject";
        check_key(OPERATION, &object.key)?;
        let mut headers = Vec::new();
        let mut set = |name: HeaderName, value: &str| match HeaderValue::from_str(value) {
            Ok(value) => {
                headers.push((name, value));
                Ok(())
            }
            Err(_) => Err(Error::local(
                OPERATION,
                ErrorKind::Invalid,
                format!("{value:?} cannot be sent as {name}"),
            )),
        };
        match &object.condition {
            Condition::None => {}
            Condition::Absent => set(header::IF_NONE_MATCH, "*")?,
            Condition::Unchanged(etag) => set(header::IF_MATCH, etag)?,
        }
        match &object.encryption {
            Encryption::BucketDefault => {}
            Encryption::Aes256 => set(ENCRYPTION, "AES256")?,
            Encryption::Kms(key) => {
                set(ENCRYPTION, "aws:kms")?;
                if let Some(key) = key {
                    set(ENCRYPTION_KEY, key)?;
                }
            }
        }
        let request = BucketRequest {
            operation: OPERATION,
            method: Method::PUT,
            bucket: object.bucket,
            key: object.key,
            query: String::new(),
            headers,
            body: object.content,
        };
        let response = self.send(request).await.map_err(|failure| failure.error)?;
        Ok(etag(response.headers()))
    }

    /// Deletes an object; one that is not there is deleted already.
    ///
    /// # Errors
    /// When it cannot be deleted.
    pub async fn delete(&self, bucket: &str, key: &str) -> Result<(), Error> {
        const OPERATION: &str = "DeleteObject";
        check_key(OPERATION, key)?;
        let request = BucketRequest {
            method: Method::DELETE,
            ..BucketRequest::get(OPERATION, bucket, key, String::new())
        };
        self.send(request).await.map_err(|failure| failure.error)?;
        Ok(())
    }

    /// Sends a request to the region the bucket is in, which the first answer tells where we do not know it.
    async fn send(&self, request: BucketRequest) -> Result<Response<Bytes>, Box<Failure>> {
        check_bucket(request.operation, &request.bucket)?;
        let known = self.client.bucket_regions().get(&request.bucket).cloned();
        let region = known.unwrap_or_else(|| self.client.region().to_owned());
        let failure = match self.client.send(&self.call(&request, &region)).await {
            Ok(response) => return Ok(response),
            Err(failure) => failure,
        };
        let told = failure.headers.get(BUCKET_REGION).and_then(|region| region.to_str().ok());
        match told.filter(|told| *told != region) {
            Some(told) => {
                let told = told.to_owned();
                self.client.bucket_regions().insert(request.bucket.clone(), told.clone());
                self.client.send(&self.call(&request, &told)).await
            }
            None => Err(failure),
        }
    }

    fn call(&self, request: &BucketRequest, region: &str) -> Call {
        let endpoint = self.client.endpoint(Service::S3, region);
        let bucket = &request.bucket;
        let key = encoding::encode_path(&request.key);
        // A certificate covers one label before the service's name, so a bucket with dots goes into the path.
        let mut url = match endpoint.url.strip_prefix("https://") {
            Some(host) if !endpoint.custom && !bucket.contains('.') => {
                format!("https://{bucket}.{host}/{key}")
            }
            _ => format!("{}/{bucket}/{key}", endpoint.url),
        };
        if request.key.is_empty() && url.ends_with(&format!("/{bucket}/")) {
            url.pop();
        }
        if !request.query.is_empty() {
            url.push('?');
            url.push_str(&request.query);
        }
        Call {
            service: Service::S3,
            operation: request.operation,
            method: request.method.clone(),
            url,
            signing_region: endpoint.signing_region,
            headers: request.headers.clone(),
            body: request.body.clone(),
            timeout: TIMEOUT,
            retry: None,
        }
    }
}

const ENCRYPTION: HeaderName = HeaderName::from_static("x-amz-server-side-encryption");
const ENCRYPTION_KEY: HeaderName = HeaderName::from_static("x-amz-server-side-encryption-aws-kms-key-id");
const BUCKET_REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");

struct BucketRequest {
    operation: &'static str,
    method: Method,
    bucket: String,
    key: String,
    query: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

impl BucketRequest {
    fn get(operation: &'static str, bucket: &str, key: &str, query: String) -> Self {
        Self {
            operation,
            method: Method::GET,
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            query,
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }
}

/// One page of a list.
struct Page {
    objects: Vec<ObjectSummary>,
    next: Option<String>,
}

impl Page {
    fn read(operation: &'static str, body: &[u8]) -> Result<Self, Error> {
        let wrong = |message: String| Error::local(operation, ErrorKind::Invalid, message);
        let root =
            Element::parse(&String::from_utf8_lossy(body)).map_err(|error| wrong(error.to_string()))?;
        let objects: Option<Vec<ObjectSummary>> = root
            .children_named("Contents")
            .map(|object| {
                Some(ObjectSummary {
                    key: object.child_text("Key")?.to_owned(),
                    size: object.child_text("Size")?.parse().ok()?,
                    etag: object.child_text("ETag").unwrap_or("").to_owned(),
                })
            })
            .collect();
        let objects = objects.ok_or_else(|| wrong("the list holds an object without key or size".into()))?;
        let truncated = root.child_text("IsTruncated") == Some("true");
        let next = root.child_text("NextContinuationToken").filter(|_| truncated).map(str::to_owned);
        Ok(Self { objects, next })
    }
}

fn etag(headers: &HeaderMap) -> String {
    headers.get(header::ETAG).and_then(|etag| etag.to_str().ok()).unwrap_or("").to_owned()
}

/// The names S3 allows; anything else could lead elsewhere, since the name becomes part of the address.
fn check_bucket(operation: &'static str, bucket: &str) -> Result<(), Error> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    if (3..=255).contains(&bucket.len()) && bucket.bytes().all(allowed) && !bucket.starts_with('.') {
        return Ok(());
    }
    let message =
        format!("{bucket:?} is not a bucket's name: use 3 to 63 small letters, digits, dots and hyphens");
    Err(Error::local(operation, ErrorKind::Invalid, message))
}

fn check_key(operation: &'static str, key: &str) -> Result<(), Error> {
    if key.is_empty() {
        return Err(Error::local(operation, ErrorKind::Invalid, "the key of an object must not be empty"));
    }
    Ok(())
}
