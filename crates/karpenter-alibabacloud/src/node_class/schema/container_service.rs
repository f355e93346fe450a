//! What `karpenter.alibabacloud.com` admits.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use karpenter_api::schema::{self, SchemaExt};
use serde_json::json;

use super::{
    PERFORMANCE_LEVELS, Properties, at_least_one, boolean, kubelet, resource_tags, selector_tags, user_data,
};
use crate::node_class::conversion::CATEGORIES;
use crate::node_class::model::Dialect;

pub(super) fn spec() -> JSONSchemaProps {
    let properties = selectors().into_iter().chain(cluster()).chain(disks()).chain(machine());
    schema::object("What machines of this class look like.", properties)
        .require(&["imageSelectorTerms", "securityGroupSelectorTerms", "vSwitchSelectorTerms"])
        .rules([(
            "!has(self.spotStrategy) || self.spotStrategy != 'SpotWithPriceLimit' || has(self.spotPriceLimit)",
            "spotPriceLimit must be set when spotStrategy is SpotWithPriceLimit",
        )])
}

fn selectors() -> Properties {
    let v_switch = schema::object(
        "Selects vSwitches that match everything it says.",
        [
            ("id", schema::string("The vSwitch itself.")),
            ("tags", selector_tags()),
            ("zoneID", schema::string("The zone it is in.")),
        ],
    );
    let group = schema::object(
        "Selects security groups that match everything it says.",
        [
            ("id", schema::string("The group itself.")),
            ("name", schema::string("The group's own name, which is not its Name tag.")),
            ("tags", selector_tags()),
        ],
    );
    let reservation = schema::object(
        "Selects capacity reservations that match everything it says.",
        [("id", schema::string("The reservation itself.")), ("tags", selector_tags())],
    );
    vec![
        (
            "vSwitchSelectorTerms",
            at_least_one(schema::list("Which vSwitches machines go to: those any term selects.", v_switch))
                .max_items(30)
                .rules([(
                    "self.all(x, has(x.tags) || has(x.id) || has(x.zoneID))",
                    "expected at least one, got none, ['tags', 'id', 'zoneID']",
                )]),
        ),
        (
            "securityGroupSelectorTerms",
            at_least_one(schema::list(
                "Which security groups machines belong to: those any term selects.",
                group,
            ))
            .max_items(30)
            .rules([(
                "self.all(x, has(x.tags) || has(x.id) || has(x.name))",
                "expected at least one, got none, ['tags', 'id', 'name']",
            )]),
        ),
        ("imageSelectorTerms", images()),
        (
            "capacityReservationSelectorTerms",
            schema::list(
                "Which capacity reservations machines may use: those any term selects.",
                reservation,
            )
            .max_items(30)
            .rules([(
                "self.all(x, has(x.tags) || has(x.id))",
                "expected at least one, got none, ['tags', 'id']",
            )]),
        ),
        (
            "capacityReservationPreference",
            schema::string("Whether open reservations are used where they fit, only selected ones, or none.")
                .one_of(&["open", "target", "none"]),
        ),
    ]
}

fn images() -> JSONSchemaProps {
    let term = schema::object(
        "Selects images. Of those that fit a machine's architecture the first term's newest is used.",
        [
            (
                "id",
                schema::string(
                    "The image itself, as in aliyun_3_x64_20G_container_optimized_alibase_20250629.vhd.",
                ),
            ),
            (
                "imageFamily",
                schema::string(
                    "The newest image of an ECS image family, as in acs:alibaba_cloud_linux_3_2104_lts_x64. Wins over the id.",
                ),
            ),
            (
                "imageOwnerAlias",
                schema::string("Who owns the image.").one_of(&["system", "self", "others", "marketplace"]),
            ),
            ("imageOwnerID", schema::string("The account that owns the image.")),
            ("name", schema::string("The name of the image, which may hold wildcards.")),
            ("tags", selector_tags()),
        ],
    );
    at_least_one(schema::list("Which images machines start from.", term)).max_items(30).rules([(
        "self.all(x, has(x.id) || has(x.imageFamily) || has(x.name) || has(x.tags))",
        "expected at least one, got none, ['id', 'imageFamily', 'name', 'tags']",
    )])
}

