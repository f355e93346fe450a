//! Every query of the dashboards is about metrics that a scrape shows.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// Metrics of the process, which the program adds.
const OF_THE_PROCESS: [&str; 3] =
    ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"];
/// Words of the query language that are no functions.
const WORDS: [&str; 8] = ["by", "on", "without", "ignoring", "offset", "and", "or", "unless"];

/// The names of all series that a scrape can show.
fn exported() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = OF_THE_PROCESS.map(str::to_owned).into();
    for line in include_str!("exposition.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (name, kind) = (words.next().unwrap(), words.next().unwrap());
        names.insert(name.to_owned());
        let parts: &[&str] = match kind {
            "histogram" => &["_bucket", "_sum", "_count"],
            "summary" => &["_sum", "_count"],
            _ => &[],
        };
        names.extend(parts.iter().map(|part| format!("{name}{part}")));
    }
    names
}

/// The metrics a query names: what is left without label matchers, groupings, ranges and functions.
fn metrics(query: &str) -> BTreeSet<String> {
    let mut plain = String::new();
    let mut depth = 0;
    for letter in query.chars() {
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    let mut rest = plain.as_str();
    let mut grouping = false;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_alphabetic() || letter == '_') {
        let word = &rest[start..];
        let end = word
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':')
            .unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        // A number's unit is no word of its own: 1d.
        let is_unit = rest[..start].ends_with(|letter: char| letter.is_ascii_digit());
        if WORDS.contains(&word) {
            grouping = ["by", "on", "without", "ignoring"].contains(&word);
        } else if !grouping
            && !is_unit
            && !after.trim_start().starts_with('(')
            && !followed_by_grouping(after)
        {
            found.insert(word.to_owned());
        }
        if grouping && after.trim_start().starts_with(')') {
            grouping = false;
        }
        rest = after;
    }
    found
}

/// Whether a word is an aggregation, whose grouping stands between it and its argument.
fn followed_by_grouping(after: &str) -> bool {
    let after = after.trim_start();
    after.starts_with("by (") || after.starts_with("without (")
}

fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| queries(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

#[test]
fn the_metrics_of_a_query_are_found() {
    let named = |query: &str| metrics(query).into_iter().collect::<Vec<_>>();
    assert_eq!(named("a_total"), ["a_total"]);
    assert_eq!(named("sum by (x, y) (rate(a{z=~\"b|c\"}[5m])) / on (x) b offset 1d"), ["a", "b"]);
    assert_eq!(named("histogram_quantile(0.9, sum by (le) (rate(a_bucket[5m])))"), ["a_bucket"]);
    assert_eq!(named("100 * a / on (n, r) (b > 0)"), ["a", "b"]);
    assert_eq!(named("-sum by (reason) (increase(a[1h])) > 0"), ["a"]);
}

#[test]
fn every_query_of_the_dashboards_names_only_metrics_that_are_exported() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboards");
    let exported = exported();
    let mut boards = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let board: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let mut found = Vec::new();
        queries(&board, &mut found);
        assert!(found.len() > 5, "{} asks for little", path.display());
        for query in found {
            let named = metrics(&query);
            assert!(!named.is_empty(), "{query} names no metric");
            let unknown: Vec<&String> = named.iter().filter(|name| !exported.contains(*name)).collect();
            assert!(unknown.is_empty(), "{}: {query} asks for {unknown:?}", path.display());
        }
        boards += 1;
    }
    assert_eq!(boards, 4);
}
