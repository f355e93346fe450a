//! Where commands run: a folder of their own with the files they use, and nothing of the person who started the run.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::normal::normal;

/// A command that takes longer hangs.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) struct Desk {
    folder: PathBuf,
    path: String,
}

impl Desk {
    /// Sets up a folder with the files of the sessions and a kubeconfig; programs are looked for in `programs` first.
    pub(crate) fn new(programs: &Path, kubeconfig: &str) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("client-session-{}-{number}", std::process::id()));
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        copy(&here.join("files"), &folder)?;
        copy(&here.join("../../crds"), &folder.join("crds"))?;
        fs::write(folder.join("kubeconfig"), kubeconfig).context("writing the kubeconfig")?;
        let programs =
            programs.canonicalize().with_context(|| format!("looking for {}", programs.display()))?;
        let path = std::env::var("PATH").unwrap_or_default();
        Ok(Self { folder, path: format!("{}:{path}", programs.display()) })
    }

    /// Runs a command and returns what it printed, with its exit code when that is not zero.
    pub(crate) fn run(&self, command: &str) -> Result<String> {
        let mut child = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", &self.folder)
            .env("TMPDIR", &self.folder)
            .env("KUBECONFIG", self.folder.join("kubeconfig"))
            .env("KUBE_EDITOR", self.folder.join("editor"))
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting sh")?;
        let mut stdout = child.stdout.take().context("the output is piped")?;
        let reader = std::thread::spawn(move || {
            let mut printed = Vec::new();
            stdout.read_to_end(&mut printed).map(|_| printed)
        });
        let started = Instant::now();
        let ending = loop {
            match child.try_wait().context("waiting for a command")? {
                Some(status) if status.success() => break String::new(),
                Some(status) => break format!("\n[exit {}]", status.code().unwrap_or(-1)),
                None if started.elapsed() > COMMAND_TIMEOUT => {
                    child.kill().context("ending a command that hangs")?;
                    child.wait().context("waiting for a command")?;
                    break "\n[hangs]".to_owned();
                }
                None => std::thread::sleep(LOOK_INTERVAL),
            }
        };
        let printed = reader.join().ok().context("reading what a command prints")??;
        let text = format!("{}{ending}", String::from_utf8_lossy(&printed).trim_end_matches('\n'));
        Ok(normal(&text, &self.folder.to_string_lossy()))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // A folder that stays behind is a nuisance, not an error of the session.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("listing {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("copying {}", entry.path().display()))?;
        }
    }
    Ok(())
}
