//! The schemas of ECSNodeClass, one for each group: shape, defaults and rules, as the API server enforces them.
//!
//! Each group keeps the field names it has in use, so existing manifests apply unchanged. Rules about terms hold for every term.

mod container_service;
mod k8s;

use k8s_openapi::ListableResource;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use karpenter_api::crd::{CrdDocument, Scope, column};
use karpenter_api::schema::{self, ConditionReason, SchemaExt};

use super::model::Dialect;

const PERFORMANCE_LEVELS: &[&str] = &["PL0", "PL1", "PL2", "PL3"];

/// Returns the three CustomResourceDefinitions.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    vec![
        definition::<super::container_service::ECSNodeClass>(
            &[],
            container_service::spec(),
            container_service::status(),
        ),
        definition::<super::handbook::ECSNodeClass>(
            &["ecsnc", "ecsncs"],
            k8s::spec(Dialect::Handbook),
            k8s::status(),
        ),
        definition::<super::cloud_pilot::ECSNodeClass>(
            &["ecsnc", "ecsncs"],
            k8s::spec(Dialect::CloudPilot),
            k8s::status(),
        ),
    ]
}

fn definition<K: ListableResource>(
    short_names: &'static [&'static str],
    spec: JSONSchemaProps,
    status: JSONSchemaProps,
) -> CustomResourceDefinition {
    let description = "How machines on ECS are found, built and configured. NodePools name one in nodeClassRef, its group included.";
    let mut schema = schema::root(description, spec, status);
    // What a spec must say is asked of the spec itself.
    schema.required = None;
    let document = CrdDocument {
        short_names,
        category: "karpenter",
        columns: vec![
            column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#, 0),
            column("Age", "date", ".metadata.creationTimestamp", 0),
        ],
        scale: None,
        schema,
    };
    karpenter_api::crd::definition::<K>(Scope::Cluster, document)
}

