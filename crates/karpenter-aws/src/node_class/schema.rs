//! The schema of EC2NodeClass: shape, defaults and rules, as the API server enforces them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrBool,
};
use karpenter_api::crd::{CrdDocument, Scope, column};
use karpenter_api::schema::{self, ConditionReason, SchemaExt};
use serde_json::json;

use super::EC2NodeClass;

const FAMILIES: &[&str] =
    &["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"];
const SWITCH: &[&str] = &["enabled", "disabled"];
const RESERVATION_ID: &str = "^cr-[0-9a-z]+$";
const ACCOUNT: &str = "^[0-9]{12}$";
const MATCH_CRITERIA: &[&str] = &["open", "targeted"];
/// At most 59000Gi, 64000G, 58Ti and 64T; empty alternatives are upstream's, and admit `Ti` and `T` alone.
const VOLUME_SIZE: &str = "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$";

/// Returns the CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let mut schema = schema::root(
        "How machines on EC2 are found, built and configured. NodePools name one in nodeClassRef.",
        spec(),
        status(),
    );
    // Upstream asks for no spec here: what a spec must say is asked of the spec itself.
    schema.required = None;
    let document = CrdDocument {
        short_names: &["ec2nc", "ec2ncs"],
        category: "karpenter",
        columns: vec![
            column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#, 0),
            column("Age", "date", ".metadata.creationTimestamp", 0),
            column("Role", "string", ".spec.role", 1),
        ],
        scale: None,
        schema,
    };
    karpenter_api::crd::definition::<EC2NodeClass>(Scope::Cluster, document)
}

fn boolean(description: &str) -> JSONSchemaProps {
    JSONSchemaProps { type_: Some("boolean".to_owned()), ..schema::string(description) }
}

fn spec() -> JSONSchemaProps {
    let properties = selectors().into_iter().chain(machine()).chain(devices());
    schema::object("What machines of this class look like.", properties)
        .require(&["amiSelectorTerms", "securityGroupSelectorTerms", "subnetSelectorTerms"])
        .rules([
            (
                "(has(self.role) && !has(self.instanceProfile)) || (!has(self.role) && has(self.instanceProfile))",
                "must specify exactly one of ['role', 'instanceProfile']",
            ),
            (
                "self.amiSelectorTerms.exists(x, has(x.alias)) ? true : has(self.amiFamily)",
                "must specify amiFamily if amiSelectorTerms does not contain an alias",
            ),
        ])
        .rules(FAMILIES.iter().filter(|family| **family != "Custom").map(|family| family_rule(family)))
}

/// An alias says the family; only `Custom` may say otherwise.
fn family_rule(family: &str) -> (String, String) {
    let article = if family.starts_with("AL") { "an" } else { "a" };
    let alias = family.to_lowercase();
    (
        format!(
            "!has(self.amiFamily) || (self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == '{alias}') ? \
             (self.amiFamily == 'Custom' || self.amiFamily == '{family}') : true)"
        ),
        format!("if set, amiFamily must be '{family}' or 'Custom' when using {article} {family} alias"),
    )
}

