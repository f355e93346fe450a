//! Asks the cloud the questions of classes. Nothing is decided here: every page is read, and what was read is handed on.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use karpenter_alibabacloud_client::cs::{
    ClusterDetail, DescribeClusterDetail, DescribeKubernetesVersionMetadata, GetClusterAddonInstance,
};
use karpenter_alibabacloud_client::ecs::{
    self, DescribeCapacityReservations, DescribeImages, DescribeSecurityGroups, PrivatePools,
};
use karpenter_alibabacloud_client::ram::GetRole;
use karpenter_alibabacloud_client::vpc::DescribeVSwitches;
use karpenter_alibabacloud_client::{Client, Error, ErrorKind};

use super::question::{Answer, Question, Selected, Trouble};
use super::selection::{
    describe, describe_image, image, longest_literal, newest, of_family, tag_filters, tags_match,
};
use crate::node_class::{
    Cluster, Image, ImageFilter, ImageTerm, Network, Reservation, SecurityGroup, Selector, VSwitch,
};
use crate::refresh::Refresh;

/// The most that one page of the cloud holds.
const PAGE: Option<u32> = Some(100);
/// Network plug-ins by which a cluster is told that does not say itself what its network is.
const NETWORK_ADDONS: [&str; 4] = ["terway-eniip", "terway", "kube-flannel-ds", "kube-flannel-ds-vxlan"];
/// Addresses of a node under Flannel where the cluster does not say.
const DEFAULT_MASK: u32 = 24;

/// Answers questions with the client of `refresh`.
pub(super) fn ask(refresh: Refresh, question: Question) -> BoxFuture<'static, Result<Answer, Trouble>> {
    async move {
        let answer = answer(&refresh, &question).await;
        let rights = refresh.rights();
        match &answer {
            Ok(_) => question.actions().iter().for_each(|action| rights.clear(action)),
            Err(error) => {
                rights.note(error, refresh.client().environment().now());
            }
        }
        answer.map_err(Trouble::from)
    }
    .boxed()
}

async fn answer(refresh: &Refresh, question: &Question) -> Result<Answer, Error> {
    let client = refresh.client();
    Ok(match question {
        Question::InstanceTypes => {
            refresh.open().await?;
            Answer::InstanceTypes(refresh.unsuited())
        }
        Question::VSwitches(terms) => Answer::VSwitches(v_switches(client, terms).await?),
        Question::SecurityGroups(terms) => Answer::SecurityGroups(security_groups(client, terms).await?),
        Question::Images(terms, version) => Answer::Images(images(client, terms, version.as_deref()).await?),
        Question::Role(name) => {
            let answer = client.call(&GetRole { role_name: name.clone() }).await?;
            Answer::Role { trusts_ecs: answer.role.trusts_ecs() }
        }
        Question::Cluster(id) => Answer::Cluster(Arc::new(cluster(refresh, id).await?)),
        Question::Reservations(terms) => Answer::Reservations(reservations(client, terms).await?),
    })
}

async fn v_switches(client: &Client, terms: &[Selector]) -> Result<Selected<VSwitch>, Error> {
    let mut found: BTreeMap<Arc<str>, VSwitch> = BTreeMap::new();
    let mut idle = Vec::new();
    for term in terms {
        let request = DescribeVSwitches {
            v_switch_id: term.id.clone(),
            zone_id: term.zone.clone(),
            tags: tag_filters(&term.tags),
            ..DescribeVSwitches::default()
        };
        let listed = client.list(&request).await?;
        let selected: Vec<_> =
            listed.iter().filter(|v_switch| tags_match(&term.tags, &v_switch.tags)).collect();
        if selected.is_empty() {
            idle.push(describe(term));
        }
        for v_switch in selected {
            let id: Arc<str> = v_switch.v_switch_id.as_str().into();
            let known = VSwitch {
                id: id.clone(),
                zone: v_switch.zone_id.as_str().into(),
                vpc: v_switch.vpc_id.clone().unwrap_or_default(),
                free_addresses: u64::try_from(v_switch.available_ip_address_count).unwrap_or_default(),
            };
            found.insert(id, known);
        }
    }
    let mut found: Vec<VSwitch> = found.into_values().collect();
    found.sort_by(|one, other| other.free_addresses.cmp(&one.free_addresses).then(one.id.cmp(&other.id)));
    Ok(Selected { found, idle })
}

