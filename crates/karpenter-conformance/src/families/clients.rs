//! What clients ask beside reading and writing objects: other forms of answers, pages while things change, selections
//! by fields, trying things out, and what they may do.

use serde_json::{Value, json};

use super::Library;
use crate::samples::Resource;
use crate::script::{JSON, MERGE_PATCH, Request, Script};

/// The forms that kubectl, controller-runtime and people with curl ask for.
const FORMS: &[&str] = &[
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    "application/yaml",
    "application/yaml, application/json",
    "*/*",
    "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=Table;g=meta.k8s.io;v=v2,application/json;as=Table;g=meta.k8s.io;v=v1beta1",
    "application/json;as=Table",
    "application/json;as=Nonsense;g=meta.k8s.io;v=v1",
    "application/json;q=0.5,application/yaml;q=0.8",
    "application/json;stream=watch",
    "text/html",
];

const ASKED: &[&str] = &[
    "v1/pods",
    "v1/configmaps",
    "v1/secrets",
    "v1/events",
    "apps/v1/deployments",
    "batch/v1/jobs",
    "coordination.k8s.io/v1/leases",
];

const FIELDS: &[&str] = &[
    "spec.nodeName=",
    "spec.nodeName=n1,status.phase=Pending",
    "status.phase!=Running,status.phase!=Failed",
    "spec.hostNetwork=false",
    "spec.serviceAccountName=default",
    "status.podIP=",
    "status.nominatedNodeName=",
    "type!=Opaque",
    "type=kubernetes.io/basic-auth",
    "involvedObject.kind=Pod,involvedObject.name=p",
    "involvedObject.uid=",
    "reportingComponent=kubelet",
    "source=kubelet",
    "status.successful=0",
    "metadata.name=o1,metadata.name=o2",
    "metadata.uid=x",
];

pub(super) fn script(library: &Library, script: &mut Script) {
    let path = script.random.pick(ASKED);
    let resource = library.resource(path);
    for index in 0..3 {
        let mut object = script.sample(resource, &format!("o{index}"));
        object["metadata"]["labels"] = json!({"of": script.namespace, "n": index.to_string()});
        script.create(resource, object);
    }
    for _ in 0..8 {
        match script.random.below(13) {
            0 => forms(script, resource),
            1 => columns(library, script),
            2 => fields(script, resource),
            3 => pages(library, script, resource),
            4 => trials(script, resource),
            5 => access(script),
            6 => collection(script, resource),
            7 => odd_requests(script, resource),
            8 => impersonated(script),
            9 => watched_by_path(script, resource),
            10 => parts(library, script),
            11 => health(script),
            _ => watched(script, resource),
        }
    }
}

/// The objects of this script; those of a whole cluster are told apart by a label.
fn mine(script: &Script, resource: &Resource) -> Request {
    let all = Request::new("GET", script.collection(resource));
    all.query("labelSelector", &format!("of={}", script.namespace))
}

fn forms(script: &mut Script, resource: &Resource) {
    let form = script.random.pick(FORMS);
    let mut request = if script.random.chance(50) {
        mine(script, resource)
    } else {
        let name = script.random.pick(&["o0", "o1", "missing"]);
        Request::new("GET", script.item(resource, name))
    };
    if script.random.chance(30) {
        request =
            request.query("includeObject", script.random.pick(&["None", "Metadata", "Object", "Everything"]));
    }
    script.send(request.header("accept", form));
}

/// The columns of any kind, of which there may be no object.
fn columns(library: &Library, script: &mut Script) {
    let resource = library.any(&mut script.random);
    let request = mine(script, resource).header("accept", FORMS[0]);
    script.send(request);
}

