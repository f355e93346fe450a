//! The cluster that the suites expect: a control plane, our definitions, and our controller as the pod of a Deployment.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::build::{RECIPE, Suites};
use super::report::{self, Spec};
use super::shards::{PERFORMANCE_SUITE, Shard};
use crate::control_plane::{self, Component, Up};
use crate::end_to_end::Plane;
use crate::process;
use crate::workspace::Workspace;

/// How long a part of the cluster may take until it is there.
const READY_WAIT: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(300);

/// What a file with the scheduler's profiles begins with.
const SCHEDULER_CONFIGURATION: &str =
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
/// The profile that specs about default constraints ask for by name.
const SCHEDULER_PROFILES: &str = "profiles:
  - schedulerName: default-scheduler
  - schedulerName: topology-spread-defaults
    pluginConfig:
      - name: PodTopologySpread
        args:
          defaultingType: List
          defaultConstraints:
            - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}
            - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
";

/// The port at which suites ask the controller's pod for metrics.
const METRICS_PORT: u16 = 8080;

/// Where the controller is reached: by itself, and through the API server as a pod.
struct Doors {
    metrics: u16,
    health: u16,
    kubelet: u16,
    pod_ip: IpAddr,
}

impl Doors {
    /// Free ports. The performance suite asks the pod itself, by way of the API server, which refuses pods on loopback: for that
    /// one the controller has the port it asks, and the pod the machine's own address.
    fn find(suite: &str) -> Result<Self> {
        let [metrics, health, kubelet] = control_plane::free_ports()?;
        if suite != PERFORMANCE_SUITE {
            return Ok(Self { metrics, health, kubelet, pod_ip: Ipv4Addr::LOCALHOST.into() });
        }
        Ok(Self { metrics: METRICS_PORT, health, kubelet, pod_ip: own_address()? })
    }

    /// What kwok does with connections to the pod that are forwarded.
    fn forwarding(&self) -> String {
        format!(
            "---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterPortForward\nmetadata: {{name: karpenter}}\nspec:\n  \
             selector: {{matchNamespaces: [kube-system]}}\n  \
             forwards: [{{ports: [{METRICS_PORT}], target: {{port: {}, address: 127.0.0.1}}}}]\n",
            self.metrics
        )
    }
}

/// An address of this machine that is not loopback. Nothing is sent: where packets would leave from is enough.
fn own_address() -> Result<IpAddr> {
    let ask = || -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9))?;
        Ok(socket.local_addr()?.ip())
    };
    ask().context("the performance suite needs an address of this machine besides loopback")
}

/// Everything that shards share.
pub(super) struct Arrangement<'a> {
    workspace: &'a Workspace,
    suites: Suites,
    /// The folder of the control plane's programs.
    programs: PathBuf,
    pub(super) karpenter: PathBuf,
    host_kubelet: PathBuf,
}

impl<'a> Arrangement<'a> {
    /// Builds what stands for the kubelet of our controller.
    pub(super) fn prepare(
        workspace: &'a Workspace,
        suites: Suites,
        (programs, karpenter): (PathBuf, PathBuf),
    ) -> Result<Self> {
        workspace.build(&["--bin", "host-kubelet"])?;
        let host_kubelet = workspace.program("host-kubelet");
        Ok(Self { workspace, suites, programs, karpenter, host_kubelet })
    }

    /// Runs a shard on a cluster of its own, which is gone afterwards; logs stay.
    pub(super) fn play(
        &self,
        shard: &Shard,
        rundir: &Path,
        (on, focus): (Plane, Option<&str>),
    ) -> Result<Vec<Spec>> {
        if rundir.exists() {
            fs::remove_dir_all(rundir).with_context(|| format!("emptying {}", rundir.display()))?;
        }
        fs::create_dir_all(rundir).with_context(|| format!("creating {}", rundir.display()))?;
        let played = self.set_up(shard, rundir, on).and_then(|kubeconfig| {
            self.run_suite(shard, rundir, &kubeconfig, focus)?;
            report::read(shard.suite, rundir)
        });
        control_plane::down(rundir)?;
        played
    }

    fn set_up(&self, shard: &Shard, rundir: &Path, on: Plane) -> Result<PathBuf> {
        let doors = Doors::find(shard.suite)?;
        let kubeconfig = match on {
            Plane::Real => self.start_real(rundir, &doors)?,
            Plane::Embedded => self.start_embedded(rundir)?,
        };
        let definitions = rundir.join("crds.yaml");
        let printed = process::output(Command::new(&self.karpenter).args(["crds", "--provider", "kwok"]))?;
        fs::write(&definitions, printed).context("writing the definitions")?;
        self.kubectl(&kubeconfig, &["apply", "--filename", &definitions.to_string_lossy()])?;
        self.kubectl(&kubeconfig, &["wait", "--for=condition=established", "crd", "--all", "--timeout=60s"])?;
        self.start_controller(rundir, &kubeconfig, &doors)?;
        Ok(kubeconfig)
    }

