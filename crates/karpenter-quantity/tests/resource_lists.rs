//! Arithmetic and comparison of resource lists.

use karpenter_quantity::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Quantity, ResourceList};

fn list<const COUNT: usize>(entries: [(&str, &str); COUNT]) -> ResourceList {
    entries.map(|(name, quantity)| (name, quantity.parse::<Quantity>().expect("legal quantity"))).into()
}

#[test]
fn a_resource_that_is_not_named_counts_as_zero() {
    assert_eq!(list([(CPU, "1")]).get(MEMORY), Quantity::ZERO);
    assert!(!list([(CPU, "1")]).contains(MEMORY));
}

#[test]
fn adding_names_the_resources_of_both() {
    let mut sum = list([(CPU, "500m"), (MEMORY, "1Gi")]);
    sum.merge_add(&list([(CPU, "1"), (PODS, "1")]));
    assert_eq!(sum, list([(CPU, "1500m"), (MEMORY, "1Gi"), (PODS, "1")]));
}

#[test]
fn the_larger_of_two_quantities_remains() {
    let mut largest = list([(CPU, "500m"), (MEMORY, "1Gi")]);
    largest.merge_max(&list([(CPU, "1"), (MEMORY, "1Mi"), (EPHEMERAL_STORAGE, "1G")]));
    assert_eq!(largest, list([(CPU, "1"), (MEMORY, "1Gi"), (EPHEMERAL_STORAGE, "1G")]));
}

#[test]
fn subtracting_concerns_only_the_resources_named_on_the_left() {
    let mut remaining = list([(CPU, "1"), (MEMORY, "1Gi")]);
    remaining.subtract(&list([(CPU, "1500m"), (PODS, "3")]));
    assert_eq!(remaining, list([(CPU, "-500m"), (MEMORY, "1Gi")]));
}

#[test]
fn a_request_fits_when_every_resource_does() {
    let total = list([(CPU, "2"), (MEMORY, "4Gi")]);
    assert!(list([(CPU, "2000m"), (MEMORY, "4096Mi")]).fits_within(&total));
    assert!(list([("nvidia.com/gpu", "0")]).fits_within(&total));
    assert!(!list([(CPU, "2001m")]).fits_within(&total));
    assert!(!list([("nvidia.com/gpu", "1")]).fits_within(&total));
    assert!(ResourceList::new().fits_within(&total));
}

#[test]
fn nothing_fits_into_an_overcommitted_total() {
    assert!(!list([(CPU, "1")]).fits_within(&list([(CPU, "2"), (MEMORY, "-1")])));
}

#[test]
fn iteration_is_in_the_order_of_names() {
    let unordered = list([(PODS, "1"), (CPU, "2"), (MEMORY, "3")]);
    assert_eq!(unordered.names().collect::<Vec<_>>(), [CPU, MEMORY, PODS]);
    assert_eq!(unordered.iter().map(|(_, quantity)| quantity.ceil_units()).collect::<Vec<_>>(), [2, 3, 1]);
}
