//! Upstream's own controller with its KWOK provider, built from its Go module: for runs that need both.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{process, tools};

const MODULE: &str = "sigs.k8s.io/karpenter";
/// The folder whose go.mod says which version.
const RECIPE: &str = "tests/e2e-upstream";

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
    let version = go(workspace, &["list", "-m", "-f", "{{.Version}}", MODULE])?;
    let folder = tools::cache()?.join(format!("upstream-controller-{version}"));
    let program = folder.join("karpenter-kwok");
    if !program.is_file() {
        eprintln!("building upstream's controller {version} from its Go module");
        let unfinished = folder.join(format!("karpenter-kwok.{}", std::process::id()));
        let named = format!("-s -w -X {MODULE}/pkg/operator.Version={}", version.trim_start_matches('v'));
        let mut command = in_recipe(workspace);
        command.args(["build", "-trimpath", "-ldflags", &named, "-o"]).arg(&unfinished);
        if !process::succeeds(command.arg(format!("{MODULE}/kwok")))? {
            bail!("go could not build upstream's controller: is the module proxy reachable?");
        }
        std::fs::rename(&unfinished, &program)
            .with_context(|| format!("moving {} into place", program.display()))?;
    }
    let sources = PathBuf::from(go(workspace, &["list", "-m", "-f", "{{.Dir}}", MODULE])?);
    let definitions = ["charts/crds", "apis/crds"].map(|folder| sources.join("kwok").join(folder));
    Ok(Some(UpstreamController { program, definitions }))
}

fn go(workspace: &Workspace, arguments: &[&str]) -> Result<String> {
    let text = process::output(in_recipe(workspace).args(arguments)).context("asking go about upstream")?;
    Ok(text.trim().to_owned())
}

/// Go in the folder of the recipe. Upstream asks for a newer release than may be installed; go fetches it like a module.
fn in_recipe(workspace: &Workspace) -> Command {
    let mut command = workspace.command("go");
    command
        .current_dir(workspace.root().join(RECIPE))
        .env("CGO_ENABLED", "0")
        .env("GOTOOLCHAIN", "auto")
        .env("GOFLAGS", "-buildvcs=false -mod=readonly");
    command
}