    fn start_real(&self, rundir: &Path, doors: &Doors) -> Result<PathBuf> {
        let kwok = rundir.join("kwok.yaml");
        fs::write(&kwok, self.suites.kwok_configuration()? + &doors.forwarding())
            .context("writing the configuration of kwok")?;
        let wish = Up {
            rundir: rundir.to_owned(),
            with: vec![Component::KubeControllerManager, Component::KubeScheduler, Component::Kwok],
            scheduler_configuration: SCHEDULER_PROFILES.to_owned(),
            kwok: Some(kwok),
            kubelet_port: Some(doors.kubelet),
            ..Up::default()
        };
        control_plane::up(self.workspace, &wish)
    }

    fn start_embedded(&self, rundir: &Path) -> Result<PathBuf> {
        let kubeconfig = rundir.join("admin.conf");
        let scheduler = rundir.join("scheduler.yaml");
        fs::write(&scheduler, format!("{SCHEDULER_CONFIGURATION}{SCHEDULER_PROFILES}"))
            .context("writing the scheduler's configuration")?;
        let mut cluster = Command::new(&self.karpenter);
        cluster.args(["local", "--without-karpenter", "--quiet", "--port", "0", "--kubeconfig"]);
        cluster.arg(&kubeconfig).arg("--kube-scheduler-configuration").arg(&scheduler);
        control_plane::start_beside(rundir, &mut cluster)?;
        self.wait(&kubeconfig, &["get", "namespace/kube-system"])?;
        Ok(kubeconfig)
    }

    fn start_controller(&self, rundir: &Path, kubeconfig: &Path, doors: &Doors) -> Result<()> {
        let mut host = Command::new(&self.host_kubelet);
        host.arg("--kubeconfig").arg(kubeconfig).arg("--log").arg(rundir.join("controller.log"));
        host.args(["--metrics-port", &doors.metrics.to_string(), "--health-port", &doors.health.to_string()]);
        host.args(["--kubelet-port", &doors.kubelet.to_string(), "--pod-ip", &doors.pod_ip.to_string()]);
        host.arg("--").arg(&self.karpenter).args(["controller", "--provider", "kwok"]);
        control_plane::start_beside(rundir, &mut host)?;
        self.wait(kubeconfig, &["get", "node/host-0"])?;
        self.wait(kubeconfig, &["--namespace=kube-system", "get", "serviceaccount/default"])?;
        let manifests = self.workspace.root().join(RECIPE).join("cluster.yaml");
        self.kubectl(kubeconfig, &["apply", "--filename", &manifests.to_string_lossy()])?;
        let rollout =
            ["--namespace=kube-system", "rollout", "status", "deployment/karpenter", "--timeout=180s"];
        self.kubectl(kubeconfig, &rollout)?;
        self.wait(kubeconfig, &["--namespace=kube-system", "get", "lease/karpenter-leader-election"])
    }

    fn run_suite(&self, shard: &Shard, rundir: &Path, kubeconfig: &Path, focus: Option<&str>) -> Result<()> {
        let log = File::create(rundir.join("suite.log")).context("creating a log file")?;
        let mut command = Command::new(self.suites.program(shard.suite));
        command
            .current_dir(rundir)
            .env("KUBECONFIG", kubeconfig)
            .env("OUTPUT_DIR", rundir)
            .args(["-test.v", "-test.timeout=0", "--ginkgo.vv", "--ginkgo.no-color"])
            .args(["--ginkgo.grace-period=30s", &format!("--ginkgo.timeout={}m", shard.minutes)])
            .arg(format!("--ginkgo.focus={}", focus.unwrap_or(shard.focus)))
            .arg(format!("--ginkgo.json-report={}", report::path(rundir).display()))
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("sharing a log file")?)
            .stderr(log);
        if !shard.skip.is_empty() && focus.is_none() {
            command.arg(format!("--ginkgo.skip={}", shard.skip));
        }
        // Whether specs failed is in the report.
        command.status().with_context(|| format!("starting the suite {}", shard.suite)).map(drop)
    }

    fn kubectl(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(self.programs.join("kubectl"));
        process::output(command.arg("--kubeconfig").arg(kubeconfig).args(arguments)).map(drop)
    }

    /// Asks until the answer is good.
    fn wait(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<()> {
        let begun = Instant::now();
        loop {
            match self.kubectl(kubeconfig, arguments) {
                Ok(()) => return Ok(()),
                Err(error) if begun.elapsed() > READY_WAIT => return Err(error),
                Err(_) => sleep(POLL),
            }
        }
    }
}
