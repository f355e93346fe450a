//! What the server decides about objects of single kinds, and how it says no.

use serde_json::{Value, json};

use crate::world::World;

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

async fn post(world: &World, path: &str, object: &Value) -> (u16, Value) {
    world.raw("POST", path, JSON, object).await
}

fn service(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec})
}

/// The fields a refusal names.
fn causes(status: &Value) -> Vec<&str> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    causes.filter_map(|cause| cause["field"].as_str()).collect()
}

#[tokio::test]
async fn services_are_refused_addresses_and_ports_that_are_not_to_be_had() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/services";
    let ports = json!([{"port": 80}]);
    for (spec, message) in [
        (json!({"ports": ports, "clusterIP": "10.0.0.1"}), "failed to allocate IP 10.0.0.1"),
        (json!({"ports": ports, "ipFamilies": ["IPv6"]}), "not configured on this cluster"),
        (json!({"ports": ports, "ipFamilyPolicy": "RequireDualStack"}), "not configured for dual-stack"),
        (
            json!({"ports": [{"port": 80, "nodePort": 10}], "type": "NodePort"}),
            "The range of valid ports is 30000-32767",
        ),
    ] {
        let (code, status) = post(&world, path, &service(&spec)).await;
        assert_eq!(code, 422, "{spec}");
        assert!(status["message"].as_str().unwrap().contains(message), "{status}");
    }
    let (code, _) = post(&world, path, &service(&json!({"ports": ports, "clusterIP": "10.96.7.7"}))).await;
    assert_eq!(code, 201);
    let mut second = service(&json!({"ports": ports, "clusterIP": "10.96.7.7"}));
    second["metadata"]["name"] = json!("second");
    let (code, status) = post(&world, path, &second).await;
    assert_eq!(code, 422);
    assert!(status["message"].as_str().unwrap().contains("already allocated"), "{status}");
}

#[tokio::test]
async fn a_service_without_pods_of_its_own_may_have_both_families() {
    let world = World::new();
    let headless = service(&json!({"clusterIP": "None", "ports": [{"port": 80}]}));
    let (_, created) = post(&world, "/api/v1/namespaces/default/services", &headless).await;
    assert_eq!(created["spec"]["ipFamilyPolicy"], "RequireDualStack");
    assert_eq!(created["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
}

#[tokio::test]
async fn a_service_that_changes_its_type_loses_what_no_longer_applies() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/services";
    let (_, created) =
        post(&world, path, &service(&json!({"type": "LoadBalancer", "ports": [{"port": 80}]}))).await;
    assert!(created["spec"]["ports"][0]["nodePort"].is_number());
    let headers = [("content-type", "application/merge-patch+json")];
    let change = json!({"spec": {"type": "ClusterIP"}});
    let (code, changed) = world.raw("PATCH", &format!("{path}/web"), &headers, &change).await;
    assert_eq!(code, 200, "{changed}");
    let spec = &changed["spec"];
    assert!(spec["ports"][0].get("nodePort").is_none(), "{spec}");
    assert!(
        spec.get("allocateLoadBalancerNodePorts").is_none() && spec.get("externalTrafficPolicy").is_none()
    );
    assert_eq!(spec["clusterIP"], created["spec"]["clusterIP"]);
}

#[tokio::test]
async fn tokens_are_bound_to_objects_that_are_there() {
    let world = World::new();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}});
    post(&world, "/api/v1/namespaces/default/serviceaccounts", &account).await;
    let path = "/api/v1/namespaces/default/serviceaccounts/bot/token";
    let request = |kind: &str, name: &str| {
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}})
    };
    let (code, status) = post(&world, path, &request("Pod", "none")).await;
    assert_eq!((code, &status["message"]), (404, &json!("pods \"none\" not found")));
    let (code, _) = post(&world, path, &request("ConfigMap", "x")).await;
    assert_eq!(code, 400);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    post(&world, "/api/v1/namespaces/default/secrets", &secret).await;
    assert_eq!(post(&world, path, &request("Secret", "s")).await.0, 201);
}

