//! A region to begin with: a VPC, a vSwitch in each zone, a security group, images, a cluster, a role and an access key.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;

use crate::world::{
    AccessKey, Cluster, Image, NodePool, OidcProvider, Role, SecurityGroup, Tags, VSwitch, Vpc, World,
};

/// The access key of [`World::standard`].
pub const ACCESS_KEY: &str = "LTAIsimulated0000000";
/// Its secret.
pub const ACCESS_SECRET: &str = "simulated-secret";
/// The controller's role of [`World::standard`], for tokens of the cluster's OIDC provider.
pub const CONTROLLER_ROLE: &str = "karpenter-controller";
/// The role of machines of [`World::standard`].
pub const WORKER_ROLE: &str = "KubernetesWorkerRole";
/// The VPC of [`World::standard`].
pub const VPC: &str = "vpc-simulated0";
/// The nodes' security group of [`World::standard`].
pub const SECURITY_GROUP: &str = "sg-simulated0node";
/// The audience tokens must have for STS.
pub const AUDIENCE: &str = "sts.aliyuncs.com";

fn tags<const N: usize>(pairs: [(&str, &str); N]) -> Tags {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn day(year: i16, month: i8, day: i8) -> Timestamp {
    let midnight = date(year, month, day).to_zoned(TimeZone::UTC);
    midnight.expect("a day of the calendar in UTC").timestamp()
}

impl World {
    /// A region with everything a cluster needs. vSwitches and the security group carry `karpenter.sh/discovery: CLUSTER` and names such as
    /// `CLUSTER-private-h` and `CLUSTER-node`.
    pub fn standard(region: &str, cluster: &str) -> Self {
        let mut world = Self::empty(region, &["h", "i", "j", "k"]);
        add_network(&mut world, cluster);
        images().for_each(|image| drop(world.images.insert(image.id.clone(), image)));
        add_identities(&mut world, cluster);
        let found = cluster_of(&world, cluster);
        world.clusters.insert(cluster.to_owned(), found);
        world.key_pairs.insert("simulated".to_owned());
        world
    }

    /// Gives a cluster Flannel instead of Terway, which leaves small types too few addresses for pods.
    pub fn use_flannel(&mut self, cluster: &str) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            "Flannel".clone_into(&mut cluster.network);
            cluster.addons = BTreeMap::from([("kube-flannel-ds".to_owned(), "{}".to_owned())]);
        }
    }

    /// The issuer of the tokens of a cluster's service accounts.
    pub fn issuer(&self, cluster: &str) -> String {
        format!("https://oidc-ack-{}.oss-{}.aliyuncs.com/{cluster}", self.region, self.region)
    }

    /// The ARN of a cluster's OIDC provider.
    pub fn oidc_provider_arn(&self, cluster: &str) -> String {
        format!("acs:ram::{}:oidc-provider/ack-rrsa-{cluster}", self.account)
    }

    /// The ARN of a role.
    pub fn role_arn(&self, role: &str) -> String {
        format!("acs:ram::{}:role/{}", self.account, role.to_lowercase())
    }
}

fn add_network(world: &mut World, cluster: &str) {
    let discovery = ("karpenter.sh/discovery", cluster);
    let vpc = Vpc {
        id: VPC.to_owned(),
        name: format!("{cluster}-vpc"),
        cidr: "10.0.0.0/8".to_owned(),
        tags: tags([discovery]),
    };
    world.vpcs.insert(vpc.id.clone(), vpc);
    for (number, zone) in world.zones.clone().into_iter().enumerate() {
        let letter = zone.rsplit('-').next().unwrap_or_default().to_owned();
        let (private, public) = (format!("{cluster}-private-{letter}"), format!("{cluster}-public-{letter}"));
        let vswitch = |id: String, name: &str, cidr: String, tags| VSwitch {
            id,
            name: name.to_owned(),
            vpc: VPC.to_owned(),
            zone: zone.clone(),
            cidr,
            tags,
            taken_by_others: 0,
            used: std::collections::BTreeSet::new(),
        };
        let both = [
            vswitch(
                format!("vsw-simulated{letter}private"),
                &private,
                format!("10.{}.0.0/18", number + 1),
                tags([("Name", &*private), discovery]),
            ),
            vswitch(
                format!("vsw-simulated{letter}public"),
                &public,
                format!("10.{}.128.0/24", number + 1),
                tags([("Name", &*public)]),
            ),
        ];
        both.into_iter().for_each(|one| drop(world.vswitches.insert(one.id.clone(), one)));
    }
    let node = format!("{cluster}-node");
    for (id, name, tags) in [
        (SECURITY_GROUP, node.clone(), tags([("Name", &*node), discovery])),
        ("sg-simulated0other", "other".to_owned(), tags([("Name", "other")])),
    ] {
        let group =
            SecurityGroup { id: id.to_owned(), name, vpc: VPC.to_owned(), kind: "normal".to_owned(), tags };
        world.security_groups.insert(id.to_owned(), group);
    }
}

/// An image: id, name where it is not the id, architecture, family, platform, GiB, day, ACK's word for it.
type Row =
    (&'static str, &'static str, &'static str, &'static str, &'static str, u32, (i16, i8, i8), &'static str);

const ALINUX: &str = "Aliyun";
const LIFSEA: &str = "LifseaOS";
const ALINUX_X64: &str = "acs:alibaba_cloud_linux_3_2104_lts_x64";
const ALINUX_ARM: &str = "acs:alibaba_cloud_linux_3_2104_lts_arm64";
const OPTIMIZED: &str = "acs:alibaba_cloud_linux_3_container_optimized_x64";
const UBUNTU: &str = "acs:ubuntu_22_04_x64";

