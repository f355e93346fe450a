//! What nodes have and what is kept of it, in numbers worked out by hand.

use std::sync::Arc;

use karpenter_aws_catalogue::{
    BlockDevice, ClassSettings, ControllerSettings, Expressions, Kubelet, MaxPods, NetworkInterface,
    Variables, node_shape,
};
use karpenter_quantity::{Quantity, ResourceList};

use crate::support::{al2023, bottlerocket, class, facts, map, only, shape, windows2022};

fn text(resources: &ResourceList, name: &str) -> String {
    resources.get(name).to_string()
}

fn kubelet(kubelet: Kubelet) -> ClassSettings {
    ClassSettings { kubelet, ..class() }
}

fn interface(card: u32, device: u32, efa_only: bool) -> NetworkInterface {
    NetworkInterface { card, device, efa_only }
}

#[test]
fn memory_is_what_the_hypervisor_leaves() {
    // 8192 MiB less ceil(8192 * 0.075) = 615 MiB.
    assert_eq!(text(&shape(facts("m5.large"), &class()).capacity, "memory"), "7577Mi");
    // 1024 less 77.
    assert_eq!(text(&shape(facts("t3.micro"), &class()).capacity, "memory"), "947Mi");
    // Arm: 8192 less 64, less ceil(8128 * 0.075) = 610.
    assert_eq!(text(&shape(facts("c6g.xlarge"), &class()).capacity, "memory"), "7518Mi");
    let known = only(facts("m5.large"));
    let known = known.get("m5.large").unwrap();
    let all = ControllerSettings { vm_memory_overhead_percent: 0.0, reserved_enis: 0 };
    assert_eq!(text(&node_shape(known, &class(), all, None).capacity, "memory"), "8Gi");
}

#[test]
fn pods_are_as_many_as_interfaces_have_addresses() {
    for (name, pods) in [
        ("t3.micro", 4),        // 2 interfaces with 2 addresses
        ("m5.large", 29),       // 3 with 10
        ("c6g.xlarge", 58),     // 4 with 15
        ("m5.metal", 737),      // 15 with 50
        ("p4d.24xlarge", 737),  // 15 with 50 on the first of four cards
        ("trn1.32xlarge", 247), // 5 with 50 on the first of eight cards
        ("i4i.large", 29),
    ] {
        assert_eq!(shape(facts(name), &class()).max_pods, pods, "{name}");
    }
}

#[test]
fn interfaces_that_are_reserved_or_have_no_addresses_carry_no_pods() {
    let known = only(facts("m5.large"));
    let known = known.get("m5.large").unwrap();
    let pods = |reserved_enis, class: &ClassSettings| {
        let controller = ControllerSettings { reserved_enis, ..ControllerSettings::default() };
        node_shape(known, class, controller, None).max_pods
    };
    assert_eq!(pods(1, &class()), 20);
    assert_eq!(pods(3, &class()), 0);
    assert_eq!(pods(9, &class()), 0);
    let interfaces = vec![interface(0, 0, false), interface(0, 1, true), interface(1, 0, true)];
    assert_eq!(pods(0, &ClassSettings { network_interfaces: interfaces, ..class() }), 20);
}

#[test]
fn what_the_class_says_about_pods_comes_first() {
    let pods = |kubelet_settings, family| {
        shape(facts("m5.large"), &ClassSettings { family, ..kubelet(kubelet_settings) }).max_pods
    };
    let fixed = Kubelet { max_pods: Some(MaxPods::Fixed(10)), ..Kubelet::default() };
    let per_core = Kubelet { pods_per_core: Some(4), ..Kubelet::default() };
    let none_per_core = Kubelet { pods_per_core: Some(0), ..Kubelet::default() };
    let both = Kubelet { max_pods: Some(MaxPods::Fixed(5)), ..per_core.clone() };
    assert_eq!(pods(fixed, al2023()), 10);
    assert_eq!(pods(per_core.clone(), al2023()), 8);
    assert_eq!(pods(none_per_core, al2023()), 29);
    assert_eq!(pods(both, al2023()), 5);
    assert_eq!(pods(per_core, bottlerocket()), 29);
    assert_eq!(pods(Kubelet::default(), windows2022()), 110);
}

