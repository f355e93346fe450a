//! The labels of instance types.

use karpenter_api::labels::aws::WELL_KNOWN;
use karpenter_aws_catalogue::{CapacityReservation, ClassSettings, ClassZone, PlacementGroup};
use karpenter_core::catalog::InstanceType;

use crate::support::{class, find, market, resolve, windows2022, zone};

/// The values of a label, joined; a dash where the label does not exist.
fn value(found: &InstanceType, key: &str) -> String {
    let key = if key.contains('/') { key.to_owned() } else { format!("karpenter.k8s.aws/{key}") };
    let Some(set) = found.requirements.get(&key) else { return "undefined".into() };
    if set.allows_absent() && !set.has_values() {
        return "-".into();
    }
    let values: Vec<&str> = set.values().unwrap().map(|value| &**value).collect();
    values.join(",")
}

fn assert_labels(class: &ClassSettings, name: &str, expected: &[(&str, &str)]) {
    let types = resolve(class, market());
    let found = find(&types, name);
    for (key, expected) in expected {
        assert_eq!(value(found, key), *expected, "{key} of {name}");
    }
}

#[test]
fn a_plain_type_has_every_label_or_says_that_it_has_not() {
    assert_labels(
        &class(),
        "m5.large",
        &[
            ("node.kubernetes.io/instance-type", "m5.large"),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/os", "linux"),
            ("topology.kubernetes.io/region", "us-west-2"),
            ("topology.kubernetes.io/zone", "us-west-2a,us-west-2b"),
            ("topology.k8s.aws/zone-id", "usw2-az1,usw2-az2"),
            ("karpenter.sh/capacity-type", "on-demand,spot"),
            ("node.kubernetes.io/windows-build", "-"),
            ("instance-category", "m"),
            ("instance-generation", "5"),
            ("instance-family", "m5"),
            ("instance-size", "large"),
            ("instance-capability-flex", "false"),
            ("instance-cpu", "2"),
            ("instance-cpu-manufacturer", "intel"),
            ("instance-cpu-sustained-clock-speed-mhz", "3100"),
            ("instance-memory", "8192"),
            ("instance-ebs-bandwidth", "4750"),
            ("instance-network-bandwidth", "750"),
            ("instance-local-nvme", "-"),
            ("instance-hypervisor", "nitro"),
            ("instance-encryption-in-transit-supported", "false"),
            ("instance-tenancy", "dedicated,default"),
            ("instance-gpu-name", "-"),
            ("instance-gpu-count", "-"),
            ("instance-accelerator-name", "-"),
            ("capacity-reservation-id", "-"),
            ("capacity-reservation-type", "-"),
            ("capacity-reservation-interruptible", "-"),
        ],
    );
}

#[test]
fn names_are_read_however_they_are_built() {
    let types = resolve(&class(), market());
    for (name, category, generation, flex) in [
        ("c6g.xlarge", "c", "6", "false"),
        ("m7i-flex.large", "m", "7", "true"),
        ("u-6tb1.56xlarge", "u", "1", "false"),
        ("u7i-12tb.224xlarge", "u", "7", "false"),
        ("x2iedn.metal", "x", "2", "false"),
        ("inf2.xlarge", "inf", "2", "false"),
        ("hpc7g.16xlarge", "hpc", "7", "false"),
    ] {
        let Some(found) = types.iter().find(|found| &*found.name == name) else { continue };
        let read = ["instance-category", "instance-generation", "instance-capability-flex"]
            .map(|key| value(found, key));
        assert_eq!(read, [category, generation, flex], "{name}");
    }
}

#[test]
fn accelerators_and_disks_are_described() {
    assert_labels(
        &class(),
        "g5.12xlarge",
        &[
            ("instance-gpu-name", "a10g"),
            ("instance-gpu-manufacturer", "nvidia"),
            ("instance-gpu-count", "4"),
            ("instance-gpu-memory", "22888"),
            ("instance-local-nvme", "3800"),
            ("instance-accelerator-count", "-"),
        ],
    );
    let inferentia = [("instance-accelerator-name", "inferentia2"), ("instance-accelerator-count", "6")];
    assert_labels(&class(), "inf2.24xlarge", &inferentia);
    assert_labels(
        &class(),
        "trn1.32xlarge",
        &[
            ("instance-accelerator-name", "trainium"),
            ("instance-accelerator-manufacturer", "aws"),
            ("instance-accelerator-count", "16"),
            ("instance-gpu-count", "-"),
        ],
    );
    assert_labels(&class(), "i4i.large", &[("instance-local-nvme", "468")]);
    assert_labels(&class(), "m5.metal", &[("instance-hypervisor", ""), ("instance-size", "metal")]);
    assert_labels(
        &class(),
        "c6g.xlarge",
        &[("kubernetes.io/arch", "arm64"), ("instance-cpu-manufacturer", "aws")],
    );
}

#[test]
fn a_type_younger_than_the_table_gets_its_bandwidth_from_its_cards() {
    assert_labels(&class(), "t2.micro", &[("instance-network-bandwidth", "-")]);
    let types = resolve(&class(), market());
    let Some(young) = types.iter().find(|found| &*found.name == "r9g.large") else { return };
    assert_ne!(value(young, "instance-network-bandwidth"), "-");
}

#[test]
fn windows_is_an_operating_system_with_a_build() {
    let class = ClassSettings { family: windows2022(), ..class() };
    let labels = [("kubernetes.io/os", "windows"), ("node.kubernetes.io/windows-build", "10.0.20348")];
    assert_labels(&class, "m5.large", &labels);
}

#[test]
fn zones_are_those_of_the_class_and_their_ids_appear_once_they_are_known() {
    let unknown = ClassZone { id: None, ..zone("c", "") };
    let class = ClassSettings { zones: vec![unknown], ..class() };
    let labels = [("topology.kubernetes.io/zone", "us-west-2c"), ("topology.k8s.aws/zone-id", "undefined")];
    assert_labels(&class, "m5.large", &labels);
}

#[test]
fn reservations_and_groups_of_the_class_are_labels() {
    let reservation = CapacityReservation {
        id: "cr-1".into(),
        instance_type: "m5.large".into(),
        zone: "us-west-2a".into(),
        reservation_type: "default".into(),
        interruptible: false,
        expiring: false,
    };
    let group = PlacementGroup { id: "pg-1".into(), strategy: "partition".into(), partitions: 3 };
    let class = ClassSettings { reservations: vec![reservation], placement_group: Some(group), ..class() };
    let of_group = [("placement-group-id", "pg-1"), ("placement-group-partition", "1,2,3")];
    assert_labels(&class, "m5.large", &of_group);
    assert_labels(
        &class,
        "m5.large",
        &[
            ("karpenter.sh/capacity-type", "on-demand,reserved,spot"),
            ("capacity-reservation-id", "cr-1"),
            ("capacity-reservation-type", "default"),
            ("capacity-reservation-interruptible", "false"),
        ],
    );
    assert_labels(&class, "m5.xlarge", &[("capacity-reservation-id", "-"), ("placement-group-id", "pg-1")]);
}

#[test]
fn every_label_that_is_well_known_is_decided_for_every_type() {
    let types = resolve(&class(), market());
    assert!(types.len() > 1300, "{}", types.len());
    let groups = |key: &str| key.contains("placement-group");
    for found in &*types {
        for key in WELL_KNOWN.iter().filter(|key| !groups(key)) {
            if *key == "topology.k8s.aws/zone-id" {
                continue;
            }
            assert!(found.requirements.get(key).is_some(), "{key} of {}", found.name);
        }
    }
}
