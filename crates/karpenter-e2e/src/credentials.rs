//! Credentials that are expired until they are renewed: a kubeconfig whose token stands in a file, as a kubelet writes it for a pod.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use kube::{Api, Client};
use serde_json::json;
use tempfile::TempDir;

/// Who the token speaks for.
const ACCOUNT: &str = "karpenter-e2e";

/// A kubeconfig and the file of its token.
pub(crate) struct Credentials {
    folder: TempDir,
}

impl Credentials {
    /// The server of a kubeconfig, with a token that it does not accept.
    pub(crate) fn expired(kubeconfig: &Path) -> anyhow::Result<Self> {
        let credentials = Self { folder: tempfile::tempdir()? };
        let mut config = Kubeconfig::read_from(kubeconfig).context("reading the kubeconfig")?;
        let token_file = Some(credentials.token().display().to_string());
        for user in &mut config.auth_infos {
            user.auth_info = Some(AuthInfo { token_file: token_file.clone(), ..AuthInfo::default() });
        }
        std::fs::write(credentials.token(), "expired")?;
        std::fs::write(credentials.kubeconfig(), serde_json::to_vec(&config)?)?;
        Ok(credentials)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    /// Writes a token of a service account that may do everything.
    pub(crate) async fn renew(&self, client: &Client) -> anyhow::Result<()> {
        let apply = PatchParams::apply("karpenter-e2e").force();
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "kube-system");
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
        accounts.patch(ACCOUNT, &apply, &Patch::Apply(account)).await?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "kube-system"}],
        });
        let bindings = Api::<ClusterRoleBinding>::all(client.clone());
        bindings.patch(ACCOUNT, &apply, &Patch::Apply(binding)).await?;
        let asked = TokenRequest::default();
        let answer = accounts.create_token_request(ACCOUNT, &PostParams::default(), &asked).await?;
        let token = answer.status.and_then(|status| status.token).context("the server grants no token")?;
        std::fs::write(self.token(), token).context("writing the token")
    }
}
