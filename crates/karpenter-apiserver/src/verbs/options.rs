//! What a client says about a write in the query: dry run, field manager, field validation, force.

use http::{HeaderMap, header};
use serde_json::json;

use crate::error::{ApiError, FieldError};
use crate::patch::APPLY_PATCH;
use crate::wire::Call;

const MANAGER_LENGTH_MAX: usize = 128;

/// What happens to fields that the kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options of one write.
#[derive(Debug, Clone)]
pub(super) struct WriteOptions {
    pub(super) dry_run: bool,
    pub(super) manager: String,
    pub(super) validation: FieldValidation,
    pub(super) force: bool,
}

impl WriteOptions {
    /// Reads and checks the options; `kind` is the kind that errors name.
    ///
    /// # Errors
    /// 422 when one is not understood.
    pub(super) fn read(call: &Call<'_>, kind: &str) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let manager = call.query.get("fieldManager").unwrap_or_default();
        let force = call.query.all("force").first().map(|value| !matches!(*value, "false" | "0"));
        if kind == "PatchOptions" {
            let applies = call.content_type() == APPLY_PATCH;
            if applies && manager.is_empty() {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            if !applies && force.is_some() {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
        }
        check_manager(manager, &mut errors);
        let dry_run = call.query.all("dryRun");
        errors.extend(check_dry_run(&dry_run));
        let validation = match call.query.get("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::unsupported("fieldValidation", &json!(other), &supported));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", kind, "", &errors));
        }
        let manager = if manager.is_empty() { agent(call.headers) } else { manager.to_owned() };
        Ok(Self { dry_run: !dry_run.is_empty(), manager, validation, force: force == Some(true) })
    }
}

/// Every value of `dryRun` must be `All`.
pub(super) fn check_dry_run(values: &[&str]) -> Option<FieldError> {
    let unsupported = values.iter().any(|value| *value != "All");
    unsupported.then(|| FieldError::unsupported("dryRun", &json!(values), &["All"]))
}

fn check_manager(manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > MANAGER_LENGTH_MAX {
        errors.push(FieldError::too_long("fieldManager", MANAGER_LENGTH_MAX));
    }
    for (index, character) in manager.char_indices().filter(|(_, character)| character.is_control()) {
        let rule = format!("invalid character U+{:04X} (at position {index})", u32::from(character));
        errors.push(FieldError::invalid("fieldManager", &json!(manager), rule));
    }
}

/// The part of the user agent before the slash, which owns fields when no manager is named.
pub(super) fn agent(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let name = agent.split('/').next().unwrap_or_default();
    name.chars().filter(|character| !character.is_control()).take(MANAGER_LENGTH_MAX).collect()
}