#[test]
fn kubelet_and_the_system_keep_their_share() {
    // 11 MiB for each of 29 pods and 255, and 100 for eviction; 6 % and 1 % of two cores; 1 Gi and a tenth of 20 Gi.
    let m5 = shape(facts("m5.large"), &class()).overhead;
    assert_eq!(text(&m5, "memory"), "674Mi");
    assert_eq!(text(&m5, "cpu"), "70m");
    assert_eq!(text(&m5, "ephemeral-storage"), "3Gi");
    // 60 + 10 + 10 and 0.25 % of 92 cores.
    assert_eq!(text(&shape(facts("m5.metal"), &class()).overhead, "cpu"), "310m");
    assert_eq!(text(&shape(facts("c6g.xlarge"), &class()).overhead, "cpu"), "80m");
}

#[test]
fn memory_of_kubelet_follows_the_pods_only_in_families_that_do_so() {
    let ten = Kubelet { max_pods: Some(MaxPods::Fixed(10)), ..Kubelet::default() };
    let memory = |family| {
        let class = ClassSettings { family, ..kubelet(ten.clone()) };
        text(&shape(facts("m5.large"), &class).overhead, "memory")
    };
    assert_eq!(memory(al2023()), "674Mi");
    assert_eq!(memory(bottlerocket()), "465Mi");
}

#[test]
fn reservations_of_the_class_replace_kubelets_own_and_add_the_systems() {
    let class = kubelet(Kubelet {
        kube_reserved: map(&[("cpu", "200m"), ("memory", "1Gi"), ("pid", "1000")]),
        system_reserved: map(&[("cpu", "100m"), ("ephemeral-storage", "2Gi")]),
        ..Kubelet::default()
    });
    let shape = shape(facts("m5.large"), &class);
    assert_eq!(text(&shape.overhead, "cpu"), "300m");
    assert_eq!(text(&shape.overhead, "memory"), "1124Mi");
    assert_eq!(text(&shape.overhead, "ephemeral-storage"), "5Gi");
    assert!(!shape.overhead.contains("pid"));
    assert_eq!(text(&shape.kube_reserved, "cpu"), "200m");
}

#[test]
fn hard_eviction_thresholds_are_kept_free() {
    let overhead = |memory: &str, storage: &str| {
        let thresholds = map(&[("memory.available", memory), ("nodefs.available", storage)]);
        let class = kubelet(Kubelet { eviction_hard: thresholds, ..Kubelet::default() });
        let overhead = shape(facts("m5.large"), &class).overhead;
        (text(&overhead, "memory"), text(&overhead, "ephemeral-storage"))
    };
    assert_eq!(overhead("500Mi", "5Gi"), ("1074Mi".into(), "6Gi".into()));
    // 10 % of 7577 MiB is 757.7 MiB; whole bytes are kept.
    let (memory, storage) = overhead("10%", "15%");
    assert_eq!(memory, (574 * 1_048_576 + 794_506_036).to_string());
    assert_eq!(storage, "4Gi");
    assert_eq!(overhead("100%", "100%"), ("574Mi".into(), "1Gi".into()));
}

#[test]
fn storage_is_the_volume_kubelet_uses() {
    let device = |name: &str, root_volume, size: &str| BlockDevice {
        device_name: Some(name.into()),
        root_volume,
        size: size.parse().ok(),
    };
    let storage = |family, block_devices, raid0, name| {
        let class = ClassSettings { family, block_devices, raid0, ..class() };
        text(&shape(facts(name), &class).capacity, "ephemeral-storage")
    };
    let custom = karpenter_aws_catalogue::Family::default;
    let two = || vec![device("/dev/xvda", false, "30Gi"), device("/dev/xvdb", false, "40Gi")];
    assert_eq!(storage(al2023(), vec![], false, "m5.large"), "20Gi");
    assert_eq!(storage(windows2022(), vec![], false, "m5.large"), "50Gi");
    assert_eq!(storage(al2023(), two(), false, "m5.large"), "30Gi");
    assert_eq!(storage(bottlerocket(), two(), false, "m5.large"), "40Gi");
    assert_eq!(storage(custom(), two(), false, "m5.large"), "40Gi");
    assert_eq!(storage(custom(), vec![], false, "m5.large"), "20Gi");
    assert_eq!(storage(al2023(), vec![device("/dev/sdz", true, "70Gi")], false, "m5.large"), "70Gi");
    assert_eq!(storage(al2023(), vec![device("/dev/xvda", false, "snapshot")], false, "m5.large"), "20Gi");
    // Disks of the machine, if it has any.
    assert_eq!(storage(al2023(), two(), true, "i4i.large"), "468G");
    assert_eq!(storage(al2023(), two(), true, "m5.large"), "30Gi");
    assert_eq!(storage(al2023(), two(), false, "i4i.large"), "30Gi");
}

