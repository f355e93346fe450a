//! The version of Kubernetes that the cluster runs: images are published for it.

use std::sync::{Arc, PoisonError, RwLock};

use crate::account::Account;

/// Where the version is asked for.
#[derive(Clone)]
pub enum VersionSource {
    /// EKS, about the cluster of this name.
    Eks(String),
    /// The API server.
    ApiServer(kube::Client),
}

/// The version, as in `1.34`, once it is known. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct KubernetesVersion {
    version: Arc<RwLock<Option<String>>>,
}

impl KubernetesVersion {
    /// The version; `None` until it was asked for.
    pub fn get(&self) -> Option<String> {
        self.version.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, version: String) {
        let mut known = self.version.write().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() != Some(&version) {
            tracing::info!("the cluster runs Kubernetes {version}");
            *known = Some(version);
        }
    }

    /// Asks for the version.
    ///
    /// # Errors
    /// A sentence about what went wrong; the version that was known stays.
    pub async fn refresh(&self, account: &Account, source: &VersionSource) -> Result<(), String> {
        let version = match source {
            VersionSource::Eks(cluster) => {
                let cluster = account.client().eks().describe_cluster(cluster).await;
                cluster.map_err(|error| format!("the cluster's version is not known: {error}"))?.version
            }
            VersionSource::ApiServer(client) => {
                let info = client.apiserver_version().await;
                let info =
                    info.map_err(|error| format!("the API server does not say its version: {error}"))?;
                version(&info.major, &info.minor)
            }
        };
        if !is_supported(&version) {
            tracing::warn!("Kubernetes {version} was not tried with this version of Karpenter");
        }
        self.set(version);
        Ok(())
    }
}

/// The version from what an API server says; providers put a plus sign behind the minor version.
fn version(major: &str, minor: &str) -> String {
    format!("{major}.{}", minor.trim_end_matches('+'))
}

fn is_supported(version: &str) -> bool {
    let minor = version.strip_prefix("1.").and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| (26..=36).contains(&minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_api_servers_write_them() {
        let cases = [("1", "34", "1.34"), ("1", "34+", "1.34"), ("1", "9", "1.9")];
        for (major, minor, expected) in cases {
            assert_eq!(version(major, minor), expected);
        }
    }

    #[test]
    fn versions_that_were_tried_are_known() {
        for (version, supported) in
            [("1.25", false), ("1.26", true), ("1.36", true), ("1.37", false), ("2.30", false), ("", false)]
        {
            assert_eq!(is_supported(version), supported, "{version}");
        }
    }
}
