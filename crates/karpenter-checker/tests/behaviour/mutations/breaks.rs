//! The breaks themselves, one small function each.

use karpenter_checker::ViolationKind as Kind;
use karpenter_checker::{
    Container, ContainerPort, DaemonSet, LabelSelector, NodeSelector, NodeSelectorTerm, PersistentVolume,
    PersistentVolumeClaim, PersistentVolumeClaimSource, PlanResult, Pod, PodAffinityTerm, Quantity,
    Requirement, Scenario, Taint, Toleration, TopologySpreadConstraint, Volume, VolumeNodeAffinity,
};

use super::Break;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const ARCH: &str = "kubernetes.io/arch";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

pub(super) const BREAKS: &[(Kind, &str, Break)] = &[
    (Kind::Coverage, "forget a pod", forget_pod),
    (Kind::Coverage, "give a pod two fates", duplicate_pod),
    (Kind::UnknownPod, "invent a pod", |_, plan| {
        plan.errors.insert("default/ghost-0".into(), String::new()).is_none()
    }),
    (Kind::UnknownPool, "invent a node pool", invent_pool),
    (Kind::UnknownPool, "use a pool of fixed size", freeze_pool),
    (Kind::UnknownNode, "invent a node", invent_node),
    (Kind::UnknownNode, "use a node that is being deleted", delete_node),
    (Kind::TypeList, "list no types", list_no_types),
    (Kind::TypeList, "list a type twice", list_type_twice),
    (Kind::TypeList, "list a type nobody sells", invent_type),
    (Kind::TypeOrder, "list the dearest type first", reverse_types),
    (Kind::Cheapest, "misstate the price", misprice),
    (Kind::Cheapest, "misstate the zone", misplace_cheapest),
    (Kind::Requests, "misstate the requests", misstate_requests),
    (Kind::PoolRequirement, "leave the pool's zones", leave_pool_zones),
    (Kind::PoolRequirement, "drop the pool's capacity type", drop_capacity_type),
    (Kind::UndefinedLabel, "require a label the pool lacks", require_unknown_label),
    (Kind::TypeRequirement, "list types the claim excludes", exclude_listed_types),
    (Kind::TypeRequirement, "allow no offering", allow_no_offering),
    (Kind::MinValues, "keep one type where more are asked for", keep_one_type),
    (Kind::MinValues, "lower minValues under the strict policy", lower_min_values),
    (Kind::Limits, "exceed a cpu limit", limit_cpu),
    (Kind::Limits, "exceed a node limit", limit_nodes),
    (Kind::NodeSelector, "select another architecture", select_other_arch),
    (Kind::NodeAffinity, "require another architecture", require_other_arch),
    (Kind::Contradiction, "contradict oneself", contradict_oneself),
    (Kind::Taint, "taint the pool", taint_pool),
    (Kind::Taint, "taint a node in use", taint_node),
    (Kind::Resources, "ask for more than any type has", ask_too_much),
    (Kind::Resources, "list a type that is too small", list_small_type),
    (Kind::Resources, "shrink a node in use", shrink_node),
    (Kind::Resources, "add a huge daemon", add_huge_daemon),
    (Kind::HostPort, "share a host port", share_host_port),
    (Kind::HostPort, "want a daemon's host port", want_daemon_port),
    (Kind::Volume, "bind a volume elsewhere", bind_volume_elsewhere),
    (Kind::NotAdmissible, "lose a volume claim", lose_volume_claim),
    (Kind::NotAdmissible, "select a reserved label", select_reserved_label),
    (Kind::IgnoredWithoutCause, "turn a good pod away", turn_good_pod_away),
    (Kind::Spread, "crowd a host", crowd_host),
    (Kind::SpreadDomain, "spread without settling the zone", spread_unsettled),
    (Kind::SpreadDomain, "spread over a label the node lacks", spread_over_missing_label),
    (Kind::Affinity, "want company that is not there", want_missing_company),
    (Kind::Affinity, "part pods that belong on one host", part_company),
    (Kind::AntiAffinity, "put enemies on one host", join_enemies),
    (Kind::AntiAffinity, "let a bound pod hate newcomers", bound_enemy),
];

