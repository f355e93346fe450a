//! Rules of what is reported about a pod.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::pod;
use crate::error::FieldError;
use crate::kinds::format;
use crate::kinds::place::{Errors, Place};

/// The lists of reports about containers, each with the list in the spec that it is about.
const CONTAINERS: [(&str, &str); 2] =
    [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")];
const EPHEMERAL: &str = "ephemeralContainerStatuses";

/// How long a sentence about the health of a device may be.
const MESSAGE_MAX: usize = 1024;

pub(super) fn validate(root: &Place<'_, '_>, old: &Value, errors: &mut Errors) {
    let status = root.field("status");
    conditions(&status, errors);
    nomination(&status, old, errors);
    let seen = status.field("observedGeneration");
    if seen.number().is_some_and(|number| number < 0) {
        errors.push(seen.invalid("must be a non-negative integer"));
    }
    let quality = status.field("qosClass");
    if quality.text() != old["status"]["qosClass"].as_str().unwrap_or_default() {
        errors.push(quality.invalid_value(&json!(quality.text()), "field is immutable"));
    }
    restarts(&status, old, errors);
    claims(&status, &root.value["spec"], errors);
    extended_resources(&status.field("extendedResourceClaimStatus"), &root.value["spec"], errors);
    addresses(&status.field("podIPs"), errors);
    let hosts = status.field("hostIPs");
    if let Some(first) = hosts.items().next()
        && first.field("ip").text() != status.field("hostIP").text()
    {
        errors.push(first.field("ip").invalid("must be equal to `hostIP`"));
    }
    addresses(&hosts, errors);
    containers(&status, &root.value["spec"], errors);
}

fn conditions(status: &Place<'_, '_>, errors: &mut Errors) {
    for condition in status.field("conditions").items() {
        let seen = condition.field("observedGeneration");
        if seen.number().is_some_and(|number| number < 0) {
            errors.push(seen.invalid("must be a non-negative integer"));
        }
        let kind = condition.field("type").text();
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            // Kubernetes spells the field as its own code does.
            errors.form(&Place::root(&condition.field("Type").path(), &json!(kind)), format::label_key(kind));
        }
    }
}

fn nomination(status: &Place<'_, '_>, old: &Value, errors: &mut Errors) {
    let nominated = status.field("nominatedNodeName");
    let same = old["status"]["nominatedNodeName"].as_str().unwrap_or_default() == nominated.text();
    if same || nominated.text().is_empty() {
        return;
    }
    errors.form(&nominated, format::dns_subdomain(nominated.text()));
    if old["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty()) {
        errors.push(nominated.forbidden("may not be set on pods that are already bound to a node"));
    }
}

/// A container that has ended stays so unless it may be restarted.
fn restarts(status: &Place<'_, '_>, old: &Value, errors: &mut Errors) {
    let spec = &old["spec"];
    let restarts_all = CONTAINERS.iter().any(|(_, list)| {
        let rules = items(&spec[*list]).flat_map(|container| items(&container["restartPolicyRules"]));
        rules.into_iter().any(|rule| rule["action"] == "RestartAllContainers")
    });
    let may_restart = |list: &str, ended: &Value| {
        let container = items(&spec[list]).find(|container| container["name"] == ended["name"]);
        let code = ended["state"]["terminated"]["exitCode"].as_i64().unwrap_or(0);
        restarts_all || container.is_some_and(|container| restarts_after(container, spec, code))
    };
    let mut check = |statuses: &str, may_restart: &dyn Fn(&Value) -> bool| {
        let list = status.field(statuses);
        for (index, before) in items(&old["status"][statuses]).enumerate() {
            let runs_again = list.items().any(|now| {
                now.value["name"] == before["name"] && !now.value["state"]["terminated"].is_object()
            });
            if before["state"]["terminated"].is_object() && runs_again && !may_restart(before) {
                let path = format!("{}[{index}].state", list.path());
                errors.push(FieldError::forbidden(path, "may not be transitioned to non-terminated state"));
            }
        }
    };
    for (statuses, list) in CONTAINERS {
        check(statuses, &|ended| may_restart(list, ended));
    }
    check(EPHEMERAL, &|_| false);
}

/// Whether a container that ended with a code is started again: its own rules come first, then its policy, then the
/// pod's.
fn restarts_after(container: &Value, spec: &Value, code: i64) -> bool {
    let of_policy = |policy: &Value| match policy.as_str() {
        Some("Always") => Some(true),
        Some("OnFailure") => Some(code != 0),
        Some("Never") => Some(false),
        _ => None,
    };
    let own = container.get("restartPolicy").filter(|policy| !policy.is_null());
    let rule = items(&container["restartPolicyRules"]).find(|rule| {
        let listed = items(&rule["exitCodes"]["values"]).any(|value| *value == code);
        match rule["exitCodes"]["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            _ => false,
        }
    });
    let by_rule = rule.filter(|rule| own.is_some() && rule["action"] == "Restart").map(|_| true);
    by_rule.or_else(|| own.and_then(of_policy)).or_else(|| of_policy(&spec["restartPolicy"])).unwrap_or(true)
}

