//! Which types can be nodes of a class at all.

use karpenter_aws_catalogue::{
    ClassSettings, Incompatible, NetworkInterface, PlacementGroup, TypeFacts, compatibility,
};

use crate::support::{al2023, bottlerocket, class, facts, find, market, resolve, windows2022};

fn with_interfaces(interfaces: &[(u32, u32, bool)]) -> ClassSettings {
    let interfaces = interfaces.iter().map(|(card, device, efa_only)| NetworkInterface {
        card: *card,
        device: *device,
        efa_only: *efa_only,
    });
    ClassSettings { network_interfaces: interfaces.collect(), ..class() }
}

fn group(strategy: &str) -> ClassSettings {
    let group = PlacementGroup { id: "pg-1".into(), strategy: strategy.into(), partitions: 2 };
    ClassSettings { placement_group: Some(group), ..class() }
}

#[test]
fn images_that_do_not_boot_on_a_type_keep_it_out() {
    let a1 = facts("a1.large");
    assert_eq!(compatibility(&a1, &class()), Err(Incompatible::ImageOnA1));
    assert_eq!(compatibility(&a1, &ClassSettings { family: bottlerocket(), ..class() }), Ok(()));
    assert_eq!(compatibility(&facts("t3.medium"), &ClassSettings { family: al2023(), ..class() }), Ok(()));
    let windows = ClassSettings { family: windows2022(), ..class() };
    assert_eq!(compatibility(&facts("c6g.xlarge"), &windows), Err(Incompatible::WindowsOnArm));
    assert_eq!(compatibility(&facts("c5.xlarge"), &windows), Ok(()));
}

#[test]
fn interfaces_must_fit_the_cards_of_a_type() {
    let m5 = facts("m5.large");
    assert_eq!(compatibility(&m5, &with_interfaces(&[(0, 0, false), (0, 2, false)])), Ok(()));
    for beyond in [(0, 3, false), (1, 0, false)] {
        let class = with_interfaces(&[(0, 0, false), beyond]);
        assert_eq!(compatibility(&m5, &class), Err(Incompatible::TooManyInterfaces));
    }
    let old = TypeFacts {
        network: karpenter_aws_catalogue::Network { ena_support: "unsupported".into(), ..m5.network.clone() },
        ..m5.clone()
    };
    let one = with_interfaces(&[(0, 0, false)]);
    assert_eq!(compatibility(&old, &one), Err(Incompatible::NoEnhancedNetworking));
    assert_eq!(compatibility(&old, &class()), Ok(()));
}

#[test]
fn efas_must_be_as_many_as_a_type_allows() {
    let four = with_interfaces(&[(0, 0, false), (0, 1, true), (1, 1, true), (2, 1, true), (3, 1, true)]);
    assert_eq!(compatibility(&facts("p4d.24xlarge"), &four), Ok(()));
    let one = with_interfaces(&[(0, 0, false), (0, 1, true)]);
    assert_eq!(compatibility(&facts("m5.large"), &one), Err(Incompatible::TooManyEfas));
}

#[test]
fn processors_groups_and_hypervisors_must_do_what_the_class_needs() {
    let nested = ClassSettings { nested_virtualization: true, ..class() };
    assert_eq!(compatibility(&facts("m5.large"), &nested), Err(Incompatible::NoNestedVirtualization));
    assert_eq!(compatibility(&facts("m8i.large"), &nested), Ok(()));
    assert_eq!(compatibility(&facts("t3.micro"), &group("cluster")), Err(Incompatible::PlacementStrategy));
    assert_eq!(compatibility(&facts("t3.micro"), &group("spread")), Ok(()));
    assert_eq!(compatibility(&facts("m5.large"), &group("cluster")), Ok(()));
    let tracking = ClassSettings { connection_tracking: true, ..class() };
    for (name, expected) in [
        ("m5.large", Ok(())),
        ("m4.large", Err(Incompatible::NoConnectionTracking)),
        ("m5.metal", Err(Incompatible::NoConnectionTracking)),
    ] {
        assert_eq!(compatibility(&facts(name), &tracking), expected, "{name}");
    }
}

#[test]
fn an_incompatible_type_is_listed_and_not_for_sale() {
    let types = resolve(&class(), market());
    assert!(find(&types, "a1.large").offerings.iter().all(|offering| !offering.available));
    assert!(find(&types, "m5.large").offerings.iter().any(|offering| offering.available));
}
