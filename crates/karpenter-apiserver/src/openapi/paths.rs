//! The operations of a document: what can be done under which path, with which parameters.

use serde_json::{Map, Value, json};

use super::entry::Entry;
use super::schemas::{META, gvk, reference};
use crate::registry::Subresource;

const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// What an operation works on.
#[derive(Clone, Copy)]
struct Subject<'e> {
    entry: &'e Entry<'e>,
    /// `Namespaced`, or nothing.
    scope: &'static str,
    /// The subresource as part of an operation's name.
    part: &'e str,
    kind: (&'e str, &'e str, &'e str),
}

/// Returns the operations of resources by path.
pub(super) fn paths(entries: &[Entry<'_>]) -> Map<String, Value> {
    let mut paths = Map::new();
    for entry in entries {
        let root = entry.root();
        let scope = if entry.namespaced { "namespaces/{namespace}/" } else { "" };
        let subject = Subject {
            entry,
            scope: if entry.namespaced { "Namespaced" } else { "" },
            part: "",
            kind: (entry.group, entry.version, entry.kind),
        };
        let collection = format!("/{root}/{scope}{}", entry.plural);
        if !entry.stored {
            paths.insert(collection.clone(), item(&collection, [("post", operation(subject, "post"))]));
            continue;
        }
        let verbs = ["list", "post", "deletecollection"];
        paths.insert(
            collection.clone(),
            item(&collection, verbs.map(|verb| (method(verb), operation(subject, verb)))),
        );
        if entry.namespaced {
            let all = format!("/{root}/{}", entry.plural);
            let everywhere = Subject { scope: "", part: "ForAllNamespaces", ..subject };
            paths.insert(all.clone(), item(&all, [("get", operation(everywhere, "list"))]));
        }
        let object = format!("{collection}/{{name}}");
        let verbs = ["get", "put", "patch", "delete"];
        paths.insert(
            object.clone(),
            item(&object, verbs.map(|verb| (method(verb), operation(subject, verb)))),
        );
        for subresource in entry.subresources {
            let (kind, part, verbs) = part(entry, subresource);
            let path = format!("{object}/{}", subresource.name());
            let subject = Subject { part, kind, ..subject };
            let operations = verbs.iter().map(|verb| (method(verb), operation(subject, verb)));
            paths.insert(path.clone(), item(&path, operations));
        }
    }
    paths
}

type Kind<'e> = (&'e str, &'e str, &'e str);

/// Returns the kind, the name and the verbs of a subresource.
fn part<'e>(
    entry: &'e Entry<'e>,
    subresource: &Subresource,
) -> (Kind<'e>, &'static str, &'static [&'static str]) {
    let own = (entry.group, entry.version, entry.kind);
    match subresource {
        Subresource::Status => (own, "Status", &["get", "put", "patch"]),
        Subresource::Finalize => (own, "Finalize", &["put"]),
        Subresource::Scale(_) => (("autoscaling", "v1", "Scale"), "Scale", &["get", "put", "patch"]),
        Subresource::Eviction => (("policy", "v1", "Eviction"), "Eviction", &["post"]),
        Subresource::Binding => (("", "v1", "Binding"), "Binding", &["post"]),
        Subresource::Token => (("authentication.k8s.io", "v1", "TokenRequest"), "Token", &["post"]),
    }
}

fn method(verb: &str) -> &'static str {
    match verb {
        "post" => "post",
        "put" => "put",
        "patch" => "patch",
        "delete" | "deletecollection" => "delete",
        _ => "get",
    }
}

/// Joins operations with the parameters their path names.
fn item<'v>(path: &str, operations: impl IntoIterator<Item = (&'v str, Value)>) -> Value {
    let mut item: Map<String, Value> =
        operations.into_iter().map(|(method, operation)| (method.to_owned(), operation)).collect();
    let mut parameters = Vec::new();
    for (name, description) in
        [("name", "The name of the object."), ("namespace", "The namespace of the objects.")]
    {
        if path.contains(&format!("{{{name}}}")) {
            parameters.push(json!({
                "name": name, "in": "path", "required": true, "description": description,
                "schema": {"type": "string", "uniqueItems": true},
            }));
        }
    }
    parameters.push(query("pretty", "string", "Ask for output that is easy to read."));
    item.insert("parameters".into(), parameters.into());
    Value::Object(item)
}

fn query(name: &str, kind: &str, description: &str) -> Value {
    let schema = json!({"type": kind, "uniqueItems": true});
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}