#[tokio::test]
async fn empty_lists_of_built_in_kinds_come_back_as_they_are_kept() {
    let world = World::new();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": []});
    let (code, created) =
        post(&world, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", &role).await;
    assert_eq!((code, created.get("rules")), (201, Some(&Value::Null)));
}

#[tokio::test]
async fn limit_ranges_compare_their_amounts_and_need_no_name() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/limitranges";
    let range = |limit: Value| json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {}, "spec": {"limits": [limit]}});
    let wrong = json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"memory": "0"}});
    let (code, status) = post(&world, path, &range(wrong)).await;
    assert_eq!(code, 422);
    let fields = causes(&status);
    assert!(fields.contains(&"spec.limits[0].min[cpu]"), "{status}");
    assert!(fields.contains(&"spec.limits[0].maxLimitRequestRatio[memory]"), "{status}");
    let (code, created) = post(&world, path, &range(json!({"type": "Pod", "max": {"cpu": "1"}}))).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["metadata"]["name"].as_str().unwrap().len(), 36);
}

#[tokio::test]
async fn statuses_are_checked_as_specs_are() {
    let world = World::new();
    world.pod("a", json!({}), None).await;
    let headers = [("content-type", "application/merge-patch+json")];
    for (path, status, field) in [
        (
            "/api/v1/namespaces/default/pods/a/status",
            json!({"podIPs": [{"ip": "10.0.0.3"}, {"ip": "10.0.0.4"}], "podIP": "10.0.0.3"}),
            "status.podIPs",
        ),
        ("/api/v1/namespaces/default/status", json!({"phase": "Terminating"}), "status.Phase"),
    ] {
        let (code, answer) = world.raw("PATCH", path, &headers, &json!({"status": status})).await;
        assert_eq!(code, 422, "{answer}");
        assert_eq!(causes(&answer), [field]);
    }
}

#[tokio::test]
async fn people_are_warned_about_what_will_surprise_them() {
    let world = World::new();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a.b"}, "spec": {
        "nodeSelector": {"beta.kubernetes.io/os": "linux"},
        "containers": [{"name": "c", "image": "x", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}],
    }});
    let warnings = world.warnings("POST", "/api/v1/namespaces/default/pods", &pod).await;
    for part in ["surprising behavior", "deprecated since v1.14", "hides previous definition of \\\"A\\\""] {
        assert!(warnings.iter().any(|warning| warning.contains(part)), "{part}: {warnings:?}");
    }
}

#[tokio::test]
async fn an_address_outside_of_the_range_is_refused_and_a_taken_one_may_be_tried() {
    let world = World::new();
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str, address: &str| json!({"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
    let create = async |path: &str, name: &str, address: &str| {
        let (code, answer) = world.raw("POST", path, &[], &service(name, address)).await;
        (code, answer["message"].as_str().unwrap_or_default().to_owned())
    };
    let trial = format!("{services}?dryRun=All");
    for address in ["10.0.0.1", "10.96.0.0", "10.96.255.255"] {
        let (code, message) = create(services, "s", address).await;
        assert_eq!(code, 422);
        assert!(message.ends_with(": the provided network does not match the current range"), "{message}");
        let (_, message) = create(&trial, "s", address).await;
        assert!(message.ends_with("The range of valid IPs is 10.96.0.0/16"), "{message}");
    }
    assert_eq!(create(services, "s", "10.96.0.9").await.0, 201);
    assert_eq!(create(&trial, "t", "10.96.0.9").await.0, 201);
    assert_eq!(create(services, "t", "10.96.0.9").await.0, 422);
}

#[tokio::test]
async fn a_secret_without_a_name_is_the_one_with_an_empty_name() {
    let world = World::new();
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "imagePullSecrets": [{}]});
    let template = json!({"metadata": {"name": "t"}, "template": {"spec": spec}});
    let (code, template) = post(&world, "/api/v1/namespaces/default/podtemplates", &template).await;
    assert_eq!((code, &template["template"]["spec"]["imagePullSecrets"]), (201, &json!([{}])));
    let owned = &template["metadata"]["managedFields"][0]["fieldsV1"]["f:template"]["f:spec"];
    assert_eq!(owned["f:imagePullSecrets"], json!({".": {}, "k:{\"name\":\"\"}": {}}));
}

