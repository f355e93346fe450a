//! What a class means, whatever group it is written in, and what counts as a change of it.

use karpenter_alibabacloud::node_class::Dialect::{self, CloudPilot, ContainerService, Handbook};
use karpenter_alibabacloud::node_class::{
    Draft, HASH_VERSION, ImageAlias, ImageFilter, ImageTerm, Metadata, SpotBid, ZonePolicy, cloud_pilot,
    container_service, handbook, read,
};
use serde_json::{Value, json};

use crate::server::{class, with};

fn draft(dialect: Dialect, changes: &Value) -> Draft {
    let object = class(dialect, &with(dialect, changes));
    match dialect {
        ContainerService => read(&serde_json::from_value::<container_service::ECSNodeClass>(object).unwrap()),
        Handbook => read(&serde_json::from_value::<handbook::ECSNodeClass>(object).unwrap()),
        CloudPilot => read(&serde_json::from_value::<cloud_pilot::ECSNodeClass>(object).unwrap()),
    }
}

fn hash(dialect: Dialect, changes: &Value) -> String {
    draft(dialect, changes).class.hash
}

#[test]
fn images_are_read_in_every_way_they_are_written() {
    let images = |dialect, terms: Value| draft(dialect, &json!({ "imageSelectorTerms": terms })).class.images;
    let alias =
        |family, version: Option<&str>| ImageTerm::Alias { family, version: version.map(str::to_owned) };
    assert_eq!(
        images(CloudPilot, json!([{ "alias": "ContainerOS" }])),
        [alias(ImageAlias::ContainerOS, None)]
    );
    assert_eq!(
        images(CloudPilot, json!([{ "alias": "AlibabaCloudLinux3@latest" }])),
        [alias(ImageAlias::AlibabaCloudLinux3, None)]
    );
    assert_eq!(
        images(Handbook, json!([{ "alias": "ContainerOS@3.3" }])),
        [alias(ImageAlias::ContainerOS, Some("3.3"))]
    );
    assert_eq!(
        images(ContainerService, json!([{ "id": "m-1", "imageFamily": "acs:f" }])),
        [ImageTerm::Family("acs:f".to_owned())]
    );
    let filter = ImageFilter {
        name: Some("my-*".to_owned()),
        owner_alias: Some("self".to_owned()),
        ..Default::default()
    };
    assert_eq!(
        images(ContainerService, json!([{ "name": "my-*", "imageOwnerAlias": "self" }])),
        [ImageTerm::Filter(filter)]
    );
    let by_family = draft(Handbook, &json!({ "imageSelectorTerms": null, "amiFamily": "ContainerOS" }));
    assert_eq!(by_family.class.images, [alias(ImageAlias::ContainerOS, None)]);
}

#[test]
fn everything_a_class_says_about_disks_reaches_the_model() {
    let disk = json!({ "category": "cloud_essd", "size": 60, "performanceLevel": "PL2", "encrypted": true, "kmsKeyID": "k" });
    let data = json!([{ "category": "cloud_auto", "size": 200, "device": "/dev/xvdb", "encrypted": true, "kmsKeyID": "k",
        "snapshotID": "s-1", "deleteWithInstance": false, "performanceLevel": "PL1" }]);
    let class = draft(ContainerService, &json!({ "systemDisk": disk, "dataDisks": data })).class;
    let system = class.system_disk;
    assert_eq!((system.size_gib, system.performance_level.as_deref()), (60, Some("PL2")));
    assert_eq!((system.encrypted, system.kms_key.as_deref()), (true, Some("k")));
    let data = &class.data_disks[0];
    assert_eq!(
        (data.size_gib, data.snapshot.as_deref(), data.delete_with_instance),
        (200, Some("s-1"), false)
    );
    let class = draft(CloudPilot, &json!({ "systemDisk": { "volumeSize": "1Ti", "size": 20 } })).class;
    assert_eq!(class.system_disk.size_gib, 1024, "volumeSize wins and needs no controller to be copied");
    assert_eq!(draft(CloudPilot, &json!({ "systemDisk": { "size": 77 } })).class.system_disk.size_gib, 77);
    assert_eq!(draft(CloudPilot, &json!({})).class.system_disk.size_gib, 40);
}

