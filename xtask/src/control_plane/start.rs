//! Starting the control plane: certificates, ports, command lines, and when it is ready.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::process_files::{is_running, start, wait};
use super::{Component, Up};
use crate::process;

/// How long a server may take until it is ready on a busy machine.
const READY_WAIT: Duration = Duration::from_mins(3);

/// Users with a client certificate and a kubeconfig: file name, user, group.
const USERS: [(&str, &str); 3] = [
    ("admin", "test-admin/system:masters"),
    ("kube-controller-manager", "system:kube-controller-manager"),
    ("kube-scheduler", "system:kube-scheduler"),
];

/// One run: where its files and its programs are.
struct Run<'a> {
    recipe: &'a Path,
    rundir: PathBuf,
    programs: &'a Path,
}

/// Starts what is not running yet and returns the administrator's kubeconfig.
pub(super) fn up(recipe: &Path, programs: &Path, wish: &Up) -> Result<PathBuf> {
    fs::create_dir_all(&wish.rundir).with_context(|| format!("creating {}", wish.rundir.display()))?;
    let rundir = wish.rundir.canonicalize().context("finding the run folder")?;
    let run = Run { recipe, rundir, programs };
    if !is_running(&run.rundir, "kube-apiserver") {
        run.start_api(wish)?;
    }
    for component in &wish.with {
        if !is_running(&run.rundir, component.program()) {
            run.start_component(*component, wish)?;
        }
    }
    if wish.with.contains(&Component::KubeControllerManager) {
        // Pods are refused until their namespace has this account.
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        wait(&run.rundir, "kube-controller-manager", READY_WAIT, || run.answers(account))?;
    }
    Ok(run.path("admin.conf"))
}