/// Who one is when one says to be somebody else.
fn impersonated(script: &mut Script) {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let mut request = Request::new("POST", path).json(review);
    if script.random.chance(80) {
        let users =
            ["jane", "system:serviceaccount:default:bot", "system:serviceaccount:No:bot", "system:node:n"];
        request = request.header("impersonate-user", script.random.pick(&users));
    } else {
        // Without a name nothing else can be said.
        request = request.header("impersonate-group", "nobody");
    }
    let others = [
        ("impersonate-group", "dev"),
        ("impersonate-group", "system:authenticated"),
        ("impersonate-uid", "u-1"),
        ("impersonate-extra-scopes", "view"),
        ("impersonate-extra-acme%2fproject", "some"),
    ];
    for (name, value) in others {
        if script.random.chance(30) {
            request = request.header(name, value);
        }
    }
    script.send(request);
}

/// What is answered about objects without being one: a scale, a token, a verdict.
fn parts(library: &Library, script: &mut Script) {
    let form = script.random.pick(FORMS);
    let kind =
        script.random.pick(&["apps/v1/deployments", "apps/v1/statefulsets", "v1/replicationcontrollers"]);
    let workloads = library.resource(kind);
    let workload = script.sample(workloads, "scaled");
    script.create(workloads, workload);
    let name = script.random.pick(&["scaled", "scaled", "missing"]);
    let scale = format!("{}/scale", script.item(workloads, name));
    let account = script.item(library.resource("v1/serviceaccounts"), "default");
    let request = match script.random.below(5) {
        0 => Request::new("GET", scale),
        1 => Request::new("GET", scale).query("includeObject", script.random.pick(&["None", "Object"])),
        2 => {
            let replicas = script.random.pick(&[0, 3]);
            Request::new("PATCH", scale).patch(MERGE_PATCH, json!({"spec": {"replicas": replicas}}))
        }
        3 => {
            let request =
                json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
            Request::new("POST", format!("{account}/token")).json(request)
        }
        _ => {
            let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}});
            Request::new("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").json(review)
        }
    };
    script.send(request.header("accept", form));
}

/// Checks of the server's health, and some that no server has.
const CHECKS: &[&str] = &[
    "/healthz/ping",
    "/livez/log",
    "/readyz/etcd-readiness",
    "/readyz/shutdown",
    "/livez/shutdown",
    "/healthz/",
    "/readyz/unheard-of",
];

/// Whether the server is well, asked by somebody who says to be somebody else, or about one part.
fn health(script: &mut Script) {
    if script.random.chance(40) {
        let path = script.random.pick(CHECKS);
        script.send(Request::new("GET", path));
        return;
    }
    let request = Request::new("GET", script.random.pick(&["/healthz", "/livez", "/readyz"]));
    let headers = [("impersonate-user", "jane"), ("impersonate-group", "dev"), ("impersonate-uid", "u-1")];
    let (name, value) = script.random.pick(&headers);
    script.send(request.header(name, value));
}

/// Watches as clients asked for them before the query could say so.
fn watched_by_path(script: &mut Script, resource: &Resource) {
    let collection = script.collection(resource).replacen("/v1/", "/v1/watch/", 1);
    let path = match script.random.below(4) {
        0 => format!("{collection}/{}", script.name(resource, "o1")),
        1 => format!("{collection}/{}?fieldSelector=metadata.name%3Dother", script.name(resource, "o1")),
        _ => collection,
    };
    let request = Request::new("GET", path).query("timeoutSeconds", "1").query("resourceVersion", "0");
    let watch = script.watch(request);
    script.drain(watch, "nobody");
}

fn fields(script: &mut Script, resource: &Resource) {
    let selector = script.random.pick(FIELDS);
    let request = mine(script, resource).query("fieldSelector", selector);
    script.send(request);
}

fn pages(library: &Library, script: &mut Script, resource: &Resource) {
    let list = mine(script, resource);
    let page = script.send(list.clone().query("limit", "1"));
    let token = format!("$({page}/metadata/continue)");
    // What comes and goes meanwhile is not on the next page.
    let mut object = library.mutated(script, resource, "o0a", 0);
    object["metadata"]["labels"] = json!({"of": script.namespace});
    script.create(resource, object);
    script.send(list.clone().query("limit", "1").query("continue", &token));
    script.send(list.clone().query("continue", &token));
    let version = format!("$({page}/metadata/resourceVersion)");
    let mut odd =
        list.query("continue", &token).query("resourceVersion", script.random.pick(&["0", &version]));
    if script.random.chance(50) {
        odd = odd.query("resourceVersionMatch", script.random.pick(&["Exact", "NotOlderThan"]));
    }
    script.send(odd);
}