#[test]
fn accelerators_are_resources() {
    let count = |name: &str, resource: &str| text(&shape(facts(name), &class()).capacity, resource);
    assert_eq!(count("p4d.24xlarge", "nvidia.com/gpu"), "8");
    assert_eq!(count("p4d.24xlarge", "vpc.amazonaws.com/efa"), "4");
    assert_eq!(count("g5.12xlarge", "nvidia.com/gpu"), "4");
    assert_eq!(count("inf2.24xlarge", "aws.amazon.com/neuron"), "6");
    assert_eq!(count("inf2.24xlarge", "aws.amazon.com/neuroncore"), "12");
    assert_eq!(count("trn1.32xlarge", "aws.amazon.com/neuron"), "16");
    assert_eq!(count("trn1.32xlarge", "aws.amazon.com/neuroncore"), "32");
    assert_eq!(count("m5.large", "vpc.amazonaws.com/pod-eni"), "9");
    assert!(!shape(facts("m5.large"), &class()).capacity.contains("nvidia.com/gpu"));
    assert!(!shape(facts("t3.micro"), &class()).capacity.contains("vpc.amazonaws.com/pod-eni"));
}

#[test]
fn types_that_the_embedded_catalogue_lacks_are_as_good_as_others() {
    let mut p3 = facts("p3dn.24xlarge");
    p3.name = "p3.8xlarge".into();
    p3.vcpus = 32;
    p3.memory_mib = 249_856;
    p3.gpus[0].count = 4;
    p3.network.max_efa_interfaces = None;
    p3.network.ipv4_per_interface = 30;
    p3.network.cards[0].max_interfaces = 8;
    let shape = shape(p3, &class());
    assert_eq!((shape.max_pods, text(&shape.capacity, "nvidia.com/gpu")), (234, "4".into()));
    assert_eq!(text(&shape.capacity, "memory"), "231116Mi");
    assert_eq!(text(&shape.overhead, "cpu"), "150m");
    assert!(!shape.capacity.contains("vpc.amazonaws.com/efa"));
}

#[test]
fn interfaces_of_the_class_decide_how_many_efas_there_are() {
    let interfaces = vec![interface(0, 0, false), interface(1, 1, true), interface(2, 1, true)];
    let class = ClassSettings { network_interfaces: interfaces, ..class() };
    assert_eq!(text(&shape(facts("p4d.24xlarge"), &class).capacity, "vpc.amazonaws.com/efa"), "2");
}

#[test]
fn windows_nodes_count_their_addresses() {
    let class = ClassSettings { family: windows2022(), ..class() };
    let capacity = shape(facts("m5.large"), &class).capacity;
    assert_eq!(text(&capacity, "vpc.amazonaws.com/PrivateIPv4Address"), "9");
}

/// Understands `vcpus*<n>` and `max_pods/<n>`.
struct Arithmetic;

impl Arithmetic {
    fn value(expression: &str, about: &Variables) -> Option<u32> {
        if let Some(factor) = expression.strip_prefix("vcpus*") {
            return Some(about.vcpus * factor.parse::<u32>().ok()?);
        }
        Some(about.max_pods / expression.strip_prefix("max_pods/")?.parse::<u32>().ok()?)
    }
}

impl Expressions for Arithmetic {
    fn max_pods(&self, expression: &str, about: &Variables) -> Option<u32> {
        Self::value(expression, about)
    }

    fn reserved(&self, expression: &str, resource: &str, about: &Variables) -> Option<Quantity> {
        assert_eq!(resource, "cpu");
        Self::value(expression, about).map(|value| Quantity::from_milli(value.into()))
    }
}

#[test]
fn expressions_are_evaluated_for_each_type_or_ignored() {
    let class = kubelet(Kubelet {
        max_pods: Some(MaxPods::Expression(Arc::from("vcpus*20"))),
        kube_reserved: map(&[("cpu", "max_pods/2")]),
        ..Kubelet::default()
    });
    let known = only(facts("m5.large"));
    let known = known.get("m5.large").unwrap();
    let controller = ControllerSettings::default();
    let shape = node_shape(known, &class, controller, Some(&Arithmetic));
    assert_eq!((shape.max_pods, text(&shape.overhead, "cpu")), (40, "20m".into()));
    let shape = node_shape(known, &class, controller, None);
    assert_eq!((shape.max_pods, text(&shape.overhead, "cpu")), (29, "70m".into()));
}
