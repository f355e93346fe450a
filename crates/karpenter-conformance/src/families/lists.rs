//! Lists: selectors good and bad, pages, resource versions.

use serde_json::json;

use super::Library;
use crate::script::{Request, Script, reference};

const LABEL_SELECTORS: &[&str] = &[
    "app=web",
    "app==web",
    "app!=web",
    "app",
    "!app",
    "app in (web,api)",
    "app notin (web)",
    "app in (web), tier",
    "tier>1",
    "tier<2",
    "app=",
    "app in ()",
    "app in web",
    "a b",
    "app=a b",
    "=x",
    "app=web,",
    ",",
    "app,,tier",
    "tier>x",
    "UPPER/x=y",
    "app in (web",
    "app!web",
    "app=web;tier=1",
    "tier notin (1, 2)",
    "!app,tier",
    "app=-x",
    "example.com/role=admin",
    "app=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

const FIELD_SELECTORS: &[&str] = &[
    "metadata.name=o1",
    "metadata.name!=o1",
    "metadata.namespace=other",
    "metadata.name==o2,metadata.namespace!=x",
    "spec.nodeName=n1",
    "status.phase=Running",
    "metadata.labels=x",
    "metadata.name",
    "x=y",
    "metadata.name=a=b",
    "metadata.name=o1,",
    "involvedObject.name=p",
    "reason=Started",
    "type=Opaque",
    "spec.unschedulable=true",
    "metadata.name!=",
    "status.phase!=Pending",
    "spec.restartPolicy=Always",
    "status.replicas=0",
    "!metadata.name",
    "metadata.name in (a)",
    "spec.schedulerName=default-scheduler",
    "metadata.name=\\,",
];

const LISTED: &[&str] = &[
    "v1/configmaps",
    "v1/configmaps",
    "v1/pods",
    "v1/secrets",
    "v1/events",
    "v1/nodes",
    "apps/v1/replicasets",
    "coordination.k8s.io/v1/leases",
];

pub(super) fn script(library: &Library, script: &mut Script) {
    let path = script.random.pick(LISTED);
    let resource = library.resource(path);
    let mut first = 0;
    for index in 0..4 + script.random.below(4) {
        let mut object = script.sample(resource, &format!("o{index}"));
        let app = script.random.pick(&["web", "api", "db"]);
        object["metadata"]["labels"] =
            json!({"app": app, "tier": (index % 3).to_string(), "of": script.namespace});
        if script.random.chance(30) {
            object["metadata"]["labels"]["app"].take();
        }
        first = script.create(resource, object);
    }
    let all = Request::new("GET", script.collection(resource));
    let mine = |request: Request, script: &Script, selector: &str| {
        // Objects of the whole cluster are told apart by a label of the script.
        let of = format!("of={}", script.namespace);
        let selector = match (resource.namespaced, selector) {
            (true, selector) => selector.to_owned(),
            (false, "") => of,
            (false, selector) => format!("{of},{selector}"),
        };
        if selector.is_empty() { request } else { request.query("labelSelector", &selector) }
    };
    for _ in 0..4 {
        let selector = script.random.pick(LABEL_SELECTORS);
        let request = mine(all.clone(), script, selector);
        script.send(request);
    }
    for _ in 0..3 {
        let selector = script.random.pick(FIELD_SELECTORS);
        let request = mine(all.clone(), script, "").query("fieldSelector", selector);
        script.send(request);
    }
    pages(script, &mine(all.clone(), script, ""));
    versions(script, &mine(all, script, ""), first);
}

fn pages(script: &mut Script, list: &Request) {
    let limit = script.random.pick(&["2", "1", "3", "100"]).to_string();
    let page = script.send(list.clone().query("limit", &limit));
    let token = format!("$({page}/metadata/continue)");
    let next = script.send(list.clone().query("limit", &limit).query("continue", &token));
    let token = format!("$({next}/metadata/continue)");
    script.send(list.clone().query("continue", &token));
    let odd = script.random.pick(&["nonsense", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"]);
    script.send(list.clone().query("limit", "2").query("continue", odd));
    let limit = script.random.pick(&["-1", "x", "0", "1.5"]);
    script.send(list.clone().query("limit", limit));
}

fn versions(script: &mut Script, list: &Request, created: usize) {
    let version = reference(created, "/metadata/resourceVersion");
    let version = version.as_str().unwrap_or_default().to_owned();
    for _ in 0..4 {
        let mut request = list.clone();
        match script.random.below(7) {
            0 => request = request.query("resourceVersion", "0"),
            1 => request = request.query("resourceVersion", &version),
            2 => request = request.query("resourceVersion", "abc"),
            3 => request = request.query("resourceVersion", "-5"),
            4 => request = request.query("resourceVersion", &version).query("resourceVersionMatch", "Exact"),
            5 => {
                request =
                    request.query("resourceVersion", &version).query("resourceVersionMatch", "NotOlderThan");
            }
            _ => {}
        }
        if script.random.chance(30) {
            request =
                request.query("resourceVersionMatch", script.random.pick(&["Exact", "NotOlderThan", "Best"]));
        }
        if script.random.chance(30) {
            request = request.query("limit", "2");
        }
        script.send(request);
    }
}
