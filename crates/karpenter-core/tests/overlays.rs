//! Overlays: what they select, what they change, who wins, and what they leave alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::catalog::{
    CAPACITY_TYPE, Catalog, INSTANCE_TYPE, InstanceType, NODE_POOL, NodeOverlay, Offering, Overlaid,
    OverlayPrice, Reservation, ZONE, apply_overlays,
};
use karpenter_core::cluster::NodePool;
use karpenter_core::requirements::{Operator, Requirement, RequirementSet, ValueSet};
use karpenter_quantity::{Quantity, ResourceList};

const ZONES: [&str; 2] = ["zone-a", "zone-b"];
const GPU: &str = "example.com/gpu";

fn amount(text: &str) -> Quantity {
    text.parse().expect("a quantity")
}

fn resources(entries: &[(&str, &str)]) -> ResourceList {
    entries.iter().map(|(name, text)| (*name, amount(text))).collect()
}

/// An instance type in two zones, on demand at `price` and as spot at half of it.
fn instance_type(name: &str, price: f64) -> InstanceType {
    let mut requirements = RequirementSet::default();
    requirements.add(INSTANCE_TYPE.into(), &ValueSet::only([name]));
    requirements.add(ZONE.into(), &ValueSet::only(ZONES));
    requirements.add(CAPACITY_TYPE.into(), &ValueSet::only(["on-demand", "spot"]));
    let offerings = ZONES
        .iter()
        .flat_map(|zone| [offering(zone, "on-demand", price), offering(zone, "spot", price / 2.0)]);
    InstanceType {
        name: name.into(),
        requirements,
        offerings: offerings.collect(),
        capacity: resources(&[("cpu", "4"), ("memory", "16Gi")]),
        overhead: resources(&[("cpu", "100m")]),
        volume_limits: BTreeMap::from([("ebs.csi.aws.com".into(), 27)]),
        overlaid: Overlaid::default(),
    }
}

fn offering(zone: &str, capacity_type: &str, price: f64) -> Offering {
    let mut requirements = RequirementSet::default();
    requirements.add(ZONE.into(), &ValueSet::only([zone]));
    requirements.add(CAPACITY_TYPE.into(), &ValueSet::only([capacity_type]));
    Offering {
        requirements: requirements.into(),
        price,
        available: true,
        reservation: None,
        capacity_override: None,
        overhead_override: None,
    }
}

fn pool(name: &str, labels: &[(&str, &str)]) -> Arc<NodePool> {
    let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Arc::new(NodePool { name: name.into(), labels, ..NodePool::default() })
}

fn pools() -> Vec<Arc<NodePool>> {
    vec![pool("blue", &[("team", "web")]), pool("green", &[("team", "batch")])]
}

/// Types `large` and `small`, seen by the pools `blue` and `green`.
fn catalog() -> Catalog {
    let types = vec![Arc::new(instance_type("large", 1.0)), Arc::new(instance_type("small", 0.5))];
    Catalog::shared(["blue".into(), "green".into()], types.into())
}

fn overlay(name: &str, weight: i32, requirements: &[(&str, Operator, &[&str])]) -> NodeOverlay {
    let requirement = |(key, operator, values): &(&str, Operator, &[&str])| {
        Requirement::new(*key, *operator, values.iter().copied())
    };
    NodeOverlay {
        name: name.into(),
        weight,
        requirements: requirements.iter().map(requirement).collect(),
        price: None,
        capacity: ResourceList::new(),
    }
}

fn priced(price: OverlayPrice, overlay: NodeOverlay) -> NodeOverlay {
    NodeOverlay { price: Some(price), ..overlay }
}

fn with_capacity(capacity: &[(&str, &str)], overlay: NodeOverlay) -> NodeOverlay {
    NodeOverlay { capacity: resources(capacity), ..overlay }
}

/// Applies the overlays to the two pools; the names of those in conflict come with the catalog.
fn apply(catalog: &Catalog, overlays: &[NodeOverlay]) -> (Catalog, Vec<String>) {
    let (catalog, conflicts) = apply_overlays(catalog, &pools(), overlays);
    (catalog, conflicts.iter().map(|conflict| conflict.overlay.to_string()).collect())
}

fn prices(catalog: &Catalog, pool: &str, name: &str) -> Vec<f64> {
    of(catalog, pool, name).offerings.iter().map(|offering| offering.price).collect()
}

