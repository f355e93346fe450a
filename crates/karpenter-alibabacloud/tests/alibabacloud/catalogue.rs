//! What the core gets to plan with, given what ECS says it sells and what a class asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_alibabacloud::catalogue::{Catalogue, CatalogueOptions, node_labels, system_disk_categories};
use karpenter_alibabacloud::market::{Refusals, Sales, Stock};
use karpenter_alibabacloud::node_class::{
    Architecture, Cluster, Image, Kubelet, Network, Resolved, ResolvedClass, SystemDisk, VSwitch,
    container_service, handbook, read,
};
use karpenter_alibabacloud_client::ecs;
use karpenter_api::{LabelRules, NodePool, Provider};
use karpenter_core::catalog::InstanceType;
use karpenter_core::requirements::RequirementSet;
use karpenter_kube::selector::api_requirement;
use karpenter_provider::{OfferingKey, choices};
use karpenter_quantity::ResourceList;
use serde_json::{Value, json};

use crate::seeds::{CONTAINER_SERVICE, HANDBOOK, of_kind};
use crate::server::{class, with};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const ZONES: [&str; 2] = ["cn-hangzhou-h", "cn-hangzhou-i"];

/// A type as the cloud describes it: id, family, architecture, cores, GiB; six interfaces with ten addresses each.
fn described(id: &str, family: &str, architecture: &str, cores: u32, memory: f64) -> ecs::InstanceType {
    ecs::InstanceType {
        instance_type_id: id.into(),
        instance_type_family: Some(family.into()),
        cpu_architecture: Some(architecture.into()),
        cpu_core_count: cores,
        memory_size: memory,
        physical_processor_model: Some("Intel Xeon(Ice Lake) Platinum 8369B".into()),
        eni_quantity: Some(4),
        eni_private_ip_address_quantity: Some(10),
        disk_quantity: Some(17),
        ..Default::default()
    }
}

fn gpu() -> ecs::InstanceType {
    ecs::InstanceType {
        gpu_amount: Some(2),
        gpu_spec: Some("NVIDIA A10".into()),
        gpu_memory_size: Some(24.0),
        ..described("ecs.gn7i-c8g1.2xlarge", "ecs.gn7i", "X86", 8, 30.0)
    }
}

fn sold() -> Vec<ecs::InstanceType> {
    vec![
        described("ecs.g6.large", "ecs.g6", "X86", 2, 8.0),
        described("ecs.g7.large", "ecs.g7", "X86", 2, 8.0),
        described("ecs.r7.large", "ecs.r7", "X86", 2, 16.0),
        described("ecs.t6-c1m4.large", "ecs.t6", "X86", 2, 8.0),
        described("ecs.t6-c1m2.large", "ecs.t6", "X86", 2, 4.0),
        described("ecs.c8y.large", "ecs.c8y", "ARM", 2, 4.0),
        described("ecs.re6p.26xlarge", "ecs.re6p", "X86", 104, 1024.0),
        gpu(),
    ]
}

fn sales(types: Vec<ecs::InstanceType>) -> Arc<Sales> {
    Arc::new(Sales { types: types.into_iter().map(Arc::new).collect(), ..Sales::default() })
}

fn resolved(network: Network) -> Resolved {
    let v_switch = |zone: &&str| VSwitch {
        id: format!("vsw-{zone}").into(),
        zone: (*zone).into(),
        vpc: "vpc-1".to_owned(),
        free_addresses: 100,
    };
    let image = |architecture| Image { id: "m-1".into(), name: None, architecture, size_gib: Some(20) };
    let cluster = Cluster {
        id: "c1".into(),
        version: "1.33.3-aliyun.1".to_owned(),
        vpc: None,
        network,
        dual_stack: false,
    };
    Resolved {
        v_switches: ZONES.iter().map(v_switch).collect(),
        images: vec![image(Architecture::Amd64), image(Architecture::Arm64)],
        cluster: Some(Arc::new(cluster)),
        ..Resolved::default()
    }
}

fn asking(changes: &Value) -> ResolvedClass {
    let dialect = karpenter_alibabacloud::node_class::Dialect::ContainerService;
    let object: container_service::ECSNodeClass =
        serde_json::from_value(class(dialect, &with(dialect, changes))).unwrap();
    ResolvedClass { class: read(&object).class, resolved: resolved(Network::Other), not_ready: None }
}

fn catalogue() -> Catalogue {
    Catalogue::new(CatalogueOptions { region: "cn-hangzhou".into(), memory_overhead: 0.065 })
}

