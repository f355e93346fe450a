//! Rights: what the roles of an account grant, what the API server's audit log says it used.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use anyhow::{Context, Result};
use serde_json::Value;

/// One right, or the use of it: a verb on a resource of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    group: String,
    resource: String,
    verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{} {}{dot}{}", self.verb, self.resource, self.group)
    }
}

/// Rights that a life in this cluster cannot show, each with its reason.
const UNSEEN: [(&str, &str); 1] = [(
    "update nodepools/finalizers.karpenter.sh",
    "asked for by the admission plugin OwnerReferencesPermissionEnforcement, which is off here",
)];

/// A call of an account.
pub(super) struct Call {
    right: Right,
    refused: bool,
}

/// The calls of a user in an audit log.
pub(super) fn calls(log: &str, user: &str) -> Result<Vec<Call>> {
    let mut calls = Vec::new();
    for line in log.lines().filter(|line| line.contains(user)) {
        let event: Value = serde_json::from_str(line).context("reading a line of the audit log")?;
        let reference = &event["objectRef"];
        // Without a resource it is about the API itself, which every account may look at.
        if event["user"]["username"] != user || reference["resource"].as_str().is_none() {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resource = match reference["subresource"].as_str() {
            Some(part) => format!("{}/{part}", text(&reference["resource"])),
            None => text(&reference["resource"]),
        };
        let right = Right { group: text(&reference["apiGroup"]), resource, verb: text(&event["verb"]) };
        calls.push(Call { right, refused: event["responseStatus"]["code"] == 403 });
    }
    Ok(calls)
}

/// What the roles bound to an account grant.
pub(super) fn granted(roles: &Value, account: &str, namespace: &str) -> BTreeSet<Right> {
    let items = || roles["items"].as_array().into_iter().flatten();
    let is_bound = |binding: &&Value| {
        binding["subjects"].as_array().into_iter().flatten().any(|subject| {
            subject["kind"] == "ServiceAccount"
                && subject["name"] == account
                && subject["namespace"] == namespace
        })
    };
    let references = items().filter(is_bound).map(|binding| &binding["roleRef"]);
    let allowed = references.flat_map(|reference| {
        let named = |role: &&Value| {
            role["kind"] == reference["kind"] && role["metadata"]["name"] == reference["name"]
        };
        items().filter(named).flat_map(|role| role["rules"].as_array().into_iter().flatten())
    });
    let words = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in allowed {
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                for verb in words(&rule["verbs"]) {
                    rights.insert(Right { group: group.clone(), resource: resource.clone(), verb });
                }
            }
        }
    }
    rights
}

/// What is wrong with the rights of an account.
pub(super) struct Report {
    refused: BTreeSet<Right>,
    unused: Vec<Right>,
    excused: usize,
}

/// Holds the calls against the rights.
pub(super) fn report(calls: &[Call], granted: &BTreeSet<Right>) -> Report {
    let refused = calls.iter().filter(|call| call.refused).map(|call| call.right.clone()).collect();
    let used: BTreeSet<&Right> = calls.iter().map(|call| &call.right).collect();
    let unused = granted.iter().filter(|right| !used.contains(right));
    let is_excused = |right: &&Right| UNSEEN.iter().any(|(name, _)| *name == right.to_string());
    let (excused, unused): (Vec<&Right>, Vec<&Right>) = unused.partition(is_excused);
    Report { refused, unused: unused.into_iter().cloned().collect(), excused: excused.len() }
}

impl Report {
    /// In a line, for people.
    pub(super) fn summary(&self) -> String {
        let Self { refused, unused, excused } = self;
        format!("{} refused, {} unused, {excused} not to be seen here", refused.len(), unused.len())
    }

    /// What must change; empty if nothing.
    pub(super) fn faults(&self) -> String {
        let mut text = String::new();
        for right in &self.refused {
            let _ = write!(text, "the account was refused to {right}; ");
        }
        for right in &self.unused {
            let _ = write!(text, "the right to {right} was never used: take it from the chart; ");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const USER: &str = "system:serviceaccount:kube-system:karpenter";

    fn event(verb: &str, resource: &str, code: u16) -> String {
        let reference = json!({"resource": resource, "apiGroup": "karpenter.sh"});
        json!({"user": {"username": USER}, "verb": verb, "objectRef": reference, "responseStatus": {"code": code}}).to_string()
    }

    fn roles(verbs: &Value) -> Value {
        json!({"items": [
            {"kind": "ClusterRole", "metadata": {"name": "core"}, "rules": [
                {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "verbs": verbs},
                {"apiGroups": ["karpenter.sh"], "resources": ["nodepools/finalizers"], "verbs": ["update"]},
            ]},
            {"kind": "ClusterRoleBinding", "roleRef": {"kind": "ClusterRole", "name": "core"},
             "subjects": [{"kind": "ServiceAccount", "name": "karpenter", "namespace": "kube-system"}]},
        ]})
    }

    #[test]
    fn what_is_used_and_granted_is_no_fault_and_the_rest_is() {
        let log = [event("list", "nodepools", 200), event("patch", "nodepools", 403)].join("\n");
        let calls = calls(&log, USER).expect("a log");
        let granted = granted(&roles(&json!(["list", "delete"])), "karpenter", "kube-system");
        let report = report(&calls, &granted);
        let faults = report.faults();
        assert!(faults.contains("refused to patch nodepools.karpenter.sh"), "{faults}");
        assert!(faults.contains("right to delete nodepools.karpenter.sh was never used"), "{faults}");
        assert!(!faults.contains("finalizers") && !faults.contains("list"), "{faults}");
    }

    #[test]
    fn calls_of_others_do_not_count() {
        assert!(calls(&event("list", "nodepools", 200), "somebody else").expect("a log").is_empty());
    }
}
