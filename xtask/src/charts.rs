//! `cargo xtask charts`: the Helm charts on a real API server, by real helm.
//!
//! They are rendered, installed, upgraded to the values of an upstream release, and removed. In between the controller lives a whole life with exactly the
//! rights of its ServiceAccount, and the API server's audit log says which of them it used: a refused call fails the run, and so does a right nobody needs.

mod audit;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::control_plane::{self, Component, Up};
use crate::parts::{Cases, Outcome};
use crate::process;
use crate::workspace::Workspace;

const PROGRAMS: [&str; 8] = [
    "keys",
    "etcd",
    "kube-apiserver",
    "kube-scheduler",
    "kube-controller-manager",
    "kubectl",
    "kwok",
    "helm",
];
/// Where the charts are installed: where upstream recommends it, and where the scenario's Lease is.
const NAMESPACE: &str = "kube-system";
/// Values of an upstream release, under upstream's names.
const UPSTREAM_VALUES: &str = "tests/charts/upstream-values.yaml";
/// Everything that can be switched on.
const ALL_VALUES: &str = "tests/charts/all-values.yaml";
/// The scenario in which the controller uses every right.
const SCENARIO: &str = "a_whole_life_under_leadership";
/// How long the webhook may take until the API server hears it.
const WEBHOOK_WAIT: Duration = Duration::from_mins(1);

/// What the API server writes down: every call of our accounts, without bodies.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [\"system:serviceaccount:kube-system:karpenter\", \"system:serviceaccount:kube-system:karpenter-webhook\"]
- level: None
";

pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    if control_plane::programs_named(workspace, &PROGRAMS)?.is_none() {
        return Ok(Outcome::from(true).note("not run: helm is built with Go, which is not installed"));
    }
    workspace.build(&["--bin", "karpenter", "--bin", "e2e-scenarios"])?;
    let rundir = std::env::temp_dir().join(format!("karpenter-charts-{}", std::process::id()));
    fs::create_dir_all(&rundir).with_context(|| format!("creating {}", rundir.display()))?;
    fs::write(rundir.join("audit.yaml"), AUDIT_POLICY).context("writing the audit policy")?;
    let path = |name: &str| rundir.join(name).display().to_string();
    let up = Up {
        rundir: rundir.clone(),
        with: vec![Component::KubeControllerManager, Component::KubeScheduler, Component::Kwok],
        api_flag: vec![
            format!("--audit-policy-file={}", path("audit.yaml")),
            format!("--audit-log-path={}", path("audit.log")),
        ],
        ..Up::default()
    };
    let outcome = control_plane::up(workspace, &up).and_then(|kubeconfig| {
        let programs = control_plane::programs(workspace)?;
        Ok(Charts { workspace, programs, kubeconfig, rundir: rundir.clone() }.play())
    });
    control_plane::down(&rundir)?;
    fs::remove_dir_all(&rundir).with_context(|| format!("removing {}", rundir.display()))?;
    outcome
}

struct Charts<'a> {
    workspace: &'a Workspace,
    programs: PathBuf,
    kubeconfig: PathBuf,
    rundir: PathBuf,
}

