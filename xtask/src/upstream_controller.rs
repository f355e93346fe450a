//! Upstream's own controller with its KWOK provider, built from its Go module: for runs that need both.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::upstream_suites::build::{MODULE, RECIPE, go};
use crate::workspace::Workspace;
use crate::{process, tools};

/// A built controller and where its definitions are.
pub(crate) struct UpstreamController {
    pub(crate) program: PathBuf,
    pub(crate) definitions: [PathBuf; 2],
}

/// Builds it, if the cache does not hold it; `None` when Go is not installed.
pub(crate) fn ensure(workspace: &Workspace) -> Result<Option<UpstreamController>> {
    if Command::new("go").arg("version").output().is_err() {
        return Ok(None);
    }
    let recipe = workspace.root().join(RECIPE);
    let version = ask(&recipe, &["list", "-m", "-f", "{{.Version}}", MODULE])?;
    let folder = tools::cache()?.join(format!("upstream-controller-{version}"));
    let program = folder.join("karpenter-kwok");
    if !program.is_file() {
        eprintln!("building upstream's controller {version} from its Go module");
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let unfinished = folder.join(format!("karpenter-kwok.{}", std::process::id()));
        let named = format!("-s -w -X {MODULE}/pkg/operator.Version={}", version.trim_start_matches('v'));
        let mut command = go(&recipe);
        command.args(["build", "-trimpath", "-ldflags", &named, "-o"]).arg(&unfinished);
        if !process::succeeds(command.arg(format!("{MODULE}/kwok")))? {
            bail!("go could not build upstream's controller: is the module proxy reachable?");
        }
        std::fs::rename(&unfinished, &program)
            .with_context(|| format!("moving {} into place", program.display()))?;
    }
    let sources = PathBuf::from(ask(&recipe, &["list", "-m", "-f", "{{.Dir}}", MODULE])?);
    let definitions = ["charts/crds", "apis/crds"].map(|folder| sources.join("kwok").join(folder));
    Ok(Some(UpstreamController { program, definitions }))
}

/// What go says about upstream's module.
fn ask(recipe: &Path, arguments: &[&str]) -> Result<String> {
    let text = process::output(go(recipe).args(arguments)).context("asking go about upstream")?;
    Ok(text.trim().to_owned())
}
