//! What differs between two runs of the same command and is no difference: times, uids, addresses, column widths.

use std::sync::LazyLock;

use regex::Regex;

/// What is replaced by what, in this order.
const RULES: &[(&str, &str)] = &[
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"X509SHA256=[0-9a-f]{64}", "X509SHA256=<hash>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000", "<time>"),
    (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}", "<time>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?( \+0000)?( UTC)?", "<time>"),
    (r#"([rR]esource ?[vV]ersion"?: +)"?\d+"?"#, "$1<version>"),
    (r"127\.0\.0\.1:\d+", "<server>"),
    (r"\b10\.96\.\d+\.\d+\b", "<cluster-ip>"),
    (r"\b3[0-2]\d{3}/TCP", "<node-port>/TCP"),
    (r"(nodePort: +)3[0-2]\d{3}", "$1<node-port>"),
    (r"(LIVE|MERGED)-\d+", "$1"),
    (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-<suffix>"),
    (r"\b(\d+m)?\d+s\b", "<age>"),
    // Columns are as wide as their widest cell, also where the first is empty.
    (r"(?m)^ {20,}", "  "),
    (r"(\S)[ \t]{2,}", "$1  "),
    (r"(?m)[ \t]+$", ""),
];

/// Returns a text without what differs from run to run; `folder` is where the commands ran.
pub(crate) fn normal(text: &str, folder: &str) -> String {
    static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let compile = |(pattern, text): &(&str, &'static str)| {
            (Regex::new(pattern).expect("the patterns of the table are valid"), *text)
        };
        RULES.iter().map(compile).collect()
    });
    let text = text.replace(folder, "<folder>");
    let text =
        COMPILED.iter().fold(text, |text, (pattern, shown)| pattern.replace_all(&text, *shown).into_owned());
    text.trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ages_and_widths_are_no_differences() {
        let one = normal("NAME    AGE\nweb     12s\n", "/f");
        assert_eq!(one, normal("NAME  AGE\nweb  2m3s  \n", "/f"));
        assert_eq!(normal("  a:  b", "/f"), "  a:  b");
        assert_eq!(normal("resourceVersion: \"12\"", "/f"), "resourceVersion: <version>");
        assert_eq!(normal("/f/LIVE-123/x 2026-01-01T00:00:00Z", "/f"), "<folder>/LIVE/x <time>");
    }

    #[test]
    fn what_people_ask_for_is_kept() {
        assert_eq!(normal("cpu: 100m replicas: 3", "/f"), "cpu: 100m replicas: 3");
    }
}