#[test]
fn roles_metadata_bids_and_policies_reach_the_model() {
    let class = draft(
        ContainerService,
        &json!({ "role": "r", "metadataOptions": { "httpTokens": "required" }, "spotStrategy": "SpotWithPriceLimit", "spotPriceLimit": 0.5,
            "launchTemplateID": "lt-1", "capacityReservationSelectorTerms": [{ "id": "crp-1" }] }),
    )
    .class;
    assert_eq!(class.ram_role.as_deref(), Some("r"));
    assert_eq!(class.metadata, Some(Metadata { enabled: true, token_required: true, hop_limit: 1 }));
    assert_eq!(class.spot, SpotBid::Limit(0.5));
    assert_eq!(class.launch_template.as_deref(), Some("lt-1"));
    assert_eq!(class.reservations[0].id.as_deref(), Some("crp-1"));
    let class = draft(Handbook, &json!({ "ramRoleName": "r", "vSwitchSelectionPolicy": "balanced" })).class;
    assert_eq!((class.ram_role.as_deref(), class.zone_policy), (Some("r"), ZonePolicy::Balanced));
}

#[test]
fn what_no_schema_can_refuse_is_said_with_its_remedy() {
    let many: serde_json::Map<String, Value> = (0..13).map(|n| (format!("k{n}"), json!("v"))).collect();
    for (dialect, changes, expected) in [
        (Handbook, json!({ "systemDisk": { "deleteWithInstance": false } }), "set it to true"),
        (Handbook, json!({ "systemDisk": { "volumeSize": "3Ti" } }), "a system disk has 20 to 2048 GiB"),
        (CloudPilot, json!({ "dataDisks": [{ "volumeSize": "1Gi" }] }), "a data disk has 20 to 32768 GiB"),
        (
            ContainerService,
            json!({ "systemDisk": { "kmsKeyID": "k" } }),
            "set encrypted to true or remove the key",
        ),
        (ContainerService, json!({ "tags": many }), "remove all but 12"),
        (ContainerService, json!({ "userData": "x".repeat(40_000) }), "longer than 32 KiB"),
    ] {
        let mistakes = draft(dialect, &changes).mistakes;
        assert!(mistakes.iter().any(|mistake| mistake.contains(expected)), "{changes:.80}: {mistakes:?}");
    }
}

#[test]
fn a_password_is_not_shown_where_classes_are_printed() {
    let class = draft(CloudPilot, &json!({ "password": "Secret#123" })).class;
    assert_eq!(class.login.password.as_deref(), Some("Secret#123"));
    assert!(!format!("{class:?}").contains("Secret#123"));
}

#[test]
fn what_ends_up_on_machines_changes_the_hash() {
    for (dialect, changes) in [
        (ContainerService, json!({ "role": "other" })),
        (ContainerService, json!({ "systemDisk": { "size": 41 } })),
        (ContainerService, json!({ "systemDisk": { "encrypted": true } })),
        (ContainerService, json!({ "dataDisks": [{ "category": "cloud_essd", "size": 20 }] })),
        (ContainerService, json!({ "metadataOptions": { "httpTokens": "required" } })),
        (ContainerService, json!({ "kubelet": { "maxPods": 10 } })),
        (ContainerService, json!({ "userData": "true" })),
        (ContainerService, json!({ "tags": { "a": "b" } })),
        (Handbook, json!({ "ramRoleName": "r" })),
        (CloudPilot, json!({ "formatDataDisk": true })),
        (CloudPilot, json!({ "keyPairName": "key" })),
        (CloudPilot, json!({ "resourceGroupId": "rg-1" })),
    ] {
        assert_ne!(hash(dialect, &changes), hash(dialect, &json!({})), "{changes}");
    }
}

#[test]
fn what_is_compared_otherwise_or_concerns_the_next_launch_alone_does_not() {
    for (dialect, changes) in [
        (ContainerService, json!({ "vSwitchSelectorTerms": [{ "id": "vsw-9" }] })),
        (ContainerService, json!({ "securityGroupSelectorTerms": [{ "id": "sg-9" }] })),
        (ContainerService, json!({ "imageSelectorTerms": [{ "id": "m-9" }] })),
        (ContainerService, json!({ "clusterID": "c1" })),
        (CloudPilot, json!({ "vSwitchSelectionPolicy": "balanced" })),
        (CloudPilot, json!({ "systemDisk": { "size": 40 } })),
        (CloudPilot, json!({ "systemDisk": { "volumeSize": "40Gi" } })),
        (CloudPilot, json!({ "passwordInherit": false, "formatDataDisk": false })),
    ] {
        assert_eq!(hash(dialect, &changes), hash(dialect, &json!({})), "{changes}");
    }
    assert_eq!(HASH_VERSION, "rs1");
}

#[test]
fn the_hash_of_an_unchanged_class_never_changes() {
    let role = json!({ "role": "r", "kubelet": { "maxPods": 1 } });
    assert_eq!(hash(ContainerService, &role), hash(ContainerService, &role));
}