/// Returns the position of a claim with at least `pods` pods of one pending group, and that group.
fn crowded(scenario: &Scenario, plan: &PlanResult, pods: usize) -> Option<(usize, usize)> {
    plan.new_node_claims.iter().enumerate().find_map(|(claim, c)| {
        let group = (0..scenario.pod_groups.len()).find(|g| count(scenario, *g, &c.pods) >= pods)?;
        Some((claim, group))
    })
}

fn count(scenario: &Scenario, group: usize, pods: &[String]) -> usize {
    let metadata = &scenario.pod_groups[group].pod.metadata;
    let prefix = format!("{}/{}-", metadata.namespace_or_default(), metadata.name);
    let is_member = |pod: &&String| pod.strip_prefix(&prefix).is_some_and(|i| i.parse::<usize>().is_ok());
    pods.iter().filter(is_member).count()
}

/// Returns a pending group's pod that got a place on a claim.
fn placed_pod<'s>(scenario: &'s mut Scenario, plan: &PlanResult) -> Option<&'s mut Pod> {
    let (_, group) = crowded(scenario, plan, 1)?;
    Some(&mut scenario.pod_groups[group].pod)
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
    let values = values.iter().map(|v| (*v).to_owned()).collect();
    Requirement { key: key.into(), operator: operator.into(), values, min_values: None }
}

fn one_term(requirement: Requirement) -> NodeSelector {
    let term = NodeSelectorTerm { match_expressions: vec![requirement], ..NodeSelectorTerm::default() };
    NodeSelector { node_selector_terms: vec![term] }
}

fn app_selector(pod: &Pod) -> LabelSelector {
    let app = pod.metadata.labels.get_key_value("app").map(|(k, v)| (k.clone(), v.clone()));
    LabelSelector { match_labels: app.into_iter().collect(), ..LabelSelector::default() }
}

fn forget_pod(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    plan.new_node_claims.first_mut().is_some_and(|claim| claim.pods.pop().is_some())
}

fn duplicate_pod(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    let pod = plan.new_node_claims.first().and_then(|claim| claim.pods.first()).cloned();
    pod.is_some_and(|pod| plan.errors.insert(pod, String::new()).is_none())
}

fn invent_pool(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    plan.new_node_claims.first_mut().map(|claim| claim.node_pool = "nowhere".into()).is_some()
}

fn freeze_pool(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    scenario.node_pools.iter_mut().for_each(|pool| pool.spec.replicas = Some(3));
    !plan.new_node_claims.is_empty()
}

fn invent_node(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    plan.existing_nodes.first_mut().map(|node| node.name = "nowhere".into()).is_some()
}

fn delete_node(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let Some(used) = plan.existing_nodes.first() else { return false };
    let node = scenario.nodes.iter_mut().find(|n| n.name == used.name && n.pod_groups.is_empty());
    node.map(|n| n.deleting = true).is_some()
}

fn list_no_types(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    plan.new_node_claims.first_mut().map(|claim| claim.instance_types.clear()).is_some()
}

fn list_type_twice(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    let claim = plan.new_node_claims.first_mut();
    claim.map(|claim| claim.instance_types.push(claim.instance_types[0].clone())).is_some()
}

fn invent_type(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    plan.new_node_claims.first_mut().map(|claim| claim.instance_types.push("nothing.99".into())).is_some()
}

fn reverse_types(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    let claim = plan.new_node_claims.iter_mut().find(|claim| claim.instance_types.len() > 1);
    claim.map(|claim| claim.instance_types.reverse()).is_some()
}

fn misprice(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    let cheapest = plan.new_node_claims.first_mut().and_then(|claim| claim.cheapest.as_mut());
    cheapest.map(|cheapest| cheapest.price *= 0.5).is_some()
}

fn misplace_cheapest(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    let cheapest = plan.new_node_claims.first_mut().and_then(|claim| claim.cheapest.as_mut());
    cheapest.map(|cheapest| cheapest.zone = "nowhere".into()).is_some()
}

fn misstate_requests(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    let claim = plan.new_node_claims.first_mut();
    claim.map(|claim| *claim.requests.entry("cpu".into()).or_default() += Quantity::whole(100)).is_some()
}