fn of<'a>(catalog: &'a Catalog, pool: &str, name: &str) -> &'a Arc<InstanceType> {
    catalog.types(pool).iter().find(|instance_type| &*instance_type.name == name).expect("a type of the pool")
}

#[track_caller]
fn check_selection(requirements: &[(&str, Operator, &[&str])], expected: &[(&str, &str, [f64; 4])]) {
    let (after, conflicts) =
        apply(&catalog(), &[priced(OverlayPrice::Absolute(9.0), overlay("o", 0, requirements))]);
    assert!(conflicts.is_empty());
    for (pool, name, wanted) in expected {
        assert_eq!(prices(&after, pool, name), wanted, "{pool} {name}");
    }
}

#[test]
fn an_overlay_selects_by_pool_label_type_and_offering() {
    let large = [1.0, 0.5, 1.0, 0.5];
    let small = [0.5, 0.25, 0.5, 0.25];
    let all = [9.0; 4];
    check_selection(&[], &[("blue", "large", all), ("blue", "small", all), ("green", "small", all)]);
    check_selection(
        &[(INSTANCE_TYPE, Operator::In, &["large"])],
        &[("blue", "large", all), ("green", "large", all), ("blue", "small", small)],
    );
    check_selection(
        &[(NODE_POOL, Operator::In, &["green"])],
        &[("blue", "large", large), ("green", "large", all)],
    );
    check_selection(
        &[("team", Operator::In, &["web"])],
        &[("blue", "large", all), ("green", "large", large)],
    );
    check_selection(
        &[("team", Operator::NotIn, &["web"])],
        &[("blue", "large", large), ("green", "large", all)],
    );
    check_selection(
        &[(ZONE, Operator::In, &["zone-b"]), (CAPACITY_TYPE, Operator::NotIn, &["spot"])],
        &[("blue", "large", [1.0, 0.5, 9.0, 0.5]), ("green", "small", [0.5, 0.25, 9.0, 0.25])],
    );
}

#[test]
fn a_label_nobody_defines_counts_as_missing() {
    let (large, all) = ([1.0, 0.5, 1.0, 0.5], [9.0; 4]);
    check_selection(&[("rack", Operator::Exists, &[])], &[("blue", "large", large)]);
    check_selection(&[("rack", Operator::In, &["r1"])], &[("blue", "large", large)]);
    check_selection(&[("rack", Operator::Gte, &["0"])], &[("blue", "large", large)]);
    check_selection(&[("rack", Operator::DoesNotExist, &[])], &[("blue", "large", all)]);
    check_selection(&[("rack", Operator::NotIn, &["r1"])], &[("blue", "large", all)]);
    check_selection(&[("team", Operator::DoesNotExist, &[])], &[("blue", "large", large)]);
}

#[test]
fn a_contradictory_overlay_selects_nothing() {
    let contradiction: [(&str, Operator, &[&str]); 2] =
        [("rack", Operator::Exists, &[]), ("rack", Operator::DoesNotExist, &[])];
    check_selection(&contradiction, &[("blue", "large", [1.0, 0.5, 1.0, 0.5])]);
}

#[test]
fn prices_are_set_or_changed_and_never_fall_below_zero() {
    let check = |price: OverlayPrice, expected: f64| {
        let (after, _) = apply(&catalog(), &[priced(price, overlay("o", 0, &[]))]);
        assert!((prices(&after, "blue", "large")[0] - expected).abs() < 1e-12, "{price:?}");
    };
    check(OverlayPrice::Absolute(0.25), 0.25);
    check(OverlayPrice::Add(0.25), 1.25);
    check(OverlayPrice::Add(-0.25), 0.75);
    check(OverlayPrice::Add(-2.0), 0.0);
    check(OverlayPrice::Percent(150.0), 2.5);
    check(OverlayPrice::Percent(-10.0), 0.9);
    check(OverlayPrice::Percent(-100.0), 0.0);
}

#[test]
fn the_heaviest_overlay_wins_offering_by_offering() {
    let light = priced(OverlayPrice::Absolute(1.0), overlay("light", 1, &[]));
    let heavy =
        priced(OverlayPrice::Absolute(2.0), overlay("heavy", 2, &[(ZONE, Operator::In, &["zone-a"])]));
    for overlays in [[light.clone(), heavy.clone()], [heavy, light]] {
        let (after, conflicts) = apply(&catalog(), &overlays);
        assert!(conflicts.is_empty());
        assert_eq!(prices(&after, "green", "small"), [2.0, 2.0, 1.0, 1.0]);
    }
}

