//! Every Rust file must be reachable from a crate root: a file that no `mod` names is never compiled, and its tests
//! never run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{File, Finding, declared_module};
use crate::workspace::{Workspace, elements, text};

pub(super) fn check(workspace: &Workspace, files: &[File]) -> Result<Vec<Finding>> {
    let sources: BTreeMap<PathBuf, &str> = files
        .iter()
        .filter(|file| file.has_extension(&["rs"]))
        .map(|file| (file.path.clone(), file.text.as_str()))
        .collect();
    let metadata = workspace.metadata()?;
    let roots = elements(&metadata, "packages")
        .iter()
        .flat_map(|package| elements(package, "targets"))
        .filter_map(|target| Path::new(text(target, "src_path")).strip_prefix(workspace.root()).ok())
        .map(Path::to_path_buf)
        // The fuzzer's crate stands outside of the workspace.
        .chain([PathBuf::from("fuzz/src/main.rs")])
        .collect();
    Ok(unreachable(&sources, roots))
}

fn unreachable(sources: &BTreeMap<PathBuf, &str>, roots: Vec<PathBuf>) -> Vec<Finding> {
    let mut reached: BTreeSet<PathBuf> = BTreeSet::new();
    // A crate root holds its modules beside itself, every other file in the folder of its own name.
    let mut open: Vec<(PathBuf, bool)> = roots.into_iter().map(|root| (root, true)).collect();
    while let Some((path, is_root)) = open.pop() {
        let Some(source) = sources.get(&path) else { continue };
        if !reached.insert(path.clone()) {
            continue;
        }
        open.extend(included(&path, source).map(|file| (file, true)));
        open.extend(modules(&path, is_root, source).into_iter().map(|file| (file, false)));
    }
    sources
        .keys()
        .filter(|path| !reached.contains(*path))
        .map(|path| Finding::new(path, 0, "no crate reaches this file: declare it with `mod` or remove it"))
        .collect()
}

/// Files that the `mod name;` lines of a file may stand for.
fn modules(path: &Path, is_root: bool, source: &str) -> Vec<PathBuf> {
    let beside = path.parent().unwrap_or(Path::new(""));
    let folder =
        if is_root || path.ends_with("mod.rs") { beside.to_path_buf() } else { path.with_extension("") };
    let mut files = Vec::new();
    let mut path_attribute = None;
    for line in source.lines().map(str::trim) {
        if let Some(value) = line.strip_prefix("#[path = \"") {
            path_attribute = value.strip_suffix("\"]");
        } else if let Some(name) = declared_module(line).filter(|_| line.ends_with(';')) {
            match path_attribute.take() {
                Some(given) => files.push(normal(&beside.join(given))),
                None => files.extend([folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")]),
            }
        }
    }
    files
}

/// Files taken in whole by `include!("…")`.
fn included<'a>(path: &'a Path, source: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    let beside = path.parent().unwrap_or(Path::new(""));
    source
        .split("include!(\"")
        .skip(1)
        .filter_map(|rest| rest.split_once('"'))
        .map(|(file, _)| normal(&beside.join(file)))
}

/// Removes `..` from a relative path without asking the file system.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(sources: &[(&str, &'static str)]) -> Vec<String> {
        let sources = sources.iter().map(|(path, text)| (PathBuf::from(path), *text)).collect();
        let found = unreachable(&sources, vec!["src/lib.rs".into()]);
        found.into_iter().map(|finding| finding.path.display().to_string()).collect()
    }

    #[test]
    fn a_file_that_no_module_names_is_dead() {
        let sources = [("src/lib.rs", "mod a;"), ("src/a.rs", ""), ("src/b.rs", "")];
        assert_eq!(dead(&sources), ["src/b.rs"]);
    }

    #[test]
    fn modules_are_followed_into_folders_paths_and_includes() {
        let sources = [
            (
                "src/lib.rs",
                "pub(crate) mod a;\n#[path = \"../other/c.rs\"]\npub mod c;\ninclude!(\"table.rs\");",
            ),
            ("src/a.rs", "mod b;\n    mod deep;"),
            ("src/a/b.rs", ""),
            ("src/a/deep/mod.rs", "mod er;"),
            ("src/a/deep/er.rs", ""),
            ("other/c.rs", ""),
            ("src/table.rs", ""),
        ];
        assert_eq!(dead(&sources), Vec::<String>::new());
    }
}
