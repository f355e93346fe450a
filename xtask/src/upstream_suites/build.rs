//! Building the suites, and what they expect of kwok, from Go modules.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{process, tools};

/// The folder of the module that pins the suites.
pub(crate) const RECIPE: &str = "tests/e2e-upstream";
pub(crate) const MODULE: &str = "sigs.k8s.io/karpenter";
/// Stages of kwok's own, below its `kustomize/stage`; those of the suites come after them and replace what has the same name.
const KWOK_STAGES: [&str; 3] =
    ["node/fast/node-initialize.yaml", "pod/fast/pod-ready.yaml", "pod/fast/pod-complete.yaml"];

/// Options of kwok: leases are renewed slowly, changes are made quickly.
const KWOK_OPTIONS: &str = "apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options: {enableDebuggingHandlers: true, nodeLeaseDurationSeconds: 40, nodeLeaseParallelism: 4, podPlayStageParallelism: 16, nodePlayStageParallelism: 16}
";

/// Suites that are built.
pub(super) struct Suites {
    folder: PathBuf,
}

impl Suites {
    /// Builds those that the cache does not hold.
    pub(super) fn ensure<'a>(
        workspace: &Workspace,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        let recipe = workspace.root().join(RECIPE);
        let version = process::output(go(&recipe).args(["list", "-m", "-f", "{{.Version}}", MODULE]))
            .context("is Go installed? the suites are built with it")?;
        let folder = tools::cache()?.join(format!("karpenter-suites-{}", version.trim()));
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let suites = Self { folder };
        for name in names {
            if !suites.program(name).is_file() {
                suites.build(&recipe, name)?;
            }
        }
        suites.write_kwok_configuration(workspace, &recipe)?;
        Ok(suites)
    }

    /// The program of a suite.
    pub(super) fn program(&self, suite: &str) -> PathBuf {
        self.folder.join(format!("{suite}.test"))
    }

    /// How kwok plays kubelet for the suites.
    pub(super) fn kwok_configuration(&self) -> Result<String> {
        let path = self.kwok_file();
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }

    fn kwok_file(&self) -> PathBuf {
        self.folder.join("kwok.yaml")
    }

    fn build(&self, recipe: &Path, name: &str) -> Result<()> {
        eprintln!("building upstream's suite {name} from its Go module");
        let unfinished = self.folder.join(format!("{name}.{}", std::process::id()));
        let mut command = go(recipe);
        command.args(["test", "-c", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(&unfinished);
        command.arg(format!("{MODULE}/test/suites/{name}"));
        if !process::succeeds(&mut command)? {
            bail!("go could not build the suite {name}: is the module proxy reachable?");
        }
        fs::rename(&unfinished, self.program(name)).with_context(|| format!("moving {name} into place"))
    }

    fn write_kwok_configuration(&self, workspace: &Workspace, recipe: &Path) -> Result<()> {
        let folder = |recipe: &Path, module: &str| -> Result<PathBuf> {
            process::succeeds(go(recipe).args(["mod", "download", module]))?;
            let text = process::output(go(recipe).args(["list", "-m", "-f", "{{.Dir}}", module]))?;
            Ok(PathBuf::from(text.trim()))
        };
        let kwok = folder(&workspace.root().join("tests/control-plane/kwok"), "sigs.k8s.io/kwok")?;
        let mut stages: Vec<PathBuf> =
            KWOK_STAGES.iter().map(|stage| kwok.join("kustomize/stage").join(stage)).collect();
        let own = folder(recipe, MODULE)?.join("hack/kwok/stages");
        let listed = fs::read_dir(&own).with_context(|| format!("reading {}", own.display()))?;
        let mut own: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        own.sort();
        stages.extend(own);
        let mut text = KWOK_OPTIONS.to_owned();
        for stage in stages {
            let read = fs::read_to_string(&stage).with_context(|| format!("reading {}", stage.display()))?;
            text.extend(["---\n", read.as_str(), "\n"]);
        }
        fs::write(self.kwok_file(), text).context("writing the configuration of kwok")
    }
}

/// Go in a module of ours; upstream may need a newer Go than is installed, which it fetches.
pub(crate) fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(folder)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-buildvcs=false -mod=readonly")
        .env("GOTOOLCHAIN", "auto");
    command
}
