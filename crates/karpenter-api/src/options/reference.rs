//! Renders the options and feature gates as the page users read.

use std::fmt::Write as _;

use super::{ALIBABA_CLOUD_OPTIONS, AWS_OPTIONS, FEATURE_GATES, KWOK_OPTIONS, OPTIONS, OptionSpec, Stage};

const INTRODUCTION: &str = "# Options

<!-- Generated from the table in crates/karpenter-api/src/options.rs:
     cargo run -p karpenter-api --example options > docs/options.md -->

Every option can be given as a flag, as an environment variable, or as a value of the Helm chart. A flag wins over
the variable, the variable over the default. Where no chart value is named, set the variable through
`controller.env`.

Switches take `true` or `false`, joined by an equals sign: `--enable-profiling=false`. A number, duration or switch in
the environment that cannot be read is reported in the log and the default is used; any other value that cannot be used
stops the controller with a message.
";

/// Returns the reference of all options in Markdown.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## Controller\n\n");
    page.push_str(&markdown_table(OPTIONS));
    page.push_str("\n## KWOK provider\n\n");
    page.push_str(&markdown_table(KWOK_OPTIONS));
    page.push_str("\n## AWS provider\n\n");
    page.push_str(&markdown_table(AWS_OPTIONS));
    page.push_str("\n## Alibaba Cloud provider\n\n");
    page.push_str(&markdown_table(ALIBABA_CLOUD_OPTIONS));
    page.push_str("\n## Feature gates\n\nSwitched together in one option: `--feature-gates=NodeRepair=true,NodeOverlay=true`. ");
    page.push_str(
        "Gates that are not named keep their default; a name that no gate has is reported and ignored.\n\n",
    );
    page.push_str(&gates_table());
    page
}

/// Renders a table of options; providers use it for their own.
pub fn markdown_table(specs: &[OptionSpec]) -> String {
    let mut table =
        String::from("| Flag | Environment | Chart value | Default | Meaning |\n|---|---|---|---|---|\n");
    for spec in specs {
        // The default of the gates is long and stands in their own table.
        let default = if spec.flag == "feature-gates" { "see below".to_owned() } else { code(spec.default) };
        let help = spec.help.split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(table, "| `--{}` | `{}` | {} | {default} | {help} |", spec.flag, spec.env, code(spec.chart))
            .expect("writing to a string cannot fail");
    }
    table
}

fn gates_table() -> String {
    let mut table =
        String::from("| Gate | Chart value | Default | Stage | Meaning |\n|---|---|---|---|---|\n");
    for spec in FEATURE_GATES {
        let stage = match spec.stage {
            Stage::Alpha => "alpha",
            Stage::Beta => "beta",
        };
        let default = code(if spec.default { "true" } else { "false" });
        writeln!(table, "| `{}` | {} | {default} | {stage} | {} |", spec.name, code(spec.chart), spec.help)
            .expect("writing to a string cannot fail");
    }
    table
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}
