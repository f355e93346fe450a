//! Discovery: what the server serves, in the legacy form and in one aggregated document.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::registry::{Registry, Resource, Subresource};
use crate::verbs::REVIEWS;
use crate::wire::{ResponseBody, Route, json_response, page_not_found};

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The Kubernetes version whose API this server speaks.
pub(crate) const VERSION: (&str, &str, &str) = ("1", "36", "v1.36.3");

pub(crate) fn answer(registry: &Registry, route: &Route, headers: &HeaderMap) -> Response<ResponseBody> {
    let document = match route {
        Route::Version => json!({
            "major": VERSION.0, "minor": VERSION.1, "gitVersion": VERSION.2, "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "embedded",
            "emulationMajor": VERSION.0, "emulationMinor": VERSION.1,
            "minCompatibilityMajor": VERSION.0, "minCompatibilityMinor": "35",
        }),
        Route::CoreVersions | Route::Groups if wants_aggregated(headers) => {
            return aggregated_response(registry, *route == Route::CoreVersions);
        }
        Route::CoreVersions => json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "localhost"}],
        }),
        Route::Groups => {
            let groups: Vec<Value> =
                all_groups(registry).map(|(name, versions)| group(name, &versions)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        Route::Group(name) => match all_groups(registry).find(|(other, _)| other == name) {
            Some((name, versions)) => {
                let mut document = group(name, &versions);
                document["kind"] = "APIGroup".into();
                document["apiVersion"] = "v1".into();
                document
            }
            None => return page_not_found(),
        },
        Route::GroupVersion(group, version) => {
            let resources = legacy_resources(registry, group, version);
            if resources.is_empty() {
                return page_not_found();
            }
            let name = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources})
        }
        _ => return page_not_found(),
    };
    json_response(StatusCode::OK, &document)
}

/// Returns the named groups, those of reviews included.
fn all_groups(registry: &Registry) -> impl Iterator<Item = (&str, Vec<String>)> {
    let stored = registry.groups().iter().filter(|(name, _)| !name.is_empty());
    let stored = stored.map(|(name, versions)| (name.as_str(), versions.clone()));
    let mut reviews: Vec<&str> = REVIEWS.iter().map(|(group, ..)| *group).collect();
    reviews.dedup();
    stored.chain(reviews.into_iter().map(|group| (group, vec!["v1".to_owned()])))
}

fn group(name: &str, versions: &[String]) -> Value {
    let entry = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let versions: Vec<Value> = versions.iter().map(entry).collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn legacy_resources(registry: &Registry, group: &str, version: &str) -> Vec<Value> {
    let mut resources = Vec::new();
    for resource in registry.of_version(group, version) {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": verbs(resource),
        });
        optional(&mut entry, resource);
        resources.push(entry);
        for subresource in &resource.subresources {
            let (group, version, kind) = response_kind(resource, subresource);
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, subresource.name()), "singularName": "",
                "namespaced": resource.namespaced, "kind": kind, "verbs": subresource_verbs(subresource),
            });
            if (group.as_str(), version.as_str()) != (resource.group.as_str(), resource.version.as_str()) {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            resources.push(entry);
        }
    }
    resources.extend(reviews(group, version).map(|(plural, kind, namespaced)| {
        json!({
            "name": plural, "singularName": kind.to_lowercase(), "namespaced": namespaced, "kind": kind,
            "verbs": ["create"],
        })
    }));
    resources
}

fn reviews<'r>(
    group: &'r str,
    version: &'r str,
) -> impl Iterator<Item = (&'static str, &'static str, bool)> + 'r {
    REVIEWS
        .iter()
        .filter(move |(other, ..)| *other == group && version == "v1")
        .map(|(_, plural, kind, namespaced)| (*plural, *kind, *namespaced))
}

fn verbs(resource: &Resource) -> Vec<&'static str> {
    let bulk = &*resource.name != "namespaces";
    VERBS.iter().copied().filter(|verb| bulk || *verb != "deletecollection").collect()
}

fn subresource_verbs(subresource: &Subresource) -> &'static [&'static str] {
    match subresource {
        Subresource::Status | Subresource::Scale(_) => &["get", "patch", "update"],
        Subresource::Finalize => &["update"],
        Subresource::Eviction | Subresource::Binding | Subresource::Token => &["create"],
    }
}

fn response_kind(resource: &Resource, subresource: &Subresource) -> (String, String, String) {
    let fixed =
        |group: &str, version: &str, kind: &str| (group.to_owned(), version.to_owned(), kind.to_owned());
    match subresource {
        Subresource::Scale(_) => fixed("autoscaling", "v1", "Scale"),
        Subresource::Eviction => fixed("policy", "v1", "Eviction"),
        Subresource::Binding => fixed("", "v1", "Binding"),
        Subresource::Token => fixed("authentication.k8s.io", "v1", "TokenRequest"),
        Subresource::Status | Subresource::Finalize => {
            fixed(&resource.group, &resource.version, &resource.kind)
        }
    }
}

fn optional(entry: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
}

const AGGREGATED: &str = "as=APIGroupDiscoveryList";

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accept
        .split(',')
        .any(|choice| choice.contains(AGGREGATED) && choice.contains("v=v2") && !choice.contains("v2beta1"))
}

fn aggregated_response(registry: &Registry, core: bool) -> Response<ResponseBody> {
    let mut items = Vec::new();
    if core {
        items.push(aggregated_group(registry, "", &["v1".to_owned()]));
    } else {
        items
            .extend(all_groups(registry).map(|(name, versions)| aggregated_group(registry, name, &versions)));
    }
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    let mut response = json_response(StatusCode::OK, &document);
    let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn aggregated_group(registry: &Registry, name: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let mut resources: Vec<Value> =
                registry.of_version(name, version).map(|resource| aggregated_resource(resource)).collect();
            resources.extend(reviews(name, version).map(|(plural, kind, namespaced)| {
                json!({
                    "resource": plural, "responseKind": {"group": name, "version": version, "kind": kind},
                    "scope": scope(namespaced), "singularResource": kind.to_lowercase(), "verbs": ["create"],
                })
            }));
            json!({"version": version, "freshness": "Current", "resources": resources})
        })
        .collect();
    let mut metadata = Map::new();
    if !name.is_empty() {
        metadata.insert("name".into(), name.into());
    }
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let mut entry = json!({
        "resource": resource.plural, "scope": scope(resource.namespaced), "singularResource": resource.singular,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "verbs": verbs(resource),
    });
    optional(&mut entry, resource);
    if !resource.subresources.is_empty() {
        let subresources = resource.subresources.iter().map(|subresource| {
            let (group, version, kind) = response_kind(resource, subresource);
            json!({
                "subresource": subresource.name(), "verbs": subresource_verbs(subresource),
                "responseKind": {"group": group, "version": version, "kind": kind},
            })
        });
        entry["subresources"] = subresources.collect();
    }
    entry
}

fn scope(namespaced: bool) -> &'static str {
    if namespaced { "Namespaced" } else { "Cluster" }
}
