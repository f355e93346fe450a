//! `cargo xtask dashboards`: a real Prometheus scrapes Karpenter at work, and everything the dashboards ask for is asked of it.
//!
//! Prometheus is Debian's; where it is not installed and cannot be, the part says so. Every query must be understood, and most must have series: what never happens
//! in the demo has none. That queries name only metrics we export is a test beside the metrics.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::parts::{Cases, Outcome};
use crate::workspace::Workspace;

/// How long Karpenter works before questions are asked.
const WORK: Duration = Duration::from_secs(45);
/// How long until the first scrape.
const READY_WAIT: Duration = Duration::from_mins(1);

pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    let Some(prometheus) = prometheus() else {
        let note = "not run: Prometheus is not installed and apt-get cannot install it";
        return Ok(Outcome::from(true).note(note));
    };
    workspace.build(&["--bin", "karpenter"])?;
    let rundir = std::env::temp_dir().join(format!("karpenter-dashboards-{}", std::process::id()));
    fs::create_dir_all(&rundir).with_context(|| format!("creating {}", rundir.display()))?;
    let outcome = play(workspace, &prometheus, &rundir);
    fs::remove_dir_all(&rundir).with_context(|| format!("removing {}", rundir.display()))?;
    outcome
}

/// The program, installed first where that is possible.
fn prometheus() -> Option<PathBuf> {
    let find = || {
        let places = std::env::var_os("PATH")?;
        std::env::split_paths(&places).map(|place| place.join("prometheus")).find(|path| path.is_file())
    };
    find().or_else(|| {
        let mut install = Command::new("apt-get");
        install.args(["install", "--yes", "--no-install-recommends", "prometheus"]).stdout(Stdio::null());
        // A machine without apt-get, or a user without rights, is no error.
        if install.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            find()
        } else {
            None
        }
    })
}

fn play(workspace: &Workspace, prometheus: &Path, rundir: &Path) -> Result<Outcome> {
    let [metrics, port] = free_ports()?;
    let mut karpenter = workspace.command(workspace.program("karpenter"));
    karpenter
        .args(["local", "--demo", "--quiet", "--port", "0", "--kubeconfig"])
        .arg(rundir.join("kubeconfig"));
    karpenter.args(["--metrics-port", &metrics.to_string()]);
    let _karpenter = Running::start(&mut karpenter)?;
    let configuration = rundir.join("prometheus.yml");
    let scrape = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: karpenter\n  static_configs: [{{targets: [\"127.0.0.1:{metrics}\"]}}]\n"
    );
    fs::write(&configuration, scrape).context("writing Prometheus' configuration")?;
    let mut command = Command::new(prometheus);
    command.arg(format!("--config.file={}", configuration.display()));
    command.arg(format!("--storage.tsdb.path={}", rundir.join("data").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}")).arg("--log.level=error");
    let _prometheus = Running::start(&mut command)?;
    wait_for_scrape(port)?;
    thread::sleep(WORK);
    judge(workspace, port)
}

fn wait_for_scrape(port: u16) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < READY_WAIT {
        let up = ask(port, "/api/v1/query?query=up%20%3D%3D%201").ok();
        if up.is_some_and(|answer| answer["data"]["result"].as_array().is_some_and(|found| !found.is_empty()))
        {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(200));
    }
    bail!("Prometheus has not scraped Karpenter within {} s", READY_WAIT.as_secs())
}

fn judge(workspace: &Workspace, port: u16) -> Result<Outcome> {
    let metadata = ask(port, "/api/v1/metadata")?;
    let known: BTreeSet<&String> =
        metadata["data"].as_object().into_iter().flat_map(serde_json::Map::keys).collect();
    ensure!(!known.is_empty(), "Prometheus knows no metric");
    let mut cases = Cases::default();
    let mut answered = 0;
    for (board, query) in queries(&workspace.root().join("dashboards"))? {
        match asked(port, &query) {
            Ok(series) => {
                cases.passed += 1;
                answered += usize::from(series > 0);
            }
            Err(error) => {
                cases.failed += 1;
                println!("{board}: {query}: {error:#}");
            }
        }
    }
    let total = cases.passed + cases.failed;
    let note = format!("{total} queries, {answered} with series, {} metrics scraped", known.len());
    println!("{note}");
    // What never happens in the demo (repairs, failures) has no series; most of it does.
    let good = cases.failed == 0 && answered * 2 > total as usize;
    Ok(Outcome { good, cases: Some(cases), note })
}

/// How many series a query gives.
fn asked(port: u16, query: &str) -> Result<usize> {
    let answer = ask(port, &format!("/api/v1/query?query={}", encoded(query)))?;
    ensure!(answer["status"] == "success", "{}", answer["error"]);
    Ok(answer["data"]["result"].as_array().map_or(0, Vec::len))
}

/// Every query of every dashboard, with its variables filled in.
fn queries(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let board: Value =
            serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let panels = board["panels"].as_array().into_iter().flatten();
        let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
        let expressions = targets.filter_map(|target| target["expr"].as_str());
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.extend(expressions.map(|query| (name.clone(), query.replace("$nodepool", ".*"))));
    }
    found.sort();
    Ok(found)
}

/// A request simple enough to be written by hand.
fn ask(port: u16, path: &str) -> Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("reaching Prometheus")?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("reading Prometheus' answer")?;
    let (_, body) = answer.split_once("\r\n\r\n").context("Prometheus' answer has no body")?;
    serde_json::from_str(body).context("reading Prometheus' answer")
}

fn encoded(query: &str) -> String {
    query
        .bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

/// Ports nobody listens on now.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("finding a free port")?;
        *port = listener.local_addr().context("finding a free port")?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// A child that ends with this run.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        child.map(Self).with_context(|| format!("starting {}", command.get_program().to_string_lossy()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_encoded_byte_by_byte() {
        assert_eq!(encoded("a{b=\"ä\"}"), "a%7Bb%3D%22%C3%A4%22%7D");
    }
}
