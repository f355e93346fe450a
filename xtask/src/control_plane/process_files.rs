//! Processes that outlive the task that started them, one pid file each in the run folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Servers in the order in which they stop: each before what it talks to.
const STOP_ORDER: [&str; 7] = [
    "host-kubelet",
    "kwok",
    "kube-scheduler",
    "kube-controller-manager",
    "kube-apiserver",
    "etcd",
    "karpenter",
];

/// How long a server may take to stop before it is killed.
const STOP_WAIT: Duration = Duration::from_secs(10);

const POLL: Duration = Duration::from_millis(100);

/// Starts a server with its output in `logs/<name>.log` and its number in `<name>.pid`.
pub(super) fn start(rundir: &Path, command: &mut Command) -> Result<Child> {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_owned();
    let logs = rundir.join("logs");
    fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
    let log = File::create(logs.join(&name).with_extension("log")).context("creating a log file")?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    detach(command);
    let child = command.spawn().with_context(|| format!("starting {}", name.display()))?;
    fs::write(pid_file(rundir, &name.to_string_lossy()), child.id().to_string())
        .context("writing a pid file")?;
    Ok(child)
}

/// Keeps signals of the terminal away from the server.
#[cfg(unix)]
fn detach(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn detach(_: &mut Command) {}

/// Polls until `ready`; fails with the end of the server's log when the server ends first.
pub(super) fn wait(
    rundir: &Path,
    server: &str,
    limit: Duration,
    mut ready: impl FnMut() -> bool,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !ready() {
        let log = rundir.join("logs").join(server).with_extension("log");
        if !is_running(rundir, server) {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            bail!("{server} ended:\n{}", lines[lines.len().saturating_sub(5)..].join("\n"));
        }
        if Instant::now() > deadline {
            bail!("{server} was not ready after {} s, see {}", limit.as_secs(), log.display());
        }
        sleep(POLL);
    }
    Ok(())
}

/// Whether the server of this run folder is alive. A pid may have been given to another program since, so the command
/// line is looked at too.
pub(super) fn is_running(rundir: &Path, server: &str) -> bool {
    let Ok(pid) = fs::read_to_string(pid_file(rundir, server)) else { return false };
    let output = Command::new("ps").args(["-o", "stat=,args=", "-p", pid.trim()]).output();
    output.is_ok_and(|output| {
        let line = String::from_utf8_lossy(&output.stdout).into_owned();
        !line.starts_with('Z') && line.contains(server)
    })
}

/// Stops every server of the run folder that is alive.
pub(super) fn stop_all(rundir: &Path) -> Result<()> {
    for server in STOP_ORDER {
        let file = pid_file(rundir, server);
        if is_running(rundir, server) {
            let pid = fs::read_to_string(&file).context("reading a pid file")?;
            signal("-TERM", &pid)?;
            let deadline = Instant::now() + STOP_WAIT;
            while is_running(rundir, server) && Instant::now() < deadline {
                sleep(POLL);
            }
            if is_running(rundir, server) {
                signal("-KILL", &pid)?;
            }
        }
        if file.exists() {
            fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        }
    }
    Ok(())
}

fn signal(signal: &str, pid: &str) -> Result<()> {
    Command::new("kill").args([signal, pid.trim()]).status().context("starting kill")?;
    Ok(())
}

fn pid_file(rundir: &Path, server: &str) -> PathBuf {
    rundir.join(server).with_extension("pid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_of_another_program_is_not_ours() {
        let rundir = std::env::temp_dir().join(format!("xtask-pid-{}", std::process::id()));
        fs::create_dir_all(&rundir).expect("the temporary folder is writable");
        fs::write(pid_file(&rundir, "etcd"), std::process::id().to_string()).expect("writable");
        assert!(!is_running(&rundir, "etcd"));
        assert!(!is_running(&rundir, "kwok"));
        stop_all(&rundir).expect("nothing is running");
        assert!(!pid_file(&rundir, "etcd").exists());
        fs::remove_dir_all(&rundir).expect("ours");
    }
}