#[tokio::test]
async fn some_warnings_are_repeated_and_some_only_given_for_what_changes() {
    let world = World::new();
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let slice =
        json!({"metadata": {"name": "s"}, "spec": {"driver": "Upper", "nodeName": "n", "pool": pool}});
    let drivers = "/apis/storage.k8s.io/v1/csidrivers";
    let requests = json!([{"audience": "a"}]);
    let driver = json!({"metadata": {"name": "d"}, "spec": {"tokenRequests": requests}});
    for (path, object, name, again) in [(slices, slice, "s", 1), (drivers, driver, "d", 0)] {
        assert_eq!(world.warnings("POST", path, &object).await.len(), 1, "{path}");
        let (code, mut stored) = world.raw("GET", &format!("{path}/{name}"), &[], &Value::Null).await;
        assert_eq!(code, 200, "{path}");
        stored["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(world.warnings("PUT", &format!("{path}/{name}"), &stored).await.len(), again, "{path}");
    }
}

#[tokio::test]
async fn the_name_of_an_attached_volume_is_checked_even_beside_another_source() {
    let world = World::new();
    let source = json!({"persistentVolumeName": "a/b", "inlineVolumeSpec": {}});
    let spec = json!({"attacher": "a.example.com", "nodeName": "n", "source": source});
    let attachment = json!({"metadata": {"name": "v"}, "spec": spec});
    let (code, status) = post(&world, "/apis/storage.k8s.io/v1/volumeattachments", &attachment).await;
    let causes = status["details"]["causes"].as_array().unwrap();
    let fields: Vec<&Value> = causes.iter().map(|cause| &cause["field"]).collect();
    assert_eq!(
        (code, fields),
        (422, vec![&json!("spec.source"), &json!("spec.source.persistentVolumeName")])
    );
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_not_warned_about() {
    let world = World::new();
    let endpoints = "/api/v1/namespaces/default/endpoints";
    assert_eq!(world.warnings("GET", endpoints, &Value::Null).await.len(), 1);
    assert!(world.warnings("BREW", endpoints, &Value::Null).await.is_empty());
}

#[tokio::test]
async fn fields_of_features_that_are_off_are_dropped() {
    let world = World::new();
    let container = json!({"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGNONSENSE"}});
    let sources = json!([{"clusterTrustBundle": {"name": "b", "path": "p"}}]);
    let spec = json!({
        "containers": [container], "volumes": [{"name": "v", "projected": {"sources": sources}}],
        "schedulingGroup": {"podGroupName": "g"},
    });
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    let (code, created) = post(&world, "/api/v1/namespaces/default/pods", &pod).await;
    assert_eq!(code, 201, "{created}");
    let spec = &created["spec"];
    assert!(spec["containers"][0].get("lifecycle").is_none(), "{spec}");
    assert!(spec.get("schedulingGroup").is_none(), "{spec}");
    assert_eq!(spec["volumes"][0]["projected"]["sources"], json!([{}]));
}

#[tokio::test]
async fn a_claim_says_twice_where_its_data_comes_from() {
    let world = World::new();
    let claim = |name: &str, spec: Value| {
        let mut claim = json!({"metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        claim["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        claim
    };
    let path = "/api/v1/namespaces/default/persistentvolumeclaims";
    let source = json!({"kind": "PersistentVolumeClaim", "name": "a"});
    let (code, created) = post(&world, path, &claim("a", json!({"dataSource": source}))).await;
    let expected = json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "a"});
    assert_eq!((code, &created["spec"]["dataSourceRef"]), (201, &expected));
    let other = json!({"kind": "PersistentVolumeClaim", "name": "b"});
    let both = json!({"dataSource": source, "dataSourceRef": other});
    let (code, status) = post(&world, path, &claim("b", both)).await;
    assert_eq!((code, causes(&status)), (422, vec!["spec"]));
}

#[tokio::test]
async fn finalizers_of_events_need_a_domain_in_their_own_group_only() {
    let world = World::new();
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    let (code, answer) = post(&world, "/api/v1/namespaces/default/events", &event).await;
    assert_eq!(code, 201, "{answer}");
    let headers = [("content-type", "application/merge-patch+json")];
    let change = json!({"metadata": {"finalizers": ["a"]}});
    for (group, expected) in [("/apis/events.k8s.io/v1", 422), ("/api/v1", 200)] {
        let path = format!("{group}/namespaces/default/events/e");
        let (code, answer) = world.raw("PATCH", &path, &headers, &change).await;
        assert_eq!(code, expected, "{answer}");
    }
}

#[tokio::test]
async fn a_job_without_labels_has_those_of_its_pods() {
    let world = World::new();
    let job = |metadata: Value, labels: Value| {
        json!({"metadata": metadata, "spec": {"template": {"metadata": {"labels": labels}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
    };
    let path = "/apis/batch/v1/namespaces/default/jobs";
    let trial = format!("{path}?dryRun=All");
    let all =
        ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];
    let (named, generated) = (json!({"name": "j"}), json!({"generateName": "j-"}));
    for (path, job, expected) in [
        (trial.as_str(), job(named.clone(), Value::Null), all.to_vec()),
        (&trial, job(named.clone(), json!({"x": "a"})), [&all[..], &["x"]].concat()),
        (path, job(generated.clone(), json!({"x": "a"})), vec!["x"]),
        (path, job(generated, Value::Null), all.to_vec()),
        (path, job(named, json!({"x": "a"})), [&all[..], &["x"]].concat()),
    ] {
        let (code, created) = post(&world, path, &job).await;
        assert_eq!(code, 201, "{created}");
        let labels = created["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        assert_eq!(labels.keys().collect::<Vec<_>>(), expected, "{job}");
    }
}

#[tokio::test]
async fn security_profiles_are_checked_and_windows_knows_few_of_them() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/pods";
    let pod = |context: Value, os: Value| {
        json!({"metadata": {"name": "p"}, "spec": {"securityContext": context, "os": os,
            "containers": [{"name": "c", "image": "i", "securityContext": {"procMount": "Unmasked"}}]}})
    };
    let unmasked = "spec.containers[0].securityContext.procMount";
    for (context, os, expected) in [
        (json!({"seccompProfile": {"type": "RuntimeDefault"}}), Value::Null, vec![unmasked]),
        (
            json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "/a"}}),
            Value::Null,
            vec![unmasked, "spec.securityContext.seccompProfile.localhostProfile"],
        ),
        (
            json!({"appArmorProfile": {"type": "Localhost"}}),
            Value::Null,
            vec![unmasked, "spec.securityContext.appArmorProfile.localhostProfile"],
        ),
        (
            json!({"runAsUser": 1}),
            json!({"name": "windows"}),
            vec![unmasked, "spec.securityContext.runAsUser", unmasked],
        ),
    ] {
        let (code, status) = post(&world, path, &pod(context, os)).await;
        assert_eq!((code, causes(&status)), (422, expected), "{status}");
    }
}

#[tokio::test]
async fn the_zones_and_nodes_an_endpoint_is_meant_for_are_named_once() {
    let world = World::new();
    let hints = json!({"forZones": [{"name": "a"}, {"name": "a"}], "forNodes": [{}]});
    let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "hints": hints}]});
    let (code, status) =
        post(&world, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).await;
    let expected = vec!["endpoints[0].hints.forZones[1].name", "endpoints[0].hints.forNodes[0].name"];
    assert_eq!((code, causes(&status)), (422, expected), "{status}");
}