#[rustfmt::skip]
const IMAGES: &[Row] = &[
    ("aliyun_3_x64_20G_alibase_20250117.vhd", "", "x86_64", ALINUX_X64, ALINUX, 20, (2025, 1, 17), ""),
    ("aliyun_3_x64_20G_alibase_20250629.vhd", "", "x86_64", ALINUX_X64, ALINUX, 20, (2025, 6, 29), "AliyunLinux3"),
    ("aliyun_3_arm64_20G_alibase_20250629.vhd", "", "arm64", ALINUX_ARM, ALINUX, 20, (2025, 6, 29), "AliyunLinux3Arm64"),
    ("aliyun_3_x64_20G_container_optimized_alibase_20250629.vhd", "", "x86_64", OPTIMIZED, ALINUX, 20, (2025, 6, 29),
        "AliyunLinux3ContainerOptimized"),
    ("lifsea_3_x64_10G_containerd_2_0_alibase_20250527.vhd", "ContainerOS 3.6.1 x86_64", "x86_64", "acs:containeros_3_x64",
        LIFSEA, 10, (2025, 5, 27), "ContainerOS"),
    ("lifsea_3_arm64_10G_containerd_2_0_alibase_20250527.vhd", "ContainerOS 3.6.1 arm64", "arm64", "acs:containeros_3_arm64",
        LIFSEA, 10, (2025, 5, 27), "ContainerOSArm64"),
    ("ubuntu_22_04_x64_20G_alibase_20250415.vhd", "", "x86_64", UBUNTU, "Ubuntu", 20, (2025, 4, 15), "Ubuntu"),
    ("m-simulated0custom", "golden-2025", "x86_64", "golden", ALINUX, 40, (2025, 3, 1), ""),
    ("m-simulated0old", "golden-2024", "x86_64", "golden", ALINUX, 40, (2024, 3, 1), ""),
];

fn images() -> impl Iterator<Item = Image> {
    IMAGES.iter().map(|&(id, name, architecture, family, platform, size_gib, made, ack_type)| {
        let own = id.starts_with("m-");
        Image {
            id: id.to_owned(),
            name: if name.is_empty() { id } else { name }.to_owned(),
            architecture: architecture.to_owned(),
            family: family.to_owned(),
            platform: platform.to_owned(),
            owner: if own { "self" } else { "system" }.to_owned(),
            size_gib,
            created: day(made.0, made.1, made.2),
            status: if id == "m-simulated0old" { "Deprecated" } else { "Available" }.to_owned(),
            ack_type: ack_type.to_owned(),
            tags: if own { tags([("Name", "golden")]) } else { Tags::new() },
        }
    })
}

fn add_identities(world: &mut World, cluster: &str) {
    let key = AccessKey {
        id: ACCESS_KEY.to_owned(),
        secret: ACCESS_SECRET.to_owned(),
        token: None,
        expires: None,
        role: None,
        policy: None,
    };
    world.keys.insert(key.id.clone(), key);
    let arn = world.oidc_provider_arn(cluster);
    let provider = OidcProvider {
        arn: arn.clone(),
        issuer: world.issuer(cluster),
        audiences: vec![AUDIENCE.to_owned()],
    };
    world.oidc_providers.insert(arn.clone(), provider);
    let role = |name: &str, services: &[&str], oidc_providers, subject| Role {
        name: name.to_owned(),
        services: services.iter().map(|service| (*service).to_owned()).collect(),
        oidc_providers,
        subject,
        max_session: 43_200,
        policy: None,
    };
    let subject = "system:serviceaccount:karpenter:karpenter".to_owned();
    for role in [
        role(WORKER_ROLE, &["ecs.aliyuncs.com"], Vec::new(), None),
        role(&format!("{cluster}-karpenter-node-role"), &["ecs.aliyuncs.com"], Vec::new(), None),
        role(CONTROLLER_ROLE, &[], vec![arn], Some(subject)),
        role("NotForMachines", &["fc.aliyuncs.com"], Vec::new(), None),
    ] {
        world.roles.insert(role.name.clone(), role);
    }
}

fn cluster_of(world: &World, id: &str) -> Cluster {
    let pool = |id: &str, name: &str, is_default, healthy_nodes| NodePool {
        id: id.to_owned(),
        name: name.to_owned(),
        is_default,
        healthy_nodes,
        runtime: "containerd".to_owned(),
        runtime_version: "1.6.38".to_owned(),
    };
    let addon = |name: &str, config: &str| (name.to_owned(), config.to_owned());
    let private = world.vswitches.keys().filter(|name| name.ends_with("private"));
    Cluster {
        id: id.to_owned(),
        name: id.to_owned(),
        version: "1.32.1-aliyun.1".to_owned(),
        network: "terway-eniip".to_owned(),
        node_cidr_mask: 26,
        ip_stack: "ipv4".to_owned(),
        vpc: VPC.to_owned(),
        vswitches: private.cloned().collect(),
        security_group: SECURITY_GROUP.to_owned(),
        worker_role: WORKER_ROLE.to_owned(),
        endpoint: "10.1.0.5:6443".to_owned(),
        state: "running".to_owned(),
        node_pools: vec![pool("npdefault", "default-nodepool", true, 3), pool("npother", "other", false, 1)],
        addons: BTreeMap::from([addon("terway-eniip", r#"{"ENITrunking":"false"}"#)]),
    }
}
