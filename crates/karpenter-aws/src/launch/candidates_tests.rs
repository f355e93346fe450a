//! Which offerings a launch may buy: what the filters leave.

use karpenter_core::catalog::{INSTANCE_TYPE, Overlaid, Reservation, ZONE};
use karpenter_core::requirements::{Operator, ValueSet};

use super::*;

struct Offer {
    zone: &'static str,
    capacity_type: &'static str,
    price: f64,
    /// Id, room, `default` or `capacity-block`, interruptible.
    reservation: Option<(&'static str, u32, &'static str, bool)>,
}

fn on_demand(zone: &'static str, price: f64) -> Offer {
    Offer { zone, capacity_type: ON_DEMAND, price, reservation: None }
}

fn spot(zone: &'static str, price: f64) -> Offer {
    Offer { zone, capacity_type: SPOT, price, reservation: None }
}

fn reserved(id: &'static str, room: u32, kind: &'static str, interruptible: bool, price: f64) -> Offer {
    Offer { zone: "a", capacity_type: RESERVED, price, reservation: Some((id, room, kind, interruptible)) }
}

fn set(pairs: &[(&str, &str)]) -> RequirementSet {
    let mut set = RequirementSet::default();
    for (key, value) in pairs {
        set.add((*key).into(), &ValueSet::only([*value]));
    }
    set
}

fn offering(offer: &Offer) -> Offering {
    let interruptible = offer.reservation.is_some_and(|(.., interruptible)| interruptible).to_string();
    let mut labels = vec![(ZONE, offer.zone), (CAPACITY_TYPE, offer.capacity_type)];
    if let Some((_, _, kind, _)) = offer.reservation {
        labels.extend([
            (CAPACITY_RESERVATION_TYPE, kind),
            (CAPACITY_RESERVATION_INTERRUPTIBLE, interruptible.as_str()),
        ]);
    }
    Offering {
        requirements: Arc::new(set(&labels)),
        price: offer.price,
        available: true,
        reservation: offer.reservation.map(|(id, remaining, ..)| Reservation { id: id.into(), remaining }),
        capacity_override: None,
        overhead_override: None,
    }
}

fn instance_type(name: &str, cpu: i64, offers: &[Offer]) -> Arc<InstanceType> {
    let (family, size) = name.split_once('.').unwrap();
    let labels =
        [(INSTANCE_TYPE, name), (INSTANCE_SIZE, size), ("karpenter.k8s.aws/instance-family", family)];
    let mut capacity = ResourceList::default();
    capacity.insert("cpu", cpu.to_string().parse().unwrap());
    if family.starts_with('g') {
        capacity.insert("nvidia.com/gpu", "1".parse().unwrap());
    }
    Arc::new(InstanceType {
        name: name.into(),
        requirements: set(&labels),
        offerings: offers.iter().map(offering).collect(),
        capacity,
        overhead: ResourceList::default(),
        volume_limits: BTreeMap::new(),
        overlaid: Overlaid::default(),
    })
}

fn wanting(lines: &[(&str, &[&str])]) -> Wanted {
    let lines: Vec<Requirement> = lines
        .iter()
        .map(|(key, values)| Requirement::new(*key, Operator::In, values.iter().copied()))
        .collect();
    Wanted::new(&lines, ResourceList::default())
}

/// Name, zone and reservation of everything that is left.
fn left(types: &[Arc<InstanceType>], wanted: &Wanted) -> (Option<Purchase>, Vec<String>) {
    let Ok(selection) = select(types, wanted, false) else { return (None, Vec::new()) };
    let left = selection.candidates.iter().flat_map(|candidate| {
        candidate.offerings.iter().map(|offering| {
            let id = offering.reservation.as_ref().map(|found| format!(" {}", found.id)).unwrap_or_default();
            format!("{} {}{id}", candidate.instance_type.name, offering.zone().unwrap())
        })
    });
    (Some(selection.purchase), left.collect())
}

