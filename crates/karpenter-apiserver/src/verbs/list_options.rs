//! What a client says about a list or a watch in the query.

use serde_json::json;

use crate::error::{ApiError, FieldError};
use crate::wire::Query;

/// The options of one list or watch.
#[derive(Debug, Clone)]
pub(super) struct ListOptions {
    pub(super) limit: usize,
    /// Whether a watch is to start with the present objects; `None` leaves it to the resource version.
    pub(super) initial_events: Option<bool>,
    pub(super) exact: bool,
    pub(super) not_older: bool,
}

impl ListOptions {
    /// Reads and checks the options of a list, or of a watch.
    ///
    /// # Errors
    /// 400 when a number is none, 422 when options contradict each other.
    pub(super) fn read(query: &Query, watch: bool) -> Result<Self, ApiError> {
        let limit = query.get("limit").map_or(Ok(0), integer)?;
        query.get("timeoutSeconds").map_or(Ok(0), integer)?;
        let initial_events =
            query.all("sendInitialEvents").first().map(|text| !matches!(*text, "false" | "0"));
        let matching = query.get("resourceVersionMatch").unwrap_or_default();
        let mut errors = Vec::new();
        if watch {
            check_watch(query, matching, initial_events, &mut errors);
        } else {
            check_list(query, matching, initial_events, &mut errors);
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors));
        }
        let limit = usize::try_from(limit).unwrap_or(0);
        Ok(Self { limit, initial_events, exact: matching == "Exact", not_older: matching == "NotOlderThan" })
    }
}

fn integer(text: &str) -> Result<i64, ApiError> {
    text.parse()
        .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
}

const MATCH: &str = "resourceVersionMatch";

fn check_list(query: &Query, matching: &str, initial_events: Option<bool>, errors: &mut Vec<FieldError>) {
    if !matching.is_empty() {
        if query.get("resourceVersion").is_none() {
            let rule = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(MATCH, rule));
        }
        if query.get("continue").is_some() {
            let rule = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(MATCH, rule));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            let supported = ["Exact", "NotOlderThan", ""];
            errors.push(FieldError::unsupported(MATCH, &json!(matching), &supported));
        }
        if matching == "Exact" && query.get("resourceVersion") == Some("0") {
            let rule = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(MATCH, rule));
        }
    }
    if initial_events.is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
}

fn check_watch(query: &Query, matching: &str, initial_events: Option<bool>, errors: &mut Vec<FieldError>) {
    if initial_events.is_some() && matching != "NotOlderThan" {
        let rule = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(MATCH, rule));
    }
    if matching.is_empty() {
        return;
    }
    if initial_events.is_none() {
        let rule = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.push(FieldError::forbidden(MATCH, rule));
    }
    if matching != "NotOlderThan" {
        errors.push(FieldError::unsupported(MATCH, &json!(matching), &["NotOlderThan"]));
    }
    if query.get("continue").is_some() {
        let rule = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(MATCH, rule));
    }
}