#[test]
fn the_heaviest_overlay_wins_resource_by_resource() {
    let light = with_capacity(&[(GPU, "1"), ("example.com/fuse", "10")], overlay("light", 1, &[]));
    let heavy = with_capacity(&[(GPU, "4")], overlay("heavy", 2, &[]));
    let (after, conflicts) = apply(&catalog(), &[light, heavy]);
    assert!(conflicts.is_empty());
    let expected = resources(&[("cpu", "4"), ("memory", "16Gi"), (GPU, "4"), ("example.com/fuse", "10")]);
    assert_eq!(of(&after, "blue", "large").capacity, expected);
}

#[test]
fn of_two_prices_of_one_weight_the_one_later_in_the_alphabet_stands() {
    let a =
        priced(OverlayPrice::Absolute(1.0), overlay("a", 5, &[(INSTANCE_TYPE, Operator::In, &["large"])]));
    let b = priced(OverlayPrice::Absolute(2.0), overlay("b", 5, &[]));
    let (after, conflicts) = apply(&catalog(), &[a.clone(), b]);
    assert_eq!(conflicts, ["a"]);
    assert_eq!(prices(&after, "blue", "large"), [2.0; 4]);
    let (_, found) = apply_overlays(
        &catalog(),
        &pools(),
        &[a.clone(), priced(OverlayPrice::Add(1.0), overlay("b", 5, &[]))],
    );
    assert_eq!(
        found[0].to_string(),
        "NodeOverlay b has the same weight and decides the price of large in NodePool blue; give one of them another weight"
    );
    // Agreeing does not help: which of them applies must not depend on what either says.
    let same = priced(OverlayPrice::Absolute(1.0), overlay("b", 5, &[]));
    assert_eq!(apply(&catalog(), &[a, same]).1, ["a"]);
}

#[test]
fn overlays_of_one_weight_about_different_things_do_not_conflict() {
    let overlays = [
        priced(OverlayPrice::Absolute(1.0), overlay("a", 5, &[(CAPACITY_TYPE, Operator::In, &["spot"])])),
        priced(
            OverlayPrice::Absolute(2.0),
            overlay("b", 5, &[(CAPACITY_TYPE, Operator::In, &["on-demand"])]),
        ),
        with_capacity(&[(GPU, "1")], overlay("c", 5, &[])),
        with_capacity(&[("example.com/fuse", "1")], overlay("d", 5, &[])),
    ];
    let (after, conflicts) = apply(&catalog(), &overlays);
    assert!(conflicts.is_empty());
    assert_eq!(prices(&after, "blue", "large"), [2.0, 1.0, 2.0, 1.0]);
    assert_eq!(of(&after, "blue", "large").capacity.len(), 4);
}

#[test]
fn a_conflict_is_found_behind_other_overlays_of_the_weight() {
    let overlays = [
        with_capacity(&[(GPU, "1")], overlay("a", 5, &[])),
        with_capacity(&[("example.com/fuse", "1")], overlay("b", 5, &[])),
        with_capacity(&[(GPU, "2")], overlay("c", 5, &[])),
    ];
    assert_eq!(apply(&catalog(), &overlays).1, ["a"]);
}

#[test]
fn two_overlays_of_one_weight_conflict_even_where_a_heavier_one_wins() {
    let overlays = [
        priced(OverlayPrice::Absolute(1.0), overlay("a", 5, &[])),
        priced(OverlayPrice::Absolute(2.0), overlay("b", 5, &[])),
        priced(OverlayPrice::Absolute(3.0), overlay("heavy", 9, &[])),
    ];
    let (after, conflicts) = apply(&catalog(), &overlays);
    assert_eq!(conflicts, ["a"]);
    assert_eq!(prices(&after, "blue", "large"), [3.0; 4]);
}

