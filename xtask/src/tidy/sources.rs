//! Rules of source files: an opening that says what the file is for, a length a person can hold, names that mean
//! something, no test that never runs.

use super::{File, Finding, declared_module};

/// Longer files are split.
const LINES_MAX: usize = 1000;

/// Extensions of the sources that people write.
const SOURCES: [&str; 5] = ["rs", "go", "ts", "svelte", "py"];

/// Names of files, folders and modules that say nothing of what is inside.
const EMPTY_NAMES: [&str; 6] = ["util", "utils", "helper", "helpers", "common", "misc"];

/// Assembled from pieces, so that this file does not break its own rule.
const IGNORED_TEST: &str = concat!("#[", "ignore");

pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !file.has_extension(&SOURCES) {
        return findings;
    }
    findings.extend(length(file));
    findings.extend(path_name(file));
    if file.has_extension(&["rs"]) {
        findings.extend(opening(file));
        findings.extend(file.lines().filter_map(|(number, line)| rust_line(file, number, line)));
    }
    findings
}

fn length(file: &File) -> Option<Finding> {
    let lines = file.text.lines().count();
    (lines > LINES_MAX)
        .then(|| Finding::new(&file.path, 0, format!("{lines} lines, split it before {LINES_MAX}")))
}

fn path_name(file: &File) -> Option<Finding> {
    let name = file.path.with_extension("").iter().find_map(|part| empty_name(&part.to_string_lossy()))?;
    Some(Finding::new(&file.path, 0, format!("`{name}` says nothing: name the file for what it holds")))
}

fn empty_name(name: &str) -> Option<&'static str> {
    EMPTY_NAMES.into_iter().find(|empty| *empty == name)
}

fn opening(file: &File) -> Option<Finding> {
    (!file.text.starts_with("//!"))
        .then(|| Finding::new(&file.path, 1, "open the file with `//!`: what it decides or holds"))
}

fn rust_line(file: &File, number: usize, line: &str) -> Option<Finding> {
    if line.contains(IGNORED_TEST) {
        return Some(Finding::new(&file.path, number, "a test that never runs: make it pass or remove it"));
    }
    let name = empty_name(declared_module(line)?)?;
    Some(Finding::new(&file.path, number, format!("module `{name}` says nothing: name it for what it holds")))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&file(path, text)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_file_that_says_what_it_holds_is_tidy() {
        assert_eq!(messages("src/limits.rs", "//! Holds limits.\n\npub mod pools;\n"), Vec::<String>::new());
    }

    #[test]
    fn a_file_without_an_opening_is_found() {
        assert_eq!(messages("src/a.rs", "use std::fs;\n").len(), 1);
    }

    #[test]
    fn empty_names_are_found_in_paths_and_declarations() {
        assert_eq!(messages("src/utils.rs", "//! x\n").len(), 1);
        assert_eq!(messages("src/common/a.rs", "//! x\n").len(), 1);
        assert_eq!(messages("src/a.rs", "//! x\npub(crate) mod helpers;\nmod misc {}\n").len(), 2);
    }

    #[test]
    fn long_files_and_sleeping_tests_are_found() {
        assert_eq!(messages("src/a.rs", &format!("//! x\n{}", "\n".repeat(LINES_MAX))).len(), 1);
        assert_eq!(messages("src/a.rs", &format!("//! x\n{IGNORED_TEST}]\nfn a() {{}}\n")).len(), 1);
    }

    #[test]
    fn rules_of_sources_leave_data_alone() {
        assert_eq!(messages("data/common.json", "{}"), Vec::<String>::new());
    }
}