#[test]
fn a_type_without_room_or_with_the_wrong_labels_is_left_out() {
    let types = [
        instance_type("m5.large", 2, &[on_demand("a", 0.1), on_demand("b", 0.1)]),
        instance_type("m5.xlarge", 4, &[on_demand("a", 0.2), on_demand("b", 0.2)]),
    ];
    let mut wanted = wanting(&[(ZONE, &["a"])]);
    wanted.requests.insert("cpu", "3".parse().unwrap());
    assert_eq!(left(&types, &wanted), (Some(Purchase::OnDemand), vec!["m5.xlarge a".to_owned()]));
    wanted.requests.insert("cpu", "5".parse().unwrap());
    assert_eq!(left(&types, &wanted), (None, vec![]));
}

#[test]
fn what_is_out_of_stock_is_not_asked_for() {
    let mut sold_out = instance_type("m5.large", 2, &[on_demand("a", 0.1), on_demand("b", 0.1)]);
    Arc::make_mut(&mut sold_out).offerings[0].available = false;
    assert_eq!(left(&[sold_out], &wanting(&[])).1, ["m5.large b"]);
    let full = instance_type("m5.large", 2, &[reserved("cr-1", 0, "default", false, 0.0)]);
    assert_eq!(left(&[full], &wanting(&[])).0, None);
}

#[test]
fn reservations_go_before_spot_and_spot_before_on_demand() {
    let offers = [on_demand("a", 0.1), spot("a", 0.05), reserved("cr-1", 1, "default", false, 1e-8)];
    let types = [instance_type("m5.large", 2, &offers)];
    assert_eq!(left(&types, &wanting(&[])).0, Some(Purchase::Reserved));
    assert_eq!(left(&types, &wanting(&[(CAPACITY_TYPE, &[SPOT, ON_DEMAND])])).0, Some(Purchase::Spot));
    assert_eq!(left(&types, &wanting(&[(CAPACITY_TYPE, &[ON_DEMAND])])).0, Some(Purchase::OnDemand));
}

#[test]
fn one_kind_of_reservation_is_used_at_a_time() {
    let types = [
        instance_type("m5.large", 2, &[reserved("cr-1", 1, "default", false, 2e-8)]),
        instance_type("p5.xlarge", 2, &[reserved("cr-2", 1, "capacity-block", false, 1e-8)]),
        instance_type("c5.large", 2, &[reserved("cr-3", 1, "default", true, 3e-8)]),
    ];
    assert_eq!(
        left(&types, &wanting(&[])),
        (Some(Purchase::CapacityBlock), vec!["p5.xlarge a cr-2".to_owned()])
    );
    let (purchase, _) = left(&types[2..], &wanting(&[]));
    assert_eq!(purchase, Some(Purchase::Interruptible));
}

#[test]
fn at_equal_prices_a_plain_reservation_goes_before_a_block_and_one_that_may_be_taken_back() {
    let types = [
        instance_type("c5.large", 2, &[reserved("cr-3", 1, "default", true, 1e-8)]),
        instance_type("p5.xlarge", 2, &[reserved("cr-2", 1, "capacity-block", false, 1e-8)]),
        instance_type("m5.large", 2, &[reserved("cr-1", 1, "default", false, 1e-8)]),
    ];
    assert_eq!(left(&types, &wanting(&[])).1, ["m5.large a cr-1"]);
    assert_eq!(left(&types[..2], &wanting(&[])).1, ["p5.xlarge a cr-2"]);
}

#[test]
fn of_blocks_the_single_cheapest_is_taken() {
    let types = [
        instance_type("p5.xlarge", 2, &[reserved("cr-2", 1, "capacity-block", false, 2e-8)]),
        instance_type(
            "p5.large",
            2,
            &[
                reserved("cr-1", 1, "capacity-block", false, 1e-8),
                reserved("cr-3", 9, "capacity-block", false, 2e-8),
            ],
        ),
    ];
    assert_eq!(left(&types, &wanting(&[])).1, ["p5.large a cr-1"]);
}