#[test]
fn an_overlay_in_conflict_is_left_out_of_every_pool_and_stands_in_nobodys_way() {
    let overlays = [
        priced(OverlayPrice::Absolute(1.0), overlay("a", 5, &[(NODE_POOL, Operator::In, &["green"])])),
        with_capacity(&[(GPU, "8")], priced(OverlayPrice::Absolute(2.0), overlay("b", 5, &[]))),
        priced(OverlayPrice::Absolute(3.0), overlay("c", 5, &[(NODE_POOL, Operator::In, &["blue"])])),
    ];
    let (after, conflicts) = apply(&catalog(), &overlays);
    assert_eq!(conflicts, ["b"]);
    assert_eq!(prices(&after, "blue", "large"), [3.0; 4]);
    assert_eq!(prices(&after, "green", "large"), [1.0; 4]);
    assert!(!of(&after, "green", "large").capacity.contains(GPU));
}

#[test]
fn a_capacity_overlay_reaches_the_whole_type_through_one_offering() {
    let mut special = instance_type("special", 1.0);
    special.offerings[0].capacity_override = Some(resources(&[("cpu", "2"), (GPU, "7")]));
    let catalog = Catalog::shared(["blue".into()], vec![Arc::new(special)].into());
    let only_b =
        overlay("o", 0, &[(ZONE, Operator::In, &["zone-b"]), (CAPACITY_TYPE, Operator::In, &["spot"])]);
    let (after, _) = apply(&catalog, &[with_capacity(&[(GPU, "1"), ("hugepages-2Mi", "1Gi")], only_b)]);
    let changed = of(&after, "blue", "special");
    assert_eq!(changed.capacity.get(GPU), amount("1"));
    assert_eq!(changed.allocatable().get("memory"), amount("15Gi"));
    let expected = resources(&[("cpu", "2"), (GPU, "1"), ("hugepages-2Mi", "1Gi")]);
    assert_eq!(changed.offerings[0].capacity_override, Some(expected));
    assert_eq!(changed.offerings[1].capacity_override, None);
}

#[test]
fn a_price_overlay_leaves_everything_else_as_it_was() {
    let mut special = instance_type("special", 1.0);
    special.offerings[0].capacity_override = Some(resources(&[("cpu", "2")]));
    special.offerings[0].overhead_override = Some(resources(&[("cpu", "50m")]));
    special.offerings[0].reservation = Some(Reservation { id: "r-1".into(), remaining: 3 });
    special.offerings[0].available = false;
    let before = Catalog::shared(["blue".into()], vec![Arc::new(special)].into());
    let (after, _) = apply(&before, &[priced(OverlayPrice::Absolute(7.0), overlay("o", 0, &[]))]);
    let mut expected = (**of(&before, "blue", "special")).clone();
    expected.offerings.iter_mut().for_each(|offering| offering.price = 7.0);
    expected.overlaid.price = true;
    assert_eq!(format!("{:?}", of(&after, "blue", "special")), format!("{:?}", Arc::new(expected)));
}

#[test]
fn untouched_types_and_catalogs_are_shared_and_so_are_types_changed_alike() {
    let before = catalog();
    let all_large = overlay("o", 0, &[(INSTANCE_TYPE, Operator::In, &["large"])]);
    let (after, _) = apply(&before, &[priced(OverlayPrice::Add(1.0), all_large)]);
    assert!(Arc::ptr_eq(of(&before, "blue", "small"), of(&after, "blue", "small")));
    assert!(Arc::ptr_eq(of(&after, "blue", "large"), of(&after, "green", "large")));
    assert!(!Arc::ptr_eq(of(&before, "blue", "large"), of(&after, "blue", "large")));

    let green = overlay("o", 0, &[(NODE_POOL, Operator::In, &["green"])]);
    let (after, _) = apply(&before, &[priced(OverlayPrice::Add(1.0), green)]);
    assert!(Arc::ptr_eq(&before.by_pool["blue"], &after.by_pool["blue"]));

    let (after, _) = apply(&before, &[overlay("says nothing", 0, &[])]);
    assert!(Arc::ptr_eq(&before.by_pool["green"], &after.by_pool["green"]));
}

#[test]
fn a_pool_that_is_not_named_keeps_its_types() {
    let before = catalog();
    let everything = priced(OverlayPrice::Absolute(9.0), overlay("o", 0, &[]));
    let (after, _) = apply_overlays(&before, &[pool("blue", &[])], &[everything]);
    assert_eq!(prices(&after, "blue", "small"), [9.0; 4]);
    assert!(Arc::ptr_eq(&before.by_pool["green"], &after.by_pool["green"]));
}
