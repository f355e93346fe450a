//! How built-in objects are judged: what new ones may say, and what may change later.

use serde_json::{Value, json};

use crate::world::World;

const MERGE: &[(&str, &str)] = &[("content-type", "application/merge-patch+json")];
const PODS: &str = "/api/v1/namespaces/default/pods";

/// What a refusal says, cause by cause, as `field: message`.
fn said(status: &Value) -> Vec<String> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    causes.map(|cause| format!("{}: {}", text(&cause["field"]), text(&cause["message"]))).collect()
}

/// Creates an object and returns the refusal, if it is one.
async fn refusal(world: &World, path: &str, object: &Value) -> Vec<String> {
    let (code, status) = world.raw("POST", path, &[], object).await;
    assert!(code == 201 || code == 422, "{status}");
    said(&status)
}

/// Changes an object and returns the refusal, if it is one.
async fn change(world: &World, path: &str, to: &Value) -> Vec<String> {
    let (code, status) = world.raw("PATCH", path, MERGE, to).await;
    assert!(code == 200 || code == 422, "{status}");
    said(&status)
}

fn has(said: &[String], start: &str, end: &str) -> bool {
    said.iter().any(|cause| cause.starts_with(start) && cause.ends_with(end))
}

fn pod(name: &str, annotations: &Value, spec: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

#[tokio::test]
async fn a_pod_that_is_held_may_only_be_narrowed() {
    let world = World::new();
    let terms = |values: Value| {
        let expression = json!({"key": "zone", "operator": "In", "values": values});
        let terms = json!([{"matchExpressions": [expression]}]);
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
    };
    let spec = json!({"schedulingGates": [{"name": "example.com/wait"}], "nodeSelector": {"os": "linux"},
        "affinity": terms(json!(["a"]))});
    assert!(refusal(&world, PODS, &pod("held", &json!({}), &spec)).await.is_empty());
    let path = format!("{PODS}/held");
    let wider = change(&world, &path, &json!({"spec": {"nodeSelector": {"os": null}}})).await;
    assert!(has(&wider, "spec.nodeSelector:", "(no mutations or deletions)"), "{wider:?}");
    let moved = change(&world, &path, &json!({"spec": {"affinity": terms(json!(["b"]))}})).await;
    assert!(
        has(&moved, "spec.affinity.nodeAffinity", "only additions are allowed (no mutations or deletions)"),
        "{moved:?}"
    );
    let free = change(&world, &path, &json!({"spec": {"affinity": null}})).await;
    assert!(
        has(&free, "spec.affinity.nodeAffinity", "non-empty NodeSelectorTerms list are allowed"),
        "{free:?}"
    );
    let mut narrower = terms(json!(["a"]));
    let term =
        "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions";
    let expressions = narrower.pointer_mut(term).and_then(Value::as_array_mut).unwrap();
    expressions.push(json!({"key": "size", "operator": "Exists"}));
    let fewer = json!({"spec": {"nodeSelector": {"arch": "arm64"}, "affinity": narrower}});
    assert!(change(&world, &path, &fewer).await.is_empty());
}

#[tokio::test]
async fn a_running_pod_keeps_what_it_said() {
    let world = World::new();
    let spec = json!({"activeDeadlineSeconds": 10, "nodeName": "n"});
    assert!(refusal(&world, PODS, &pod("a", &json!({}), &spec)).await.is_empty());
    let path = format!("{PODS}/a");
    let longer = change(&world, &path, &json!({"spec": {"activeDeadlineSeconds": 20}})).await;
    assert_eq!(
        longer,
        ["spec.activeDeadlineSeconds: Invalid value: 20: must be less than or equal to previous value"]
    );
    let annotations = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
    let mirror = change(&world, &path, &annotations).await;
    assert!(
        has(
            &mirror,
            "metadata.annotations[kubernetes.io/config.mirror]:",
            "may not add mirror pod annotation"
        ),
        "{mirror:?}"
    );
    assert!(change(&world, &path, &json!({"spec": {"activeDeadlineSeconds": 5}})).await.is_empty());
}

#[tokio::test]
async fn new_pods_are_refused_what_they_cannot_have() {
    let world = World::new();
    let cost = json!({"controller.kubernetes.io/pod-deletion-cost": "+5"});
    for (object, start, end) in [
        (pod("cost", &cost, &json!({})), "metadata.annotations[", "must be a 32bit integer"),
        (
            pod(
                "gated",
                &json!({}),
                &json!({"nodeName": "n", "schedulingGates": [{"name": "example.com/w"}]}),
            ),
            "spec.nodeName:",
            "cannot be set until all schedulingGates have been cleared",
        ),
        (
            pod("space", &json!({}), &json!({"containers": [{"name": "main", "image": " app"}]})),
            "spec.containers[0].image:",
            "must not have leading or trailing whitespace",
        ),
    ] {
        let wrong = refusal(&world, PODS, &object).await;
        assert!(has(&wrong, start, end), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_probe_by_grpc_names_the_service_it_asks() {
    let world = World::new();
    let spec =
        json!({"containers": [{"name": "main", "image": "app:1", "readinessProbe": {"grpc": {"port": 80}}}]});
    let (code, created) = world.raw("POST", PODS, &[], &pod("probed", &json!({}), &spec)).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(
        created["spec"]["containers"][0]["readinessProbe"]["grpc"],
        json!({"port": 80, "service": ""})
    );
}

fn job(name: &str, spec: &Value) -> Value {
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job:1"}]}});
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

#[tokio::test]
async fn the_pods_of_an_indexed_job_need_names_that_hosts_can_have() {
    let world = World::new();
    let path = "/apis/batch/v1/namespaces/default/jobs";
    let indexed = json!({"completionMode": "Indexed", "completions": 11});
    let wrong = refusal(&world, path, &job("a.b", &indexed)).await;
    assert!(
        has(&wrong, "metadata.name:", "will not able to create pod with invalid DNS label: a.b-10"),
        "{wrong:?}"
    );
    assert!(refusal(&world, path, &job("a.b", &json!({}))).await.is_empty());
}

#[tokio::test]
async fn a_job_that_rests_may_be_told_where_to_run_but_not_what() {
    let world = World::new();
    let path = "/apis/batch/v1/namespaces/default/jobs";
    for suspend in [true, false] {
        let name = format!("job-{suspend}");
        assert!(refusal(&world, path, &job(&name, &json!({"suspend": suspend}))).await.is_empty());
        let path = format!("{path}/{name}");
        let place = json!({"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}}}}});
        assert_eq!(change(&world, &path, &place).await.is_empty(), suspend);
        let image =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "job:2"}]}}}});
        let wrong = change(&world, &path, &image).await;
        let start = if suspend { "spec.template.spec:" } else { "spec.template:" };
        assert!(has(&wrong, start, "field is immutable"), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_cron_job_needs_a_schedule_that_can_be_met() {
    let world = World::new();
    let job = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job:1"}]}}}});
    let object = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"},
        "spec": {"schedule": "61 * * * *", "jobTemplate": job}});
    let wrong = refusal(&world, "/apis/batch/v1/namespaces/default/cronjobs", &object).await;
    assert_eq!(
        wrong,
        ["spec.schedule: Invalid value: \"61 * * * *\": end of range (61) above maximum (59): 61"]
    );
}

#[tokio::test]
async fn endpoint_slices_hold_addresses_of_their_type() {
    let world = World::new();
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    for (kind, address, start, end) in [
        ("IPv4", "::2", "endpoints[0].addresses:", "must be an IPv4 address"),
        (
            "IPv4",
            "169.254.0.1",
            "endpoints[0].addresses[0]:",
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
        (
            "FQDN",
            "web",
            "endpoints[0].addresses[0]:",
            "should be a domain with at least two segments separated by dots",
        ),
    ] {
        let object = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "s"},
            "addressType": kind, "endpoints": [{"addresses": [address]}], "ports": []});
        let wrong = refusal(&world, path, &object).await;
        assert!(has(&wrong, start, end), "{wrong:?}");
    }
}

