//! Whether a machine is still what its EC2NodeClass asks for.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_api::NodeClaim;
use karpenter_api::labels::aws::PLACEMENT_GROUP_ID;
use karpenter_aws_bootstrap::fits;
use karpenter_aws_client::ec2::Instance;
use karpenter_core::catalog::{InstanceType, RESERVED};

use crate::instances::machine::capacity_type;
use crate::names::{CLASS_HASH, CLASS_HASH_VERSION};
use crate::node_class::{Ami, HASH_VERSION, ResolvedClass};

/// What a machine may have drifted in; the first that applies is told.
pub(crate) fn drift(
    claim: &NodeClaim,
    class: &ResolvedClass,
    instance_type: Option<&Arc<InstanceType>>,
    instance: Option<&Instance>,
) -> Option<&'static str> {
    let by_instance = |drifted: fn(&Instance, &ResolvedClass) -> bool| {
        instance.is_some_and(|instance| drifted(instance, class))
    };
    let checks: [(&'static str, bool); 6] = [
        ("NodeClassDrift", class_changed(claim, class)),
        ("AMIDrift", instance_type.is_some_and(|found| image_changed(claim, class, found))),
        ("SecurityGroupDrift", by_instance(security_groups_changed)),
        ("SubnetDrift", by_instance(subnet_changed)),
        ("CapacityReservationDrift", by_instance(reservation_changed)),
        ("PlacementGroupDrift", group_changed(claim, class)),
    ];
    checks.into_iter().find(|(_, drifted)| *drifted).map(|(reason, _)| reason)
}

fn class_changed(claim: &NodeClaim, class: &ResolvedClass) -> bool {
    let annotation = |key| claim.metadata.annotations.as_ref().and_then(|all| all.get(key));
    annotation(CLASS_HASH_VERSION).is_some_and(|version| version == HASH_VERSION)
        && annotation(CLASS_HASH).is_some_and(|hash| *hash != class.hash)
}

fn image_changed(claim: &NodeClaim, class: &ResolvedClass, instance_type: &InstanceType) -> bool {
    let image = claim.status.as_ref().and_then(|status| status.image_id.as_deref());
    // A class without images is not ready; that is said elsewhere.
    image.is_some_and(|image| image_for(&class.amis, instance_type).is_some_and(|wanted| wanted.id != image))
}

fn security_groups_changed(instance: &Instance, class: &ResolvedClass) -> bool {
    let has: BTreeSet<&str> = instance.security_groups.iter().map(|group| group.group_id.as_str()).collect();
    let wanted: BTreeSet<&str> = class.security_groups.iter().map(|group| group.id.as_str()).collect();
    !has.is_empty() && !wanted.is_empty() && has != wanted
}

fn subnet_changed(instance: &Instance, class: &ResolvedClass) -> bool {
    let subnet = instance.subnet_id.as_deref();
    !class.subnets.is_empty()
        && subnet.is_some_and(|subnet| class.subnets.iter().all(|wanted| wanted.id != subnet))
}

fn reservation_changed(instance: &Instance, class: &ResolvedClass) -> bool {
    let reserved = capacity_type(instance, true) == RESERVED;
    let id = instance.capacity_reservation_id.as_deref().filter(|_| reserved);
    id.is_some_and(|id| class.reservations.iter().all(|wanted| wanted.id != id))
}

fn group_changed(claim: &NodeClaim, class: &ResolvedClass) -> bool {
    let has = claim.metadata.labels.as_ref().and_then(|labels| labels.get(PLACEMENT_GROUP_ID));
    has.map(String::as_str) != class.placement_group.as_ref().map(|group| group.id.as_str())
}

/// The first image that fits a type.
pub(crate) fn image_for<'c>(amis: &'c [Ami], instance_type: &InstanceType) -> Option<&'c Ami> {
    let label = |key: &str| instance_type.requirements.get(key)?.single().map(|value| &**value);
    amis.iter().find(|ami| fits(&ami.requirements, label))
}

#[cfg(test)]
mod tests {
    use karpenter_api::labels::ARCH;
    use karpenter_aws_bootstrap::{AmiFamily, requirements};
    use karpenter_aws_client::ec2::{CapacityReservationChoice, GroupIdentifier};
    use karpenter_core::requirements::{RequirementSet, ValueSet};
    use karpenter_quantity::ResourceList;
    use serde_json::{Value, json};

    use super::*;
    use crate::node_class::{EC2NodeClass, ResolvedReservation, ResolvedSubnet, SecurityGroup};

