//! Texts that no tracked file may hold: marks of unfinished work, folders of one machine, hosts of package registries.
//!
//! Lock files are written by their tools and may name where packages come from.

use super::{File, Finding};

/// What is looked for and what to do about it. Each text is assembled from pieces, so that this file does not break
/// its own rule.
const FORBIDDEN: [(&str, &str); 12] = [
    (concat!("TO", "DO"), UNFINISHED),
    (concat!("FIX", "ME"), UNFINISHED),
    (concat!("/wo", "rk/"), MACHINE),
    (concat!("/ro", "ot/"), MACHINE),
    (concat!("/tm", "p/"), MACHINE),
    (concat!("/ho", "me/"), MACHINE),
    (concat!("crates", ".io"), REGISTRY),
    (concat!("proxy.golang", ".org"), REGISTRY),
    (concat!("npmjs", ".org"), REGISTRY),
    (concat!("npmjs", ".com"), REGISTRY),
    (concat!("py", "pi.org"), REGISTRY),
    (concat!("pythonhosted", ".org"), REGISTRY),
];

const UNFINISHED: &str = "finish it or file an issue";
const MACHINE: &str =
    "a path of one machine: take it from an argument, a variable or the system's temporary folder";
const REGISTRY: &str = "a package registry's host: name the package, each machine knows its registry";

const LOCK_FILES: [&str; 3] = ["Cargo.lock", "package-lock.json", "go.sum"];

pub(super) fn check(file: &File) -> Vec<Finding> {
    if file.path.file_name().is_some_and(|name| LOCK_FILES.iter().any(|lock| name == *lock)) {
        return Vec::new();
    }
    let found = |(number, line): (usize, &str)| {
        let (text, advice) = FORBIDDEN.iter().find(|(text, _)| line.contains(text))?;
        Some(Finding::new(&file.path, number, format!("`{text}`: {advice}")))
    };
    file.lines().filter_map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn each_forbidden_text_is_found_on_its_line() {
        for (text, _) in FORBIDDEN {
            let findings = check(&file("docs/a.md", &format!("fine\nnot {text} fine\n")));
            assert_eq!(findings.len(), 1, "{text}");
            assert_eq!(findings[0].line, 2);
        }
    }

    #[test]
    fn lock_files_may_name_where_packages_come_from() {
        assert_eq!(check(&file("Cargo.lock", FORBIDDEN[6].0)), Vec::new());
    }
}
