//! Links of Markdown pages to files of the checkout must lead somewhere.

use std::path::Path;

use super::{File, Finding};

pub(super) fn check(root: &Path, file: &File) -> Vec<Finding> {
    if !file.has_extension(&["md"]) {
        return Vec::new();
    }
    let folder = root.join(&file.path).parent().map_or_else(|| root.to_path_buf(), Path::to_path_buf);
    let mut findings = Vec::new();
    let mut in_code = false;
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let broken = targets(line)
            .filter(|target| is_local(target))
            .filter(|target| !leads_somewhere(root, &folder, target));
        findings.extend(
            broken
                .map(|target| Finding::new(&file.path, number, format!("link to `{target}` leads nowhere"))),
        );
    }
    findings
}

/// The targets of `[text](target)` in a line, titles removed.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split_once(')')?.0;
        target.split_whitespace().next()
    })
}

/// Web addresses and places inside the same page are not files.
fn is_local(target: &str) -> bool {
    !(target.contains("://") || target.starts_with("mailto:") || target.starts_with('#'))
}

fn leads_somewhere(root: &Path, folder: &Path, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or(target);
    match path.strip_prefix('/') {
        Some(from_root) => root.join(from_root).exists(),
        None => folder.join(path).exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn broken(text: &str) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        check(root, &file("src/page.md", text)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn links_to_files_that_exist_are_fine() {
        assert_eq!(
            broken("see [main](main.rs), [manifest](../Cargo.toml#x) and [root](/src)"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_link_to_a_missing_file_is_named() {
        assert_eq!(broken("a [gone](gone.md \"title\") page"), ["link to `gone.md` leads nowhere"]);
    }

    #[test]
    fn addresses_anchors_and_code_are_left_alone() {
        assert_eq!(broken("[a](https://example.com/x) [b](#b)\n```\nv[i](x)\n```\n"), Vec::<String>::new());
    }
}