fn trials(script: &mut Script, resource: &Resource) {
    let name = script.random.pick(&["o0", "o1", "missing"]);
    let item = script.item(resource, name);
    let dry_run = script.random.pick(&["All", "All", "Some"]);
    let request = match script.random.below(4) {
        0 => Request::new("DELETE", item),
        1 => {
            Request::new("PATCH", item).patch(MERGE_PATCH, json!({"metadata": {"labels": {"tried": "yes"}}}))
        }
        2 => {
            let name = script.random.pick(&["o0", "fresh"]);
            let object = script.sample(resource, name);
            Request::new("POST", script.collection(resource)).json(object)
        }
        _ => Request::new("PATCH", item).patch(MERGE_PATCH, json!({"metadata": {"finalizers": ["a b"]}})),
    };
    script.send(request.query("dryRun", dry_run));
    script.get(resource, name);
}

fn access(script: &mut Script) {
    let attributes = json!({"namespace": script.namespace, "verb": script.random.pick(&["get", "*", "delete"]),
        "resource": script.random.pick(&["pods", "nodes", "nonsense"]), "group": script.random.pick(&["", "apps"])});
    let mut review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes}});
    match script.random.below(6) {
        0 => review["spec"] = json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
        1 => review["spec"] = json!({}),
        2 => review["spec"]["nonResourceAttributes"] = json!({"path": "/metrics", "verb": "get"}),
        3 => review["metadata"] = json!({"name": "named"}),
        _ => {}
    }
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    script.send(Request::new("POST", path).json(review));
}

fn collection(script: &mut Script, resource: &Resource) {
    let mut request = Request::new("DELETE", script.collection(resource))
        .query("labelSelector", &format!("of={},n={}", script.namespace, script.random.below(3)));
    if script.random.chance(40) {
        request = request.query("dryRun", "All");
    }
    if script.random.chance(30) {
        request = request.query("limit", "1");
    }
    script.send(request);
    let all = mine(script, resource);
    script.send(all);
}

fn odd_requests(script: &mut Script, resource: &Resource) {
    let collection = script.collection(resource);
    let item = script.item(resource, "o0");
    let request = match script.random.below(9) {
        0 => Request::new("POST", item).json(json!({})),
        1 => Request::new("PUT", collection).json(json!({})),
        2 => Request::new("PATCH", collection).patch(MERGE_PATCH, json!({})),
        3 => Request::new("GET", format!("{item}?pretty=true")),
        4 => Request::new("GET", collection).query("labelSelector", "a=b=c"),
        5 => Request::new("GET", collection).query("timeoutSeconds", "abc"),
        6 => Request::new("GET", format!("{collection}//")),
        7 => Request::new("PUT", item)
            .text(JSON, "{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": []}"),
        _ => Request::new("POST", collection)
            .text(JSON, "{\"apiVersion\": \"example.com/v1\", \"kind\": \"Nothing\"}"),
    };
    script.send(request);
}

fn watched(script: &mut Script, resource: &Resource) {
    let name = script.name(resource, "o1");
    let mut request = Request::new("GET", script.collection(resource))
        .query("watch", "true")
        .query("fieldSelector", &format!("metadata.name={name}"))
        .query("resourceVersion", "0")
        .query("timeoutSeconds", "1");
    if script.random.chance(50) {
        let form = script.random.pick(&FORMS[..2]);
        request = request.header("accept", form);
    }
    let watch = script.watch(request);
    let change: Value = json!({"metadata": {"annotations": {"seen": "yes"}}});
    script.send(Request::new("PATCH", script.item(resource, "o1")).patch(MERGE_PATCH, change));
    script.drain(watch, "nobody");
}
