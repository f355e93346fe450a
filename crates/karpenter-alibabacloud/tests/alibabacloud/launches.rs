//! Launches on the simulated cloud: what is asked for, what refusals lead to, and that no machine is started twice.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use karpenter_provider::{LaunchError, OfferingKey, Provider as _};
use karpenter_simcloud_alibabacloud::{Fault, FaultRule, Market, Policy, WORKER_ROLE};
use serde_json::json;

use crate::cloud::{CAPACITY, CLUSTER, REGION, Rig, TYPE, ZONE, recorded, sold_out, storm, wants};

const ON_DEMAND: (&str, &[&str]) = (CAPACITY, &["on-demand"]);
const G7: (&str, &[&str]) = (TYPE, &["ecs.g7.large"]);

#[tokio::test(start_paused = true)]
async fn everything_the_class_says_reaches_the_machine() {
    let rig = Rig::new(&json!({
        "role": WORKER_ROLE,
        "systemDisk": {"category": "cloud_essd", "size": 120, "performanceLevel": "PL1", "encrypted": true, "kmsKeyID": "key-1"},
        "dataDisks": [{"category": "cloud_essd", "size": 200, "performanceLevel": "PL2", "encrypted": true, "device": "/dev/xvdb"}],
        "metadataOptions": {"httpTokens": "required"},
        "tags": {"team": "data", "karpenter.sh/nodepool": "stolen"},
    }))
    .await;
    let claim = rig.claim("a", &wants(&[G7, ON_DEMAND, (ZONE, &["cn-hangzhou-i"])]));
    let machine = rig.launch(&claim).await.unwrap();
    let instance = rig.only();
    assert_eq!(machine.provider_id, format!("{REGION}.{}", instance.id));
    assert_eq!((instance.zone.as_str(), instance.role.as_str()), ("cn-hangzhou-i", WORKER_ROLE));
    assert_eq!(instance.http_tokens, "required");
    let [system, data] = instance.disks.as_slice() else { panic!("{:?}", instance.disks) };
    assert_eq!(
        (system.category.as_str(), system.size_gib, system.performance_level.as_str()),
        ("cloud_essd", 120, "PL1")
    );
    assert_eq!((system.encrypted, system.kms_key.as_str()), (true, "key-1"));
    assert_eq!((data.size_gib, data.performance_level.as_str(), data.encrypted), (200, "PL2", true));
    assert_eq!((data.device.as_str(), data.delete_with_instance), ("/dev/xvdb", true));
    assert_eq!(instance.tags["karpenter.sh/nodepool"], "default", "users' tags replace none of ours");
    assert_eq!(instance.tags["team"], "data");
    assert_eq!(instance.tags["karpenter.sh/nodeclaim"], "a");
    assert_eq!(instance.tags[&format!("kubernetes.io/cluster/{CLUSTER}")], "owned");
    assert_eq!(machine.labels[ZONE], "cn-hangzhou-i");
    assert_eq!(machine.labels["karpenter.k8s.alibabacloud.com/ecs-instance-family"], "ecs.g7");
}

