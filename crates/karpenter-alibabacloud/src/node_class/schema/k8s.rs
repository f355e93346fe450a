//! What `karpenter.k8s.alibabacloud` admits, and `karpenter.k8s.alibabacloud.com` with a handbook's further words.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use karpenter_api::schema::{self, SchemaExt};
use serde_json::json;

use super::{
    PERFORMANCE_LEVELS, Properties, at_least_one, boolean, kubelet, resource_tags, selector_tags, user_data,
};
use crate::node_class::conversion::CATEGORIES;
use crate::node_class::model::Dialect;

/// At most 59000Gi, 64000G, 58Ti and 64T.
const VOLUME_SIZE: &str = "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$";
const PASSWORD: &str = r"^[A-Za-z0-9()`~!@#$%^&*_\-+=|{}\[\]:;'<>,.?/]{8,30}$";

pub(super) fn spec(dialect: Dialect) -> JSONSchemaProps {
    let handbook = dialect == Dialect::Handbook;
    let mut properties: Properties = vec![
        ("imageSelectorTerms", images(handbook)),
        ("securityGroupSelectorTerms", security_groups()),
        ("vSwitchSelectorTerms", v_switches()),
        (
            "vSwitchSelectionPolicy",
            schema::string(
                "Whether a machine goes where it is cheapest, or where the NodePool has fewest machines.",
            )
            .one_of(&["balanced", "cheapest"])
            .default_to(json!("cheapest")),
        ),
        (
            "resourceGroupId",
            schema::string("The resource group of everything that is created.").pattern("rg-[0-9a-z]+"),
        ),
        ("systemDisk", system_disk(handbook)),
    ];
    properties.extend(data_disks());
    properties.extend(machine(dialect));
    if handbook {
        properties.push((
            "amiFamily",
            schema::string("The family of images, where imageSelectorTerms says no more.")
                .one_of(&["AliyunLinux", "ContainerOS"]),
        ));
        properties.push((
            "ramRoleName",
            schema::string("The RAM role of machines. ECS must be allowed to assume it."),
        ));
    }
    let required: &[&str] = if handbook {
        &["securityGroupSelectorTerms", "vSwitchSelectorTerms"]
    } else {
        &["imageSelectorTerms", "securityGroupSelectorTerms", "vSwitchSelectorTerms"]
    };
    schema::object("What machines of this class look like.", properties).require(required).rules([(
        "!has(self.password) || !has(self.passwordInherit) || !self.passwordInherit",
        "password cannot be set when passwordInherit is true",
    )])
}

fn v_switches() -> JSONSchemaProps {
    let term = schema::object(
        "Selects vSwitches, by tags or by id.",
        [("id", schema::string("The vSwitch itself.").pattern("vsw-[0-9a-z]+")), ("tags", selector_tags())],
    );
    schema::list("Which vSwitches machines go to: those any term selects.", term).max_items(30).rules([
        ("self.size() != 0", "vSwitchSelectorTerms cannot be empty"),
        ("self.all(x, has(x.tags) || has(x.id))", "expected at least one, got none, ['tags', 'id']"),
        (
            "self.all(x, !(has(x.id) && has(x.tags)))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in vSwitchSelectorTerms",
        ),
    ])
}

fn security_groups() -> JSONSchemaProps {
    let term = schema::object(
        "Selects security groups, by tags, by id or by name.",
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
            "self.all(x, !(has(x.id) && (has(x.tags) || has(x.name))))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in securityGroupSelectorTerms",
        ),
        (
            "self.all(x, !(has(x.name) && (has(x.tags) || has(x.id))))",
            "'name' is mutually exclusive, cannot be set with a combination of other fields in securityGroupSelectorTerms",
        ),
    ])
}