impl Run<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.rundir.join(name)
    }

    /// An argument `flag=<path of name in the run folder>`.
    fn flag(&self, flag: &str, name: &str) -> String {
        format!("{flag}={}", self.path(name).display())
    }

    fn server(&self, name: &str) -> Command {
        Command::new(self.programs.join(name))
    }

    /// Whether the API server answers a path with success.
    fn answers(&self, path: &str) -> bool {
        let mut command = self.server("kubectl");
        command.arg(self.flag("--kubeconfig", "admin.conf")).args(["get", "--raw", path]);
        process::output(&mut command).is_ok()
    }

    /// Starts etcd and kube-apiserver with an empty store.
    fn start_api(&self, wish: &Up) -> Result<()> {
        let data = self.path("etcd");
        if data.exists() {
            fs::remove_dir_all(&data).context("removing the state of an earlier run")?;
        }
        let [client, peer, api] = free_ports()?;
        self.write_identities(api)?;
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut etcd = self.server("etcd");
        etcd.args(["--name", "test", "--log-level", "warn", "--quota-backend-bytes", "8589934592"])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("test={peer}"), &self.flag("--data-dir", "etcd")]);
        if !wish.fsync {
            etcd.arg("--unsafe-no-fsync");
        }
        start(&self.rundir, &mut etcd)?;
        start(&self.rundir, self.api_server(&client, api).args(&wish.api_flag))?;
        wait(&self.rundir, "kube-apiserver", READY_WAIT, || self.answers("/readyz"))
    }

    fn api_server(&self, etcd: &str, port: u16) -> Command {
        let mut command = self.server("kube-apiserver");
        command
            .args(["--etcd-servers", etcd, "--secure-port", &port.to_string()])
            // No endpoints are kept for a loopback address.
            .args([
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
            ])
            .arg(self.flag("--tls-cert-file", "keys/apiserver.crt"))
            .arg(self.flag("--tls-private-key-file", "keys/apiserver.key"))
            .arg(self.flag("--client-ca-file", "keys/ca.crt"))
            .arg(self.flag("--service-account-key-file", "keys/sa.key"))
            .arg(self.flag("--service-account-signing-key-file", "keys/sa.key"))
            .args(["--service-account-issuer=https://kubernetes.default.svc"])
            .args(["--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC"])
            .args(["--allow-privileged=true", "--profiling=false", "--v=1"]);
        command
    }

    /// Starts one of the servers beside the API. Client rate limits are raised, so that they are not what is measured.
    fn start_component(&self, component: Component, wish: &Up) -> Result<()> {
        let [port] = free_ports()?;
        let mut command = self.server(component.program());
        match component {
            Component::KubeControllerManager => {
                command
                    .arg(self.flag("--kubeconfig", "kube-controller-manager.conf"))
                    .arg(self.flag("--service-account-private-key-file", "keys/sa.key"))
                    .arg(self.flag("--root-ca-file", "keys/ca.crt"))
                    .args(["--leader-elect=false", "--use-service-account-credentials=true"])
                    .args(["--kube-api-qps=1000", "--kube-api-burst=2000", "--v=1"])
                    .args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")]);
            }
            Component::KubeScheduler => {
                let more = &wish.scheduler_configuration;
                fs::write(self.path("scheduler.yaml"), self.scheduler_configuration(more))
                    .context("writing the scheduler's configuration")?;
                command.arg(self.flag("--config", "scheduler.yaml")).args([
                    "--bind-address=127.0.0.1",
                    &format!("--secure-port={port}"),
                    "--v=1",
                ]);
            }
            Component::Kwok => {
                let config = wish.kwok.clone().unwrap_or_else(|| self.recipe.join("kwok.yaml"));
                command
                    .arg(self.flag("--kubeconfig", "admin.conf"))
                    .arg(format!("--config={}", config.display()))
                    .args(["--manage-all-nodes=false"])
                    .args(["--manage-nodes-with-label-selector=kwok.x-k8s.io/node=fake"])
                    .arg("--node-ip=127.0.0.1");
                let port = wish.kubelet_port.unwrap_or(port);
                command.arg(format!("--server-address=127.0.0.1:{port}"));
                if wish.kubelet_port.is_some() {
                    command
                        .arg(format!("--node-port={port}"))
                        .arg(self.flag("--tls-cert-file", "keys/apiserver.crt"))
                        .arg(self.flag("--tls-private-key-file", "keys/apiserver.key"));
                }
            }
        }
        start(&self.rundir, &mut command)?;
        Ok(())
    }

    fn scheduler_configuration(&self, more: &str) -> String {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\n\
             kind: KubeSchedulerConfiguration\n\
             leaderElection: {{leaderElect: false}}\n\
             clientConnection: {{kubeconfig: {}, qps: 1000, burst: 2000}}\n{more}",
            quoted(&self.path("kube-scheduler.conf"))
        )
    }

    /// Writes certificates and one kubeconfig per user.
    fn write_identities(&self, port: u16) -> Result<()> {
        let keys = self.path("keys");
        fs::create_dir_all(&keys).context("creating the folder of keys")?;
        let mut command = self.server("keys");
        command.arg(&keys).args(USERS.map(|(name, user)| format!("{name}={user}")));
        if !process::succeeds(&mut command)? {
            bail!("could not write the certificates into {}", keys.display());
        }
        for (name, _) in USERS {
            fs::write(self.path(&format!("{name}.conf")), kubeconfig(&keys, name, port))
                .context("writing a kubeconfig")?;
        }
        Ok(())
    }
}

fn kubeconfig(keys: &Path, user: &str, port: u16) -> String {
    let key = |name: &str| quoted(&keys.join(name));
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         current-context: test\n\
         clusters: [{{name: test, cluster: {{server: \"https://127.0.0.1:{port}\", certificate-authority: {}}}}}]\n\
         users: [{{name: {user}, user: {{client-certificate: {}, client-key: {}}}}}]\n\
         contexts: [{{name: test, context: {{cluster: test, user: {user}}}}}]\n",
        key("ca.crt"),
        key(&format!("{user}.crt")),
        key(&format!("{user}.key")),
    )
}

/// A path as a text of YAML.
fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.display().to_string()).to_string()
}

/// Ports nobody listens on now; all are held until all are known, so that they differ.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("finding a free port")?;
        *port = listener.local_addr().context("finding a free port")?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ() {
        let [a, b, c] = free_ports().expect("loopback has ports");
        assert!(a != b && b != c && a != c);
    }

    #[test]
    fn a_kubeconfig_names_the_users_own_files() {
        let text = kubeconfig(Path::new("keys"), "admin", 6443);
        assert!(text.contains("client-certificate: \"keys/admin.crt\""), "{text}");
        assert!(text.contains("https://127.0.0.1:6443"), "{text}");
    }
}