/// Which claims were made for a pod.
fn claims(status: &Place<'_, '_>, spec: &Value, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for claim in status.field("resourceClaimStatuses").items() {
        let (name, made) = (claim.field("name"), claim.field("resourceClaimName"));
        if !items(&spec["resourceClaims"]).any(|wanted| wanted["name"] == name.text()) {
            let rule = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(name.invalid_value(&json!(name.text()), rule));
        }
        if !seen.insert(name.text()) {
            errors.push(FieldError::duplicate(name.path(), &json!(name.text())));
        }
        if made.is_set() {
            errors.form(&made, format::dns_subdomain(made.text()));
        }
    }
}

/// The claim made for extended resources, and which requests stand for which.
fn extended_resources(status: &Place<'_, '_>, spec: &Value, errors: &mut Errors) {
    if !status.is_set() {
        return;
    }
    let mappings = status.field("requestMappings");
    if mappings.len() == 0 {
        errors.push(mappings.required("at least one request mapping is required"));
    }
    let mut seen = BTreeSet::new();
    for mapping in mappings.items() {
        let names = ["containerName", "resourceName", "requestName"];
        let [container, resource, request] = names.map(|name| mapping.field(name).text());
        let lists = ["containers", "initContainers"];
        let found = lists.iter().flat_map(|list| items(&spec[*list])).find(|one| one["name"] == container);
        let wrong = match found {
            None => Some((
                "containerName",
                "must match the name of an entry in spec.initContainers.name or spec.containers.name",
            )),
            Some(found) if found["resources"]["requests"].get(resource).is_none() => Some((
                "resourceName",
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or \
                 spec.containers.resources.requests",
            )),
            Some(_) => None,
        };
        if let Some((name, rule)) = wrong {
            let place = mapping.field(name);
            errors.push(place.invalid_value(&json!(place.text()), rule));
        }
        // Kubernetes leaves the mapping out of this path.
        let (path, value) = (status.field("requestName").path(), json!(request));
        errors.form(&Place::root(&path, &value), format::dns_label(request));
        if !seen.insert([container, resource, request]) {
            let twice = names
                .map(|name| mapping.field(name))
                .map(|place| FieldError::duplicate(place.path(), &json!(place.text())));
            errors.add(twice);
        }
    }
    let claim = status.field("resourceClaimName");
    if claim.text().is_empty() {
        errors.push(claim.required(""));
    } else {
        errors.form(&claim, format::dns_subdomain(claim.text()));
    }
}

/// At most one address of each family.
fn addresses(list: &Place<'_, '_>, errors: &mut Errors) {
    for item in list.items() {
        let text = json!(item.field("ip").text());
        pod::ip_address(&Place::root(&item.path(), &text), errors);
    }
    if list.len() < 2 {
        return;
    }
    let parsed: Vec<Option<IpAddr>> =
        list.items().map(|item| item.field("ip").text().parse::<IpAddr>().ok()).collect();
    let has = |fourth: bool| parsed.iter().flatten().any(|address| address.is_ipv4() == fourth);
    if !(has(true) && has(false)) || list.len() > 2 {
        errors.push(list.invalid("may specify no more than one IP for each IP family"));
    }
}

/// Users that containers run as, and the health of their devices.
fn containers(status: &Place<'_, '_>, spec: &Value, errors: &mut Errors) {
    let system = spec["os"]["name"].as_str().unwrap_or("linux");
    for (statuses, list) in CONTAINERS {
        for container in status.field(statuses).items() {
            user(&container, system, errors);
            let wanted = items(&spec[list]).find(|one| one["name"] == container.value["name"]);
            for allocated in container.field("allocatedResourcesStatus").items() {
                devices(&allocated, wanted, errors);
            }
        }
    }
    for container in status.field(EPHEMERAL).items() {
        user(&container, system, errors);
        let allocated = container.field("allocatedResourcesStatus");
        if allocated.len() > 0 {
            errors.push(allocated.forbidden("must not be specified in container status"));
        }
    }
}

fn user(container: &Place<'_, '_>, system: &str, errors: &mut Errors) {
    let user = container.field("user");
    let linux = user.field("linux");
    if !linux.is_set() {
        return;
    }
    if system == "windows" {
        errors.push(linux.forbidden("cannot be set for a windows pod"));
        return;
    }
    let mut id = |place: &Place<'_, '_>| {
        let number = place.number().unwrap_or(0);
        errors.form(place, format::in_range(number, 0, i64::from(i32::MAX)));
    };
    id(&linux.field("uid"));
    id(&linux.field("gid"));
    linux.field("supplementalGroups").items().for_each(|group| id(&group));
}