fn types_for(class: &ResolvedClass, sales: &Arc<Sales>) -> Vec<Arc<InstanceType>> {
    catalogue().instance_types(class, sales, &Refusals::default(), NOW).to_vec()
}

fn of(class: &ResolvedClass, name: &str) -> Arc<InstanceType> {
    let types = types_for(class, &sales(sold()));
    types.iter().find(|found| &*found.name == name).unwrap_or_else(|| panic!("{name} is missing")).clone()
}

fn label(instance_type: &InstanceType, key: &str) -> Option<String> {
    instance_type.requirements.get(key)?.single().map(ToString::to_string)
}

fn names(types: &[Arc<InstanceType>]) -> Vec<&str> {
    types.iter().map(|found| &*found.name).collect()
}

/// The types that a pool of a manifest can launch.
fn launchable(text: &str, pool: &str, class: &ResolvedClass) -> Vec<String> {
    let rules = LabelRules::for_providers(&[Provider::AlibabaCloud]);
    let pools = of_kind::<NodePool>(text, "NodePool");
    let pool = pools.iter().find(|found| found.metadata.name.as_deref() == Some(pool)).unwrap();
    let mut wanted = RequirementSet::default();
    for requirement in &pool.spec.template.spec.requirements {
        wanted.require(&api_requirement(requirement, &rules).unwrap());
    }
    let types = types_for(class, &sales(sold()));
    let mut found: Vec<String> = choices(&types, &wanted, &ResourceList::default())
        .into_iter()
        .map(|choice| choice.instance_type.name.to_string())
        .collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn the_pools_of_both_manifests_get_their_families() {
    let object = of_kind::<handbook::ECSNodeClass>(HANDBOOK, "ECSNodeClass").remove(0);
    let class =
        ResolvedClass { class: read(&object).class, resolved: resolved(Network::Terway), not_ready: None };
    assert_eq!(launchable(HANDBOOK, "airflow-worker", &class), ["ecs.g7.large"]);
    assert_eq!(launchable(HANDBOOK, "trino-xsmall", &class), ["ecs.r7.large"]);
    assert_eq!(launchable(HANDBOOK, "jupyterhub-small", &class), ["ecs.t6-c1m2.large", "ecs.t6-c1m4.large"]);
    assert_eq!(launchable(CONTAINER_SERVICE, "default", &asking(&json!({}))), ["ecs.g6.large"]);
}

#[test]
fn labels_are_written_in_every_dialect() {
    let found = of(&asking(&json!({})), "ecs.t6-c1m4.large");
    for (key, value) in [
        ("karpenter.k8s.alibabacloud.com/ecs-instance-category", "t"),
        ("karpenter.k8s.alibabacloud.com/ecs-instance-family", "ecs.t6"),
        ("karpenter.k8s.alibabacloud.com/instance-family", "ecs.t6"),
        ("karpenter.k8s.alibabacloud/instance-family", "ecs.t6-c1m4"),
        ("karpenter.k8s.alibabacloud/instance-category", "t"),
        ("karpenter.k8s.alibabacloud/instance-generation", "6"),
        ("karpenter.k8s.alibabacloud/instance-cpu-model", "intel"),
        ("karpenter.alibabacloud.com/instance-family", "ecs.t6"),
        ("node.kubernetes.io/instance-family", "ecs.t6"),
        ("node.kubernetes.io/instance-size", "large"),
        ("topology.kubernetes.io/region", "cn-hangzhou"),
        ("kubernetes.io/arch", "amd64"),
    ] {
        assert_eq!(label(&found, key).as_deref(), Some(value), "{key}");
    }
}

#[test]
fn every_label_of_a_type_is_well_known_and_has_a_valid_value() {
    let rules = LabelRules::for_providers(&[Provider::AlibabaCloud]);
    for found in types_for(&asking(&json!({})), &sales(sold())) {
        for (key, set) in found.requirements.iter() {
            assert!(rules.is_well_known(key), "{key}");
            for value in set.values().unwrap() {
                assert!(!value.is_empty(), "{key}");
                assert_eq!(karpenter_api::label_syntax::label_value(value), Ok(()), "{key}={value}");
            }
        }
    }
}

#[test]
fn a_terabyte_of_memory_is_a_whole_number_of_mebibytes() {
    let found = of(&asking(&json!({})), "ecs.re6p.26xlarge");
    assert_eq!(label(&found, "karpenter.k8s.alibabacloud/instance-memory").as_deref(), Some("1048576"));
}

#[test]
fn arm_machines_are_arm_and_gpu_machines_are_not() {
    let class = asking(&json!({}));
    assert_eq!(label(&of(&class, "ecs.c8y.large"), "kubernetes.io/arch").as_deref(), Some("arm64"));
    assert_eq!(label(&of(&class, "ecs.gn7i-c8g1.2xlarge"), "kubernetes.io/arch").as_deref(), Some("amd64"));
}

#[test]
fn types_for_which_the_class_has_no_image_are_not_offered() {
    let mut class = asking(&json!({}));
    class.resolved.images.retain(|image| image.architecture == Architecture::Amd64);
    assert!(!names(&types_for(&class, &sales(sold()))).contains(&"ecs.c8y.large"));
}

#[test]
fn gpus_are_counted_and_named() {
    let found = of(&asking(&json!({})), "ecs.gn7i-c8g1.2xlarge");
    assert_eq!(found.capacity.get("nvidia.com/gpu").to_string(), "2");
    assert_eq!(found.capacity.get("aliyun.com/gpu-mem").to_string(), "48");
    for (key, value) in
        [("gpu-name", "nvidia-a10"), ("gpu-count", "2"), ("gpu-memory", "24"), ("gpu-manufacturer", "nvidia")]
    {
        let key = format!("karpenter.alibabacloud.com/instance-{key}");
        assert_eq!(label(&found, &key).as_deref(), Some(value), "{key}");
    }
    assert_eq!(
        label(&found, "karpenter.k8s.alibabacloud/instance-gpu-manufacturer").as_deref(),
        Some("NVIDIA"),
        "as its users write it"
    );
    assert_eq!(
        label(&of(&asking(&json!({})), "ecs.g7.large"), "karpenter.alibabacloud.com/instance-gpu-count"),
        None
    );
}

fn pods(network: Network, kubelet: &Value) -> Option<String> {
    let mut class = asking(&json!({ "kubelet": kubelet }));
    class.resolved = resolved(network);
    let types = types_for(&class, &sales(sold()));
    let found = types.iter().find(|found| &*found.name == "ecs.g7.large")?;
    Some(found.capacity.get("pods").to_string())
}

#[test]
fn the_network_the_class_and_the_cores_say_how_many_pods_a_node_carries() {
    let none = json!({});
    assert_eq!(pods(Network::Terway, &none).as_deref(), Some("33"));
    assert_eq!(pods(Network::Flannel { addresses: 256 }, &none).as_deref(), Some("256"));
    assert_eq!(pods(Network::Other, &none).as_deref(), Some("110"));
    assert_eq!(pods(Network::Terway, &json!({ "maxPods": 20 })).as_deref(), Some("20"));
    assert_eq!(pods(Network::Other, &json!({ "podsPerCore": 5 })).as_deref(), Some("10"));
    assert_eq!(pods(Network::TerwayExclusive, &none), None, "four interfaces are too few");
    let mut small = described("ecs.g7.large", "ecs.g7", "X86", 2, 8.0);
    small.eni_quantity = Some(2);
    let mut class = asking(&none);
    class.resolved = resolved(Network::Terway);
    assert!(types_for(&class, &sales(vec![small])).is_empty(), "ten addresses are too few");
}

#[test]
fn reservations_follow_acks_ladder_and_the_class_may_say_otherwise() {
    let mut class = asking(&json!({}));
    class.resolved = resolved(Network::Terway);
    let found = of(&class, "ecs.g7.large");
    let mebibytes = |list: &ResourceList, name: &str| list.get(name).ceil_units() / (1 << 20);
    assert_eq!(found.overhead.get("cpu").to_string(), "70m");
    assert_eq!(
        mebibytes(&found.overhead, "memory"),
        818 + 100,
        "ACK's reservation and the kubelet's threshold"
    );
    assert_eq!(mebibytes(&found.capacity, "memory"), 8192 - 533);
    assert_eq!(found.capacity.get("ephemeral-storage").to_string(), "40Gi");
    assert_eq!(found.allocatable().get("ephemeral-storage").to_string(), "36Gi");
    assert_eq!(found.allocatable().get("cpu").to_string(), "1930m");
    let kubelet = Kubelet {
        kube_reserved: BTreeMap::from([("cpu".to_owned(), "200m".to_owned())]),
        system_reserved: BTreeMap::from([
            ("cpu".to_owned(), "100m".to_owned()),
            ("memory".to_owned(), "1Gi".to_owned()),
        ]),
        eviction_hard: BTreeMap::from([("memory.available".to_owned(), "10%".to_owned())]),
        ..Kubelet::default()
    };
    class.class.kubelet = kubelet;
    let found = of(&class, "ecs.g7.large");
    assert_eq!(found.overhead.get("cpu").to_string(), "300m");
    assert_eq!(mebibytes(&found.overhead, "memory"), 818 + 1024 + 819);
}

fn stock(entries: &[(&str, &str, bool)]) -> Stock {
    let mut stock = Stock::new();
    for (name, zone, stocked) in entries {
        stock.entry((*name).into()).or_default().insert((*zone).into(), *stocked);
    }
    stock
}

fn availability(instance_type: &InstanceType) -> BTreeMap<String, bool> {
    let offerings = instance_type.offerings.iter();
    offerings
        .map(|offering| {
            (
                format!("{} {}", offering.capacity_type().unwrap(), offering.zone().unwrap()),
                offering.available,
            )
        })
        .collect()
}

#[test]
fn what_is_sold_out_stays_listed_in_every_zone_of_the_class() {
    let mut market = (*sales(sold())).clone();
    market.on_demand_stock = Some(stock(&[("ecs.g7.large", ZONES[0], true)]));
    market.spot_stock = Some(Stock::new());
    let types = types_for(&asking(&json!({})), &Arc::new(market));
    let found = types.iter().find(|found| &*found.name == "ecs.g7.large").unwrap();
    let expected = [
        ("on-demand cn-hangzhou-h", true),
        ("on-demand cn-hangzhou-i", false),
        ("spot cn-hangzhou-h", false),
        ("spot cn-hangzhou-i", false),
    ];
    assert_eq!(availability(found), expected.map(|(name, stocked)| (name.to_owned(), stocked)).into());
    let zones = found.requirements.get("topology.kubernetes.io/zone").unwrap();
    assert_eq!(zones.values().unwrap().len(), 2);
    assert_eq!(types.len(), sold().len(), "a type without stock anywhere is still a type");
}

#[test]
fn prices_are_the_clouds_where_it_said_them_and_never_zero() {
    let mut market = (*sales(sold())).clone();
    market.on_demand_prices.insert("ecs.g7.large".into(), 0.523_25);
    market.spot_prices.insert("ecs.g7.large".into(), BTreeMap::from([(ZONES[1].into(), 0.11)]));
    let types = types_for(&asking(&json!({})), &Arc::new(market));
    for offering in types.iter().flat_map(|found| &found.offerings) {
        assert!(offering.price > 0.0, "{offering:?}");
    }
    let found = types.iter().find(|found| &*found.name == "ecs.g7.large").unwrap();
    let price = |capacity_type: &str, zone: &str| {
        let is = |found: Option<&Arc<str>>, wanted: &str| found.is_some_and(|found| &**found == wanted);
        let mut offerings = found.offerings.iter();
        let offering = offerings
            .find(|offering| is(offering.capacity_type(), capacity_type) && is(offering.zone(), zone));
        offering.unwrap().price
    };
    assert!((price("on-demand", ZONES[0]) - 0.523_25).abs() < 1e-12);
    assert!((price("spot", ZONES[1]) - 0.11).abs() < 1e-12);
    assert!(
        price("spot", ZONES[0]) < price("on-demand", ZONES[0]),
        "expected to be cheaper where nobody says"
    );
}

#[test]
fn a_new_price_changes_its_type_and_shares_all_others() {
    let class = asking(&json!({}));
    let mut catalogue = catalogue();
    let market = sales(sold());
    let refusals = Refusals::default();
    let before = catalogue.instance_types(&class, &market, &refusals, NOW);
    let again = catalogue.instance_types(&class, &market, &refusals, NOW);
    assert!(Arc::ptr_eq(&before, &again), "nothing changed, so nothing is built");
    let mut changed = (*market).clone();
    changed.on_demand_prices.insert("ecs.g7.large".into(), 9.0);
    let after = catalogue.instance_types(&class, &Arc::new(changed), &refusals, NOW);
    let differing: Vec<_> =
        before.iter().zip(&*after).filter(|(one, other)| !Arc::ptr_eq(one, other)).collect();
    assert_eq!(differing.len(), 1);
    assert_eq!(&*differing[0].1.name, "ecs.g7.large");
}

#[test]
fn classes_of_one_shape_share_their_types() {
    let mut catalogue = catalogue();
    let market = sales(sold());
    let mut other = asking(&json!({ "role": "r", "userData": "true" }));
    other.class.key.name = "other".into();
    let one = catalogue.instance_types(&asking(&json!({})), &market, &Refusals::default(), NOW);
    let two = catalogue.instance_types(&other, &market, &Refusals::default(), NOW);
    assert!(Arc::ptr_eq(&one, &two));
}

#[test]
fn a_refused_offering_is_unavailable_until_its_time_is_over() {
    let class = asking(&json!({}));
    let mut catalogue = catalogue();
    let market = sales(sold());
    let mut refusals = Refusals::default();
    let key = OfferingKey {
        instance_type: "ecs.g7.large".into(),
        zone: ZONES[0].into(),
        capacity_type: "on-demand".into(),
    };
    refusals.refuse(key, NOW);
    let mut available = |now| {
        let types = catalogue.instance_types(&class, &market, &refusals, now);
        let found = types.iter().find(|found| &*found.name == "ecs.g7.large").unwrap().clone();
        (availability(&found)["on-demand cn-hangzhou-h"], availability(&found)["on-demand cn-hangzhou-i"])
    };
    assert_eq!(available(NOW), (false, true));
    assert_eq!(available(NOW + SignedDuration::from_mins(4)), (true, true));
}

#[test]
fn disk_categories_are_those_the_type_can_have() {
    let disk = |categories: &[&str], encrypted| SystemDisk {
        categories: categories.iter().map(|word| Arc::from(*word)).collect(),
        size_gib: 40,
        performance_level: None,
        encrypted,
        kms_key: None,
        delete_with_instance: true,
    };
    let found = |id: &str, family: &str, disk: &SystemDisk| {
        let categories = system_disk_categories(&described(id, family, "X86", 2, 8.0), disk);
        categories.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let all = disk(
        &["cloud", "cloud_efficiency", "cloud_ssd", "cloud_essd", "cloud_auto", "cloud_essd_entry"],
        false,
    );
    assert_eq!(found("ecs.g7.large", "ecs.g7", &all), "cloud_essd cloud_auto");
    assert_eq!(found("ecs.g6.large", "ecs.g6", &all), "cloud_efficiency cloud_ssd cloud_essd cloud_auto");
    assert!(found("ecs.e-c1m1.large", "ecs.e", &all).contains("cloud_essd_entry"));
    assert_eq!(found("ecs.g7.large", "ecs.g7", &disk(&["cloud_ssd"], false)), "");
    assert_eq!(found("ecs.e-c1m1.large", "ecs.e", &disk(&["cloud_essd_entry"], true)), "");
    let class = asking(&json!({ "systemDisk": { "category": "cloud_ssd" } }));
    let types = types_for(&class, &sales(sold()));
    assert!(names(&types).contains(&"ecs.g6.large") && !names(&types).contains(&"ecs.g7.large"));
}

#[test]
fn a_partial_answer_is_no_reason_to_stop() {
    let bare = ecs::InstanceType { instance_type_id: "ecs.x".into(), ..Default::default() };
    let types = types_for(&asking(&json!({})), &sales(vec![bare, ecs::InstanceType::default(), gpu()]));
    assert!(names(&types).contains(&"ecs.gn7i-c8g1.2xlarge"));
}

#[test]
fn a_nodes_labels_are_what_is_certain_of_its_type_and_offering() {
    let found = of(&asking(&json!({})), "ecs.g7.large");
    let labels = node_labels(&found, &found.offerings[0]);
    assert_eq!(labels["topology.kubernetes.io/zone"], ZONES[0]);
    assert_eq!(labels["topology.k8s.alibabacloud/zone-id"], ZONES[0]);
    assert_eq!(labels["karpenter.sh/capacity-type"], "spot");
    assert_eq!(labels["karpenter.k8s.alibabacloud.com/ecs-instance-family"], "ecs.g7");
}

#[test]
fn numeric_requirements_and_unknown_labels_bind() {
    let rules = LabelRules::for_providers(&[Provider::AlibabaCloud]);
    let types = types_for(&asking(&json!({})), &sales(sold()));
    let found = |requirements: Value| -> Vec<String> {
        let mut wanted = RequirementSet::default();
        for requirement in requirements.as_array().unwrap() {
            let read = serde_json::from_value(requirement.clone()).unwrap();
            wanted.require(&api_requirement(&read, &rules).unwrap());
        }
        let mut names: Vec<String> = choices(&types, &wanted, &ResourceList::default())
            .into_iter()
            .map(|choice| choice.instance_type.name.to_string())
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let memory = "karpenter.k8s.alibabacloud/instance-memory";
    assert_eq!(
        found(json!([{ "key": memory, "operator": "Gt", "values": ["500000"] }])),
        ["ecs.re6p.26xlarge"]
    );
    let small = json!([{ "key": memory, "operator": "Lt", "values": ["8000"] }]);
    assert_eq!(found(small), ["ecs.c8y.large", "ecs.t6-c1m2.large"]);
    let none = json!([{ "key": "karpenter.alibabacloud.com/instance-family", "operator": "In", "values": ["ecs.g9"] }]);
    assert!(found(none).is_empty());
}
