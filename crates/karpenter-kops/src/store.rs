//! Where kOps keeps its clusters: state stores.
//!
//! A store is a tree of named texts; everything of a cluster lies below the cluster's name. Reading is all that
//! `generate` needs. What `create` changes is written as one [`write_all`]: either every text is changed, or none.

mod files;
mod inventory;
mod s3;

use std::fmt::{self, Display, Formatter};

use futures::future::BoxFuture;

pub use files::FileStore;
pub use inventory::{Stored, read_cluster, read_scripts};
pub use s3::S3Store;

/// A tree of named texts.
pub trait StateStore: Send + Sync {
    /// How the store is named, for errors: its URL without a slash at the end.
    fn url(&self) -> &str;

    /// Reads a text; `None` when there is none of this name.
    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>>;

    /// Lists the names directly below a folder, in the order of their bytes.
    fn list<'a>(&'a self, folder: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;

    /// Writes a text; whoever reads meanwhile sees the old one or the new one.
    fn put<'a>(&'a self, path: &'a str, text: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes a text.
    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// A store that does not answer, or a name it does not have.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store could not do what was asked.
    #[error("{action} {url}/{path} failed: {reason}")]
    Failed {
        /// What was tried.
        action: &'static str,
        /// The store.
        url: String,
        /// Below the store.
        path: String,
        /// What the store said.
        reason: String,
    },
    /// Something that has to be there is not.
    #[error("there is no {0}: {1}")]
    Missing(String, &'static str),
    /// Somebody else wrote since we read.
    #[error("{0} has changed since it was read: nothing was written, run the command again")]
    Changed(String),
    /// A name that leads out of the store.
    #[error("{0:?} is no name of a cluster or an InstanceGroup")]
    Name(String),
    /// A URL of another kind.
    #[error("{0:?} is no state store: give file:///path or s3://bucket/path")]
    Url(String),
}

/// A text to be written, and what stood there when the decision was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Below the store.
    pub path: String,
    /// The text that was read; `None` when there was none.
    pub before: Option<String>,
    /// The text to write.
    pub after: String,
}

impl Display for Change {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let verb = if self.before.is_some() { "changed" } else { "created" };
        write!(formatter, "{} {verb}", self.path)
    }
}

/// Writes all changes or none: what was written before a failure is put back.
///
/// # Errors
///
/// A text is not what it was when it was read, or the store fails.
pub async fn write_all(store: &dyn StateStore, changes: &[Change]) -> Result<(), StoreError> {
    for change in changes {
        if store.get(&change.path).await? != change.before {
            return Err(StoreError::Changed(format!("{}/{}", store.url(), change.path)));
        }
    }
    for (index, change) in changes.iter().enumerate() {
        if let Err(error) = store.put(&change.path, &change.after).await {
            for written in changes[..index].iter().rev() {
                match &written.before {
                    Some(text) => store.put(&written.path, text).await?,
                    None => store.delete(&written.path).await?,
                }
            }
            return Err(error);
        }
    }
    Ok(())
}

/// A name of kOps that is used as part of a path.
fn checked(name: &str) -> Result<&str, StoreError> {
    let is_name = !name.is_empty()
        && !name.starts_with('.')
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "-._".contains(character));
    if is_name { Ok(name) } else { Err(StoreError::Name(name.to_owned())) }
}