type Properties = Vec<(&'static str, JSONSchemaProps)>;

/// What machines are put together from.
fn selectors() -> Properties {
    vec![
        ("amiSelectorTerms", images()),
        ("capacityReservationSelectorTerms", reservations()),
        ("placementGroupSelector", placement_group()),
        ("securityGroupSelectorTerms", security_groups()),
        ("subnetSelectorTerms", subnets()),
    ]
}

fn selector_tags() -> JSONSchemaProps {
    schema::map("Tags that must all be there; the value * stands for any.", schema::plain_string())
        .max_properties(20)
        .rules([("self.all(k, k != '' && self[k] != '')", "empty tag keys or values aren't supported")])
}

fn images() -> JSONSchemaProps {
    let alias = schema::string(
        "Family and version of an image that AWS publishes for EKS, as in al2023@v20240703 or bottlerocket@latest. Must be the only term.",
    )
    .max_length(30)
    .rules([
        (
            "self.matches('^[a-zA-Z0-9]+@.+$')",
            "'alias' is improperly formatted, must match the format 'family@version'",
        ),
        (
            "self.split('@')[0] in ['al2','al2023','bottlerocket','windows2019','windows2022','windows2025']",
            "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025'",
        ),
        (
            "self.split('@')[0] in ['windows2019','windows2022','windows2025'] ? self.split('@')[1] == 'latest' : true",
            "windows families may only specify version 'latest'",
        ),
    ]);
    let term = schema::object(
        "Selects images that match everything it says.",
        [
            ("alias", alias),
            ("id", schema::string("The image itself.").pattern("ami-[0-9a-z]+")),
            ("name", schema::string("The name of the image, which may hold wildcards.")),
            ("owner", schema::string("Who owns the image: an account, self, amazon or aws-marketplace.")),
            ("ssmParameter", schema::string("Name or ARN of a parameter of SSM that holds the id.")),
            ("tags", selector_tags()),
        ],
    );
    let list = schema::list("Which images machines start from: those any term selects.", term).max_items(30).rules([
        (
            "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
            "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']",
        ),
        (
            "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        ),
        (
            "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
            "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        ),
        (
            "!(self.exists(x, has(x.alias)) && self.size() != 1)",
            "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
        ),
    ]);
    JSONSchemaProps { min_items: Some(1), ..list }
}

fn reservations() -> JSONSchemaProps {
    let term = schema::object(
        "Selects reservations that match everything it says.",
        [
            ("id", schema::string("The reservation itself.").pattern(RESERVATION_ID)),
            (
                "instanceMatchCriteria",
                schema::string("Who may use the reservation: whoever fits, or who names it.")
                    .one_of(MATCH_CRITERIA),
            ),
            ("ownerID", schema::string("The account that owns it.").pattern(ACCOUNT)),
            ("tags", selector_tags()),
        ],
    );
    schema::list("Which capacity reservations machines may use: those any term selects.", term).max_items(30).rules([
        (
            "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
            "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']",
        ),
        (
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
            "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
        ),
    ])
}

fn placement_group() -> JSONSchemaProps {
    schema::object(
        "Which placement group machines go to.",
        [
            ("id", schema::string("The group's id.").pattern("^pg-[0-9a-z]+$")),
            ("name", schema::string("The group's name.").min_length(1)),
        ],
    )
    .rules([
        ("has(self.name) || has(self.id)", "expected at least one, got none, ['name', 'id']"),
        ("!(has(self.name) && has(self.id))", "'name' and 'id' are mutually exclusive"),
    ])
}

fn security_groups() -> JSONSchemaProps {
    let term = schema::object(
        "Selects security groups that match everything it says.",
        [
            ("id", schema::string("The group itself.").pattern("sg-[0-9a-z]+")),
            ("name", schema::string("The group's own name, which is not its Name tag.")),
            ("tags", selector_tags()),
        ],
    );
    schema::list("Which security groups machines belong to: those any term selects.", term).max_items(30).rules([
        ("self.size() != 0", "securityGroupSelectorTerms cannot be empty"),
        (
            "self.all(x, has(x.tags) || has(x.id) || has(x.name))",
            "expected at least one, got none, ['tags', 'id', 'name']",
        ),
        (
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
        ),
        (
            "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
            "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
        ),
    ])
}

fn subnets() -> JSONSchemaProps {
    let term = schema::object(
        "Selects subnets that match everything it says.",
        [("id", schema::string("The subnet itself.").pattern("subnet-[0-9a-z]+")), ("tags", selector_tags())],
    );
    schema::list("Which subnets machines go to: those any term selects.", term).max_items(30).rules([
        ("self.size() != 0", "subnetSelectorTerms cannot be empty"),
        ("self.all(x, has(x.tags) || has(x.id))", "expected at least one, got none, ['tags', 'id']"),
        (
            "!self.all(x, has(x.id) && has(x.tags))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term",
        ),
    ])
}

/// What a machine is told, and who it is.
fn machine() -> Properties {
    let never_empty = |name: &str, description: &str| {
        schema::string(description).rules([("self != ''".to_owned(), format!("{name} cannot be empty"))])
    };
    let family = "How user data is written, and which defaults apply. An alias says it already; without one it is needed.";
    vec![
        ("amiFamily", schema::string(family).one_of(FAMILIES)),
        ("connectionTracking", connection_tracking()),
        ("context", schema::string("Passed on to EC2 with every launch.")),
        (
            "cpuOptions",
            schema::object(
                "What processors must be able to do.",
                [(
                    "nestedVirtualization",
                    schema::string("Whether machines can run machines; enabled leaves only types that can.")
                        .one_of(SWITCH),
                )],
            ),
        ),
        ("detailedMonitoring", boolean("Whether metrics come every minute instead of every five.")),
        (
            "instanceProfile",
            never_empty("instanceProfile", "The instance profile of the machines. Not together with role."),
        ),
        (
            "instanceStorePolicy",
            schema::string("What is done with local disks: RAID0 joins them for pods and logs.")
                .one_of(&["RAID0"]),
        ),
        ("kubelet", kubelet()),
        ("metadataOptions", metadata_options()),
        (
            "role",
            never_empty(
                "role",
                "The role of the machines, for which an instance profile is made. Not together with instanceProfile.",
            ),
        ),
        ("tags", resource_tags()),
        (
            "userData",
            schema::string("The user's part of the user data, in the form the image family asks for."),
        ),
    ]
}

/// What a class may say about the kubelet is looked at by the controller, which knows the image family.
fn kubelet() -> JSONSchemaProps {
    let anything =
        JSONSchemaProps { x_kubernetes_preserve_unknown_fields: Some(true), ..JSONSchemaProps::default() };
    JSONSchemaProps {
        additional_properties: Some(JSONSchemaPropsOrBool::Schema(Box::new(anything))),
        properties: None,
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..schema::object("Configuration of the kubelet, in Kubernetes' own words.", [])
    }
}

fn resource_tags() -> JSONSchemaProps {
    schema::map("Tags for everything that is created for this class.", schema::plain_string()).rules([
        ("self.all(k, k != '')", "empty tag keys aren't supported"),
        (
            "self.all(k, k !='eks:eks-cluster-name')",
            "tag contains a restricted tag matching eks:eks-cluster-name",
        ),
        (
            "self.all(k, !k.startsWith('kubernetes.io/cluster') )",
            "tag contains a restricted tag matching kubernetes.io/cluster/",
        ),
        (
            "self.all(k, k != 'karpenter.sh/nodepool')",
            "tag contains a restricted tag matching karpenter.sh/nodepool",
        ),
        (
            "self.all(k, k !='karpenter.sh/nodeclaim')",
            "tag contains a restricted tag matching karpenter.sh/nodeclaim",
        ),
        (
            "self.all(k, k !='karpenter.k8s.aws/ec2nodeclass')",
            "tag contains a restricted tag matching karpenter.k8s.aws/ec2nodeclass",
        ),
    ])
}

fn connection_tracking() -> JSONSchemaProps {
    let seconds =
        |description: &str, from: i32, to: i32| schema::integer(description, Some("int32")).range(from, to);
    schema::object(
        "After how many idle seconds connections are forgotten. Leaves only types of the Nitro system.",
        [
            ("tcpEstablishedTimeout", seconds("Established TCP connections.", 60, 432_000)),
            ("udpStreamTimeout", seconds("UDP flows with more than one request.", 60, 180)),
            ("udpTimeout", seconds("UDP flows with one request or in one direction.", 30, 60)),
        ],
    )
    .rules([(
        "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
        "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
    )])
}

fn metadata_options() -> JSONSchemaProps {
    let word = |description: &str, words: &[&str], default: &str| {
        schema::string(description).one_of(words).default_to(json!(default))
    };
    schema::object(
        "How the metadata of a machine can be reached from within. By default with a token (IMDSv2) and not from pods.",
        [
            ("httpEndpoint", word("Whether at all.", SWITCH, "enabled")),
            ("httpProtocolIPv6", word("Whether over IPv6 too.", SWITCH, "disabled")),
            (
                "httpPutResponseHopLimit",
                schema::integer("How many hops a token may travel; 2 reaches pods.", Some("int64"))
                    .range(1, 64)
                    .default_to(json!(1)),
            ),
            ("httpTokens", word("Whether a token is needed.", &["required", "optional"], "required")),
        ],
    )
    .default_to(json!({
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }))
}

/// Volumes and network interfaces.
fn devices() -> Properties {
    let public = "Whether machines get public addresses. The subnet decides where this is not set.";
    vec![
        ("associatePublicIPAddress", boolean(public)),
        ("blockDeviceMappings", block_devices()),
        (
            "ipPrefixCount",
            schema::integer("How many address prefixes the primary interface gets.", Some("int32"))
                .at_least(0),
        ),
        ("networkInterfaces", network_interfaces()),
    ]
}

fn block_devices() -> JSONSchemaProps {
    let number = |description: &str| schema::integer(description, Some("int64"));
    let volume = schema::object(
        "The volume.",
        [
            ("deleteOnTermination", boolean("Whether it goes with its machine.")),
            ("encrypted", boolean("Whether it is encrypted.")),
            ("iops", number("Operations per second, for the kinds that ask for it.")),
            ("kmsKeyID", schema::string("Id, alias or ARN of the key it is encrypted with.")),
            ("snapshotID", schema::string("The snapshot it is filled from.")),
            ("throughput", number("MiB per second, for gp3.")),
            (
                "volumeInitializationRate",
                schema::integer("MiB per second at which it is filled from its snapshot.", Some("int32"))
                    .range(100, 300),
            ),
            ("volumeSize", schema::string("Its size, as in 100Gi, 100G, 1Ti or 1T.").pattern(VOLUME_SIZE)),
            (
                "volumeType",
                schema::string("Its kind.").one_of(&["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"]),
            ),
        ],
    )
    .rules([
        ("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be defined"),
        (
            "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
            "snapshotID must be set when volumeInitializationRate is set",
        ),
    ]);
    let mapping = schema::object(
        "A volume and where it is attached.",
        [
            ("deviceName", schema::string("The device.")),
            ("ebs", volume),
            ("rootVolume", boolean("Whether the kubelet's folder is on it; at most one may say so.")),
        ],
    );
    schema::list("The volumes of machines. Without any, the image family has its defaults.", mapping)
        .max_items(50)
        .rules([(
            "self.filter(x, has(x.rootVolume)?x.rootVolume==true:false).size() <= 1",
            "must have only one blockDeviceMappings with rootVolume",
        )])
}

fn network_interfaces() -> JSONSchemaProps {
    let index = |description: &str| schema::integer(description, Some("int32")).at_least(0);
    let interface = schema::object(
        "One network interface.",
        [
            ("deviceIndex", index("Which of the card's interfaces it is.")),
            (
                "interfaceType",
                schema::string("A usual interface, or one for EFA alone.").one_of(&["interface", "efa-only"]),
            ),
            ("networkCardIndex", index("Which card it is on.")),
        ],
    )
    .require(&["deviceIndex", "interfaceType", "networkCardIndex"]);
    schema::list("The network interfaces of machines. Without any there is one usual interface.", interface)
        .max_items(150)
        .rules([
            (
                "self.size() == 0 || self.exists(x, x.deviceIndex == 0 && x.networkCardIndex == 0 && x.interfaceType == 'interface')",
                "networkInterfaces must include a primary interface with interfaceType='interface'",
            ),
            (
                "self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex).size() == 1 && (x.interfaceType != 'efa-only' || self.filter(y, x.networkCardIndex == y.networkCardIndex && y.interfaceType == 'efa-only').size() == 1))",
                "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one efa device per network card",
            ),
        ])
}

fn status() -> JSONSchemaProps {
    let conditions = JSONSchemaProps {
        x_kubernetes_list_map_keys: None,
        x_kubernetes_list_type: None,
        ..schema::conditions("Whether machines can be launched, and why not.", ConditionReason::Required)
    };
    schema::object(
        "What was found in the cloud.",
        [
            ("amis", schema::list("The images selected, newest first.", selected_image())),
            (
                "capacityReservations",
                schema::list("The capacity reservations selected.", selected_reservation()),
            ),
            ("conditions", conditions),
            ("instanceProfile", schema::string("The instance profile in use.")),
            (
                "securityGroups",
                schema::list(
                    "The security groups selected.",
                    schema::object(
                        "A security group.",
                        [("id", schema::string("Its id.")), ("name", schema::string("Its name."))],
                    )
                    .require(&["id"]),
                ),
            ),
            (
                "subnets",
                schema::list(
                    "The subnets selected, those with most free addresses first.",
                    schema::object(
                        "A subnet.",
                        [
                            ("id", schema::string("Its id.")),
                            ("zone", schema::string("The name of its zone.")),
                            ("zoneID", schema::string("The id of its zone.")),
                        ],
                    )
                    .require(&["id", "zone"]),
                ),
            ),
        ],
    )
}

fn selected_image() -> JSONSchemaProps {
    let requirement = schema::object(
        "A condition on a label of the instance type.",
        [
            ("key", schema::string("The label.")),
            ("operator", schema::string("How its value is compared.")),
            ("values", schema::list("What it is compared with.", schema::plain_string()).list_type("atomic")),
        ],
    )
    .require(&["key", "operator"]);
    schema::object(
        "An image.",
        [
            ("deprecated", boolean("Whether it should no longer be used.")),
            ("id", schema::string("Its id.")),
            ("name", schema::string("Its name.")),
            ("requirements", schema::list("Which instance types it fits.", requirement)),
        ],
    )
    .require(&["id", "requirements"])
}

fn selected_reservation() -> JSONSchemaProps {
    let word = |description: &str, words: &[&str], default: &str| {
        schema::string(description).one_of(words).default_to(json!(default))
    };
    schema::object(
        "A capacity reservation.",
        [
            ("availabilityZone", schema::string("The zone it is in.")),
            ("endTime", schema::date_time("When it ends; never where this is absent.")),
            ("id", schema::string("Its id.").pattern(RESERVATION_ID)),
            ("instanceMatchCriteria", schema::string("Who may use it.").one_of(MATCH_CRITERIA)),
            ("instanceType", schema::string("The instance type it holds.")),
            ("interruptible", boolean("Whether it may be taken back.")),
            ("ownerID", schema::string("The account that owns it.").pattern(ACCOUNT)),
            (
                "reservationType",
                word("What kind of reservation it is.", &["default", "capacity-block"], "default"),
            ),
            ("state", word("Whether it is about to end.", &["active", "expiring"], "active")),
        ],
    )
    .require(&["availabilityZone", "id", "instanceMatchCriteria", "instanceType", "ownerID"])
}
