//! Names of labels: Karpenter's own, the Kubernetes ones it understands, and those of each provider.
//!
//! A *well-known* label describes machines, so pods may ask for it even where no NodePool mentions it.
//! What may be used where is decided by [`crate::LabelRules`]; here are only the names.

/// API group of `NodePool`, `NodeClaim` and `NodeOverlay`, and the domain of Karpenter's own labels.
pub const GROUP: &str = "karpenter.sh";

/// Name of the NodePool a NodeClaim or node belongs to.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// How the machine is paid for: see [`CAPACITY_TYPES`].
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// Set to `true` on a node once it is registered.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// Set to `true` on a node once it is initialized.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// Set to `true` on a node by its bootstrap when registration must leave the node's taints alone.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

/// Zone of the machine.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region of the machine.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Name of the instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Processor architecture.
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system.
pub const OS: &str = "kubernetes.io/os";
/// Build of the Windows image.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// Name of the host; never allowed in NodePools because it would pin a pool to one machine.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Takes a node out of load balancers while it terminates; the value is `karpenter`.
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Interruptible machines at a discount.
pub const CAPACITY_TYPE_SPOT: &str = "spot";
/// Machines at list price.
pub const CAPACITY_TYPE_ON_DEMAND: &str = "on-demand";
/// Machines from a capacity reservation that is already paid for.
pub const CAPACITY_TYPE_RESERVED: &str = "reserved";
/// Every value of [`CAPACITY_TYPE`].
pub const CAPACITY_TYPES: &[&str] = &[CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_RESERVED, CAPACITY_TYPE_SPOT];

/// Value of [`ARCH`] for 64-bit x86.
pub const ARCH_AMD64: &str = "amd64";
/// Value of [`ARCH`] for 64-bit ARM.
pub const ARCH_ARM64: &str = "arm64";

/// Labels every provider describes its machines with.
pub const WELL_KNOWN: &[&str] =
    &[NODEPOOL, CAPACITY_TYPE, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, WINDOWS_BUILD];

/// Labels by which the offerings of one instance type differ.
pub const OFFERING_LABELS: &[&str] = &[ZONE, CAPACITY_TYPE];

/// Resources every instance type has; a NodeOverlay cannot change them.
pub const WELL_KNOWN_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage", "pods"];

/// Old names of well-known labels, each with the name it is read as.
pub const ALIASES: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
    ("beta.kubernetes.io/os", OS),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
];

/// Finalizer on NodeClaims and nodes that holds them until their machine is gone.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";

/// Returns the part of a label key before the slash, empty if there is none.
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

