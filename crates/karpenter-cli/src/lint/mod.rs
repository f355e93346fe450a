//! `karpenter lint`: what is wrong with the objects of files, on which line, and what to do about it.

mod document;
mod machines;
mod objects;

use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use karpenter_api::{LabelRules, Provider};
use karpenter_core::catalog::{Catalog, InstanceType};
use karpenter_lint::{Facts, Finding, Severity, lint};
use serde::Serialize;

use crate::arguments::provider_names;
pub(crate) use machines::machines;
use objects::{Objects, Place};

/// What is to be looked at, and how.
#[derive(Args, Debug)]
pub(crate) struct LintArguments {
    /// YAML or JSON to look at; give the option again for more. A folder stands for its .yaml, .yml and .json files, - for standard input
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where machines come from [default: as the NodePools' nodeClassRef says]
    #[arg(long, value_name = "PROVIDER", value_parser = provider_names())]
    provider: Option<Provider>,
    /// JSON file with the instance types that can be had, in the form of the KWOK provider
    #[arg(long, value_name = "FILE")]
    instance_types_file_path: Option<PathBuf>,
    /// The AWS region whose machines NodePools are compared with
    #[arg(long, value_name = "REGION", env = "AWS_REGION", default_value = "us-east-1")]
    region: String,
    /// How findings are printed
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Ends with 1 for warnings as well
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One JSON object per finding and line
    Json,
}

/// The exit code when something is wrong.
const FOUND: u8 = 1;

#[derive(Serialize)]
struct Located<'f> {
    file: &'f str,
    line: u64,
    #[serde(flatten)]
    finding: &'f Finding,
}

/// Judges all files together, since objects refer to each other across files.
pub(crate) fn run(arguments: &LintArguments) -> anyhow::Result<ExitCode> {
    let mut objects = Objects::default();
    for file in files(&arguments.files)? {
        let (name, text) = read(&file)?;
        match document::read(&text) {
            Ok(documents) => documents.into_iter().for_each(|document| objects.add(&name, document)),
            Err(error) => {
                eprintln!("karpenter lint: {name} is not YAML: {error}");
                return Ok(ExitCode::from(crate::BAD_INPUT));
            }
        }
    }
    let findings = judge(arguments, &mut objects)?;
    report(arguments, &findings)?;
    let worst = findings.iter().map(|(finding, _)| finding.severity).max();
    let bad = if arguments.strict { Severity::Warning } else { Severity::Error };
    Ok(if worst.is_some_and(|worst| worst >= bad) { ExitCode::from(FOUND) } else { ExitCode::SUCCESS })
}

fn judge(arguments: &LintArguments, objects: &mut Objects) -> anyhow::Result<Vec<(Finding, Place)>> {
    let provider = arguments.provider.or_else(|| objects.provider());
    let rules = provider.map_or_else(LabelRules::default, |provider| LabelRules::for_providers(&[provider]));
    let file = arguments.instance_types_file_path.as_deref();
    let (types, labels) = machines(file, provider, &arguments.region)?;
    let rules = rules.with_well_known(labels);
    if types.is_empty() {
        eprintln!(
            "karpenter lint: it is not known which machines there are, so requirements and limits are not compared with them; name --provider kwok or aws, a --region that is known, or --instance-types-file-path"
        );
    }
    let types: Arc<[Arc<InstanceType>]> = types.into();
    let names =
        objects.node_pools.iter().map(|pool| pool.metadata.name.as_deref().unwrap_or_default().into());
    let catalog = Catalog::shared(names, types);
    let facts = Facts {
        now: Timestamp::now(),
        rules: &rules,
        node_pools: objects.node_pools.iter().collect(),
        catalog: &catalog,
        served: provider.map(objects::served).into_iter().flatten().collect(),
        node_classes: objects.node_classes(),
        disruption_budgets: objects.disruption_budgets.iter().collect(),
        workloads: objects.workloads.clone(),
    };
    let found = lint(&facts);
    Ok(objects.placed(found))
}

fn report(arguments: &LintArguments, findings: &[(Finding, Place)]) -> anyhow::Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    for (finding, Place { file, line }) in findings {
        match arguments.output {
            Output::Json => {
                serde_json::to_writer(&mut output, &Located { file, line: *line, finding })?;
                writeln!(output)?;
            }
            Output::Text => {
                let Finding { code, severity, object, field, cause, remedy } = finding;
                writeln!(output, "{file}:{line}: {severity}: {cause} [{code}]")?;
                writeln!(output, "    in {object}, {field}")?;
                writeln!(output, "    fix: {remedy}")?;
            }
        }
    }
    if matches!(arguments.output, Output::Text) {
        writeln!(output, "{}", summary(findings))?;
    }
    output.flush()?;
    Ok(())
}

fn summary(findings: &[(Finding, Place)]) -> String {
    let count = |severity: Severity| {
        let count = findings.iter().filter(|(finding, _)| finding.severity == severity).count();
        format!("{count} {severity}{}", if count == 1 { "" } else { "s" })
    };
    [Severity::Error, Severity::Warning, Severity::Note].map(count).join(", ")
}

/// The files named, and those of the folders named, in the order of their names.
fn files(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).with_context(|| format!("reading the folder {}", path.display()))?;
        let mut inside: Vec<PathBuf> = Vec::new();
        for entry in entries {
            inside.push(entry.with_context(|| format!("reading the folder {}", path.display()))?.path());
        }
        let suits = |path: &PathBuf| {
            path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml" || ending == "json")
        };
        inside.retain(suits);
        inside.sort();
        files.append(&mut inside);
    }
    Ok(files)
}

fn read(file: &Path) -> anyhow::Result<(String, String)> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).context("reading standard input")?;
        return Ok(("standard input".to_owned(), text));
    }
    let name = file.display().to_string();
    let text = fs::read_to_string(file).with_context(|| format!("reading {name}"))?;
    Ok((name, text))
}