type Properties = Vec<(&'static str, JSONSchemaProps)>;

fn boolean(description: &str) -> JSONSchemaProps {
    JSONSchemaProps { type_: Some("boolean".to_owned()), ..schema::string(description) }
}

fn at_least_one(list: JSONSchemaProps) -> JSONSchemaProps {
    JSONSchemaProps { min_items: Some(1), ..list }
}

fn selector_tags() -> JSONSchemaProps {
    schema::map(
        "Tags that must all be there. In values, * stands for any text and ? for any character.",
        schema::plain_string().max_length(128),
    )
    .max_properties(20)
    .rules([("self.all(k, k != '' && self[k] != '')", "empty tag keys or values aren't supported")])
}

/// Tags that say whose a machine is are not the user's to set.
fn resource_tags(dialect: Dialect) -> JSONSchemaProps {
    let ours = ["ecs:ecs-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim"];
    let ours = ours.map(str::to_owned).into_iter().chain([dialect.class_label()]);
    schema::map("Tags for everything that is created for this class.", schema::plain_string())
        .rules([
            ("self.all(k, k != '')", "empty tag keys aren't supported"),
            (
                "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
                "tag contains a restricted tag matching kubernetes.io/cluster/",
            ),
            (
                "self.all(k, !k.startsWith('aliyun') && !k.startsWith('acs:'))",
                "tag keys that begin with aliyun or acs: belong to the cloud",
            ),
        ])
        .rules(ours.map(|key| {
            (format!("self.all(k, k != '{key}')"), format!("tag contains a restricted tag matching {key}"))
        }))
}

fn kubelet() -> JSONSchemaProps {
    let count = |description: &str| schema::integer(description, Some("int32")).at_least(0);
    let percent = |description: &str| schema::integer(description, Some("int32")).range(0, 100);
    schema::object(
        "Configuration of the kubelet, in Kubernetes' own words. It is passed on to nodes and counted when pods are planned.",
        [
            ("clusterDNS", schema::list("Where pods ask for names.", schema::plain_string())),
            ("cpuCFSQuota", boolean("Whether limits on processors are enforced.")),
            ("evictionHard", signals("Below which amounts pods are evicted at once.", "evictionHard")),
            (
                "evictionMaxPodGracePeriod",
                schema::integer("How many seconds pods get that are evicted after a while.", Some("int32")),
            ),
            ("evictionSoft", signals("Below which amounts pods are evicted after a while.", "evictionSoft")),
            (
                "evictionSoftGracePeriod",
                signals("How long that while is, for each signal.", "evictionSoftGracePeriod"),
            ),
            ("imageGCHighThresholdPercent", percent("How full the disk is when images are removed.")),
            ("imageGCLowThresholdPercent", percent("How full it may stay.")),
            ("kubeReserved", reserved("What Kubernetes keeps for itself.", "kubeReserved")),
            ("maxPods", count("How many pods a node carries, whatever the network would carry.")),
            ("podsPerCore", count("How many pods it carries for each processor, at most maxPods.")),
            ("systemReserved", reserved("What the system keeps for itself.", "systemReserved")),
        ],
    )
    .rules([
        (
            "has(self.imageGCHighThresholdPercent) && has(self.imageGCLowThresholdPercent) ? self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent : true",
            "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
        ),
        (
            "has(self.evictionSoft) ? self.evictionSoft.all(e, has(self.evictionSoftGracePeriod) && e in self.evictionSoftGracePeriod) : true",
            "evictionSoft OwnerKey does not have a matching evictionSoftGracePeriod",
        ),
        (
            "has(self.evictionSoftGracePeriod) ? self.evictionSoftGracePeriod.all(e, has(self.evictionSoft) && e in self.evictionSoft) : true",
            "evictionSoftGracePeriod OwnerKey does not have a matching evictionSoft",
        ),
    ])
}

fn reserved(description: &str, name: &str) -> JSONSchemaProps {
    schema::map(description, schema::plain_string().max_length(64)).max_properties(4).rules([
        (
            "self.all(x, x == 'cpu' || x == 'memory' || x == 'ephemeral-storage' || x == 'pid')".to_owned(),
            format!("valid keys for {name} are ['cpu','memory','ephemeral-storage','pid']"),
        ),
        (
            "self.all(x, !self[x].startsWith('-'))".to_owned(),
            format!("{name} value cannot be a negative resource quantity"),
        ),
    ])
}

fn signals(description: &str, name: &str) -> JSONSchemaProps {
    schema::map(description, schema::plain_string().max_length(64)).max_properties(6).rules([(
        "self.all(x, x in ['memory.available','nodefs.available','nodefs.inodesFree','imagefs.available','imagefs.inodesFree','pid.available'])"
            .to_owned(),
        format!(
            "valid keys for {name} are ['memory.available','nodefs.available','nodefs.inodesFree','imagefs.available','imagefs.inodesFree','pid.available']"
        ),
    )])
}

fn user_data() -> JSONSchemaProps {
    schema::string(
        "A script of the user's. It runs besides the one that joins the cluster; as a MIME document it may say which parts run before.",
    )
}

/// The status every group has, and what the group adds to it.
fn status(v_switch: Properties, image: Properties, more: Properties) -> JSONSchemaProps {
    let described = |description: &str, item: &str, properties: Properties| {
        let id = [("id", schema::string("Its id."))];
        schema::list(description, schema::object(item, id.into_iter().chain(properties)).require(&["id"]))
    };
    let name = || ("name", schema::string("Its name."));
    let image = std::iter::once(name()).chain(image).collect();
    let conditions =
        schema::conditions("Whether machines can be launched, and why not.", ConditionReason::Required);
    let common = vec![
        ("conditions", conditions),
        ("clusterID", schema::string("The cluster machines join.")),
        (
            "images",
            described("The images selected; the first that fits a machine is used.", "An image.", image),
        ),
        ("ramRole", schema::string("The RAM role in use.")),
        ("securityGroups", described("The security groups selected.", "A security group.", vec![name()])),
        (
            "vSwitches",
            described(
                "The vSwitches selected, those with most free addresses first.",
                "A vSwitch.",
                v_switch,
            ),
        ),
    ];
    schema::object("What was found in the cloud.", common.into_iter().chain(more))
}