/// What was given to a container for one of its requests or claims.
fn devices(allocated: &Place<'_, '_>, container: Option<&Value>, errors: &mut Errors) {
    let name = allocated.field("name");
    let claim_name = |claim: &Value| match claim["request"].as_str().unwrap_or_default() {
        "" => format!("claim:{}", claim["name"].as_str().unwrap_or_default()),
        request => format!("claim:{}/{request}", claim["name"].as_str().unwrap_or_default()),
    };
    let wrong = container.and_then(|container| {
        let resources = &container["resources"];
        if name.text().starts_with("claim:") {
            let known = items(&resources["claims"]).any(|claim| claim_name(claim) == name.text());
            (!known).then_some(
                "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or \
                 'claim:<claimName>' if request is empty",
            )
        } else {
            let known = resources["requests"].get(name.text()).is_some();
            (!known).then_some("must match one of the container's resource requests")
        }
    });
    if let Some(rule) = wrong {
        errors.push(name.invalid_value(&json!(name.text()), rule));
    }
    let mut seen = BTreeSet::new();
    for device in allocated.field("resources").items() {
        let (health, message, id) =
            (device.field("health"), device.field("message"), device.field("resourceID"));
        if !matches!(health.text(), "Healthy" | "Unhealthy" | "Unknown") {
            errors.push(health.unsupported(&["Healthy", "Unhealthy", "Unknown"]));
        }
        if message.is_set() && message.text().is_empty() {
            errors.push(message.required("must be non-empty if specified"));
        } else if message.text().len() > MESSAGE_MAX {
            errors.push(FieldError::too_long(message.path(), MESSAGE_MAX));
        }
        if !seen.insert(id.text()) {
            errors.push(FieldError::duplicate(id.path(), &json!(id.text())));
        }
    }
}

fn items(list: &Value) -> std::slice::Iter<'_, Value> {
    list.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(new: &Value, old: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        validate(&Place::root("", new), old, &mut errors);
        errors.0.into_iter().map(|error| error.field).collect()
    }

    fn pod(restart: &str, container: &Value, status: &Value) -> Value {
        json!({"spec": {"restartPolicy": restart, "containers": [container]}, "status": status})
    }

    fn ended(code: i64) -> Value {
        json!({"containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": code}}}]})
    }

    #[test]
    fn a_container_that_ended_runs_again_only_where_something_restarts_it() {
        let running = json!({"containerStatuses": [{"name": "a", "state": {"running": {}}}]});
        let refused = |restart: &str, container: Value, code: i64| {
            let old = pod(restart, &container, &ended(code));
            !fields(&pod(restart, &container, &running), &old).is_empty()
        };
        let plain = || json!({"name": "a"});
        assert!(refused("Never", plain(), 1));
        assert!(refused("OnFailure", plain(), 0));
        assert!(!refused("OnFailure", plain(), 1));
        assert!(!refused("Always", plain(), 0));
        assert!(refused("Always", json!({"name": "other"}), 0));
        assert!(!refused("Never", json!({"name": "a", "restartPolicy": "Always"}), 0));
        let rule = |action: &str| {
            json!({"name": "a", "restartPolicy": "Never", "restartPolicyRules": [
                {"action": action, "exitCodes": {"operator": "In", "values": [7]}}]})
        };
        assert!(!refused("Never", rule("Restart"), 7));
        assert!(refused("Never", rule("Restart"), 8));
        assert!(!refused("Never", rule("RestartAllContainers"), 8));
    }

    #[test]
    fn a_claim_for_extended_resources_names_itself_and_what_it_stands_for() {
        let container = || json!({"name": "a", "resources": {"requests": {"example.com/gpu": "1"}}});
        let found = |status: Value| {
            let status = json!({"extendedResourceClaimStatus": status});
            fields(&pod("Always", &container(), &status), &pod("Always", &container(), &json!({})))
        };
        let path = |name: &str| format!("status.extendedResourceClaimStatus.{name}");
        assert_eq!(found(json!({})), [path("requestMappings"), path("resourceClaimName")]);
        let mapping = |container: &str, resource: &str| {
            let mapping = json!({"containerName": container, "resourceName": resource, "requestName": "r"});
            json!({"resourceClaimName": "c", "requestMappings": [mapping]})
        };
        assert!(found(mapping("a", "example.com/gpu")).is_empty());
        assert_eq!(found(mapping("a", "other")), [path("requestMappings[0].resourceName")]);
        assert_eq!(found(mapping("b", "other")), [path("requestMappings[0].containerName")]);
    }
}
