//! What came of every spec, with upstream's controller and with ours.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::end_to_end::Plane;
use crate::workspace::Workspace;

/// The table that is committed: suite, spec, what came of it with upstream's controller and in how many seconds, and the same for
/// ours, on a real control plane and on the embedded cluster.
pub(super) const REPORT: &str = "tests/e2e-upstream/report.tsv";
const HEADER: &str = "suite\tspec\tupstream\tseconds\tours\tseconds\tours, embedded\tseconds";
const COLUMNS: usize = 8;

/// What came of one spec.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spec {
    pub(super) suite: String,
    pub(super) name: String,
    /// In the words of the suites: `passed`, `failed`, `timedout`, …
    pub(super) result: String,
    pub(super) seconds: f64,
    pub(super) message: String,
}

/// Where a shard leaves its report.
pub(super) fn path(rundir: &Path) -> PathBuf {
    rundir.join("report.json")
}

/// Reads the report of a shard: the specs that were run.
pub(super) fn read(suite: &str, rundir: &Path) -> Result<Vec<Spec>> {
    let text =
        fs::read_to_string(path(rundir)).with_context(|| format!("the suite {suite} left no report"))?;
    let report: Value = serde_json::from_str(&text).context("reading the report of a suite")?;
    let specs = specs(suite, &report);
    if specs.is_empty() {
        bail!("no spec of the suite {suite} was run; see {}", rundir.join("suite.log").display());
    }
    Ok(specs)
}

fn specs(suite: &str, report: &Value) -> Vec<Spec> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = list(report).into_iter().flat_map(|suite| list(&suite["SpecReports"]));
    let mut found = Vec::new();
    for spec in all {
        let message = text(&spec["Failure"]["Message"]);
        let is_spec = spec["LeafNodeType"] == "It";
        let (state, quiet) = (text(&spec["State"]), message.is_empty());
        if state == "skipped" && quiet || !is_spec && state == "passed" {
            continue;
        }
        let mut names: Vec<String> = list(&spec["ContainerHierarchyTexts"]).iter().map(text).collect();
        names.push(if is_spec { text(&spec["LeafNodeText"]) } else { text(&spec["LeafNodeType"]) });
        found.push(Spec {
            suite: suite.to_owned(),
            name: names.join(" / "),
            result: state,
            seconds: spec["RunTime"].as_f64().unwrap_or_default() / 1e9,
            message: message.split_whitespace().collect::<Vec<_>>().join(" "),
        });
    }
    found
}

/// The table.
pub(super) struct Report {
    rows: Vec<[String; COLUMNS]>,
}

impl Report {
    pub(super) fn read(workspace: &Workspace) -> Result<Self> {
        let path = workspace.root().join(REPORT);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {REPORT}"))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let row = |line: &str| -> Result<[String; COLUMNS]> {
            let columns: Vec<String> = line.split('\t').map(str::to_owned).collect();
            columns
                .try_into()
                .ok()
                .with_context(|| format!("{REPORT}: {COLUMNS} columns are expected: {line}"))
        };
        Ok(Self { rows: text.lines().skip(1).map(row).collect::<Result<_>>()? })
    }

    pub(super) fn write(&self, workspace: &Workspace) -> Result<()> {
        let mut text = format!("{HEADER}\n");
        for row in &self.rows {
            text.push_str(&row.join("\t"));
            text.push('\n');
        }
        fs::write(workspace.root().join(REPORT), text).with_context(|| format!("writing {REPORT}"))
    }

    /// Takes note of what came of specs with our controller.
    pub(super) fn note(&mut self, specs: &[Spec], on: Plane) {
        let column = match on {
            Plane::Real => 4,
            Plane::Embedded => 6,
        };
        for spec in specs {
            let same = |row: &&mut [String; COLUMNS]| row[0] == spec.suite && row[1] == spec.name;
            if let Some(row) = self.rows.iter_mut().find(same) {
                row[column].clone_from(&spec.result);
                row[column + 1] = format!("{:.1}", spec.seconds);
            }
        }
    }

    /// Whether ours does worse than upstream's.
    pub(super) fn is_worse(&self, spec: &Spec) -> bool {
        let mut same = self.rows.iter().filter(|row| row[0] == spec.suite && row[1] == spec.name);
        spec.result != "passed" && same.next().is_none_or(|row| row[2] == "passed")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |column: usize| self.rows.iter().filter(|row| row[column] == "passed").count();
        let all = self.rows.len();
        write!(
            formatter,
            "of {all} specs {} pass with upstream's controller, {} with ours, {} with ours on the embedded cluster",
            count(2),
            count(4),
            count(6)
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(name: &str, result: &str) -> Spec {
        Spec {
            suite: "regression".to_owned(),
            name: name.to_owned(),
            result: result.to_owned(),
            seconds: 1.25,
            message: String::new(),
        }
    }

    #[test]
    fn specs_that_were_not_run_are_left_out_and_a_failed_set_up_is_not() {
        let report = json!([{"SpecReports": [
            {"LeafNodeType": "It", "State": "passed", "RunTime": 1_250_000_000, "ContainerHierarchyTexts": ["Chaos"], "LeafNodeText": "a"},
            {"LeafNodeType": "It", "State": "skipped", "RunTime": 0, "ContainerHierarchyTexts": null, "LeafNodeText": "b"},
            {"LeafNodeType": "BeforeSuite", "State": "failed", "RunTime": 0, "Failure": {"Message": "no\n cluster"}},
        ]}]);
        let found = specs("regression", &report);
        assert_eq!(found[0], spec("Chaos / a", "passed"));
        assert_eq!((found[1].name.as_str(), found[1].message.as_str()), ("BeforeSuite", "no cluster"));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn what_passes_with_upstreams_controller_must_pass_with_ours() {
        let text =
            format!("{HEADER}\nregression\ta\tpassed\t1.0\t\t\t\t\nregression\tb\ttimedout\t2.0\t\t\t\t\n");
        let mut report = Report::parse(&text).expect("the table is sound");
        assert!(report.is_worse(&spec("a", "failed")));
        assert!(!report.is_worse(&spec("a", "passed")));
        assert!(!report.is_worse(&spec("b", "failed")), "upstream's does not pass either");
        assert!(report.is_worse(&spec("BeforeSuite", "failed")));
        report.note(&[spec("a", "passed")], Plane::Real);
        assert_eq!(report.rows[0][4..], ["passed", "1.2", "", ""]);
        assert!(
            report.to_string().starts_with("of 2 specs 1 pass with upstream's controller, 1 with ours, 0 ")
        );
    }
}
