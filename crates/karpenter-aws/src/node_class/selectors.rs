//! From selector terms to the questions EC2 is asked, and from its answers to what a class uses: subnets, security groups, capacity
//! reservations, placement groups.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_aws_client::ec2::{
    self, DescribeCapacityReservations, DescribePlacementGroups, DescribeSecurityGroups, DescribeSubnets,
    Filter,
};

use super::status::{ResolvedPlacementGroup, ResolvedReservation, ResolvedSubnet};
use super::{
    CapacityReservation, CapacityReservationSelectorTerm, PlacementGroupSelector, SecurityGroup,
    SecurityGroupSelectorTerm, Subnet, SubnetSelectorTerm,
};

const PAGE: u32 = 500;
const RESERVATIONS_PAGE: u32 = 1000;
/// A capacity block takes its machines back half an hour before it ends; nothing is launched into it shortly before that.
const BLOCK_ENDS_EARLY: SignedDuration = SignedDuration::from_mins(40);
pub(crate) const CAPACITY_BLOCK: &str = "capacity-block";

/// Filters for tags: `*` is any value, other wildcards are EC2's own.
pub(super) fn tag_filters(tags: &BTreeMap<String, String>) -> Vec<Filter> {
    let filter = |(key, value): (&String, &String)| match value.as_str() {
        "*" => Filter::new("tag-key", [key.as_str()]),
        value => Filter::new(format!("tag:{key}"), [value]),
    };
    tags.iter().map(filter).collect()
}

/// One request for all ids, one for each term with tags.
pub(super) fn subnet_queries(terms: &[SubnetSelectorTerm]) -> Vec<DescribeSubnets> {
    let ids: Vec<&str> = terms.iter().filter_map(|term| term.id.as_deref()).collect();
    let by_id = (!ids.is_empty()).then(|| vec![Filter::new("subnet-id", ids)]);
    let by_tags = terms.iter().filter(|term| term.id.is_none()).map(|term| tag_filters(&term.tags));
    let queries = by_id.into_iter().chain(by_tags);
    queries.map(|filters| DescribeSubnets { filters, max_results: Some(PAGE) }).collect()
}

/// The subnets found, each once: most free addresses first.
pub(super) fn subnets(found: Vec<ec2::Subnet>) -> Vec<ResolvedSubnet> {
    let by_id: BTreeMap<String, ec2::Subnet> =
        found.into_iter().map(|subnet| (subnet.subnet_id.clone(), subnet)).collect();
    let mut subnets: Vec<ResolvedSubnet> = by_id
        .into_values()
        .map(|subnet| ResolvedSubnet {
            id: subnet.subnet_id,
            zone: subnet.availability_zone,
            zone_id: subnet.availability_zone_id,
            free_addresses: subnet.available_ip_address_count,
        })
        .collect();
    subnets.sort_by(|a, b| b.free_addresses.cmp(&a.free_addresses).then_with(|| a.id.cmp(&b.id)));
    subnets
}

/// Subnets as the status lists them.
pub(super) fn subnet_status(subnets: &[ResolvedSubnet]) -> Vec<Subnet> {
    subnets
        .iter()
        .map(|subnet| Subnet {
            id: subnet.id.clone(),
            zone: subnet.zone.clone(),
            zone_id: subnet.zone_id.clone(),
        })
        .collect()
}

/// One request for all ids, one for all names, one for each term with tags.
pub(super) fn security_group_queries(terms: &[SecurityGroupSelectorTerm]) -> Vec<DescribeSecurityGroups> {
    let ids: Vec<&str> = terms.iter().filter_map(|term| term.id.as_deref()).collect();
    let without_id = terms.iter().filter(|term| term.id.is_none());
    let names: Vec<&str> = without_id.filter_map(|term| term.name.as_deref()).collect();
    let one = |name: &str, values: Vec<&str>| (!values.is_empty()).then(|| vec![Filter::new(name, values)]);
    let tagged = terms.iter().filter(|term| term.id.is_none() && term.name.is_none());
    let queries = [one("group-id", ids), one("group-name", names)].into_iter().flatten();
    queries
        .chain(tagged.map(|term| tag_filters(&term.tags)))
        .map(|filters| DescribeSecurityGroups { filters, max_results: Some(PAGE) })
        .collect()
}

/// The security groups found, each once, by id.
pub(super) fn security_groups(found: Vec<ec2::SecurityGroup>) -> Vec<SecurityGroup> {
    let by_id: BTreeMap<String, Option<String>> =
        found.into_iter().map(|group| (group.group_id, group.group_name)).collect();
    by_id.into_iter().map(|(id, name)| SecurityGroup { id, name }).collect()
}

/// One request for each term.
pub(super) fn reservation_queries(
    terms: &[CapacityReservationSelectorTerm],
) -> Vec<DescribeCapacityReservations> {
    terms.iter().map(reservation_query).collect()
}

