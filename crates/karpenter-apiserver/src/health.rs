//! `/healthz`, `/livez` and `/readyz`: as a whole, in detail, and check by check.
//!
//! The checks have the names they have in kube-apiserver. What cannot fail here is well as long as there is an answer;
//! checks of parts that this server does not have are not found.

use http::{Response, StatusCode};

use crate::wire::{Query, ResponseBody, bytes_response, page_not_found, text_response};

/// The checks of all three paths.
const CHECKS: &[&str] = &["ping", "log", "etcd"];
/// The checks of whether requests can be answered.
const READY_CHECKS: &[&str] = &["etcd-readiness", "informer-sync", "shutdown"];

/// What is asked about the server's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    /// `healthz`, `livez` or `readyz`.
    pub(crate) kind: String,
    /// One check; none asks for all.
    pub(crate) check: Option<String>,
}

impl Health {
    /// Reads a path; `None` when it is about something else.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let (kind, check) = match path.strip_prefix('/')?.split_once('/') {
            None => (path.trim_start_matches('/'), None),
            Some((kind, check)) => (kind, Some(check.to_owned())),
        };
        matches!(kind, "healthz" | "livez" | "readyz").then(|| Self { kind: kind.to_owned(), check })
    }

    fn checks(&self) -> impl Iterator<Item = &'static str> {
        let ready: &[_] = if self.kind == "readyz" { READY_CHECKS } else { &[] };
        CHECKS.iter().chain(ready).copied()
    }

    pub(crate) fn answer(&self, query: &Query) -> Response<ResponseBody> {
        if let Some(wanted) = &self.check {
            let known = self.checks().any(|check| check == wanted);
            return if known { text_response(StatusCode::OK, "ok") } else { page_not_found() };
        }
        if query.all("verbose").is_empty() {
            return text_response(StatusCode::OK, "ok");
        }
        bytes_response(StatusCode::OK, self.details(query).into(), "text/plain; charset=utf-8")
    }

    /// One line per check.
    fn details(&self, query: &Query) -> String {
        let mut excluded = query.all("exclude");
        excluded.sort_unstable();
        excluded.dedup();
        let mut text = String::new();
        for check in self.checks() {
            let note = if excluded.contains(&check) { " excluded:" } else { "" };
            text.extend(["[+]", check, note, " ok\n"]);
        }
        excluded.retain(|name| self.checks().all(|check| check != *name));
        if !excluded.is_empty() {
            let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            text.extend(["warn: some health checks cannot be excluded: no matches for ", &names.join(",")]);
            text.push('\n');
        }
        text.extend([self.kind.as_str(), " check passed\n"]);
        text
    }
}