/// With or without a version: both ways of writing an alias are in use.
fn images(optional: bool) -> JSONSchemaProps {
    let alias = schema::string(
        "A family of images that ACK publishes, as in ContainerOS or AlibabaCloudLinux3@latest. After the @ may stand a part of the image's name. Must be the only term.",
    )
    .max_length(30)
    .rules([
        (
            "self.matches('^[a-zA-Z0-9]+(@.+)?$')",
            "'alias' is improperly formatted, must match the format 'family' or 'family@version'",
        ),
        (
            "self.split('@')[0] in ['AlibabaCloudLinux3','ContainerOS']",
            "family is not supported, must be one of the following: 'AlibabaCloudLinux3', 'ContainerOS'",
        ),
    ]);
    let term = schema::object(
        "Selects images, by id or by alias.",
        [("alias", alias), ("id", schema::string("The image itself."))],
    );
    let list = schema::list("Which images machines start from.", term).max_items(30).rules([
        ("self.all(x, has(x.id) || has(x.alias))", "expected at least one, got none, ['id', 'alias']"),
        (
            "!self.exists(x, has(x.id) && has(x.alias))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in imageSelectorTerms",
        ),
        (
            "!(self.exists(x, has(x.alias)) && self.size() != 1)",
            "'alias' is mutually exclusive, cannot be set with a combination of other imageSelectorTerms",
        ),
    ]);
    if optional { list } else { at_least_one(list) }
}

fn system_disk(handbook: bool) -> JSONSchemaProps {
    let level = schema::string("How fast an ESSD is.").one_of(PERFORMANCE_LEVELS);
    let categories = schema::list(
        "The categories that will do, the preferred first.",
        schema::plain_string().one_of(&CATEGORIES),
    )
    .max_items(6);
    let size = schema::integer("Its size in GiB; volumeSize wins.", Some("int32"))
        .rules([("self >= 20", "size invalid, must be at least 20")]);
    let mut properties: Properties = vec![
        ("size", size),
        (
            "volumeSize",
            schema::string("Its size, as in 100Gi, 100G, 1Ti or 1T; 40Gi where nothing is said.")
                .pattern(VOLUME_SIZE),
        ),
    ];
    if handbook {
        // A default here would stand beside the one category that a class names.
        properties.extend([
            ("categories", categories),
            ("category", schema::string("The one category that will do.").one_of(&CATEGORIES)),
            ("deleteWithInstance", boolean("Whether it goes with its machine, as it always does.")),
            ("encrypted", boolean("Whether it is encrypted.")),
            ("performanceLevel", level),
        ]);
    } else {
        properties.extend([
            ("categories", categories.default_to(json!(CATEGORIES))),
            ("performanceLevel", level.default_to(json!("PL0"))),
        ]);
    }
    let disk = schema::object("The disk machines start from.", properties);
    if !handbook {
        return disk;
    }
    disk.rules([("!(has(self.category) && has(self.categories))", "set either category or categories")])
}

fn data_disks() -> Properties {
    let disk = schema::object(
        "A further disk.",
        [
            ("device", schema::string("The device, as in /dev/xvdb.")),
            (
                "volumeSize",
                schema::string("Its size, as in 100Gi.").pattern(VOLUME_SIZE).default_to(json!("20Gi")),
            ),
        ],
    );
    vec![
        ("dataDisks", schema::list("Further disks of machines.", disk).max_items(16)),
        (
            "dataDiskCategories",
            schema::list(
                "The categories of further disks, the preferred first.",
                schema::plain_string().one_of(&CATEGORIES),
            )
            .max_items(6),
        ),
        (
            "formatDataDisk",
            boolean("Whether further disks are formatted and mounted when a machine joins.")
                .default_to(json!(false)),
        ),
    ]
}

fn machine(dialect: Dialect) -> Properties {
    vec![
        (
            "keyPairName",
            schema::string("A key pair for logging in.").pattern(r"^[A-Za-z][A-Za-z\d._:-]{1,127}$"),
        ),
        ("kubeletConfiguration", kubelet()),
        (
            "password",
            schema::string("The password of root, 8 to 30 characters.")
                .pattern(PASSWORD)
                .min_length(8)
                .max_length(30),
        ),
        ("passwordInherit", boolean("Whether the password of the image is kept.").default_to(json!(false))),
        ("tags", resource_tags(dialect)),
        ("userData", user_data()),
    ]
}

pub(super) fn status() -> JSONSchemaProps {
    let requirement = schema::object(
        "A condition on a label of the instance type.",
        [
            ("key", schema::string("The label.")),
            ("operator", schema::string("How its value is compared.")),
            ("values", schema::list("What it is compared with.", schema::plain_string()).list_type("atomic")),
        ],
    )
    .require(&["key", "operator"]);
    super::status(
        vec![("zoneID", schema::string("Its zone."))],
        vec![("requirements", schema::list("Which instance types it fits.", requirement))],
        Vec::new(),
    )
}