/// What is shown, and how.
type Step<'a> = (&'static str, fn(&Charts<'a>) -> Result<()>);

impl<'a> Charts<'a> {
    fn play(&self) -> Outcome {
        let steps: [Step<'a>; 8] = [
            ("the charts can be rendered with and without everything", Self::render),
            ("both charts can be installed", Self::install),
            ("the webhook warns through the real API server", Self::warn),
            ("the controller lives a whole life with the chart's rights", Self::live),
            ("no call was refused and no right is unused", Self::judge),
            ("an installation takes the values of an upstream release", Self::upgrade),
            ("nothing is left after helm uninstall", Self::uninstall),
            ("one chart installs everything on a fresh cluster", Self::install_alone),
        ];
        let mut cases = Cases::default();
        for (name, step) in steps {
            let begun = Instant::now();
            match step(self) {
                Ok(()) => {
                    cases.passed += 1;
                    println!("step {name} ... ok ({:.1} s)", begun.elapsed().as_secs_f64());
                }
                Err(error) => {
                    cases.failed += 1;
                    println!("step {name} ... FAILED\n    {error:#}");
                    // What follows builds on this.
                    break;
                }
            }
        }
        Outcome { good: cases.failed == 0, cases: Some(cases), note: String::new() }
    }

    fn helm(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.workspace.command(self.programs.join("helm"));
        command.args(arguments).arg("--kubeconfig").arg(&self.kubeconfig);
        // Its caches belong to this run.
        command
            .env("XDG_CACHE_HOME", self.rundir.join("helm"))
            .env("XDG_CONFIG_HOME", self.rundir.join("helm"));
        process::output(&mut command)
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        process::output(self.kubectl_command().args(arguments))
    }

    fn kubectl_command(&self) -> Command {
        let mut command = self.workspace.command(self.programs.join("kubectl"));
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    fn render(&self) -> Result<()> {
        for chart in ["charts/karpenter", "charts/karpenter-crd"] {
            self.helm(&["lint", "--strict", chart])?;
        }
        let plain = self.template(&[])?;
        for kind in ["ServiceMonitor", "NetworkPolicy", "ValidatingWebhookConfiguration"] {
            ensure!(!plain.contains(&format!("kind: {kind}\n")), "{kind} is not asked for and rendered");
        }
        let all = self.template(&["--values", ALL_VALUES])?;
        for wanted in [
            "kind: ServiceMonitor",
            "kind: NetworkPolicy",
            "kind: ValidatingWebhookConfiguration",
            "failurePolicy: Ignore",
        ] {
            ensure!(all.contains(wanted), "{wanted} is not rendered although everything is asked for");
        }
        for wanted in ["readOnlyRootFilesystem: true", "runAsNonRoot: true", "type: RuntimeDefault", "drop:"]
        {
            let (containers, found) = (all.matches("image: ").count(), all.matches(wanted).count());
            ensure!(found >= containers, "{found} times {wanted} for {containers} containers");
        }
        self.render_providers(&plain)
    }

    fn template(&self, values: &[&str]) -> Result<String> {
        let start = [
            "template",
            "karpenter",
            "charts/karpenter",
            "--namespace",
            NAMESPACE,
            "--kube-version",
            "1.36.0",
        ];
        self.helm(&[&start[..], values].concat())
    }

    /// Each provider gets the rights to its own NodeClasses and to no others.
    fn render_providers(&self, kwok: &str) -> Result<()> {
        let aws = self.template(&["--values", "docs/examples/aws/values.yaml"])?;
        let alibabacloud = self.template(&["--values", "docs/examples/alibabacloud/values.yaml"])?;
        let classes = ["kwoknodeclasses", "ec2nodeclasses", "ecsnodeclasses"];
        for (rendered, own) in [kwok, &aws, &alibabacloud].into_iter().zip(classes) {
            for class in classes {
                ensure!(rendered.contains(class) == (class == own), "rights to {class} instead of {own}");
            }
        }
        ensure!(aws.contains("eks.amazonaws.com/role-arn"), "the role of IRSA is not passed on");
        for wanted in ["audience: sts.aliyuncs.com", "ALIBABA_CLOUD_OIDC_TOKEN_FILE", "name: CLUSTER_ID"] {
            ensure!(alibabacloud.contains(wanted), "{wanted} is not rendered for Alibaba Cloud");
        }
        ensure!(self.template(&["--set", "provider=other"]).is_err(), "provider=other must be refused");
        for (provider, class) in ["kwok", "aws", "alibabacloud"].into_iter().zip(classes) {
            let values = format!("provider={provider},webhook.enabled=true,webhook.region=eu-west-1");
            let rendered = self.template(&["--show-only", "templates/webhook.yaml", "--set", &values])?;
            for wanted in [&format!("--provider, \"{provider}\""), class, "value: \"eu-west-1\""] {
                ensure!(rendered.contains(wanted), "{wanted} is not rendered for the webhook of {provider}");
            }
        }
        Ok(())
    }

    fn install(&self) -> Result<()> {
        self.helm(&["install", "karpenter-crd", "charts/karpenter-crd", "--namespace", NAMESPACE])?;
        let start = ["install", "karpenter", "charts/karpenter", "--namespace", NAMESPACE, "--skip-crds"];
        // There are no machines for its own pods here; the controller runs beside the cluster.
        let more = ["--set", "replicas=0,webhook.enabled=true,webhook.replicas=0,networkPolicy.enabled=true"];
        self.helm(&[&start[..], &more[..]].concat())?;
        for kind in ["deployment", "poddisruptionbudget", "service", "serviceaccount", "networkpolicy"] {
            for name in ["karpenter", "karpenter-webhook"] {
                self.kubectl(&["get", kind, name, "--namespace", NAMESPACE])?;
            }
        }
        Ok(())
    }

    /// A kubeconfig with a token of a ServiceAccount and nothing else.
    fn account(&self, name: &str) -> Result<PathBuf> {
        let token = self.kubectl(&["create", "token", name, "--namespace", NAMESPACE, "--duration", "2h"])?;
        let admin: Value =
            serde_json::from_str(&self.kubectl(&["config", "view", "--raw", "--output", "json"])?)?;
        let cluster = &admin["clusters"][0]["cluster"];
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "account",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token.trim()}}],
            "contexts": [{"name": "account", "context": {"cluster": "test", "user": name, "namespace": NAMESPACE}}],
        });
        let path = self.rundir.join(format!("{name}.conf"));
        fs::write(&path, config.to_string()).context("writing a kubeconfig")?;
        Ok(path)
    }

    /// Runs the webhook beside the cluster, points the configuration at it, and applies something that can never work.
    fn warn(&self) -> Result<()> {
        let account = self.account("karpenter-webhook")?;
        let port = free_port()?.to_string();
        let mut webhook = self.workspace.command(self.workspace.program("karpenter"));
        webhook.args(["webhook", "--provider", "kwok", "--port", &port, "--name", "127.0.0.1"]);
        webhook.arg("--kubeconfig").arg(account).stdout(Stdio::null());
        let _running = Running(webhook.spawn().context("starting the webhook")?);
        let url = format!("https://127.0.0.1:{port}/validate");
        let patch = serde_json::json!([
            {"op": "remove", "path": "/webhooks/0/clientConfig/service"},
            {"op": "add", "path": "/webhooks/0/clientConfig/url", "value": url},
        ]);
        let configuration = ["patch", "validatingwebhookconfiguration", "karpenter-webhook", "--type=json"];
        self.kubectl(&[&configuration[..], &["--patch", &patch.to_string()]].concat())?;
        let begun = Instant::now();
        loop {
            let mut apply = self.kubectl_command();
            apply.args(["apply", "--dry-run=server", "--filename", "tests/charts/impossible-nodepool.yaml"]);
            let answer = apply.output().context("applying a NodePool")?;
            let said = String::from_utf8_lossy(&answer.stderr).into_owned();
            ensure!(answer.status.success(), "the webhook must never refuse: {said}");
            if said.contains("RequirementsUnsatisfiable") && said.contains("NodeClassMissing") {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < WEBHOOK_WAIT,
                "nobody warns of a NodePool that no machine suits: {said}"
            );
            thread::sleep(Duration::from_millis(500));
        }
    }

    fn live(&self) -> Result<()> {
        let account = self.account("karpenter")?;
        let mut command = self.workspace.command(self.workspace.program("e2e-scenarios"));
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--controller-kubeconfig").arg(account);
        command.arg("--karpenter").arg(self.workspace.program("karpenter")).arg(SCENARIO);
        ensure!(process::succeeds(&mut command)?, "the scenario failed");
        Ok(())
    }

    fn judge(&self) -> Result<()> {
        let log = fs::read_to_string(self.rundir.join("audit.log")).context("reading the audit log")?;
        let mut verdict = String::new();
        for account in ["karpenter", "karpenter-webhook"] {
            let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
            let calls = audit::calls(&log, &user)?;
            let granted = audit::granted(&self.roles()?, account, NAMESPACE);
            let report = audit::report(&calls, &granted);
            println!("    {account}: {} calls, {} rights, {}", calls.len(), granted.len(), report.summary());
            verdict.push_str(&report.faults());
        }
        ensure!(verdict.is_empty(), "{verdict}");
        Ok(())
    }

    fn roles(&self) -> Result<Value> {
        let kinds = "clusterroles,clusterrolebindings,roles,rolebindings";
        let listed = self.kubectl(&["get", kinds, "--all-namespaces", "--output", "json"])?;
        serde_json::from_str(&listed).context("reading the roles")
    }

    fn upgrade(&self) -> Result<()> {
        let start = [
            "upgrade",
            "karpenter",
            "charts/karpenter",
            "--namespace",
            NAMESPACE,
            "--values",
            UPSTREAM_VALUES,
        ];
        self.helm(&[&start[..], &["--set", "replicas=0"]].concat())?;
        let container = "jsonpath={.spec.template.spec.containers[0].env[*].name}";
        let names = self.kubectl(&[
            "get",
            "deployment",
            "karpenter",
            "--namespace",
            NAMESPACE,
            "--output",
            container,
        ])?;
        for wanted in ["CLUSTER_NAME", "INTERRUPTION_QUEUE", "FEATURE_GATES", "BATCH_MAX_DURATION"] {
            ensure!(names.split(' ').any(|name| name == wanted), "{wanted} is not passed on: {names}");
        }
        let gone = self.kubectl(&["get", "deployment", "karpenter-webhook", "--namespace", NAMESPACE]);
        ensure!(gone.is_err(), "the webhook is no longer asked for and still there");
        Ok(())
    }

    fn uninstall(&self) -> Result<()> {
        self.helm(&["uninstall", "karpenter", "--namespace", NAMESPACE, "--wait"])?;
        let kinds = "deployments,services,serviceaccounts,poddisruptionbudgets,networkpolicies,secrets,roles,rolebindings,clusterroles,clusterrolebindings,validatingwebhookconfigurations";
        let selector = "app.kubernetes.io/instance=karpenter";
        let left =
            self.kubectl(&["get", kinds, "--all-namespaces", "--selector", selector, "--output", "name"])?;
        ensure!(left.trim().is_empty(), "left behind: {left}");
        // Definitions stay until their own chart goes: with them every NodePool would go.
        self.kubectl(&["get", "customresourcedefinition", "nodepools.karpenter.sh"])?;
        self.helm(&["uninstall", "karpenter-crd", "--namespace", NAMESPACE, "--wait"])?;
        let gone = self.kubectl(&[
            "wait",
            "--for=delete",
            "customresourcedefinition/nodepools.karpenter.sh",
            "--timeout=60s",
        ]);
        gone.context("the definitions are still there").map(drop)
    }

    fn install_alone(&self) -> Result<()> {
        self.helm(&[
            "install",
            "karpenter",
            "charts/karpenter",
            "--namespace",
            "karpenter",
            "--create-namespace",
            "--set",
            "replicas=0",
        ])?;
        for name in ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "kwoknodeclasses.karpenter.kwok.sh"]
        {
            self.kubectl(&["get", "customresourcedefinition", name])?;
        }
        Ok(())
    }
}

fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("finding a free port")?;
    Ok(listener.local_addr().context("finding a free port")?.port())
}

/// A child that ends with the step that needs it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
