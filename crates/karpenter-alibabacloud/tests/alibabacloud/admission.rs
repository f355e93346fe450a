//! Which objects of the kind ECSNodeClass the API server takes, in each group, and what it says to the others.

use karpenter_alibabacloud::node_class::Dialect::{self, CloudPilot, ContainerService, Handbook};
use karpenter_alibabacloud::node_class::definitions;
use serde_json::{Value, json};

use crate::server::{Server, base, with};

async fn taken(dialects: &[Dialect], cases: &[Value]) {
    let server = Server::new().await;
    for dialect in dialects {
        for changes in cases {
            let answer = server.create(*dialect, &with(*dialect, changes)).await;
            assert!(answer.is_ok(), "{dialect:?} {changes}: {answer:?}");
        }
    }
}

async fn refused(dialects: &[Dialect], cases: &[(Value, &str)]) {
    let server = Server::new().await;
    for dialect in dialects {
        for (changes, message) in cases {
            match server.create(*dialect, &with(*dialect, changes)).await {
                Ok(_) => panic!("{dialect:?}: {changes} was taken"),
                Err(said) => assert!(said.contains(message), "{dialect:?} {changes}: {said}"),
            }
        }
    }
}

#[test]
fn the_three_definitions_are_named_as_users_know_them() {
    let names: Vec<String> =
        definitions().into_iter().map(|definition| definition.metadata.name.unwrap()).collect();
    assert_eq!(
        names,
        [
            "ecsnodeclasses.karpenter.alibabacloud.com",
            "ecsnodeclasses.karpenter.k8s.alibabacloud.com",
            "ecsnodeclasses.karpenter.k8s.alibabacloud"
        ]
    );
}

#[tokio::test]
async fn classes_that_can_work_are_taken_in_every_group() {
    let tags = json!({ "team": "data", "karpenter.sh/other": "x" });
    taken(
        &Dialect::ALL,
        &[
            json!({}),
            json!({ "vSwitchSelectorTerms": [{ "id": "vsw-1" }, { "tags": { "a": "*" } }] }),
            json!({ "securityGroupSelectorTerms": [{ "name": "nodes" }, { "tags": { "a": "b" } }] }),
            json!({ "imageSelectorTerms": [{ "id": "m-bp1" }, { "id": "aliyun_3_x64_20G_alibase_20250629.vhd" }] }),
            json!({ "systemDisk": { "size": 20 } }),
            json!({ "systemDisk": { "size": 2048, "performanceLevel": "PL3" } }),
            json!({ "tags": tags, "userData": "#!/bin/sh\ntrue" }),
        ],
    )
    .await;
}

#[tokio::test]
async fn every_field_of_the_container_service_group_is_taken() {
    taken(
        &[ContainerService],
        &[
            json!({ "clusterID": "c1", "clusterName": "n", "clusterEndpoint": "https://10.0.0.1:6443", "role": "KubernetesWorkerRole-1" }),
            json!({ "vSwitchSelectorTerms": [{ "zoneID": "cn-hangzhou-h" }, { "id": "vsw-1", "tags": { "a": "b" } }] }),
            json!({ "imageSelectorTerms": [{ "name": "my-*", "imageOwnerAlias": "self", "imageOwnerID": "1", "tags": { "a": "b" } }] }),
            json!({ "capacityReservationSelectorTerms": [{ "id": "crp-1" }, { "tags": { "a": "b" } }], "capacityReservationPreference": "target", "launchTemplateID": "lt-1" }),
            json!({ "systemDisk": { "category": "cloud_auto", "encrypted": true, "kmsKeyID": "k" } }),
            json!({ "dataDisks": [{ "category": "cloud_essd", "size": 100, "device": "/dev/xvdb", "performanceLevel": "PL1", "encrypted": true, "snapshotID": "s-1", "deleteWithInstance": false }] }),
            json!({ "spotStrategy": "SpotWithPriceLimit", "spotPriceLimit": 0.25 }),
            json!({ "metadataOptions": { "httpTokens": "required", "httpPutResponseHopLimit": 2 } }),
            json!({ "kubelet": { "maxPods": 64, "evictionHard": { "memory.available": "5%" } } }),
        ],
    )
    .await;
}

