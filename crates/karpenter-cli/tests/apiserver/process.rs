//! A server process of a test, and clients for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A running server; it is killed when the value is dropped.
pub(crate) struct Server {
    child: Child,
    data: PathBuf,
    /// What it printed when it was ready.
    pub(crate) greeting: String,
}

impl Server {
    /// Starts the program on a data directory and any free port, and waits until it is ready.
    pub(crate) fn start(data: &Path, arguments: &[&str]) -> Self {
        Self::start_as("apiserver", data, arguments)
    }

    /// Starts one of the commands that serve the Kubernetes API.
    pub(crate) fn start_as(command: &str, data: &Path, arguments: &[&str]) -> Self {
        Self::start_until("\ntry ", command, data, arguments)
    }

    /// Starts one of the commands that serve the Kubernetes API, and waits until it has printed this.
    pub(crate) fn start_until(last: &str, command: &str, data: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_karpenter"))
            .args([command, "--port", "0", "--data-dir"])
            .arg(data)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program is built beside its tests");
        let mut greeting = String::new();
        let stdout = child.stdout.take().expect("standard output is a pipe");
        for line in BufReader::new(stdout).lines() {
            greeting += &line.expect("the program prints text");
            greeting.push('\n');
            if greeting.contains(last) {
                break;
            }
        }
        assert!(greeting.contains(last), "the server did not start");
        Self { child, data: data.to_owned(), greeting }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kubeconfig(&self) -> String {
        fs::read_to_string(self.data.join("kubeconfig")).expect("the kubeconfig is written")
    }

    pub(crate) fn port(&self) -> u16 {
        let address = self.greeting.split("https://127.0.0.1:").nth(1).expect("the greeting has the address");
        let digits: String = address.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a port")
    }

    /// Kills the process as a crash would.
    pub(crate) fn crash(mut self) {
        self.child.kill().expect("the server is running");
        self.child.wait().expect("the server was started here");
    }

    /// Asks the process to end, and waits for it.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(id.expect("a process id"), rustix::process::Signal::TERM)
            .expect("the server is running");
        self.child.wait().expect("the server was started here")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client with the credentials of a kubeconfig.
pub(crate) async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("the kubeconfig is valid");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("the kubeconfig is complete")).expect("a client")
}
