//! Manifests in use elsewhere, taken unchanged: the API server admits them and they mean what their authors say.

use karpenter_alibabacloud::node_class::{
    Classes, Dialect, Found, ImageAlias, ImageTerm, Resolved, ResolvedClass, container_service, handbook,
    read,
};
use karpenter_api::validation::validate_nodepool;
use karpenter_api::{LabelRules, NodePool, Provider};
use serde_json::Value;

use crate::server::Server;

pub(crate) const HANDBOOK: &str = include_str!("../data/handbook.yaml");
pub(crate) const CONTAINER_SERVICE: &str = include_str!("../data/container_service.yaml");

pub(crate) fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

pub(crate) fn of_kind<T: serde::de::DeserializeOwned>(text: &str, kind: &str) -> Vec<T> {
    let found = documents(text).into_iter().filter(|document| document["kind"] == kind);
    found.map(|document| serde_json::from_value(document).unwrap()).collect()
}

#[tokio::test]
async fn the_api_server_admits_them_strictly() {
    let server = Server::new().await;
    for document in documents(HANDBOOK).into_iter().chain(documents(CONTAINER_SERVICE)) {
        let answer = server.apply(&document).await;
        assert!(answer.is_ok(), "{document}: {answer:?}");
    }
}

#[test]
fn their_pools_pass_validation_with_this_providers_labels() {
    let rules = LabelRules::for_providers(&[Provider::AlibabaCloud]);
    for text in [HANDBOOK, CONTAINER_SERVICE] {
        for pool in of_kind::<NodePool>(text, "NodePool") {
            let findings = validate_nodepool(&pool, &rules);
            assert!(findings.is_valid(), "{}", findings.message());
        }
    }
}

#[test]
fn the_handbooks_class_means_an_encrypted_essd_of_100_gib_and_alibaba_cloud_linux() {
    let class: handbook::ECSNodeClass = of_kind(HANDBOOK, "ECSNodeClass").remove(0);
    let draft = read(&class);
    assert_eq!(draft.mistakes, Vec::<String>::new());
    let class = draft.class;
    assert_eq!(class.images, [ImageTerm::Alias { family: ImageAlias::AlibabaCloudLinux3, version: None }]);
    let disk = class.system_disk;
    assert_eq!((disk.size_gib, disk.encrypted, disk.delete_with_instance), (100, true, true));
    assert_eq!(disk.categories, ["cloud_essd".into()]);
    assert_eq!(class.v_switches[0].tags["Name"], "123-private*");
    assert_eq!(class.ram_role.as_deref(), Some("123-karpenter-node-role"));
    assert_eq!(class.user_data, None, "an empty script is no script");
}

#[test]
fn the_readmes_class_leaves_the_cluster_to_the_controller_and_selects_by_tag_or_id() {
    let class: container_service::ECSNodeClass = of_kind(CONTAINER_SERVICE, "ECSNodeClass").remove(0);
    let draft = read(&class);
    assert_eq!(draft.mistakes, Vec::<String>::new());
    let class = draft.class;
    assert_eq!(class.cluster.id, None);
    assert_eq!(class.v_switches[1].id.as_deref(), Some("vsw-bp1h5w0001"));
    assert_eq!(
        class.images,
        [
            ImageTerm::Family("acs:alibaba_cloud_linux_3_2104_lts_x64".to_owned()),
            ImageTerm::Id("aliyun_3_x64_20G_container_optimized_alibase_20250629.vhd".to_owned()),
        ]
    );
    assert_eq!(class.system_disk.size_gib, 40);
}

#[test]
fn a_pool_gets_the_class_of_the_group_it_names() {
    let classes = Classes::default();
    let put = |class| classes.put(ResolvedClass { class, resolved: Resolved::default(), not_ready: None });
    put(read(&of_kind::<handbook::ECSNodeClass>(HANDBOOK, "ECSNodeClass").remove(0)).class);
    put(read(&of_kind::<container_service::ECSNodeClass>(CONTAINER_SERVICE, "ECSNodeClass").remove(0)).class);
    let pool = of_kind::<NodePool>(CONTAINER_SERVICE, "NodePool").remove(0);
    let mut reference = pool.spec.template.spec.node_class_ref;
    assert_eq!(classes.get(&reference).unwrap().class.key.dialect, Dialect::ContainerService);
    reference.group = Dialect::CloudPilot.group().to_owned();
    assert!(classes.get(&reference).is_none(), "the name alone is not enough");
    assert_eq!(<handbook::ECSNodeClass as Found>::DIALECT, Dialect::Handbook);
}
