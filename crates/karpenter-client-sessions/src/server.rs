//! Our server for one session, with role-based access control as on a real cluster.

use std::sync::Arc;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_apiserver::serve::{Identity, serve};
use karpenter_apiserver::{ApiServer, Authorization, Options, SystemEnvironment, User};
use karpenter_models::{Models, ModelsConfig};
use karpenter_runtime::Runtime;
use kube::Client;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What runs beside the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Machinery {
    /// Nothing: objects stay as they are written.
    None,
    /// The models of scheduler, kubelets and workload controllers.
    Models,
}

/// A running server; dropping it stops it.
pub(crate) struct Server {
    pub(crate) kubeconfig: String,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Starts a server on a free port of loopback.
pub(crate) async fn start(machinery: Machinery) -> Result<Server> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let identity = Identity::generate(&["127.0.0.1".to_owned()])?;
    let server = ApiServer::new(Options { authorization: Authorization::Rbac, ..Options::default() });
    let admin = identity.client("test-admin", Some("system:masters"))?;
    let encoded = |pem: &str| STANDARD.encode(pem);
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters:\n- name: test\n  cluster:\n    server: https://{address}\n    certificate-authority-data: {}\n\
         users:\n- name: test\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n\
         contexts:\n- name: test\n  context: {{cluster: test, user: test}}\n",
        encoded(&identity.authority_pem()),
        encoded(&admin.certificate_pem),
        encoded(&admin.key_pem),
    );
    let collecting = server.clone();
    let mut tasks = Vec::new();
    if machinery == Machinery::Models {
        let client = Client::new(server.acting_as(User::admin()), "default");
        let mut runtime = Runtime::new(client, Arc::new(SystemEnvironment));
        Models::new(ModelsConfig::default()).add_to(&mut runtime);
        tasks.push(tokio::spawn(runtime.run(std::future::pending())));
    }
    tasks.extend([
        tokio::spawn(async move {
            if let Err(error) = serve(server, listener, &identity).await {
                eprintln!("the server stopped: {error}");
            }
        }),
        tokio::spawn(async move { collecting.run_collector().await }),
    ]);
    Ok(Server { kubeconfig, tasks })
}