fn cluster() -> Properties {
    vec![
        (
            "clusterID",
            schema::string("The ACK cluster machines join. Where it is empty, the controller's CLUSTER_ID."),
        ),
        ("clusterName", schema::string("The cluster's name.")),
        ("clusterEndpoint", schema::string("Where the cluster's API server is.")),
    ]
}

fn disks() -> Properties {
    let level = || schema::string("How fast an ESSD is.").one_of(PERFORMANCE_LEVELS);
    let key = || schema::string("The key it is encrypted with; the service's own where there is none.");
    let system = schema::object(
        "The disk machines start from.",
        [
            ("category", schema::string("Its category.").one_of(&CATEGORIES).default_to(json!("cloud_essd"))),
            ("encrypted", boolean("Whether it is encrypted.")),
            ("kmsKeyID", key()),
            ("performanceLevel", level().default_to(json!("PL0"))),
            (
                "size",
                schema::integer("Its size in GiB.", Some("int32")).range(20, 2048).default_to(json!(40)),
            ),
        ],
    );
    let data = schema::object(
        "A further disk.",
        [
            ("category", schema::string("Its category.").one_of(&CATEGORIES)),
            ("deleteWithInstance", boolean("Whether it goes with its machine.").default_to(json!(true))),
            ("device", schema::string("The device, as in /dev/xvdb.")),
            ("encrypted", boolean("Whether it is encrypted.")),
            ("kmsKeyID", key()),
            ("performanceLevel", level()),
            ("size", schema::integer("Its size in GiB.", Some("int32")).range(20, 32768)),
            ("snapshotID", schema::string("The snapshot it is filled from.")),
        ],
    )
    .require(&["category", "size"]);
    vec![
        ("systemDisk", system),
        ("dataDisks", schema::list("Further disks of machines.", data).max_items(16)),
    ]
}

fn machine() -> Properties {
    let price = JSONSchemaProps {
        type_: Some("number".to_owned()),
        ..schema::string("The most that is paid for a spot machine per hour, with SpotWithPriceLimit.")
    };
    vec![
        ("kubelet", kubelet()),
        (
            "launchTemplateID",
            schema::string("A launch template whose settings apply where the class says nothing."),
        ),
        ("metadataOptions", metadata_options()),
        ("role", schema::string("The RAM role of machines. ECS must be allowed to assume it.")),
        ("spotPriceLimit", price),
        (
            "spotStrategy",
            schema::string("What is bid for spot machines: up to the list price, or up to spotPriceLimit.")
                .one_of(&["SpotAsPriceGo", "SpotWithPriceLimit"]),
        ),
        ("tags", resource_tags(Dialect::ContainerService)),
        ("userData", user_data()),
    ]
}

fn metadata_options() -> JSONSchemaProps {
    let word = |description: &str, words: &[&str], default: &str| {
        schema::string(description).one_of(words).default_to(json!(default))
    };
    schema::object(
        "How the metadata of a machine can be reached from within.",
        [
            ("httpEndpoint", word("Whether at all.", &["enabled", "disabled"], "enabled")),
            (
                "httpPutResponseHopLimit",
                schema::integer("How many hops a token may travel.", Some("int32"))
                    .range(1, 64)
                    .default_to(json!(1)),
            ),
            ("httpTokens", word("Whether a token is needed.", &["optional", "required"], "optional")),
        ],
    )
}

pub(super) fn status() -> JSONSchemaProps {
    super::status(
        vec![
            (
                "availableIPAddressCount",
                schema::integer("Addresses that were free when it was looked at.", Some("int64")),
            ),
            ("zone", schema::string("Its zone.")),
            ("zoneID", schema::string("Its zone.")),
        ],
        vec![("architecture", schema::string("The machines it runs on: x86_64 or arm64."))],
        vec![("ready", boolean("Whether machines can be launched."))],
    )
}