#[test]
fn of_reservations_in_a_zone_the_one_with_most_room_is_taken() {
    let offers = [
        reserved("cr-1", 1, "default", false, 1e-8),
        reserved("cr-2", 5, "default", false, 1e-8),
        on_demand("a", 0.1),
    ];
    let types =
        [instance_type("m5.large", 2, &offers), instance_type("c5.large", 2, &[on_demand("a", 0.05)])];
    assert_eq!(left(&types, &wanting(&[])).1, ["m5.large a cr-2"]);
}

#[test]
fn metal_and_accelerators_are_for_those_who_ask() {
    let types = [
        instance_type("m5.large", 2, &[on_demand("a", 0.3)]),
        instance_type("m5.metal", 2, &[on_demand("a", 0.2)]),
        instance_type("g5.large", 2, &[on_demand("a", 0.1)]),
    ];
    assert_eq!(left(&types, &wanting(&[])).1, ["m5.large a"]);
    assert_eq!(left(&types[1..], &wanting(&[])).1, ["g5.large a", "m5.metal a"]);
    let mut choosy = wanting(&[]);
    choosy.min_values.insert(INSTANCE_TYPE.into(), 3);
    assert_eq!(left(&types, &choosy).1.len(), 3, "a minimum of choice keeps them");
}

#[test]
fn spot_dearer_than_the_cheapest_on_demand_is_left_out() {
    let types = [
        instance_type("m5.large", 2, &[on_demand("a", 0.1), spot("a", 0.04)]),
        instance_type("m5.4xlarge", 2, &[on_demand("a", 0.8), spot("a", 0.3)]),
    ];
    assert_eq!(left(&types, &wanting(&[])).1, ["m5.large a"]);
    assert_eq!(left(&types, &wanting(&[(CAPACITY_TYPE, &[SPOT])])).1, ["m5.large a", "m5.4xlarge a"]);
}

#[test]
fn sixty_types_are_enough_unless_a_minimum_of_choice_needs_others() {
    let mut types: Vec<Arc<InstanceType>> = (0..80)
        .map(|number| instance_type(&format!("m5.s{number:02}"), 2, &[on_demand("a", f64::from(number))]))
        .collect();
    types.push(instance_type("c5.large", 2, &[on_demand("a", 1000.0)]));
    let (_, plain) = left(&types, &wanting(&[]));
    assert_eq!((plain.len(), plain.last().unwrap().as_str()), (60, "m5.s59 a"));
    let mut choosy = wanting(&[]);
    choosy.min_values.insert("karpenter.k8s.aws/instance-family".into(), 2);
    let (_, chosen) = left(&types, &choosy);
    assert_eq!((chosen.len(), chosen.last().unwrap().as_str()), (60, "c5.large a"));
}

#[test]
fn too_few_values_to_choose_from_are_said_unless_that_is_overlooked() {
    let types = [instance_type("m5.large", 2, &[on_demand("a", 0.1)])];
    let mut choosy = wanting(&[]);
    choosy.min_values.insert(INSTANCE_TYPE.into(), 2);
    let error = select(&types, &choosy, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "minValues asks for 2 values of node.kubernetes.io/instance-type, and what can be had now has 1"
    );
    assert!(select(&types, &choosy, true).is_ok());
}

#[test]
fn hosts_are_shared_unless_the_claim_wants_its_own() {
    let types = [instance_type("m5.large", 2, &[on_demand("a", 0.1)])];
    let tenancy = |lines: &[(&str, &[&str])]| select(&types, &wanting(lines), false).unwrap().tenancy;
    assert_eq!(tenancy(&[]), "default");
    assert_eq!(tenancy(&[(INSTANCE_TENANCY, &["dedicated", "default"])]), "default");
    assert_eq!(tenancy(&[(INSTANCE_TENANCY, &["dedicated"])]), "dedicated");
}