fn leave_pool_zones(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    for pool in &mut scenario.node_pools {
        pool.spec.template.spec.requirements.push(requirement(ZONE, "In", &["nowhere"]));
    }
    !plan.new_node_claims.is_empty()
}

/// Works where a listed type is also sold under the capacity type the pool excludes.
fn drop_capacity_type(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    plan.new_node_claims.iter_mut().any(|claim| {
        let pool = scenario.node_pools.iter().find(|p| p.metadata.name == claim.node_pool);
        let requirements = pool.map(|p| p.spec.template.spec.requirements.as_slice()).unwrap_or_default();
        let allowed =
            requirements.iter().find(|r| r.key == CAPACITY_TYPE && r.operator == "In" && r.values.len() == 1);
        let settled_zone = claim.requirements.iter().any(|r| r.key == ZONE);
        let Some(allowed) = allowed.filter(|_| !settled_zone) else { return false };
        let sold_otherwise = scenario.instance_types.iter().any(|t| {
            claim.instance_types.contains(&t.name)
                && t.offerings.iter().any(|o| o.available && o.capacity_type != allowed.values[0])
        });
        claim.requirements.retain(|r| r.key != CAPACITY_TYPE);
        sold_otherwise
    })
}

fn require_unknown_label(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    let claim = plan.new_node_claims.first_mut();
    claim.map(|claim| claim.requirements.push(requirement("unknown.example.org/x", "In", &["y"]))).is_some()
}

fn exclude_listed_types(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    let claim = plan.new_node_claims.iter_mut().find(|claim| claim.instance_types.len() > 1);
    claim
        .map(|claim| {
            let first = claim.instance_types[0].clone();
            claim.requirements.push(requirement("node.kubernetes.io/instance-type", "In", &[&first]));
        })
        .is_some()
}

fn allow_no_offering(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    let claim = plan.new_node_claims.first_mut();
    claim.map(|claim| claim.requirements.push(requirement(ZONE, "In", &["nowhere"]))).is_some()
}

fn keep_one_type(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let strict = scenario.options.min_values_policy != "BestEffort";
    let asks = |pool: &str| {
        let pool = scenario.node_pools.iter().find(|p| p.metadata.name == pool);
        pool.is_some_and(|p| {
            let many = |r: &Requirement| r.key != ZONE && r.min_values.is_some_and(|min| min > 1);
            p.spec.template.spec.requirements.iter().any(many)
        })
    };
    let claim = plan.new_node_claims.iter_mut().find(|claim| asks(&claim.node_pool));
    strict && claim.map(|claim| claim.instance_types.truncate(1)).is_some()
}

fn lower_min_values(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let strict = scenario.options.min_values_policy != "BestEffort";
    let mut printed = plan.new_node_claims.iter_mut().flat_map(|claim| &mut claim.requirements);
    let asked = printed.find(|r| r.min_values.is_some_and(|min| min > 1));
    strict && asked.map(|r| r.min_values = Some(1)).is_some()
}

fn limit_all(scenario: &mut Scenario, resource: &str) {
    for pool in &mut scenario.node_pools {
        pool.spec.limits.insert(resource.into(), Quantity::ZERO);
    }
}

fn limit_cpu(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    limit_all(scenario, "cpu");
    !plan.new_node_claims.is_empty()
}

fn limit_nodes(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    limit_all(scenario, "nodes");
    !plan.new_node_claims.is_empty()
}

fn select_other_arch(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    placed_pod(scenario, plan)
        .map(|pod| {
            pod.spec.affinity.node_affinity.required = None;
            pod.spec.node_selector.insert(ARCH.into(), "none".into());
        })
        .is_some()
}

fn require_other_arch(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let required = Some(one_term(requirement(ARCH, "In", &["none"])));
    placed_pod(scenario, plan)
        .filter(|pod| pod.spec.node_selector.is_empty())
        .map(|pod| pod.spec.affinity.node_affinity.required = required)
        .is_some()
}

fn contradict_oneself(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    placed_pod(scenario, plan)
        .map(|pod| {
            pod.spec.node_selector.insert("tier".into(), "gold".into());
            pod.spec.affinity.node_affinity.required = Some(one_term(requirement("tier", "In", &["silver"])));
        })
        .is_some()
}

