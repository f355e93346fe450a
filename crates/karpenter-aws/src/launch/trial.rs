//! A launch template to try a class with: one machine that its NodePools could get.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use karpenter_api::labels::NODEPOOL;
use karpenter_api::labels::aws::INSTANCE_TENANCY;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_aws_bootstrap::LARGEST;
use karpenter_aws_bootstrap::kubelet::TypeFacts;
use karpenter_aws_catalogue::{RegionType, node_shape};
use karpenter_core::catalog::{InstanceType, ON_DEMAND};
use karpenter_core::requirements::{Requirement, RequirementSet};
use karpenter_kube::selector::api_requirement;
use karpenter_provider::LaunchError;

use super::Launcher;
use super::candidates::{Candidate, Purchase, Selection, Wanted};
use super::plan;
use super::template::tags;
use crate::drift::image_for;
use crate::node_class::{ResolvedClass, Trial, TrialError, TrialTemplate};

/// Types that every region has, for classes that no NodePool uses yet.
const USUAL: [&str; 2] = ["m5.large", "m6g.large"];

impl Launcher {
    /// Every type of the region, with the pods it gets in this class by default.
    pub(crate) fn types(&self, class: &ResolvedClass) -> Vec<TypeFacts> {
        let mut settings = crate::catalogue::settings(class);
        settings.kubelet.max_pods = None;
        let facts = |known: &RegionType| TypeFacts {
            vcpus: known.facts.vcpus.into(),
            memory_mib: i64::try_from(known.facts.memory_mib).unwrap_or(i64::MAX),
            default_enis: known.facts.default_card_interfaces().into(),
            ips_per_eni: known.facts.network.ipv4_per_interface.into(),
            max_pods: node_shape(known, &settings, self.surroundings.controller, None).max_pods.into(),
            instance_type: known.facts.name.to_string(),
        };
        self.catalogue.types().types().iter().map(facts).collect()
    }

    /// Sees to it that the template of one machine of the class exists.
    pub(crate) async fn try_template(
        &self,
        trial: &Trial,
        now: Timestamp,
    ) -> Result<TrialTemplate, TrialError> {
        let name = trial.class.class.metadata.name.as_deref().unwrap_or_default();
        let types = self.catalogue.instance_types(name, &trial.class, now);
        let chosen = self.choose(trial, &types);
        let (instance_type, pool) = chosen.ok_or_else(|| {
            TrialError::NotYet("no instance type that the class's images run on is known yet".to_owned())
        })?;
        let claim = claim(name, pool);
        let candidates = vec![Candidate { instance_type: Arc::clone(instance_type), offerings: Vec::new() }];
        let tenancy =
            if trial.pools.iter().any(|pool| asks_for_own_hosts(pool)) { "dedicated" } else { "default" };
        let selection = Selection { candidates, purchase: Purchase::OnDemand, tenancy };
        let settings = self.catalogue.settings(name, &trial.class);
        let region = self.catalogue.types();
        let chosen = (&Wanted::default(), selection, None);
        let groups = plan::groups(&claim, &trial.class, &settings, &region, chosen, &self.surroundings);
        let group = groups.map_err(|error| match error {
            LaunchError::Failed { message, .. } => TrialError::UserData(message),
            other => TrialError::NotYet(other.to_string()),
        })?;
        let group = group.into_iter().next().expect("a plan without groups is an error");
        let data = group.template.launch_template_data.user_data.as_deref().unwrap_or_default();
        let bytes = STANDARD.decode(data).map_or(0, |text| text.len());
        self.metrics.user_data(name, bytes);
        if bytes > LARGEST {
            return Err(TrialError::UserDataTooLarge(bytes));
        }
        let launch_template_name = self.templates.ensure(&group.template, now).await?;
        Ok(TrialTemplate {
            launch_template_name,
            instance_type: instance_type.name.to_string(),
            zones: zones(&trial.class, instance_type),
            image_id: group.image_id,
            tags: tags(&plan::tags(&claim, &trial.class, &self.surroundings.cluster.name)),
        })
    }

    /// A type that a NodePool of the class could get, plain ones first; else a usual one; else any. It is one that an image runs on and that
    /// is sold on demand in a zone of the class: what nobody sells is refused whoever asks.
    fn choose<'t>(
        &self,
        trial: &'t Trial,
        types: &'t [Arc<InstanceType>],
    ) -> Option<(&'t Arc<InstanceType>, Option<&'t Arc<NodePool>>)> {
        let can_be_had = |found: &&Arc<InstanceType>| {
            image_for(&trial.class.amis, found).is_some() && !zones(&trial.class, found).is_empty()
        };
        let types: Vec<&Arc<InstanceType>> = types.iter().filter(can_be_had).collect();
        let pools = trial.pools.iter().filter(|_| !trial.class.family.is_windows());
        for pool in pools {
            let wanted = self.requirements(pool);
            let fits = |found: &&&Arc<InstanceType>| meets(&found.requirements, &wanted);
            let plain = |found: &&&Arc<InstanceType>| !is_accelerated(found);
            let chosen = types.iter().filter(plain).find(fits).or_else(|| types.iter().find(fits));
            if let Some(found) = chosen {
                return Some((found, Some(pool)));
            }
        }
        let usual = types.iter().find(|found| USUAL.contains(&&*found.name));
        usual.or(types.first()).map(|found| (*found, trial.pools.first()))
    }

    fn requirements(&self, pool: &NodePool) -> RequirementSet {
        let lines = pool.spec.template.spec.requirements.iter();
        let lines: Vec<Requirement> =
            lines.filter_map(|line| api_requirement(line, &self.surroundings.rules).ok()).collect();
        lines.iter().collect()
    }
}

/// The zones of a class in which a type is sold on demand.
fn zones(class: &ResolvedClass, instance_type: &InstanceType) -> BTreeSet<String> {
    let of_class = |zone: &str| class.subnets.iter().any(|subnet| subnet.zone == zone);
    let sold = instance_type.offerings.iter();
    let sold = sold.filter(|offering| offering.capacity_type().is_some_and(|found| &**found == ON_DEMAND));
    let zones = sold.filter_map(|offering| offering.zone()).filter(|zone| of_class(zone));
    zones.map(ToString::to_string).collect()
}

fn meets(offered: &RequirementSet, wanted: &RequirementSet) -> bool {
    offered.iter().all(|(key, set)| wanted.get(key).is_none_or(|other| set.meets(other)))
}

fn is_accelerated(found: &InstanceType) -> bool {
    ["nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron"]
        .iter()
        .any(|name| !found.capacity.get(name).is_zero())
}

fn asks_for_own_hosts(pool: &NodePool) -> bool {
    let lines = pool.spec.template.spec.requirements.iter();
    let mut lines = lines.filter(|line| line.key == INSTANCE_TENANCY);
    lines.any(|line| line.values().iter().any(|value| value == "dedicated"))
}

/// A claim as the pool would make it.
fn claim(class: &str, pool: Option<&Arc<NodePool>>) -> NodeClaim {
    let mut claim = NodeClaim::default();
    let name = pool.and_then(|pool| pool.metadata.name.clone()).unwrap_or_else(|| "default".to_owned());
    claim.metadata.labels = Some([(NODEPOOL.to_owned(), name)].into());
    class.clone_into(&mut claim.spec.node_class_ref.name);
    claim
}
