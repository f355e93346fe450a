//! Fetches and keeps what machines need to join an ACK cluster: the attach script with its token, and the runtime of the cluster's pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_alibabacloud_client::cs::{DescribeClusterAttachScripts, DescribeClusterNodePools, NodePools};
use karpenter_alibabacloud_client::{Client, Error};
use tokio::sync::Mutex;

use crate::node_class::Architecture;
use crate::rights::Rights;

/// How long the token in a script works, and when a new one is fetched: machines that start late must still be let in.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24);
const RENEWAL: SignedDuration = SignedDuration::from_hours(12);
const RUNTIME_KEPT: SignedDuration = SignedDuration::from_mins(10);

/// What the script depends on. Two classes that differ in any of it have scripts of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScriptKey {
    pub(super) cluster: Arc<str>,
    pub(super) format_disk: bool,
    pub(super) architecture: Architecture,
}

/// A script, and from when on it is fetched anew.
#[derive(Clone)]
struct Script {
    text: Arc<str>,
    fetched: Timestamp,
}

/// A container runtime and its version.
pub(super) type Runtime = Arc<(String, String)>;
/// A cluster's runtime, if it says, and when it was asked.
type Asked = (Option<Runtime>, Timestamp);

/// Scripts by what they depend on. Callers that come while one is fetched wait for the same answer.
#[derive(Default)]
pub(super) struct AttachScripts {
    scripts: Mutex<BTreeMap<ScriptKey, Script>>,
    runtimes: Mutex<BTreeMap<Arc<str>, Asked>>,
}

impl AttachScripts {
    /// The script for machines of this kind.
    pub(super) async fn get(&self, client: &Client, key: &ScriptKey) -> Result<Arc<str>, Error> {
        let mut scripts = self.scripts.lock().await;
        let now = client.environment().now();
        let age = |script: &Script| now.duration_since(script.fetched);
        let kept = scripts.get(key).cloned();
        if let Some(script) = kept.as_ref().filter(|script| age(script) < RENEWAL) {
            return Ok(script.text.clone());
        }
        let request = DescribeClusterAttachScripts {
            cluster_id: key.cluster.to_string(),
            keep_instance_name: Some(true),
            format_disk: Some(key.format_disk),
            expired: Some(now.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX).as_second()),
            nodepool_id: None,
            arch: Some(key.architecture.label().to_owned()),
        };
        match client.call(&request).await {
            Ok(text) => {
                let text: Arc<str> = text.into();
                scripts.insert(key.clone(), Script { text: text.clone(), fetched: now });
                Ok(text)
            }
            // An old token that still works is better than none.
            Err(error) => match kept.filter(|script| age(script) < LIFETIME) {
                Some(script) => Ok(script.text),
                None => Err(error),
            },
        }
    }

    /// The runtime of the cluster's pools; `None` where nothing says, and then the script decides.
    pub(super) async fn runtime(
        &self,
        client: &Client,
        rights: &Rights,
        cluster: &Arc<str>,
    ) -> Option<Runtime> {
        let mut runtimes = self.runtimes.lock().await;
        let now = client.environment().now();
        if let Some((runtime, fetched)) = runtimes.get(cluster)
            && now.duration_since(*fetched) < RUNTIME_KEPT
        {
            return runtime.clone();
        }
        let answer = client.call(&DescribeClusterNodePools { cluster_id: cluster.to_string() }).await;
        let refused = rights.hear::<DescribeClusterNodePools, _>(&answer, now);
        let runtime = match &answer {
            Ok(pools) => runtime(pools).map(Arc::new),
            Err(error) => {
                if !refused {
                    tracing::warn!(
                        "the container runtime of cluster {cluster} is not known, so the attach script decides: {error}"
                    );
                }
                runtimes.get(cluster).and_then(|(runtime, _)| runtime.clone())
            }
        };
        runtimes.insert(cluster.clone(), (runtime.clone(), now));
        runtime
    }
}

/// The runtime of the default pool, else of the pool with most nodes.
fn runtime(pools: &NodePools) -> Option<(String, String)> {
    let of = |pool: &karpenter_alibabacloud_client::cs::NodePool| {
        let config = &pool.kubernetes_config;
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Some((given(&config.runtime)?, given(&config.runtime_version)?))
    };
    let default = pools.nodepools.iter().find(|pool| pool.nodepool_info.is_default).and_then(of);
    default.or_else(|| {
        let largest = pools
            .nodepools
            .iter()
            .filter(|pool| of(pool).is_some())
            .max_by_key(|pool| pool.status.healthy_nodes);
        largest.and_then(of)
    })
}

#[cfg(test)]
mod tests {
    use karpenter_alibabacloud_client::cs::{KubernetesConfig, NodePool, NodePoolInfo, NodePoolStatus};

    use super::*;

    fn pool(is_default: bool, nodes: i64, runtime: Option<&str>) -> NodePool {
        NodePool {
            nodepool_info: NodePoolInfo { is_default, ..Default::default() },
            status: NodePoolStatus { healthy_nodes: nodes },
            kubernetes_config: KubernetesConfig {
                runtime: runtime.map(str::to_owned),
                runtime_version: runtime.map(|_| "1".to_owned()),
            },
        }
    }

    #[test]
    fn the_default_pool_decides_about_the_runtime_then_the_largest() {
        let of = |pools: Vec<NodePool>| runtime(&NodePools { nodepools: pools }).map(|(name, _)| name);
        assert_eq!(
            of(vec![pool(false, 9, Some("docker")), pool(true, 0, Some("containerd"))]).as_deref(),
            Some("containerd")
        );
        assert_eq!(
            of(vec![pool(false, 1, Some("docker")), pool(false, 9, Some("containerd"))]).as_deref(),
            Some("containerd")
        );
        assert_eq!(of(vec![pool(true, 1, None)]), None);
    }
}