fn mutant_taint() -> Taint {
    Taint { key: "mutant".into(), value: String::new(), effect: "NoSchedule".into() }
}

fn taint_pool(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let timid = placed_pod(scenario, plan).map(|pod| pod.spec.tolerations.clear()).is_some();
    for pool in &mut scenario.node_pools {
        pool.spec.template.spec.taints.push(mutant_taint());
    }
    timid
}

fn taint_node(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let Some(used) = plan.existing_nodes.first() else { return false };
    scenario.pod_groups.iter_mut().for_each(|group| group.pod.spec.tolerations.clear());
    let node = scenario.nodes.iter_mut().find(|n| n.name == used.name);
    node.map(|n| n.taints.push(mutant_taint())).is_some()
}

fn ask_too_much(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let container = placed_pod(scenario, plan).and_then(|pod| pod.spec.containers.first_mut());
    container.map(|c| c.resources.requests.insert("cpu".into(), Quantity::whole(100_000))).is_some()
}

fn list_small_type(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    plan.new_node_claims.iter_mut().any(|claim| {
        let wanted = claim.requests.get("cpu").copied().unwrap_or_default();
        let settled = claim.requirements.iter().any(|r| r.key == ZONE || r.key == CAPACITY_TYPE);
        let small = scenario.instance_types.iter().find(|t| {
            t.capacity.get("cpu").is_some_and(|cpu| *cpu < wanted) && t.offerings.iter().any(|o| o.available)
        });
        match small.filter(|_| !settled) {
            Some(small) => claim.instance_types.push(small.name.clone()),
            None => return false,
        }
        true
    })
}

fn shrink_node(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let Some(used) = plan.existing_nodes.first() else { return false };
    let node = scenario.nodes.iter_mut().find(|n| n.name == used.name);
    node.map(|n| n.allocatable = Some([("cpu".into(), Quantity::ZERO)].into())).is_some()
}

fn daemon(container: Container) -> DaemonSet {
    let mut daemon = DaemonSet { name: "mutant".into(), ..DaemonSet::default() };
    daemon.template.spec.containers.push(container);
    daemon.template.spec.tolerations.push(Toleration { operator: "Exists".into(), ..Toleration::default() });
    daemon
}

fn add_huge_daemon(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let mut container = Container::default();
    container.resources.limits.insert("cpu".into(), Quantity::whole(100_000));
    scenario.daemon_sets.push(daemon(container));
    !plan.new_node_claims.is_empty()
}

fn host_port() -> ContainerPort {
    ContainerPort { host_port: 4711, ..ContainerPort::default() }
}

fn share_host_port(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let Some((_, group)) = crowded(scenario, plan, 2) else { return false };
    scenario.pod_groups[group].pod.spec.containers[0].ports = vec![host_port()];
    true
}

fn want_daemon_port(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let container = Container { ports: vec![host_port()], ..Container::default() };
    scenario.daemon_sets.push(daemon(container));
    placed_pod(scenario, plan).map(|pod| pod.spec.containers[0].ports = vec![host_port()]).is_some()
}

fn mutant_volume() -> Volume {
    let source = PersistentVolumeClaimSource { claim_name: "mutant".into() };
    Volume { name: "mutant".into(), persistent_volume_claim: Some(source), ephemeral: None }
}

fn bind_volume_elsewhere(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let Some(pod) = placed_pod(scenario, plan) else { return false };
    pod.spec.volumes.push(mutant_volume());
    let mut claim = PersistentVolumeClaim::default();
    claim.metadata.name = "mutant".into();
    pod.metadata.namespace_or_default().clone_into(&mut claim.metadata.namespace);
    claim.metadata.annotations.insert("pv.kubernetes.io/bind-completed".into(), "yes".into());
    claim.spec.volume_name = "mutant".into();
    let mut volume = PersistentVolume::default();
    volume.metadata.name = "mutant".into();
    let elsewhere = one_term(requirement(ZONE, "In", &["nowhere"]));
    volume.spec.node_affinity = Some(VolumeNodeAffinity { required: Some(elsewhere) });
    scenario.persistent_volume_claims.push(claim);
    scenario.persistent_volumes.push(volume);
    true
}

