//! The cases of Karpenter's definitions: every rule of every CRD, broken and kept, on creation and on change.
//!
//! The cases are those that the tests of `karpenter-api` hold against the CRDs.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::karpenter::{install, subject};
use crate::random::Random;
use crate::samples::Resource;
use crate::script::{Request, Script};
use crate::side::edit;

const FILE: &str = include_str!("../../../karpenter-api/tests/data/admission_cases.jsonl");
/// A script ends with the first difference, so a script has only some cases.
const CASES_PER_SCRIPT: usize = 12;

/// A valid object, or a case made from the last valid object by edits.
#[derive(Deserialize)]
struct Line {
    kind: String,
    base: Option<Value>,
    #[serde(default)]
    edits: Vec<Vec<Value>>,
    old: Option<Vec<Vec<Value>>>,
}

/// An object, and what it is before.
struct Case {
    kind: String,
    base: Value,
    object: Value,
    old: Option<Value>,
}

/// Writes scripts that send every case.
pub(crate) fn scripts(prefix: &str) -> Result<Vec<Script>> {
    let cases = read()?;
    let mut scripts: Vec<Script> = Vec::new();
    let kinds = cases.chunk_by(|left, right| left.kind == right.kind);
    for (number, chunk) in kinds.flat_map(|cases| cases.chunks(CASES_PER_SCRIPT)).enumerate() {
        let mut script = Script::new("cases", &format!("{prefix}k{number}"), Random::new(0, number as u64));
        let (definition, resource) = subject(&chunk[0].kind)?;
        install(&mut script, &definition, &resource);
        for (index, case) in chunk.iter().enumerate() {
            send(&mut script, &resource, case, &format!("o{index}"));
        }
        scripts.push(script);
    }
    Ok(scripts)
}

fn read() -> Result<Vec<Case>> {
    let mut base = Value::Null;
    let mut cases = Vec::new();
    for line in FILE.lines() {
        let line: Line = serde_json::from_str(line).context("reading a case")?;
        if let Some(object) = line.base {
            base = object;
            continue;
        }
        let made = |edits: &[Vec<Value>]| {
            let mut object = base.clone();
            for change in edits {
                let pointer = change[0].as_str().unwrap_or_default();
                edit(&mut object, pointer, change.get(1).cloned());
            }
            object
        };
        let (object, old) = (made(&line.edits), line.old.as_deref().map(made));
        cases.push(Case { kind: line.kind, base: base.clone(), object, old });
    }
    Ok(cases)
}

/// Sends a case: its former state first if it has one, then the object, the status through its own path.
fn send(script: &mut Script, resource: &Resource, case: &Case, name: &str) {
    let item = script.item(resource, name);
    let named = |object: &Value| {
        let mut object = object.clone();
        object["metadata"]["name"] = script.name(resource, name).into();
        if resource.namespaced {
            object["metadata"]["namespace"] = script.namespace.clone().into();
        }
        object
    };
    let first = named(case.old.as_ref().unwrap_or(&case.object));
    let object = named(&case.object);
    let created = script.create(resource, first);
    if case.old.is_some() {
        let parts = ["spec", "metadata"].iter().map(|part| (format!("/{part}"), object.get(*part).cloned()));
        let version = Value::String(format!("$({created}/metadata/resourceVersion)"));
        let mut edits: Vec<_> = parts.collect();
        edits.push(("/metadata/resourceVersion".to_owned(), Some(version)));
        script.send(Request::new("PUT", item.clone()).edited(created, edits));
    }
    if case.object["status"] != case.base["status"] {
        let status = vec![("/status".to_owned(), case.object.get("status").cloned())];
        let read = script.get(resource, name);
        script.send(Request::new("PUT", format!("{item}/status")).edited(read, status));
    }
    script.send(Request::new("DELETE", item));
}
