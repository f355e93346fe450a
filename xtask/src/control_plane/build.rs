//! Which programs the control plane has and how each is built.
//!
//! The cache's folder carries a hash of the recipe, so a changed module file builds beside the old programs and a
//! fresh clone on the same machine builds nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{process, tools};

/// The release that the modules of `kube` pin; programs built from modules do not know their own.
const KUBERNETES: &str = "v1.36.3";

/// One program: its name, the folder of its module, its package, and the variables that hold its version.
struct Program {
    name: &'static str,
    module: &'static str,
    package: &'static str,
    version: Version,
}

#[derive(Clone, Copy)]
enum Version {
    Unset,
    Kubernetes,
    Variable(&'static str),
}

const fn kubernetes(name: &'static str, package: &'static str) -> Program {
    Program { name, module: "kube", package, version: Version::Kubernetes }
}

const PROGRAMS: [Program; 8] = [
    Program { name: "keys", module: "keys", package: ".", version: Version::Unset },
    Program { name: "etcd", module: "etcd", package: "go.etcd.io/etcd/server/v3", version: Version::Unset },
    kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    kubernetes("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    kubernetes("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    Program {
        name: "helm",
        module: "helm",
        package: "helm.sh/helm/v3/cmd/helm",
        version: Version::Variable("helm.sh/helm/v3/internal/version.version=v3.22.0"),
    },
    Program {
        name: "kwok",
        module: "kwok",
        package: "sigs.k8s.io/kwok/cmd/kwok",
        version: Version::Variable("sigs.k8s.io/kwok/pkg/consts.Version=v0.8.0"),
    },
];

/// Returns the folder of the programs, having built those it does not hold.
pub(super) fn ensure(recipe: &Path) -> Result<PathBuf> {
    let folder = folder(recipe)?;
    for program in &PROGRAMS {
        ensure_program(recipe, program, &folder)?;
    }
    Ok(folder)
}

/// Returns the folder of the programs, having built these; `None` when some are missing and Go is not installed.
pub(super) fn ensure_named(recipe: &Path, names: &[&str]) -> Result<Option<PathBuf>> {
    let folder = folder(recipe)?;
    for program in PROGRAMS.iter().filter(|program| names.contains(&program.name)) {
        if !folder.join(program.name).is_file() && Command::new("go").arg("version").output().is_err() {
            return Ok(None);
        }
        ensure_program(recipe, program, &folder)?;
    }
    Ok(Some(folder))
}

fn folder(recipe: &Path) -> Result<PathBuf> {
    let folder = tools::cache()?.join(format!("control-plane-{:016x}", hash(recipe)?));
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

fn ensure_program(recipe: &Path, program: &Program, folder: &Path) -> Result<()> {
    let path = folder.join(program.name);
    if path.is_file() { Ok(()) } else { build(recipe, program, &path) }
}

/// Builds beside the target and renames, so that two checkouts building at once never see half a program.
fn build(recipe: &Path, program: &Program, path: &Path) -> Result<()> {
    eprintln!("building {} from its Go module", program.name);
    let unfinished = path.with_file_name(format!("{}.{}", program.name, std::process::id()));
    let mut command = Command::new("go");
    command
        .current_dir(recipe.join(program.module))
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-buildvcs=false -mod=readonly")
        .args(["build", "-trimpath", "-ldflags", &linker_flags(program.version), "-o"])
        .arg(&unfinished)
        .arg(program.package);
    if !process::succeeds(&mut command).context("is Go installed? the control plane is built with it")? {
        bail!("go could not build {}: is the module proxy reachable?", program.name);
    }
    fs::rename(&unfinished, path).with_context(|| format!("moving {} into place", program.name))
}

fn linker_flags(version: Version) -> String {
    let mut flags = "-s -w".to_owned();
    let mut set = |variable: String| flags.extend([" -X ", &variable]);
    match version {
        Version::Unset => {}
        Version::Variable(variable) => set(variable.to_owned()),
        Version::Kubernetes => {
            let minor = KUBERNETES.split('.').nth(1).unwrap_or_default();
            for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
                set(format!("{package}.gitVersion={KUBERNETES}"));
                set(format!("{package}.gitMajor=1"));
                set(format!("{package}.gitMinor={minor}"));
                set(format!("{package}.gitTreeState=clean"));
            }
        }
    }
    flags
}

/// Hashes everything that decides what the programs are: this table and the module files.
fn hash(recipe: &Path) -> Result<u64> {
    let mut hash = Fnv::default();
    for program in PROGRAMS {
        for text in [program.name, program.package, &linker_flags(program.version)] {
            hash.add(text.as_bytes());
        }
        for file in ["go.mod", "go.sum", "main.go"] {
            let path = recipe.join(program.module).join(file);
            if path.is_file() {
                hash.add(&fs::read(&path).with_context(|| format!("reading {}", path.display()))?);
            }
        }
    }
    Ok(hash.0)
}

/// FNV-1a: a name for a cache folder needs no cryptography.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_programs_are_told_their_release() {
        let flags = linker_flags(Version::Kubernetes);
        assert!(flags.contains("-X k8s.io/component-base/version.gitMinor=36"), "{flags}");
    }

    #[test]
    fn the_hash_depends_on_every_byte() {
        let hash = |text: &str| {
            let mut hash = Fnv::default();
            hash.add(text.as_bytes());
            hash.0
        };
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c, "the published value of FNV-1a for `a`");
        assert_ne!(hash("ab"), hash("ba"));
    }
}