#[tokio::test]
async fn an_image_that_cannot_be_named_is_not_pulled_always() {
    let world = World::new();
    for (name, image, policy) in [("a", "/data", "IfNotPresent"), ("b", "data", "Always")] {
        let pod =
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": image}]}});
        let (_, created) = post(&world, "/api/v1/namespaces/default/pods", &pod).await;
        assert_eq!(created["spec"]["containers"][0]["imagePullPolicy"], policy, "{image}");
    }
}

#[tokio::test]
async fn the_metadata_of_a_new_budget_is_looked_at_last() {
    let world = World::new();
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = |value: Value| json!({"metadata": {"name": "b", "labels": {"bad key": "x"}}, "spec": {"minAvailable": value}});
    for (value, expected) in [(json!(-1), "spec.minAvailable"), (json!(1), "metadata.labels")] {
        let (code, status) = post(&world, path, &budget(value)).await;
        assert_eq!((code, causes(&status)), (422, vec![expected]), "{status}");
    }
}

#[tokio::test]
async fn the_names_of_a_service_are_looked_at_once() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/services";
    let (code, _) = post(&world, path, &service(&json!({"ports": [{"port": 80}]}))).await;
    assert_eq!(code, 201);
    let headers = [("content-type", "application/merge-patch+json")];
    let change = json!({"metadata": {"generateName": "a.b"}});
    assert_eq!(world.raw("PATCH", &format!("{path}/web"), &headers, &change).await.0, 200);
}

