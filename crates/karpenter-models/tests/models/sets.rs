//! Stateful sets, daemon sets, jobs and disruption budgets, through the API, on simulated time.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_models::ModelsConfig;
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::deployments::deployment;
use crate::objects::merge;
use crate::world::World;

async fn nodes(count: usize) -> World {
    let world = World::start(ModelsConfig::default());
    for index in 1..=count {
        world.add_node(&format!("n{index}"), "a", json!({})).await;
    }
    world
}

fn set(name: &str, extra: Value) -> Value {
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}, "annotations": {"cluster.model/ready-after": "2s"}},
            "spec": {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}]},
        }},
    });
    merge(&mut object, extra);
    object
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_comes_up_in_order_and_goes_down_in_reverse() {
    let world = nodes(2).await;
    world.create::<StatefulSet>(set("db", json!({"spec": {"replicas": 3, "serviceName": "db"}}))).await;
    world.pass(1).await;
    assert_eq!(world.pod_lines().await.len(), 1, "the second waits for the first");
    world.pass(10).await;
    let pods = world.pods().await;
    let names: Vec<&str> = pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["db-0", "db-1", "db-2"]);
    assert_eq!(pods[1].metadata.labels.as_ref().unwrap()["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(pods[1].spec.as_ref().unwrap().subdomain.as_deref(), Some("db"));
    let status = world.get::<StatefulSet>("db").await.status.unwrap();
    assert_eq!((status.replicas, status.ready_replicas, status.current_replicas), (3, Some(3), Some(3)));
    assert_eq!(status.current_revision, status.update_revision);
    world.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await;
    world.pass(5).await;
    assert_eq!(world.pod_lines().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_is_updated_from_the_highest_number_down() {
    let world = nodes(2).await;
    world
        .create::<StatefulSet>(set("db", json!({"spec": {"replicas": 3, "podManagementPolicy": "Parallel"}})))
        .await;
    world.pass(5).await;
    assert_eq!(world.ready_pods().await, 3);
    let label = json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}});
    world.patch::<StatefulSet>("db", label).await;
    world.pass(1).await;
    let updated = |pods: Vec<Pod>| -> Vec<String> {
        let new =
            pods.into_iter().filter(|pod| pod.metadata.labels.as_ref().unwrap().contains_key("version"));
        new.map(|pod| pod.metadata.name.unwrap()).collect()
    };
    assert_eq!(updated(world.pods().await), ["db-2"]);
    world.pass(20).await;
    assert_eq!(updated(world.pods().await), ["db-0", "db-1", "db-2"]);
    let revisions = world.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(revisions.len(), 2);
    let status = world.get::<StatefulSet>("db").await.status.unwrap();
    assert_eq!(status.current_revision, status.update_revision);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_has_one_pod_on_every_node_that_suits() {
    let world = nodes(3).await;
    world
        .add_node("reserved", "a", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}))
        .await;
    world.create::<DaemonSet>(set("agent", json!({}))).await;
    world.pass(5).await;
    let node_of = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.clone().unwrap();
    let mut names: Vec<String> = world.pods().await.iter().map(node_of).collect();
    names.sort();
    assert_eq!(names, ["n1", "n2", "n3"]);
    let status = world.get::<DaemonSet>("agent").await.status.unwrap();
    assert_eq!((status.desired_number_scheduled, status.number_ready), (3, 3));
    world.add_node("n4", "a", json!({})).await;
    world.cluster_api::<Node>().delete("n1", &DeleteParams::default()).await.unwrap();
    world.pass(60).await;
    let mut names: Vec<String> = world.pods().await.iter().map(node_of).collect();
    names.sort();
    assert_eq!(names, ["n2", "n3", "n4"]);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_is_updated_one_node_at_a_time() {
    let world = nodes(3).await;
    world.create::<DaemonSet>(set("agent", json!({}))).await;
    world.pass(5).await;
    world
        .patch::<DaemonSet>(
            "agent",
            json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}),
        )
        .await;
    let mut fewest = 3;
    for _ in 0..20 {
        world.pass(1).await;
        fewest = fewest.min(world.ready_pods().await);
    }
    assert_eq!(fewest, 2);
    let status = world.get::<DaemonSet>("agent").await.status.unwrap();
    assert_eq!((status.updated_number_scheduled, status.number_ready), (Some(3), 3));
}

fn job(name: &str, extra: Value, annotations: Value) -> Value {
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}]}}},
    });
    merge(&mut object, extra);
    object
}

