//! What kOps keeps of one cluster in a state store.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::{StateStore, StoreError, checked};
use crate::generate::Scripts;

/// Requests to a store under way at once: enough to read a thousand objects of S3 in well under a second.
const REQUESTS_MAX: usize = 32;

/// The texts of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// `config` and the groups, each with its path below the store.
    pub objects: Vec<(String, String)>,
    /// The version of kOps that updated the cluster last, if one did.
    pub kops_version: Option<String>,
}

/// Reads the cluster and its groups; groups come by name.
///
/// # Errors
///
/// There is no such cluster, or the store fails.
pub async fn read_cluster(store: &dyn StateStore, cluster: &str) -> Result<Stored, StoreError> {
    let cluster = checked(cluster)?;
    let folder = format!("{cluster}/instancegroup");
    let config = format!("{cluster}/config");
    let Some(text) = store.get(&config).await? else {
        let advice = "check --name and --state, or KOPS_STATE_STORE";
        return Err(StoreError::Missing(format!("{}/{config}", store.url()), advice));
    };
    let paths = store.list(&folder).await?.into_iter().map(|name| format!("{folder}/{name}"));
    let groups: Vec<(String, String)> = stream::iter(paths)
        .map(|path| async move {
            let text = store.get(&path).await?;
            Ok::<_, StoreError>(text.map(|text| (path, text)))
        })
        .buffered(REQUESTS_MAX)
        .try_filter_map(|found| async move { Ok(found) })
        .try_collect()
        .await?;
    let kops_version = store.get(&format!("{cluster}/kops-version.txt")).await?;
    Ok(Stored {
        objects: [(config, text)].into_iter().chain(groups).collect(),
        kops_version: kops_version.map(|version| version.trim().to_owned()),
    })
}

/// Reads the bootstrap scripts of groups.
///
/// # Errors
///
/// A script is missing: the error names its path.
pub async fn read_scripts(
    store: &dyn StateStore,
    cluster: &str,
    groups: &[String],
) -> Result<Scripts, StoreError> {
    let cluster = checked(cluster)?;
    stream::iter(groups)
        .map(|group| async move {
            let path = format!("{cluster}/igconfig/node/{}/nodeupscript.sh", checked(group)?);
            let script = store.get(&path).await?;
            let missing = || {
                let advice = "run kops update cluster first, or give --bootstrap-scripts";
                StoreError::Missing(format!("{}/{path}", store.url()), advice)
            };
            Ok((group.clone(), script.ok_or_else(missing)?))
        })
        .buffered(REQUESTS_MAX)
        .try_collect()
        .await
}