#[tokio::test]
async fn an_autoscaler_with_a_list_of_no_policies_does_not_get_the_usual_ones() {
    let world = World::new();
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let spec = json!({"maxReplicas": 2, "scaleTargetRef": target, "behavior": {"scaleUp": {"policies": []}}});
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let (code, status) = post(&world, path, &json!({"metadata": {"name": "a"}, "spec": spec})).await;
    assert_eq!((code, causes(&status)), (422, vec!["spec.behavior.scaleUp.policies"]), "{status}");
}

#[tokio::test]
async fn an_unknown_update_strategy_of_a_stateful_set_is_named_as_a_whole() {
    let world = World::new();
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template, "updateStrategy": {"type": "x"}});
    let set = json!({"metadata": {"name": "s"}, "spec": spec});
    let (code, status) = post(&world, "/apis/apps/v1/namespaces/default/statefulsets", &set).await;
    assert_eq!((code, causes(&status)), (422, vec!["spec.updateStrategy"]), "{status}");
}

#[tokio::test]
async fn a_pod_gets_what_its_runtime_class_says_and_makes_nothing_up() {
    let world = World::new();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, mut spec: Value| {
        spec["containers"] = json!([{"name": "main", "image": "app:1"}]);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    };
    let (code, status) = post(&world, pods, &pod("a", json!({"runtimeClassName": "vm"}))).await;
    assert_eq!(code, 403);
    assert!(status["message"].as_str().unwrap().contains("RuntimeClass \"vm\" not found"), "{status}");
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "vm"}, "handler": "vm",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"runtime": "vm"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
    });
    assert_eq!(post(&world, "/apis/node.k8s.io/v1/runtimeclasses", &class).await.0, 201);
    let (code, created) = post(&world, pods, &pod("a", json!({"runtimeClassName": "vm"}))).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"]["overhead"], json!({"cpu": "250m"}));
    assert_eq!(created["spec"]["nodeSelector"], json!({"runtime": "vm"}));
    assert!(
        created["spec"]["tolerations"]
            .as_array()
            .unwrap()
            .contains(&json!({"key": "vm", "operator": "Exists"}))
    );
    for (spec, message) in [
        (json!({"overhead": {"cpu": "1"}}), "without corresponding RuntimeClass defined Overhead"),
        (json!({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}), "doesn't match RuntimeClass's"),
        (json!({"runtimeClassName": "vm", "nodeSelector": {"runtime": "x"}}), "conflict: runtimeClass"),
    ] {
        let (code, status) = post(&world, pods, &pod("b", spec)).await;
        assert_eq!(code, 403, "{status}");
        assert!(status["message"].as_str().unwrap().contains(message), "{status}");
    }
}

#[tokio::test]
async fn a_namespace_is_labelled_with_its_name_even_if_the_server_made_it_up() {
    let world = World::new();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "g-"}});
    let (code, created) = post(&world, "/api/v1/namespaces", &namespace).await;
    assert_eq!(code, 201);
    let metadata = &created["metadata"];
    assert!(metadata["name"].as_str().unwrap().starts_with("g-"), "{created}");
    assert_eq!(metadata["labels"]["kubernetes.io/metadata.name"], metadata["name"]);
}