#[tokio::test]
async fn the_families_of_a_headless_service_may_change() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/services";
    let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}]}});
    assert!(refusal(&world, path, &object).await.is_empty());
    let both = json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}});
    let wrong = change(&world, &format!("{path}/web"), &both).await;
    assert!(!wrong.iter().any(|cause| cause.contains("may not change once set")), "{wrong:?}");
}

#[tokio::test]
async fn classes_of_attributes_are_fixed_and_say_something() {
    let world = World::new();
    let path = "/apis/storage.k8s.io/v1/volumeattributesclasses";
    let class = |parameters: Value| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
        "metadata": {"name": "fast"}, "driverName": "ebs.example.com", "parameters": parameters})
    };
    let wrong = refusal(&world, path, &class(json!({}))).await;
    assert!(has(&wrong, "parameters:", "must contain at least one key/value pair"), "{wrong:?}");
    assert!(refusal(&world, path, &class(json!({"iops": "100"}))).await.is_empty());
    let wrong = change(&world, &format!("{path}/fast"), &json!({"parameters": {"iops": "200"}})).await;
    assert!(has(&wrong, "parameters:", "updates to parameters are forbidden."), "{wrong:?}");
}

#[tokio::test]
async fn the_backends_and_the_class_of_an_ingress_are_looked_at() {
    let world = World::new();
    let path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let object = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "i", "annotations": {"kubernetes.io/ingress.class": "other"}},
        "spec": {"ingressClassName": "nginx", "defaultBackend": {"resource": {"apiGroup": "a b", "kind": "a/b", "name": "x"}}}});
    let wrong = refusal(&world, path, &object).await;
    assert!(has(&wrong, "spec.defaultBackend.resource.kind:", "may not contain '/'"), "{wrong:?}");
    assert!(
        has(
            &wrong,
            "annotations.kubernetes.io/ingress.class:",
            "must match `ingressClassName` when both are specified"
        ),
        "{wrong:?}"
    );
}

#[tokio::test]
async fn the_classes_of_the_system_have_the_priorities_of_the_system() {
    let world = World::new();
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let object = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "system-node-critical"}, "value": 5});
    let wrong = refusal(&world, path, &object).await;
    assert!(
        has(&wrong, "metadata.name:", "value of system-node-critical PriorityClass must be 2000001000"),
        "{wrong:?}"
    );
}