async fn security_groups(client: &Client, terms: &[Selector]) -> Result<Selected<SecurityGroup>, Error> {
    let mut found: BTreeMap<Arc<str>, SecurityGroup> = BTreeMap::new();
    let mut idle = Vec::new();
    for term in terms {
        let request = DescribeSecurityGroups {
            security_group_ids: term.id.iter().cloned().collect(),
            security_group_name: term.name.clone(),
            tags: tag_filters(&term.tags),
            max_results: PAGE,
            ..DescribeSecurityGroups::default()
        };
        let listed = client.list(&request).await?;
        let selected: Vec<_> = listed.iter().filter(|group| tags_match(&term.tags, &group.tags)).collect();
        if selected.is_empty() {
            idle.push(describe(term));
        }
        for group in selected {
            let id: Arc<str> = group.security_group_id.as_str().into();
            let name = group.security_group_name.clone();
            let vpc = group.vpc_id.clone().unwrap_or_default();
            found.insert(id.clone(), SecurityGroup { id, name, vpc });
        }
    }
    Ok(Selected { found: found.into_values().collect(), idle })
}

async fn reservations(client: &Client, terms: &[Selector]) -> Result<Selected<Reservation>, Error> {
    let mut found: BTreeMap<[Arc<str>; 3], Reservation> = BTreeMap::new();
    let mut idle = Vec::new();
    for term in terms {
        let request = DescribeCapacityReservations {
            private_pool_options: PrivatePools { ids: term.id.iter().cloned().collect() },
            tags: tag_filters(&term.tags),
            max_results: PAGE,
            ..DescribeCapacityReservations::default()
        };
        let listed = client.list(&request).await?;
        let active = |status: &Option<String>| status.as_deref().is_none_or(|status| status == "Active");
        let selected: Vec<_> = listed
            .iter()
            .filter(|reservation| active(&reservation.status) && tags_match(&term.tags, &reservation.tags))
            .collect();
        if selected.is_empty() {
            idle.push(describe(term));
        }
        for reservation in selected {
            let id: Arc<str> = reservation.private_pool_options_id.as_str().into();
            for held in &reservation.allocated_resources {
                let (Some(instance_type), Some(zone)) = (&held.instance_type, &held.zone_id) else {
                    continue;
                };
                let remaining = held
                    .total_amount
                    .unwrap_or_default()
                    .saturating_sub(held.used_amount.unwrap_or_default());
                let one = Reservation {
                    id: id.clone(),
                    instance_type: instance_type.as_str().into(),
                    zone: zone.as_str().into(),
                    remaining,
                };
                found.insert([id.clone(), one.instance_type.clone(), one.zone.clone()], one);
            }
        }
    }
    Ok(Selected { found: found.into_values().collect(), idle })
}

/// The images of each term in the order of the terms, each once.
async fn images(
    client: &Client,
    terms: &[ImageTerm],
    version: Option<&str>,
) -> Result<Selected<Image>, Error> {
    let mut selected = Selected::default();
    for term in terms {
        let found = match term {
            ImageTerm::Id(id) => {
                let request = DescribeImages {
                    image_id: Some(id.clone()),
                    show_expired: Some(true),
                    ..DescribeImages::default()
                };
                client.list(&request).await?.iter().filter_map(image).collect()
            }
            ImageTerm::Family(family) => {
                let request = DescribeImages { image_family: Some(family.clone()), ..available() };
                newest(&ImageFilter::default(), &client.list(&request).await?)
            }
            ImageTerm::Filter(filter) => newest(filter, &filtered(client, filter).await?),
            ImageTerm::Alias { family, version: part } => {
                let request = DescribeKubernetesVersionMetadata {
                    region: client.region().to_owned(),
                    cluster_type: "ManagedKubernetes".to_owned(),
                    kubernetes_version: version.map(str::to_owned),
                };
                let versions = client.call(&request).await?;
                let listed = versions.first().map(|version| version.images.as_slice()).unwrap_or_default();
                of_family(*family, part.as_deref(), listed)
            }
        };
        if found.is_empty() {
            selected.idle.push(describe_image(term));
        }
        for image in found {
            if !selected.found.contains(&image) {
                selected.found.push(image);
            }
        }
    }
    Ok(selected)
}