#[tokio::test(start_paused = true)]
async fn a_claims_zone_is_kept_whatever_is_cheaper_or_emptier_elsewhere() {
    for capacity in ["on-demand", "spot"] {
        for zone in ["cn-hangzhou-h", "cn-hangzhou-k"] {
            let rig = Rig::new(&json!({})).await;
            let claim = rig.claim("a", &wants(&[(CAPACITY, &[capacity]), (ZONE, &[zone])]));
            let machine = rig.launch(&claim).await.unwrap();
            assert_eq!(rig.only().zone, zone);
            assert_eq!((machine.labels[ZONE].as_str(), machine.labels[CAPACITY].as_str()), (zone, capacity));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_architecture_gets_its_own_image() {
    let rig = Rig::new(&json!({})).await;
    for (name, architecture, mark) in [("x", "amd64", "_x64_"), ("y", "arm64", "_arm64_")] {
        let claim = rig.claim(name, &wants(&[("kubernetes.io/arch", &[architecture]), ON_DEMAND]));
        let machine = rig.launch(&claim).await.unwrap();
        assert_eq!(machine.labels["kubernetes.io/arch"], architecture);
        assert!(machine.image_id.as_deref().unwrap().contains(mark), "{:?}", machine.image_id);
    }
    let mixed = rig.claim("z", &wants(&[("kubernetes.io/arch", &["amd64", "arm64"]), ON_DEMAND]));
    let machine = rig.launch(&mixed).await.unwrap();
    let mark = if machine.labels["kubernetes.io/arch"] == "arm64" { "_arm64_" } else { "_x64_" };
    assert!(machine.image_id.unwrap().contains(mark));
}

#[tokio::test(start_paused = true)]
async fn labels_taints_and_the_users_script_reach_the_node() {
    let rig = Rig::new(&json!({"userData": "#!/bin/sh\necho mine", "kubelet": {"maxPods": 30}})).await;
    let mut claim = rig.claim("a", &wants(&[G7, ON_DEMAND]));
    claim.metadata.labels.as_mut().unwrap().insert("team".into(), "data".into());
    claim.spec.taints =
        serde_json::from_value(json!([{"key": "airflow-worker", "effect": "NoSchedule"}])).unwrap();
    claim.spec.startup_taints =
        serde_json::from_value(json!([{"key": "cni", "value": "no", "effect": "NoExecute"}])).unwrap();
    rig.launch(&claim).await.unwrap();
    let text = String::from_utf8(STANDARD.decode(rig.only().user_data).unwrap()).unwrap();
    for part in [
        "echo mine",
        "team=data",
        "karpenter.sh/nodepool=default",
        "karpenter.sh/capacity-type=on-demand",
        "airflow-worker:NoSchedule",
        "cni=no:NoExecute",
        "karpenter.sh/unregistered:NoExecute",
        "--node-config",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!text.contains('\r'));
}

#[tokio::test(start_paused = true)]
async fn the_attach_scripts_token_is_fresh_and_each_kind_of_class_has_a_script_of_its_own() {
    let rig = Rig::new(&json!({})).await;
    for name in ["a", "b"] {
        rig.launch(&rig.claim(name, &wants(&[G7, ON_DEMAND]))).await.unwrap();
    }
    assert_eq!(rig.calls("DescribeClusterAttachScripts"), 1, "a script is kept");
    let mut class = rig.class(&json!({}));
    class.class.format_data_disk = true;
    rig.know(&class);
    rig.launch(&rig.claim("c", &wants(&[G7, ON_DEMAND]))).await.unwrap();
    let asked = rig.requests("DescribeClusterAttachScripts");
    assert_eq!(asked.len(), 2);
    assert!(
        asked[0].body.contains(r#""format_disk":false"#) && asked[1].body.contains(r#""format_disk":true"#)
    );
    let expires = rig.now().as_second() + 24 * 3600;
    assert!(asked[0].body.contains(&format!(r#""expired":{expires}"#)), "{}", asked[0].body);
    tokio::time::advance(std::time::Duration::from_hours(13)).await;
    rig.launch(&rig.claim("d", &wants(&[G7, ON_DEMAND]))).await.unwrap();
    assert_eq!(rig.calls("DescribeClusterAttachScripts"), 3, "it is renewed at half its life");
}

#[tokio::test(start_paused = true)]
async fn a_group_is_read_to_its_last_result_and_nothing_is_left_over() {
    for failures_first in [true, false] {
        let rig = Rig::prepared(&json!({}), |world| world.switches.failures_first = failures_first).await;
        // The market has lost the cheapest types since the provider looked.
        rig.sell_out(Some("ecs.g7.large"), None, None);
        let claim = rig.claim("a", &wants(&[(TYPE, &["ecs.g7.large", "ecs.g7.xlarge"]), ON_DEMAND]));
        let machine = rig.launch(&claim).await.unwrap();
        assert_eq!(machine.labels[TYPE], "ecs.g7.xlarge");
        assert_eq!(rig.only().instance_type, "ecs.g7.xlarge");
        assert_eq!(rig.calls("CreateAutoProvisioningGroup"), 1);
        let key = |name: &str| OfferingKey {
            instance_type: name.into(),
            zone: rig.only().zone.as_str().into(),
            capacity_type: "on-demand".into(),
        };
        let refusals = rig.provider.market().refusals();
        assert!(refusals.is_refused(&key("ecs.g7.large"), rig.now()), "exactly what failed is left alone");
        assert!(!refusals.is_refused(&key("ecs.g7.xlarge"), rig.now()));
    }
}

#[tokio::test(start_paused = true)]
async fn without_stock_anywhere_the_claim_is_given_up_and_nobody_asks_again_at_once() {
    let rig = Rig::new(&json!({"metadataOptions": {"httpTokens": "required"}})).await;
    rig.sell_out(Some("ecs.g7.large"), None, None);
    let error = rig.launch(&rig.claim("a", &wants(&[G7]))).await.unwrap_err();
    let LaunchError::InsufficientCapacity(message) = &error else { panic!("{error:?}") };
    assert!(message.contains("ecs.g7.large spot in cn-hangzhou-h: OperationDenied.NoStock"), "{message}");
    assert!(message.contains("on-demand"), "spot gave way to on-demand: {message}");
    let asked = rig.calls("RunInstances");
    let error = rig.launch(&rig.claim("b", &wants(&[G7]))).await.unwrap_err();
    assert!(matches!(error, LaunchError::InsufficientCapacity(_)), "{error:?}");
    assert_eq!(rig.calls("RunInstances"), asked, "what was refused is remembered");
    assert!(rig.instances().is_empty());
    rig.service.change(|world| world.stock.clear());
    tokio::time::advance(std::time::Duration::from_mins(31)).await;
    rig.launch(&rig.claim("c", &wants(&[G7]))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn spot_gives_way_to_on_demand_and_is_read_back_as_what_it_is() {
    let rig = Rig::new(&json!({})).await;
    let spot = rig.launch(&rig.claim("a", &wants(&[G7]))).await.unwrap();
    assert_eq!(spot.labels[CAPACITY], "spot");
    let listed = rig.provider.list().await.unwrap();
    assert_eq!(listed[0].labels[CAPACITY], "spot");
    rig.sell_out(None, None, Some(Market::Spot));
    let machine = rig.launch(&rig.claim("b", &wants(&[G7]))).await.unwrap();
    assert_eq!(machine.labels[CAPACITY], "on-demand");
    let found = rig.provider.find(machine.provider_id.as_str().into()).await.unwrap().unwrap();
    assert_eq!(found.labels[CAPACITY], "on-demand");
}

#[tokio::test(start_paused = true)]
async fn a_bid_is_sent_with_its_limit() {
    let rig = Rig::new(&json!({
        "spotStrategy": "SpotWithPriceLimit", "spotPriceLimit": 0.4567, "metadataOptions": {"httpTokens": "required"},
    }))
    .await;
    rig.launch(&rig.claim("a", &wants(&[G7, (CAPACITY, &["spot"])]))).await.unwrap();
    let instance = rig.only();
    assert_eq!((instance.spot_strategy.as_str(), instance.spot_price_limit), ("SpotWithPriceLimit", 0.457));
}

#[tokio::test(start_paused = true)]
async fn a_vswitch_without_addresses_is_left_for_another_and_the_type_is_not_blamed() {
    let rig = Rig::new(&json!({"metadataOptions": {"httpTokens": "required"}})).await;
    rig.service.change(|world| {
        let full = world.vswitches.values_mut().find(|one| one.id.contains("hprivate")).unwrap();
        full.taken_by_others = 1 << 20;
    });
    let claim = rig.claim("a", &wants(&[G7, ON_DEMAND, (ZONE, &["cn-hangzhou-h", "cn-hangzhou-i"])]));
    let machine = rig.launch(&claim).await.unwrap();
    assert_eq!(machine.labels[ZONE], "cn-hangzhou-i");
    let key = OfferingKey {
        instance_type: "ecs.g7.large".into(),
        zone: "cn-hangzhou-h".into(),
        capacity_type: "on-demand".into(),
    };
    assert!(!rig.provider.market().refusals().is_refused(&key, rig.now()));
    let claim = rig.claim("b", &wants(&[G7, ON_DEMAND, (ZONE, &["cn-hangzhou-h"])]));
    let LaunchError::InsufficientCapacity(message) = rig.launch(&claim).await.unwrap_err() else { panic!() };
    assert!(message.contains("free address in cn-hangzhou-h"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_breaks_after_the_launch_costs_no_second_machine() {
    for metadata in [json!({}), json!({"metadataOptions": {"httpTokens": "required"}})] {
        let rig = Rig::new(&metadata).await;
        for action in ["RunInstances", "CreateAutoProvisioningGroup"] {
            rig.service.change(|world| world.faults.next(action, 3, Fault::ResetAfterCommit));
        }
        let claim = rig.claim("a", &wants(&[ON_DEMAND, (TYPE, &["ecs.g7.large", "ecs.g7.xlarge"])]));
        let error = rig.launch(&claim).await.unwrap_err();
        assert!(
            matches!(&error, LaunchError::Failed { reason, .. } if reason == "CloudUnavailable"),
            "{error:?}"
        );
        let machine = rig.launch(&claim).await.unwrap();
        assert_eq!(machine.provider_id, format!("{REGION}.{}", rig.only().id));
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_died_before_writing_the_machine_down_finds_it_again() {
    let class = json!({});
    let rig = Rig::new(&class).await;
    let claim = rig.claim("a", &wants(&[G7, ON_DEMAND]));
    let machine = rig.launch(&claim).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let rig = rig.restarted(&class).await;
    let again = rig.launch(&claim).await.unwrap();
    assert_eq!(again.provider_id, machine.provider_id);
    assert_eq!(again.annotations, machine.annotations);
    rig.only();
    let fresh = rig.claim("b", &wants(&[G7, ON_DEMAND]));
    let before = rig.calls("DescribeInstances");
    rig.launch(&fresh).await.unwrap();
    assert_eq!(rig.calls("DescribeInstances"), before, "a new claim has no machine to look for");
}

#[tokio::test(start_paused = true)]
async fn causes_and_remedies_are_told_and_the_launch_recovers_once_they_are_mended() {
    let cases = [
        (403, "Forbidden.RAM", "Denied", "ecs:RunInstances"),
        (400, "InsufficientBalance", "InsufficientBalance", "Recharge"),
        (400, "Throttling.User", "Throttled", "repeated"),
        (403, "InvalidSecurityToken.Expired", "CredentialsRefused", "token file"),
        (404, "InvalidImageId.NotFound", "NotFound", "resolved anew"),
        (400, "InvalidParameter", "LaunchFailed", "ECSNodeClass"),
    ];
    for (status, code, word, remedy) in cases {
        let rig = Rig::new(&json!({"metadataOptions": {"httpTokens": "required"}})).await;
        rig.service.change(|world| {
            let fault = Fault::Refuse { status, code: code.into(), message: "no".into() };
            world.faults.add(FaultRule {
                action: "RunInstances".into(),
                fault,
                times: None,
                per_mille: None,
            });
        });
        let claim = rig.claim("a", &wants(&[G7, ON_DEMAND]));
        let LaunchError::Failed { reason, message } = rig.launch(&claim).await.unwrap_err() else {
            panic!("{code}")
        };
        assert_eq!(reason, word);
        assert!(message.contains(remedy) && message.contains(code), "{message}");
        rig.service.change(|world| world.faults.clear());
        rig.launch(&claim).await.unwrap();
        rig.only();
    }
}

#[tokio::test(start_paused = true)]
async fn a_used_up_quota_of_spot_leads_to_on_demand() {
    let rig = Rig::new(&json!({"metadataOptions": {"httpTokens": "required"}})).await;
    rig.service.change(|world| {
        let fault = Fault::Refuse { status: 403, code: "QuotaExceed.Spot".into(), message: "no".into() };
        world.faults.next("RunInstances", 1, fault);
    });
    let machine = rig.launch(&rig.claim("a", &wants(&[G7]))).await.unwrap();
    assert_eq!(machine.labels[CAPACITY], "on-demand");
    assert_eq!(rig.calls("RunInstances"), 2);
}

#[tokio::test(start_paused = true)]
async fn with_the_readmes_policy_on_demand_works_and_what_is_missing_is_named_with_its_cost() {
    let actions = [
        "cs:DescribeClusterAttachScripts",
        "cs:GetClusterAddonInstance",
        "cs:DescribeClusterDetail",
        "ecs:RunInstances",
        "ecs:DescribeInstances",
        "ecs:DeleteInstances",
        "ecs:TagResources",
        "ecs:CreateLaunchTemplate",
        "ecs:DescribeLaunchTemplates",
        "ecs:DeleteLaunchTemplate",
        "ecs:DescribeInstanceTypeResource",
        "ecs:DescribeImages",
        "ecs:DescribeSecurityGroups",
        "ecs:DescribeCapacityReservations",
        "ecs:DescribePrice",
        "ecs:DescribeInstanceTypes",
        "ecs:DescribeZones",
        "vpc:DescribeVSwitches",
        "ram:GetRole",
    ];
    let rig = Rig::prepared(&json!({}), |world| {
        let key = world.keys.values_mut().next().unwrap();
        key.policy = Some(Policy::allowing(actions));
    })
    .await;
    let claim = rig.claim("a", &wants(&[ON_DEMAND, (TYPE, &["ecs.g7.large", "ecs.g7.xlarge"])]));
    let machine = rig.launch(&claim).await.unwrap();
    assert_eq!(machine.labels[CAPACITY], "on-demand");
    rig.provider.warnings().await.unwrap();
    assert_eq!(rig.provider.list().await.unwrap().len(), 1);
    let claim = recorded(&claim, &machine);
    assert_eq!(rig.provider.drift(claim.into()).await.unwrap(), None);
    let missing = rig.provider.rights().missing();
    let cost = |action: &str| missing.iter().find(|(missing, _)| missing == action).map(|(_, cost)| *cost);
    assert!(cost("ecs:DescribeAvailableResource").unwrap().contains("spot is not used"), "{missing:?}");
    assert!(cost("ecs:CreateAutoProvisioningGroup").unwrap().contains("one type at a time"), "{missing:?}");
    assert!(
        cost("cms:DescribeSystemEventAttribute").is_some() && cost("ecs:RunInstances").is_none(),
        "{missing:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_sold_out_zone_drifts_nothing_and_a_changed_image_does() {
    let rig = Rig::new(&json!({})).await;
    let claim = rig.claim("a", &wants(&[G7, ON_DEMAND]));
    let machine = rig.launch(&claim).await.unwrap();
    let claim = recorded(&claim, &machine);
    rig.service.change(|world| world.stock.push(sold_out(None, Some(&machine.labels[ZONE]), None)));
    rig.look().await;
    assert_eq!(rig.provider.drift(claim.clone().into()).await.unwrap(), None);

    let mut class = rig.class(&json!({}));
    class.resolved.security_groups[0].id = "sg-other".into();
    rig.know(&class);
    assert_eq!(
        rig.provider.drift(claim.clone().into()).await.unwrap().as_deref(),
        Some("SecurityGroupDrift")
    );
    class = rig.class(&json!({}));
    class.resolved.v_switches.retain(|one| *one.zone != machine.labels[ZONE]);
    rig.know(&class);
    assert_eq!(rig.provider.drift(claim.clone().into()).await.unwrap().as_deref(), Some("VSwitchDrift"));
    class = rig.class(&json!({}));
    class.resolved.images.iter_mut().for_each(|image| image.id = "m-newer".into());
    rig.know(&class);
    assert_eq!(rig.provider.drift(claim.clone().into()).await.unwrap().as_deref(), Some("ImageDrift"));
    rig.know(&rig.class(&json!({"systemDisk": {"size": 300}})));
    assert_eq!(rig.provider.drift(claim.into()).await.unwrap().as_deref(), Some("NodeClassDrift"));
}

#[tokio::test(start_paused = true)]
async fn balanced_classes_take_the_emptiest_zone_first() {
    let rig = Rig::new(&json!({})).await;
    let mut class = rig.class(&json!({}));
    class.class.zone_policy = karpenter_alibabacloud::node_class::ZonePolicy::Balanced;
    rig.know(&class);
    let mut zones = Vec::new();
    for name in ["a", "b", "c", "d"] {
        zones
            .push(rig.launch(&rig.claim(name, &wants(&[G7, ON_DEMAND]))).await.unwrap().labels[ZONE].clone());
    }
    zones.sort();
    zones.dedup();
    assert_eq!(zones.len(), 4, "{zones:?}");
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_launches_with_refusals_and_throttling_leaks_nothing() {
    let rig = Rig::prepared(&json!({}), |world| {
        world.switches.no_stock_per_mille = 300;
        let throttle = |action: &str| FaultRule {
            action: action.into(),
            fault: Fault::Throttle { retry_after: None },
            times: None,
            per_mille: Some(100),
        };
        world.faults.add(throttle("RunInstances"));
        world.faults.add(throttle("CreateAutoProvisioningGroup"));
    })
    .await;
    let all = storm(200);
    let names: Vec<String> = (0..all).map(|number| format!("claim-{number}")).collect();
    let mut waiting: Vec<_> = names.iter().map(|name| rig.claim(name, &wants(&[]))).collect();
    let mut started = 0;
    for _ in 0..30 {
        let answers = join_all(waiting.iter().map(|claim| rig.launch(claim))).await;
        let before = waiting.len();
        let mut answers = answers.into_iter();
        waiting.retain(|_| answers.next().unwrap().is_err());
        started += before - waiting.len();
        if waiting.is_empty() {
            break;
        }
        tokio::time::advance(std::time::Duration::from_mins(2)).await;
    }
    assert_eq!((started, waiting.len()), (all, 0));
    assert_eq!(rig.instances().len(), all, "one machine for each claim");
}

#[tokio::test(start_paused = true)]
async fn a_launch_template_is_used_and_one_that_is_gone_is_named() {
    let rig = Rig::prepared(&json!({"launchTemplateID": "lt-1"}), |world| {
        world.launch_templates.insert("lt-1".to_owned());
    })
    .await;
    rig.launch(&rig.claim("a", &wants(&[ON_DEMAND]))).await.unwrap();
    assert_eq!(rig.requests("RunInstances")[0].params["LaunchTemplateId"], "lt-1");
    rig.service.change(|world| world.launch_templates.clear());
    let error = rig.launch(&rig.claim("b", &wants(&[ON_DEMAND]))).await.unwrap_err();
    assert!(error.to_string().contains("lt-1"), "{error}");
}
