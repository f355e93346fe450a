//! A state store in a bucket.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use karpenter_aws_client::{Client, PutObject};

use super::{StateStore, StoreError};

/// A bucket, or a folder in one, as a state store (`s3://bucket/path`).
pub struct S3Store {
    client: Client,
    bucket: String,
    /// What keys begin with: empty, or a path that ends in a slash.
    prefix: String,
    url: String,
}

impl S3Store {
    /// The store at a URL.
    ///
    /// # Errors
    ///
    /// The URL names no bucket.
    pub fn new(client: Client, url: &str) -> Result<Self, StoreError> {
        let wrong = || StoreError::Url(url.to_owned());
        let place = url.strip_prefix("s3://").ok_or_else(wrong)?.trim_end_matches('/');
        let (bucket, folder) = place.split_once('/').unwrap_or((place, ""));
        if bucket.is_empty() {
            return Err(wrong());
        }
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        Ok(Self { client, bucket: bucket.to_owned(), prefix, url: url.trim_end_matches('/').to_owned() })
    }

    fn key(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    fn failed(&self, action: &'static str, path: &str, reason: &impl ToString) -> StoreError {
        StoreError::Failed {
            action,
            url: self.url.clone(),
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

impl StateStore for S3Store {
    fn url(&self) -> &str {
        &self.url
    }

    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        async move {
            let found = self.client.s3().get(&self.bucket, &self.key(path)).await;
            let Some(object) = found.map_err(|error| self.failed("reading", path, &error))? else {
                return Ok(None);
            };
            let text = String::from_utf8(object.content.to_vec());
            text.map(Some).map_err(|error| self.failed("reading", path, &error))
        }
        .boxed()
    }

    fn list<'a>(&'a self, folder: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        async move {
            let prefix = self.key(&format!("{folder}/"));
            let listed = self.client.s3().list(&self.bucket, &prefix).await;
            let objects = listed.map_err(|error| self.failed("listing", folder, &error))?;
            let mut names: Vec<String> = objects
                .iter()
                .filter_map(|object| object.key.strip_prefix(&prefix))
                .map(|rest| rest.split('/').next().unwrap_or(rest).to_owned())
                .filter(|name| !name.is_empty())
                .collect();
            names.sort_unstable();
            names.dedup();
            Ok(names)
        }
        .boxed()
    }

    fn put<'a>(&'a self, path: &'a str, text: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let object = PutObject {
                bucket: self.bucket.clone(),
                key: self.key(path),
                content: text.to_owned().into(),
                ..PutObject::default()
            };
            let written = self.client.s3().put(object).await;
            written.map(drop).map_err(|error| self.failed("writing", path, &error))
        }
        .boxed()
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let deleted = self.client.s3().delete(&self.bucket, &self.key(path)).await;
            deleted.map_err(|error| self.failed("removing", path, &error))
        }
        .boxed()
    }
}
