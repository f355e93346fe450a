//! Zones that are not like others: traffic is moved away from one, another is near a city and sells little.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use karpenter_simcloud::Plenty;
use karpenter_simcloud_aws::{Description, Happening, LocalZone, Zone};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::world::{World, capacity_type, label, one_of, pass};

const ZONE: &str = "topology.kubernetes.io/zone";

#[tokio::test(start_paused = true)]
async fn in_a_zone_that_traffic_leaves_nothing_is_launched_or_ended() {
    let world = World::new(Arc::new(Plenty)).await;
    world.run_machinery();
    let _running = world.start(&["--enable-zonal-shift=true"]).await;
    world.create_pool(&json!({}), &capacity_type(&["on-demand"])).await;
    pass(60).await;
    let there = json!({"nodeSelector": {ZONE: "us-west-2a"}});
    world.deploy("before", 1, &json!({"cpu": "1"}), &there).await;
    pass(60).await;
    let [before] = world.cloud.living().try_into().unwrap();
    world.cloud.happen(Happening::ZonalShift { zone: before.zone.id.clone(), seconds: 1800 }).unwrap();
    pass(60).await;
    world.deploy("there", 1, &json!({"cpu": "1"}), &there).await;
    world.deploy("anywhere", 1, &json!({"cpu": "1"}), &json!({})).await;
    pass(120).await;
    assert_eq!(world.nodes_of("there").await.len(), 0, "nothing is launched there");
    let [node] = world.nodes_of("anywhere").await.try_into().unwrap();
    assert_ne!(label(&node, ZONE), "us-west-2a");

    let claims: Api<karpenter_api::NodeClaim> = Api::all(world.kube.clone());
    let of = |claim: &karpenter_api::NodeClaim| {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        id == Some(before.provider_id().as_str())
    };
    let claim = world.claims().await.into_iter().find(of).unwrap();
    claims.delete(claim.metadata.name.as_deref().unwrap(), &DeleteParams::default()).await.unwrap();
    world.scale("before", 0).await;
    pass(300).await;
    assert!(world.cloud.living().iter().any(|alive| alive.id == before.id), "nothing is ended there");

    pass(1800).await;
    assert!(world.cloud.living().iter().all(|alive| alive.id != before.id), "it goes when the shift is over");
    assert_eq!(world.nodes_of("there").await.len(), 1);
    let events: Api<Event> = Api::all(world.kube.clone());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    for reason in ["ZonalShiftActive", "ZonalShiftCleared"] {
        let told: Vec<&Event> =
            events.iter().filter(|event| event.reason.as_deref() == Some(reason)).collect();
        assert_eq!(told.len(), 1, "{reason}");
        assert_eq!(told[0].involved_object.kind.as_deref(), Some("NodePool"));
        assert!(told[0].message.as_deref().unwrap().contains("us-west-2a"), "{:?}", told[0].message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_local_zone_sells_what_it_has_to_those_who_ask() {
    let los_angeles = Zone { name: "us-west-2-lax-1a".to_owned(), id: "usw2-lax1-az1".to_owned() };
    let local = LocalZone { zone: los_angeles, instance_types: vec!["m5.2xlarge".to_owned()] };
    let description = Description { local_zones: vec![local], ..Description::default() };
    let world = World::described(description, Arc::new(Plenty)).await;
    world.run_machinery();
    let _running = world.start(&[]).await;
    let volumes = json!([{"deviceName": "/dev/xvda", "ebs": {"volumeType": "gp2", "volumeSize": "80Gi"}}]);
    world.create_class(&json!({"blockDeviceMappings": volumes})).await;
    let near =
        json!([one_of(ZONE, &["us-west-2-lax-1a"]), one_of("karpenter.sh/capacity-type", &["on-demand"]),]);
    world.create_named_pool("near", &json!({}), &near).await;
    pass(60).await;
    assert_eq!(world.class_condition("Ready").await, ("True".to_owned(), String::new()));
    world.deploy("game", 2, &json!({"cpu": "3"}), &json!({})).await;
    pass(120).await;
    let [instance] = world.cloud.living().try_into().expect("two fit on the one type there is");
    assert_eq!((&*instance.facts.name, &*instance.zone.name), ("m5.2xlarge", "us-west-2-lax-1a"));
    assert_eq!(instance.volumes[0].kind, "gp2");
    let nodes = world.nodes_of("game").await;
    assert_eq!(nodes.len(), 2);
    assert_eq!(label(&nodes[0], "topology.k8s.aws/zone-id"), "usw2-lax1-az1");
}