fn ended(job: &Job) -> Option<(String, String)> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let end =
        conditions.iter().find(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed"))?;
    Some((end.type_.clone(), end.reason.clone().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_its_pods_and_completes() {
    let world = nodes(1).await;
    let spec = json!({"spec": {"parallelism": 2, "completions": 5, "ttlSecondsAfterFinished": 60}});
    world.create::<Job>(job("sum", spec, json!({"cluster.model/run-for": "10s"}))).await;
    world.pass(5).await;
    let status = world.get::<Job>("sum").await.status.unwrap();
    assert_eq!((status.active, status.ready, status.succeeded), (Some(2), Some(2), None));
    world.pass(30).await;
    let sum = world.get::<Job>("sum").await;
    assert_eq!(ended(&sum), Some(("Complete".to_owned(), "CompletionsReached".to_owned())));
    let status = sum.status.unwrap();
    assert_eq!((status.succeeded, status.active, status.failed), (Some(5), None, None));
    assert!(status.completion_time.is_some());
    assert_eq!(world.pods().await.len(), 5);
    world.pass(60).await;
    assert!(world.pods().await.is_empty() && world.api::<Job>().get_opt("sum").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_pods_fail_gives_up_after_its_back_off() {
    let world = nodes(1).await;
    let fails = json!({"cluster.model/run-for": "1s", "cluster.model/exit-code": "3"});
    world.create::<Job>(job("bad", json!({"spec": {"backoffLimit": 2}}), fails)).await;
    world.pass(8).await;
    assert_eq!(world.get::<Job>("bad").await.status.unwrap().failed, Some(1), "the next try waits");
    world.pass(60).await;
    let bad = world.get::<Job>("bad").await;
    assert_eq!(ended(&bad), Some(("Failed".to_owned(), "BackoffLimitExceeded".to_owned())));
    assert_eq!(bad.status.unwrap().failed, Some(3));
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_replaces_a_pod_that_was_taken_away() {
    let world = nodes(2).await;
    let spec = json!({"spec": {"parallelism": 3, "completions": 3, "completionMode": "Indexed"}});
    world.create::<Job>(job("part", spec, json!({"cluster.model/run-for": "20s"}))).await;
    world.pass(5).await;
    let first = world.pods().await[0].metadata.name.clone().unwrap();
    world.api::<Pod>().delete(&first, &DeleteParams::default()).await.unwrap();
    world.pass(60).await;
    let part = world.get::<Job>("part").await;
    assert_eq!(part.status.as_ref().unwrap().completed_indexes.as_deref(), Some("0-2"));
    assert_eq!(part.status.as_ref().unwrap().failed, Some(1));
    assert_eq!(ended(&part).unwrap().0, "Complete");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_job_and_deleting_it_leaves_nothing_behind() {
    let world = nodes(1).await;
    let spec = json!({"spec": {"activeDeadlineSeconds": 15}});
    world.create::<Job>(job("slow", spec, json!({"cluster.model/run-for": "1h"}))).await;
    world.pass(30).await;
    assert_eq!(ended(&world.get::<Job>("slow").await).unwrap().1, "DeadlineExceeded");
    world.create::<Job>(job("gone", json!({}), json!({"cluster.model/run-for": "1h"}))).await;
    world.pass(5).await;
    world.api::<Job>().delete("gone", &DeleteParams::background()).await.unwrap();
    world.pass(5).await;
    assert!(world.pods().await.iter().all(|pod| !pod.metadata.name.as_ref().unwrap().starts_with("gone")));
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_starts_jobs_by_the_clock_and_keeps_a_few() {
    let world = nodes(1).await;
    let cron = json!({"metadata": {"name": "tick"}, "spec": {"schedule": "*/5 * * * *", "successfulJobsHistoryLimit": 2,
        "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}}}}}});
    world.create::<CronJob>(cron).await;
    world.pass(200).await;
    assert!(world.pods().await.is_empty());
    world.pass(1800).await;
    let jobs = world.api::<Job>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(jobs.iter().filter_map(ended).collect::<Vec<_>>().len(), 2);
    let status = world.get::<CronJob>("tick").await.status.unwrap();
    assert_eq!(status.last_schedule_time.unwrap().0.to_string(), "2030-01-01T00:30:00Z");
    assert_eq!(status.active, None);
}

#[tokio::test(start_paused = true)]
async fn a_budget_blocks_evictions_until_a_replacement_is_ready() {
    let world = nodes(2).await;
    let slow =
        json!({"spec": {"template": {"metadata": {"annotations": {"cluster.model/ready-after": "10s"}}}}});
    world.create::<Deployment>(deployment("web", 3, slow)).await;
    let budget = json!({"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    world.create::<PodDisruptionBudget>(budget).await;
    world.pass(15).await;
    let status = world.get::<PodDisruptionBudget>("web").await.status.unwrap();
    assert_eq!(
        (status.expected_pods, status.current_healthy, status.desired_healthy, status.disruptions_allowed),
        (Some(3), Some(3), Some(2), Some(1))
    );
    let names: Vec<String> = world.pods().await.into_iter().map(|pod| pod.metadata.name.unwrap()).collect();
    let pods = world.api::<Pod>();
    pods.evict(&names[0], &EvictParams::default()).await.unwrap();
    let refused = pods.evict(&names[1], &EvictParams::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 429));
    world.pass(5).await;
    assert!(pods.evict(&names[1], &EvictParams::default()).await.is_err());
    world.pass(10).await;
    pods.evict(&names[1], &EvictParams::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_is_left_by_all_its_pods() {
    let world = nodes(2).await;
    world.create::<Deployment>(deployment("web", 6, json!({}))).await;
    world.pass(5).await;
    let nodes = world.cluster_api::<Node>();
    nodes
        .patch("n1", &PatchParams::default(), &Patch::Merge(json!({"spec": {"unschedulable": true}})))
        .await
        .unwrap();
    world.pass(1).await;
    for pod in world.pods().await {
        if pod.spec.as_ref().unwrap().node_name.as_deref() == Some("n1") {
            world
                .api::<Pod>()
                .evict(pod.metadata.name.as_deref().unwrap(), &EvictParams::default())
                .await
                .unwrap();
        }
    }
    world.pass(5).await;
    let lines = world.pod_lines().await;
    assert_eq!(lines.len(), 6);
    assert!(lines.iter().all(|line| line.ends_with("ready n2")), "{lines:?}");
}