fn parameters(verb: &str) -> Vec<Value> {
    let dry_run = query("dryRun", "string", "With `All`, nothing is stored.");
    let writes = || {
        vec![
            dry_run.clone(),
            query("fieldManager", "string", "Who is recorded as owner of the fields that change."),
            query(
                "fieldValidation",
                "string",
                "What unknown fields are: `Ignore`, `Warn` or `Strict` errors.",
            ),
        ]
    };
    let deletes = || {
        vec![
            dry_run.clone(),
            query("gracePeriodSeconds", "integer", "How long the object may take to end."),
            query("orphanDependents", "boolean", "Superseded by propagationPolicy."),
            query(
                "propagationPolicy",
                "string",
                "What happens to dependents: `Orphan`, `Background`, `Foreground`.",
            ),
        ]
    };
    let lists = || {
        vec![
            query("allowWatchBookmarks", "boolean", "Send bookmarks with the resource version now and then."),
            query("continue", "string", "Where a paged list goes on."),
            query("fieldSelector", "string", "Only objects with these field values."),
            query("labelSelector", "string", "Only objects with these labels."),
            query("limit", "integer", "The most objects of a page."),
            query("resourceVersion", "string", "The state to show, or to start from."),
            query(
                "resourceVersionMatch",
                "string",
                "How resourceVersion is meant: `Exact` or `NotOlderThan`.",
            ),
            query("sendInitialEvents", "boolean", "Begin a watch with the objects that are there."),
            query("timeoutSeconds", "integer", "When the watch ends."),
        ]
    };
    match verb {
        "post" | "put" => writes(),
        "patch" => {
            let mut parameters = writes();
            parameters.push(query("force", "boolean", "Take over fields that others own; for apply only."));
            parameters
        }
        "delete" => deletes(),
        "deletecollection" => [lists(), deletes()].concat(),
        "list" => {
            let mut parameters = lists();
            parameters.push(query("watch", "boolean", "Follow changes instead of listing."));
            parameters
        }
        _ => Vec::new(),
    }
}

fn operation(subject: Subject<'_>, verb: &str) -> Value {
    let Subject { entry, scope, part, kind: (group, version, kind) } = subject;
    let own = entry.schema_name(entry.kind);
    let schema = match part {
        "Scale" => "io.k8s.api.autoscaling.v1.Scale".to_owned(),
        "Eviction" => "io.k8s.api.policy.v1.Eviction".to_owned(),
        "Binding" => "io.k8s.api.core.v1.Binding".to_owned(),
        "Token" => "io.k8s.api.authentication.v1.TokenRequest".to_owned(),
        _ => own,
    };
    let answered = match verb {
        "list" => entry.schema_name(entry.list_kind),
        "delete" | "deletecollection" => format!("{META}.Status"),
        _ => schema.clone(),
    };
    let content = |types: &[&str], schema: &str| -> Value {
        types.iter().map(|name| ((*name).to_owned(), json!({"schema": reference(schema)}))).collect()
    };
    let answer = |description: &str| json!({"description": description, "content": content(&["application/json", "application/yaml"], &answered)});
    let mut responses = json!({"200": answer("OK"), "401": {"description": "Unauthorized"}});
    if matches!(verb, "post" | "put" | "patch") {
        responses["201"] = answer("Created");
    }
    let mut operation = json!({
        "tags": [tag(entry)], "description": format!("{} {kind}", word(verb)),
        "operationId": operation_id(entry, verb, scope, part),
        "responses": responses, "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": gvk(group, version, kind),
    });
    let parameters = parameters(verb);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    let body = match verb {
        "post" | "put" => Some(content(&["*/*"], &schema)),
        "patch" => {
            // Strategic merge needs to know how lists merge, which only built-in kinds say.
            let formats = if entry.is_custom() { &PATCHES[..3] } else { &PATCHES };
            Some(content(formats, &format!("{META}.Patch")))
        }
        "delete" | "deletecollection" => Some(content(&["*/*"], &format!("{META}.DeleteOptions"))),
        _ => None,
    };
    if let Some(content) = body {
        operation["requestBody"] = json!({"content": content});
        if matches!(verb, "post" | "put" | "patch") {
            operation["requestBody"]["required"] = true.into();
        }
    }
    operation
}

fn word(verb: &str) -> &'static str {
    match verb {
        "post" => "create one",
        "put" => "replace one",
        "patch" => "change parts of one",
        "delete" => "delete one",
        "deletecollection" => "delete all",
        "list" => "list or watch",
        _ => "read one",
    }
}

fn tag(entry: &Entry<'_>) -> String {
    let group = entry.group.strip_suffix(".k8s.io").unwrap_or(entry.group);
    let group = if group.is_empty() { "core".to_owned() } else { group.replace('.', "") };
    format!("{group}_{}", entry.version)
}

fn operation_id(entry: &Entry<'_>, verb: &str, scope: &str, part: &str) -> String {
    let capitalized = |text: &str| {
        let mut letters = text.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    };
    let action = match verb {
        "post" => "create",
        "put" => "replace",
        "deletecollection" => "deleteCollection",
        "get" => "read",
        other => other,
    };
    let (group, version) =
        tag(entry).split_once('_').map(|(a, b)| (capitalized(a), capitalized(b))).unwrap_or_default();
    format!("{action}{group}{version}{scope}{}{part}", entry.kind)
}