#[tokio::test]
async fn every_field_of_the_k8s_groups_is_taken() {
    let all = json!({
        "vSwitchSelectionPolicy": "balanced", "resourceGroupId": "rg-1", "formatDataDisk": true, "dataDiskCategories": ["cloud_auto"],
        "dataDisks": [{ "volumeSize": "100Gi", "device": "/dev/xvdb" }], "password": "Secret#123", "passwordInherit": false, "keyPairName": "key",
        "systemDisk": { "categories": ["cloud_essd"], "volumeSize": "120Gi", "performanceLevel": "PL1" },
        "kubeletConfiguration": { "maxPods": 30, "podsPerCore": 4, "kubeReserved": { "cpu": "100m" }, "clusterDNS": ["10.0.0.10"] },
    });
    taken(&[CloudPilot, Handbook], &[all]).await;
    taken(
        &[Handbook],
        &[
            json!({ "imageSelectorTerms": null }),
            json!({ "imageSelectorTerms": null, "amiFamily": "ContainerOS", "ramRoleName": "role" }),
            json!({ "systemDisk": { "category": "cloud_essd", "encrypted": true, "deleteWithInstance": true } }),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_alias_is_taken_with_and_without_a_version() {
    let images = |alias: &str| json!({ "imageSelectorTerms": [{ "alias": alias }] });
    let aliases = ["ContainerOS", "AlibabaCloudLinux3", "AlibabaCloudLinux3@latest", "ContainerOS@3.3"];
    taken(&[CloudPilot, Handbook], &aliases.map(images)).await;
    refused(
        &[CloudPilot, Handbook],
        &[
            (images("Ubuntu"), "family is not supported"),
            (images("ContainerOS@"), "improperly formatted"),
            (
                json!({ "imageSelectorTerms": [{ "alias": "ContainerOS" }, { "id": "m-1" }] }),
                "combination of other imageSelectorTerms",
            ),
            (
                json!({ "imageSelectorTerms": [{ "alias": "ContainerOS", "id": "m-1" }] }),
                "combination of other fields in imageSelectorTerms",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_server_fills_in_each_groups_defaults() {
    let server = Server::new().await;
    let spec = with(ContainerService, &json!({ "systemDisk": {}, "metadataOptions": {} }));
    let filled = server.create(ContainerService, &spec).await.unwrap();
    assert_eq!(
        filled["spec"]["systemDisk"],
        json!({ "category": "cloud_essd", "size": 40, "performanceLevel": "PL0" })
    );
    assert_eq!(
        filled["spec"]["metadataOptions"],
        json!({ "httpTokens": "optional", "httpPutResponseHopLimit": 1, "httpEndpoint": "enabled" })
    );
    let filled = server.create(CloudPilot, &with(CloudPilot, &json!({ "systemDisk": {} }))).await.unwrap();
    assert_eq!(filled["spec"]["systemDisk"]["categories"].as_array().unwrap().len(), 6);
    assert_eq!(filled["spec"]["vSwitchSelectionPolicy"], "cheapest");
    assert_eq!(filled["spec"]["formatDataDisk"], false);
}

#[tokio::test]
async fn selectors_that_select_nothing_are_refused_in_every_group() {
    let vsw = |terms: Value| json!({ "vSwitchSelectorTerms": terms });
    let groups = |terms: Value| json!({ "securityGroupSelectorTerms": terms });
    refused(
        &Dialect::ALL,
        &[
            (json!({ "vSwitchSelectorTerms": null }), "spec.vSwitchSelectorTerms: Required value"),
            (vsw(json!([])), "vSwitchSelectorTerms"),
            (vsw(json!([{}])), "expected at least one, got none"),
            (vsw(json!([{ "id": "vsw-1" }, {}])), "expected at least one, got none"),
            (vsw(json!([{ "tags": { "a": "" } }])), "empty tag keys or values aren't supported"),
            (
                json!({ "securityGroupSelectorTerms": null }),
                "spec.securityGroupSelectorTerms: Required value",
            ),
            (groups(json!([])), "securityGroupSelectorTerms"),
            (groups(json!([{}])), "expected at least one, got none, ['tags', 'id', 'name']"),
        ],
    )
    .await;
}

/// The rule holds for each term, not only where all of them break it.
#[tokio::test]
async fn one_term_that_mixes_id_and_tags_is_enough_to_be_refused() {
    let mixed = json!([{ "id": "vsw-1" }, { "id": "vsw-2", "tags": { "a": "b" } }]);
    let groups = json!([{ "id": "sg-1" }, { "id": "sg-2", "name": "n" }]);
    refused(
        &[CloudPilot, Handbook],
        &[
            (json!({ "vSwitchSelectorTerms": mixed }), "'id' is mutually exclusive"),
            (json!({ "securityGroupSelectorTerms": groups }), "is mutually exclusive"),
        ],
    )
    .await;
}

#[tokio::test]
async fn words_of_one_group_are_unknown_to_the_others() {
    let unknown = "unknown field";
    refused(
        &[CloudPilot],
        &[(json!({ "amiFamily": "AliyunLinux" }), unknown), (json!({ "ramRoleName": "r" }), unknown)],
    )
    .await;
    refused(
        &[CloudPilot, Handbook],
        &[(json!({ "role": "r" }), unknown), (json!({ "clusterID": "c" }), unknown)],
    )
    .await;
    refused(&[ContainerService], &[(json!({ "vSwitchSelectionPolicy": "balanced" }), unknown)]).await;
}

#[tokio::test]
async fn tags_that_are_not_the_users_to_set_are_refused_in_every_group() {
    let mut cases = vec![
        (json!({ "tags": { "": "x" } }), "empty tag keys aren't supported"),
        (
            json!({ "tags": { "kubernetes.io/cluster/c": "owned" } }),
            "restricted tag matching kubernetes.io/cluster/",
        ),
        (json!({ "tags": { "acs:x": "y" } }), "belong to the cloud"),
        (json!({ "tags": { "aliyun-x": "y" } }), "belong to the cloud"),
    ];
    for key in ["ecs:ecs-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim"] {
        cases.push((json!({ "tags": { key: "x" } }), "tag contains a restricted tag matching"));
    }
    refused(&Dialect::ALL, &cases).await;
    for dialect in Dialect::ALL {
        let own = json!({ "tags": { dialect.class_label(): "x" } });
        refused(&[dialect], &[(own, "tag contains a restricted tag matching")]).await;
    }
}

#[tokio::test]
async fn disks_kubelets_and_bids_out_of_bounds_are_refused() {
    let kubelet = |dialect: Dialect, value: Value| match dialect {
        ContainerService => json!({ "kubelet": value }),
        Handbook | CloudPilot => json!({ "kubeletConfiguration": value }),
    };
    for dialect in Dialect::ALL {
        refused(
            &[dialect],
            &[
                (json!({ "systemDisk": { "size": 19 } }), "size"),
                (json!({ "systemDisk": { "performanceLevel": "PL4" } }), "performanceLevel"),
                (kubelet(dialect, json!({ "maxPods": -1 })), "maxPods"),
                (kubelet(dialect, json!({ "kubeReserved": { "disk": "1" } })), "valid keys for kubeReserved"),
                (kubelet(dialect, json!({ "systemReserved": { "cpu": "-1" } })), "cannot be a negative"),
                (kubelet(dialect, json!({ "evictionHard": { "x": "1" } })), "valid keys for evictionHard"),
                (
                    kubelet(dialect, json!({ "evictionSoft": { "memory.available": "5%" } })),
                    "matching evictionSoftGracePeriod",
                ),
                (
                    kubelet(
                        dialect,
                        json!({ "imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 60 }),
                    ),
                    "must be greater than",
                ),
            ],
        )
        .await;
    }
    refused(
        &[ContainerService],
        &[
            (json!({ "systemDisk": { "size": 2049 } }), "size"),
            (json!({ "systemDisk": { "category": "cloud_gold" } }), "category"),
            (json!({ "dataDisks": [{ "category": "cloud_essd" }] }), "size"),
            (json!({ "spotStrategy": "SpotWithPriceLimit" }), "spotPriceLimit must be set"),
            (json!({ "spotStrategy": "Bid" }), "spotStrategy"),
        ],
    )
    .await;
    refused(
        &[CloudPilot, Handbook],
        &[
            (json!({ "systemDisk": { "volumeSize": "59001Gi" } }), "volumeSize"),
            (json!({ "systemDisk": { "categories": ["cloud_gold"] } }), "categories"),
            (json!({ "password": "Secret#123", "passwordInherit": true }), "password cannot be set"),
            (json!({ "password": "short" }), "password"),
            (json!({ "keyPairName": "1" }), "keyPairName"),
            (json!({ "resourceGroupId": "x" }), "resourceGroupId"),
        ],
    )
    .await;
    refused(
        &[Handbook],
        &[
            (json!({ "amiFamily": "Ubuntu" }), "amiFamily"),
            (
                json!({ "systemDisk": { "category": "cloud_ssd", "categories": ["cloud_essd"] } }),
                "either category or categories",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_same_name_in_three_groups_is_three_objects() {
    let server = Server::new().await;
    let mut uids = std::collections::BTreeSet::new();
    for dialect in Dialect::ALL {
        let mut object = crate::server::class(dialect, &base(dialect));
        object["metadata"] = json!({ "name": "default" });
        uids.insert(server.apply(&object).await.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    assert_eq!(uids.len(), 3);
}