/// Returns the label that names the NodeClass of a node: the class's group and its kind in lower case.
pub fn node_class_label(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

/// Labels of the KWOK provider, whose machines exist on paper only.
pub mod kwok {
    /// API group of `KWOKNodeClass` and domain of these labels.
    pub const GROUP: &str = "karpenter.kwok.sh";
    /// Name of the KWOKNodeClass.
    pub const NODE_CLASS: &str = "karpenter.kwok.sh/kwoknodeclass";
    /// Size part of the instance type.
    pub const INSTANCE_SIZE: &str = "karpenter.kwok.sh/instance-size";
    /// Family part of the instance type.
    pub const INSTANCE_FAMILY: &str = "karpenter.kwok.sh/instance-family";
    /// Number of processors.
    pub const INSTANCE_CPU: &str = "karpenter.kwok.sh/instance-cpu";
    /// Memory.
    pub const INSTANCE_MEMORY: &str = "karpenter.kwok.sh/instance-memory";
    /// Marks a node for the kwok controller; the value is [`NODE_VALUE`].
    pub const NODE: &str = "kwok.x-k8s.io/node";
    /// Value of [`NODE`].
    pub const NODE_VALUE: &str = "fake";
    /// Price per hour, read by the node viewer.
    pub const INSTANCE_PRICE: &str = "eks-node-viewer/instance-price";
    /// Partition of fake nodes.
    pub const PARTITION: &str = "kwok-partition";

    /// Labels that describe machines.
    pub const WELL_KNOWN: &[&str] = &[INSTANCE_CPU, INSTANCE_MEMORY, INSTANCE_FAMILY, INSTANCE_SIZE];
}

/// Labels of the AWS provider.
pub mod aws {
    /// API group of `EC2NodeClass` and domain of these labels.
    pub const GROUP: &str = "karpenter.k8s.aws";
    /// Name of the EC2NodeClass.
    pub const NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
    /// Zone name of the EBS volume driver, read as the zone.
    pub const EBS_ZONE: &str = "topology.ebs.csi.aws.com/zone";
    /// Identifier of the zone, the same in every account.
    pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
    /// Whether machines share their host; see [`TENANCIES`].
    pub const INSTANCE_TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
    /// Every value of [`INSTANCE_TENANCY`].
    pub const TENANCIES: &[&str] = &["dedicated", "default"];

    /// The reservation a machine is paid from.
    pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
    /// Whether the owner of the reservation may take it back.
    pub const CAPACITY_RESERVATION_INTERRUPTIBLE: &str =
        "karpenter.k8s.aws/capacity-reservation-interruptible";
    /// `default` or `capacity-block`.
    pub const CAPACITY_RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
    /// How many accelerators, which are not GPUs.
    pub const INSTANCE_ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
    /// Who makes the accelerators.
    pub const INSTANCE_ACCELERATOR_MANUFACTURER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
    /// What the accelerators are called.
    pub const INSTANCE_ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
    /// Whether the family is one of the `-flex` ones.
    pub const INSTANCE_CAPABILITY_FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
    /// The letters a family begins with.
    pub const INSTANCE_CATEGORY: &str = "karpenter.k8s.aws/instance-category";
    /// Number of virtual processors.
    pub const INSTANCE_CPU: &str = "karpenter.k8s.aws/instance-cpu";
    /// Who makes the processor.
    pub const INSTANCE_CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
    /// Clock of the processor.
    pub const INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ: &str =
        "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
    /// Bandwidth to volumes in Mbit/s, at most.
    pub const INSTANCE_EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
    /// Whether traffic between machines is encrypted.
    pub const INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED: &str =
        "karpenter.k8s.aws/instance-encryption-in-transit-supported";
    /// The part of the name before the dot.
    pub const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
    /// The number in the family.
    pub const INSTANCE_GENERATION: &str = "karpenter.k8s.aws/instance-generation";
    /// How many GPUs.
    pub const INSTANCE_GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
    /// Who makes the GPUs.
    pub const INSTANCE_GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
    /// Memory of one GPU in MiB.
    pub const INSTANCE_GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
    /// What the GPUs are called.
    pub const INSTANCE_GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
    /// `nitro`, `xen`, or empty on bare metal.
    pub const INSTANCE_HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
    /// Disks inside the machine, in GB.
    pub const INSTANCE_LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
    /// Memory in MiB.
    pub const INSTANCE_MEMORY: &str = "karpenter.k8s.aws/instance-memory";
    /// Network bandwidth that can be relied upon, in Mbit/s.
    pub const INSTANCE_NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
    /// The part of the name after the dot.
    pub const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";
    /// The placement group of the class.
    pub const PLACEMENT_GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
    /// The partition of the placement group.
    pub const PLACEMENT_GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

    /// Labels that describe machines.
    pub const WELL_KNOWN: &[&str] = &[
        CAPACITY_RESERVATION_ID,
        CAPACITY_RESERVATION_INTERRUPTIBLE,
        CAPACITY_RESERVATION_TYPE,
        INSTANCE_ACCELERATOR_COUNT,
        INSTANCE_ACCELERATOR_MANUFACTURER,
        INSTANCE_ACCELERATOR_NAME,
        INSTANCE_CAPABILITY_FLEX,
        INSTANCE_CATEGORY,
        INSTANCE_CPU,
        INSTANCE_CPU_MANUFACTURER,
        INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ,
        INSTANCE_EBS_BANDWIDTH,
        INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED,
        INSTANCE_FAMILY,
        INSTANCE_GENERATION,
        INSTANCE_GPU_COUNT,
        INSTANCE_GPU_MANUFACTURER,
        INSTANCE_GPU_MEMORY,
        INSTANCE_GPU_NAME,
        INSTANCE_HYPERVISOR,
        INSTANCE_LOCAL_NVME,
        INSTANCE_MEMORY,
        INSTANCE_NETWORK_BANDWIDTH,
        INSTANCE_SIZE,
        INSTANCE_TENANCY,
        PLACEMENT_GROUP_ID,
        PLACEMENT_GROUP_PARTITION,
        ZONE_ID,
    ];

    /// Resources the provider itself computes for its instance types.
    pub const WELL_KNOWN_RESOURCES: &[&str] = &[
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "habana.ai/gaudi",
        "vpc.amazonaws.com/efa",
        "vpc.amazonaws.com/pod-eni",
    ];
}

/// Labels of the Alibaba Cloud provider in every dialect that manifests are written in.
///
/// Three API groups of `ECSNodeClass` are in use, and two spellings of the instance labels
/// (`instance-family`, `ecs-instance-family`). Nodes carry all of them. The spellings are labels in their
/// own right and not aliases, because the values differ for some families: `ecs.t6` in one dialect is
/// `ecs.t6-c1m1`, `ecs.t6-c1m2`, … in the other.
pub mod alibabacloud {
    /// The group whose label domain is reserved.
    pub const GROUP: &str = "karpenter.k8s.alibabacloud";
    /// The same group as platform handbooks spell it.
    pub const GROUP_COM: &str = "karpenter.k8s.alibabacloud.com";
    /// The group of the Container Service provider.
    pub const GROUP_ACS: &str = "karpenter.alibabacloud.com";
    /// Name of the ECSNodeClass of [`GROUP`].
    pub const NODE_CLASS: &str = "karpenter.k8s.alibabacloud/ecsnodeclass";
    /// Zone name of the disk driver, read as the zone.
    pub const DISK_ZONE: &str = "topology.diskplugin.csi.alibabacloud.com/zone";
    /// Identifier of the zone.
    pub const ZONE_ID: &str = "topology.k8s.alibabacloud/zone-id";

    /// Labels that describe machines, all dialects.
    pub const WELL_KNOWN: &[&str] = &[
        "karpenter.alibabacloud.com/instance-category",
        "karpenter.alibabacloud.com/instance-cpu",
        "karpenter.alibabacloud.com/instance-cpu-model",
        "karpenter.alibabacloud.com/instance-family",
        "karpenter.alibabacloud.com/instance-generation",
        "karpenter.alibabacloud.com/instance-gpu-count",
        "karpenter.alibabacloud.com/instance-gpu-manufacturer",
        "karpenter.alibabacloud.com/instance-gpu-memory",
        "karpenter.alibabacloud.com/instance-gpu-name",
        "karpenter.alibabacloud.com/instance-memory",
        "karpenter.alibabacloud.com/instance-size",
        "karpenter.k8s.alibabacloud.com/ecs-instance-category",
        "karpenter.k8s.alibabacloud.com/ecs-instance-cpu",
        "karpenter.k8s.alibabacloud.com/ecs-instance-cpu-model",
        "karpenter.k8s.alibabacloud.com/ecs-instance-family",
        "karpenter.k8s.alibabacloud.com/ecs-instance-generation",
        "karpenter.k8s.alibabacloud.com/ecs-instance-gpu-count",
        "karpenter.k8s.alibabacloud.com/ecs-instance-gpu-manufacturer",
        "karpenter.k8s.alibabacloud.com/ecs-instance-gpu-memory",
        "karpenter.k8s.alibabacloud.com/ecs-instance-gpu-name",
        "karpenter.k8s.alibabacloud.com/ecs-instance-memory",
        "karpenter.k8s.alibabacloud.com/ecs-instance-size",
        "karpenter.k8s.alibabacloud.com/instance-category",
        "karpenter.k8s.alibabacloud.com/instance-cpu",
        "karpenter.k8s.alibabacloud.com/instance-cpu-model",
        "karpenter.k8s.alibabacloud.com/instance-family",
        "karpenter.k8s.alibabacloud.com/instance-generation",
        "karpenter.k8s.alibabacloud.com/instance-gpu-count",
        "karpenter.k8s.alibabacloud.com/instance-gpu-manufacturer",
        "karpenter.k8s.alibabacloud.com/instance-gpu-memory",
        "karpenter.k8s.alibabacloud.com/instance-gpu-name",
        "karpenter.k8s.alibabacloud.com/instance-memory",
        "karpenter.k8s.alibabacloud.com/instance-size",
        "karpenter.k8s.alibabacloud/instance-category",
        "karpenter.k8s.alibabacloud/instance-cpu",
        "karpenter.k8s.alibabacloud/instance-cpu-model",
        "karpenter.k8s.alibabacloud/instance-family",
        "karpenter.k8s.alibabacloud/instance-generation",
        "karpenter.k8s.alibabacloud/instance-gpu-count",
        "karpenter.k8s.alibabacloud/instance-gpu-manufacturer",
        "karpenter.k8s.alibabacloud/instance-gpu-memory",
        "karpenter.k8s.alibabacloud/instance-gpu-name",
        "karpenter.k8s.alibabacloud/instance-memory",
        "karpenter.k8s.alibabacloud/instance-size",
        "node.kubernetes.io/instance-family",
        "node.kubernetes.io/instance-size",
        ZONE_ID,
    ];
}