    fn class() -> ResolvedClass {
        let ami = |id: &str, arch| Ami {
            id: id.into(),
            requirements: requirements(arch, None).unwrap(),
            ..Ami::default()
        };
        let subnet = |id: &str| ResolvedSubnet { id: id.into(), ..ResolvedSubnet::default() };
        ResolvedClass {
            class: Arc::new(EC2NodeClass::default()),
            family: AmiFamily::Al2023,
            hash: "1".into(),
            subnets: vec![subnet("subnet-1"), subnet("subnet-2")],
            security_groups: vec![
                SecurityGroup { id: "sg-1".into(), name: None },
                SecurityGroup { id: "sg-2".into(), name: None },
            ],
            amis: vec![ami("ami-arm", "arm64"), ami("ami-new", "x86_64"), ami("ami-old", "x86_64")],
            instance_profile: None,
            reservations: vec![],
            placement_group: None,
            service_cidr: None,
        }
    }

    fn instance_type() -> Arc<InstanceType> {
        let mut requirements = RequirementSet::default();
        requirements.add(ARCH.into(), &ValueSet::only(["amd64"]));
        Arc::new(InstanceType {
            name: "m5.large".into(),
            requirements,
            offerings: vec![],
            capacity: ResourceList::default(),
            overhead: ResourceList::default(),
            volume_limits: std::collections::BTreeMap::new(),
            overlaid: karpenter_core::catalog::Overlaid::default(),
        })
    }

    fn instance() -> Instance {
        let group = |id: &str| GroupIdentifier { group_id: id.into() };
        Instance {
            subnet_id: Some("subnet-2".into()),
            security_groups: vec![group("sg-2"), group("sg-1")],
            ..Instance::default()
        }
    }

    fn claim(change: &Value) -> NodeClaim {
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "c", "annotations": {CLASS_HASH: "1", CLASS_HASH_VERSION: HASH_VERSION}},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"imageID": "ami-new"},
        });
        for (key, value) in change.as_object().unwrap() {
            claim[key] = value.clone();
        }
        serde_json::from_value(claim).unwrap()
    }

    fn found(claim: &NodeClaim, class: &ResolvedClass, instance: &Instance) -> Option<&'static str> {
        drift(claim, class, Some(&instance_type()), Some(instance))
    }

    #[test]
    fn a_machine_as_its_class_asks_has_not_drifted() {
        assert_eq!(found(&claim(&json!({})), &class(), &instance()), None);
    }

    #[test]
    fn every_kind_of_drift_is_found() {
        let plain = claim(&json!({}));
        let hash =
            claim(&json!({"metadata": {"annotations": {CLASS_HASH: "2", CLASS_HASH_VERSION: HASH_VERSION}}}));
        let image = claim(&json!({"status": {"imageID": "ami-old"}}));
        let group = claim(&json!({"metadata": {"labels": {PLACEMENT_GROUP_ID: "pg-1"}}}));
        let moved = Instance { subnet_id: Some("subnet-9".into()), ..instance() };
        let open =
            Instance { security_groups: vec![GroupIdentifier { group_id: "sg-1".into() }], ..instance() };
        let preference = Some("capacity-reservations-only".into());
        let reserved = Instance {
            capacity_reservation_id: Some("cr-1".into()),
            capacity_reservation_specification: Some(CapacityReservationChoice {
                capacity_reservation_preference: preference,
            }),
            ..instance()
        };
        let cases = [
            (&hash, instance(), "NodeClassDrift"),
            (&image, instance(), "AMIDrift"),
            (&plain, open, "SecurityGroupDrift"),
            (&plain, moved, "SubnetDrift"),
            (&plain, reserved.clone(), "CapacityReservationDrift"),
            (&group, instance(), "PlacementGroupDrift"),
        ];
        for (claim, instance, expected) in cases {
            assert_eq!(found(claim, &class(), &instance), Some(expected));
        }
        let reservation = ResolvedReservation {
            id: "cr-1".into(),
            zone: "a".into(),
            instance_type: "m5.large".into(),
            owner_id: String::new(),
            instance_match_criteria: "open".into(),
            reservation_type: "default".into(),
            interruptible: false,
            end_time: None,
            expiring: false,
            available: 0,
        };
        let known = ResolvedClass { reservations: vec![reservation], ..class() };
        assert_eq!(found(&plain, &known, &reserved), None);
    }

    #[test]
    fn a_hash_of_another_version_says_nothing() {
        let other = claim(&json!({"metadata": {"annotations": {CLASS_HASH: "2", CLASS_HASH_VERSION: "v6"}}}));
        assert_eq!(found(&other, &class(), &instance()), None);
        let none = claim(&json!({"metadata": {}}));
        assert_eq!(found(&none, &class(), &instance()), None);
    }
}