fn available() -> DescribeImages {
    DescribeImages { status: Some("Available".to_owned()), ..DescribeImages::default() }
}

async fn filtered(client: &Client, filter: &ImageFilter) -> Result<Vec<ecs::Image>, Error> {
    let request = DescribeImages {
        image_name: filter.name.as_deref().and_then(longest_literal).map(str::to_owned),
        image_owner_alias: filter.owner_alias.clone(),
        image_owner_id: filter.owner_id.clone(),
        tags: tag_filters(&filter.tags),
        ..available()
    };
    client.list(&request).await
}

async fn cluster(refresh: &Refresh, id: &str) -> Result<Cluster, Error> {
    let client = refresh.client();
    let detail = client.call(&DescribeClusterDetail { cluster_id: id.to_owned() }).await?;
    let network = match detail.network() {
        Some(network) => Some(network),
        None => network_addon(refresh, id).await?,
    };
    Ok(Cluster {
        id: id.into(),
        version: detail.current_version.clone().unwrap_or_default(),
        vpc: detail.vpc_id.clone().filter(|vpc| !vpc.is_empty()),
        network: network.map_or(Network::Other, |name| network_of(&name, &detail)),
        dual_stack: detail.ip_stack.as_deref() == Some("dual"),
    })
}

/// Looks for a network plug-in by name. Without the right to look, the network is not known, and 110 pods per node are counted on.
async fn network_addon(refresh: &Refresh, cluster: &str) -> Result<Option<String>, Error> {
    let client = refresh.client();
    for name in NETWORK_ADDONS {
        let request = GetClusterAddonInstance { cluster_id: cluster.to_owned(), name: name.to_owned() };
        let answer = client.call(&request).await;
        refresh.rights().hear::<GetClusterAddonInstance, _>(&answer, client.environment().now());
        match answer {
            Ok(_) => return Ok(Some(name.to_owned())),
            Err(error) if error.is_not_found() => {}
            Err(error) if error.kind == ErrorKind::Denied => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The network by the name of its plug-in.
fn network_of(name: &str, detail: &ClusterDetail) -> Network {
    let name = name.to_lowercase();
    if name == "terway-eni" {
        Network::TerwayExclusive
    } else if name.contains("terway") {
        Network::Terway
    } else if name.contains("flannel") {
        let mask = detail.node_cidr_mask.as_deref().and_then(|mask| mask.parse::<u32>().ok());
        let bits = 32 - mask.filter(|mask| (16..=31).contains(mask)).unwrap_or(DEFAULT_MASK);
        Network::Flannel { addresses: 1 << bits }
    } else {
        Network::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_told_by_their_plug_ins() {
        let mask =
            |mask: &str| ClusterDetail { node_cidr_mask: Some(mask.into()), ..ClusterDetail::default() };
        assert_eq!(network_of("terway-eniip", &mask("")), Network::Terway);
        assert_eq!(network_of("terway-eni", &mask("")), Network::TerwayExclusive);
        assert_eq!(network_of("Flannel", &mask("25")), Network::Flannel { addresses: 128 });
        assert_eq!(network_of("kube-flannel-ds", &mask("")), Network::Flannel { addresses: 256 });
        assert_eq!(network_of("calico", &mask("")), Network::Other);
    }
}