fn lose_volume_claim(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    placed_pod(scenario, plan).map(|pod| pod.spec.volumes.push(mutant_volume())).is_some()
}

fn select_reserved_label(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let pod = placed_pod(scenario, plan);
    pod.map(|pod| pod.spec.node_selector.insert("karpenter.sh/mine".into(), "x".into())).is_some()
}

fn turn_good_pod_away(_: &mut Scenario, plan: &mut PlanResult) -> bool {
    let pod = plan.new_node_claims.first_mut().and_then(|claim| claim.pods.pop());
    pod.is_some_and(|pod| plan.ignored.insert(pod, String::new()).is_none())
}

fn spread(pod: &Pod, key: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.into(),
        when_unsatisfiable: "DoNotSchedule".into(),
        label_selector: Some(app_selector(pod)),
        ..TopologySpreadConstraint::default()
    }
}

fn crowd_host(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let Some((_, group)) = crowded(scenario, plan, 2) else { return false };
    let pod = &mut scenario.pod_groups[group].pod;
    pod.spec.topology_spread_constraints = vec![spread(pod, HOSTNAME)];
    true
}

/// Works where the first listed type is sold in two zones and the claim leaves the zone open.
fn spread_unsettled(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let Some((claim, group)) = crowded(scenario, plan, 2) else { return false };
    let claim = &plan.new_node_claims[claim];
    let listed = scenario.instance_types.iter().find(|t| t.name == claim.instance_types[0]);
    let sold_in_two_zones = listed.is_some_and(|t| {
        let mut available = t.offerings.iter().filter(|o| o.available);
        let first = available.next().map(|o| o.zone.clone());
        available.any(|o| Some(&o.zone) != first.as_ref())
    });
    let open = !claim.requirements.iter().any(|r| r.key == ZONE || r.key == CAPACITY_TYPE);
    let pod = &mut scenario.pod_groups[group].pod;
    pod.spec.topology_spread_constraints = vec![spread(pod, ZONE)];
    open && sold_in_two_zones
}

fn spread_over_missing_label(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    placed_pod(scenario, plan)
        .map(|pod| pod.spec.topology_spread_constraints = vec![spread(pod, "rack.example.org/id")])
        .is_some()
}

fn term(selector: LabelSelector, key: &str) -> PodAffinityTerm {
    PodAffinityTerm { label_selector: Some(selector), topology_key: key.into(), ..PodAffinityTerm::default() }
}

fn want_missing_company(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let nobody =
        LabelSelector { match_labels: [("app".into(), "nobody".into())].into(), ..LabelSelector::default() };
    let pod = placed_pod(scenario, plan);
    pod.map(|pod| pod.spec.affinity.pod_affinity.required = vec![term(nobody, HOSTNAME)]).is_some()
}

fn part_company(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let homes = |group: usize| {
        plan.new_node_claims.iter().filter(|claim| count(scenario, group, &claim.pods) > 0).count()
    };
    let Some(group) = (0..scenario.pod_groups.len()).find(|g| homes(*g) > 1) else { return false };
    // A group of its own: another group with the same label might be company enough.
    let pod = &mut scenario.pod_groups[group].pod;
    pod.metadata.labels.insert("app".into(), "mutant".into());
    pod.spec.affinity.pod_affinity.required = vec![term(app_selector(pod), HOSTNAME)];
    true
}

fn join_enemies(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let Some((_, group)) = crowded(scenario, plan, 2) else { return false };
    let pod = &mut scenario.pod_groups[group].pod;
    pod.spec.affinity.pod_anti_affinity.required = vec![term(app_selector(pod), HOSTNAME)];
    true
}

fn bound_enemy(scenario: &mut Scenario, plan: &mut PlanResult) -> bool {
    let Some(used) = plan.existing_nodes.first() else { return false };
    let node = scenario.nodes.iter_mut().find(|n| n.name == used.name && !n.deleting);
    let Some(bound) = node.and_then(|n| n.pod_groups.first_mut()) else { return false };
    let mut everybody = term(LabelSelector::default(), HOSTNAME);
    everybody.namespace_selector = Some(LabelSelector::default());
    bound.pod.spec.affinity.pod_anti_affinity.required = vec![everybody];
    true
}
