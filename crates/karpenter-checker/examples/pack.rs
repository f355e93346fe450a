//! Packs case files for the repository: `pack CASE_DIRECTORY OUT.jsonl.gz`.
//!
//! Writes one line per case in name order; of what upstream answered only the fields that are compared are kept.
//! Consolidation cases are kept whole, files that are no cases (plans) too.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::{env, process};

use flate2::Compression;
use flate2::write::GzEncoder;
use karpenter_checker::Expected;
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [source, target] = arguments.as_slice() else {
        eprintln!("usage: pack CASE_DIRECTORY_OR_JSONL OUT.jsonl.gz");
        process::exit(2);
    };
    let mut out = GzEncoder::new(File::create(target)?, Compression::best());
    for text in documents(&PathBuf::from(source))? {
        let mut document: Value = serde_json::from_str(&text)?;
        reduce(&mut document)?;
        writeln!(out, "{document}")?;
    }
    out.finish()?;
    Ok(())
}

fn documents(source: &PathBuf) -> Result<Vec<String>, Box<dyn Error>> {
    if !source.is_dir() {
        return Ok(BufReader::new(File::open(source)?).lines().collect::<Result<_, _>>()?);
    }
    let mut files: Vec<PathBuf> =
        fs::read_dir(source)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.sort();
    Ok(files.iter().map(fs::read_to_string).collect::<Result<_, _>>()?)
}

fn reduce(document: &mut Value) -> Result<(), Box<dyn Error>> {
    if let Some(plan) = document.as_object_mut() {
        plan.remove("timings");
    }
    let Some(expected) = document.get_mut("expected").filter(|e| e.get("variants").is_none()) else {
        return Ok(());
    };
    let kept: Expected = serde_json::from_value(expected.take())?;
    *expected = serde_json::to_value(kept)?;
    Ok(())
}