fn reservation_query(term: &CapacityReservationSelectorTerm) -> DescribeCapacityReservations {
    let mut filters = vec![Filter::new("state", ["active"])];
    if let Some(id) = &term.id {
        // EC2 refuses a size of pages together with ids.
        let capacity_reservation_ids = vec![id.clone()];
        return DescribeCapacityReservations { capacity_reservation_ids, filters, max_results: None };
    }
    let exact = [("owner-id", &term.owner_id), ("instance-match-criteria", &term.instance_match_criteria)];
    filters
        .extend(exact.into_iter().filter_map(|(name, value)| Some(Filter::new(name, [value.as_deref()?]))));
    filters.extend(tag_filters(&term.tags));
    DescribeCapacityReservations {
        capacity_reservation_ids: Vec::new(),
        filters,
        max_results: Some(RESERVATIONS_PAGE),
    }
}

/// The reservations found that can be used now, by id.
pub(super) fn reservations(found: Vec<ec2::CapacityReservation>, now: Timestamp) -> Vec<ResolvedReservation> {
    let by_id: BTreeMap<String, ec2::CapacityReservation> =
        found.into_iter().map(|found| (found.capacity_reservation_id.clone(), found)).collect();
    by_id.into_values().filter_map(|found| reservation(found, now)).collect()
}

/// A reservation as launches see it; `None` if it has ended, or is of a kind we do not know.
fn reservation(found: ec2::CapacityReservation, now: Timestamp) -> Option<ResolvedReservation> {
    let reservation_type = found.reservation_type.unwrap_or_else(|| "default".to_owned());
    let criteria = found.instance_match_criteria.unwrap_or_default();
    let known = ["open", "targeted"].contains(&criteria.as_str())
        && ["default", CAPACITY_BLOCK].contains(&reservation_type.as_str());
    if !known {
        let id = &found.capacity_reservation_id;
        tracing::warn!(
            "capacity reservation {id} is left out: it is {criteria:?} of the kind {reservation_type:?}"
        );
        return None;
    }
    if found.end_date.is_some_and(|end| end <= now) {
        return None;
    }
    let expiring = reservation_type == CAPACITY_BLOCK
        && found.end_date.is_some_and(|end| end.duration_since(now) <= BLOCK_ENDS_EARLY);
    Some(ResolvedReservation {
        id: found.capacity_reservation_id,
        zone: found.availability_zone.unwrap_or_default(),
        instance_type: found.instance_type.unwrap_or_default(),
        owner_id: found.owner_id.unwrap_or_default(),
        instance_match_criteria: criteria,
        reservation_type,
        interruptible: found.interruptible.unwrap_or_default(),
        end_time: found.end_date,
        expiring,
        available: found.available_instance_count,
    })
}

/// Reservations as the status lists them.
pub(super) fn reservation_status(reservations: &[ResolvedReservation]) -> Vec<CapacityReservation> {
    reservations
        .iter()
        .map(|found| CapacityReservation {
            availability_zone: found.zone.clone(),
            end_time: found.end_time.map(Time),
            id: found.id.clone(),
            instance_match_criteria: found.instance_match_criteria.clone(),
            instance_type: found.instance_type.clone(),
            interruptible: found.interruptible.then_some(true),
            owner_id: found.owner_id.clone(),
            reservation_type: Some(found.reservation_type.clone()),
            state: Some(if found.expiring { "expiring" } else { "active" }.to_owned()),
        })
        .collect()
}

/// When something about the reservations changes without EC2 saying so: a block is about to end, or one ends.
pub(super) fn next_change(reservations: &[ResolvedReservation], now: Timestamp) -> Option<Timestamp> {
    let times = reservations.iter().filter_map(|found| {
        let end = found.end_time?;
        let early = end.saturating_sub(BLOCK_ENDS_EARLY).unwrap_or(end);
        let block = found.reservation_type == CAPACITY_BLOCK && early > now;
        Some(if block { early } else { end })
    });
    times.filter(|time| *time > now).min()
}

/// The question for a placement group.
pub(super) fn placement_group_query(selector: &PlacementGroupSelector) -> DescribePlacementGroups {
    DescribePlacementGroups {
        filters: vec![Filter::new("state", ["available"])],
        group_ids: selector.id.iter().cloned().collect(),
        group_names: selector.name.iter().filter(|_| selector.id.is_none()).cloned().collect(),
    }
}

/// The first placement group found.
pub(super) fn placement_group(found: Vec<ec2::PlacementGroup>) -> Option<ResolvedPlacementGroup> {
    found.into_iter().next().map(|group| ResolvedPlacementGroup {
        id: group.group_id,
        name: group.group_name,
        strategy: group.strategy.unwrap_or_default(),
        partition_count: group.partition_count,
    })
}
