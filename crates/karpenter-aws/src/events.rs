//! Events: what people should know about an object.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use karpenter_runtime::{View, Write};
use kube::Resource;

/// An event about an object of the cluster's scope.
pub(crate) fn event<K: Resource<DynamicType = ()>>(
    object: &K,
    reason: &str,
    message: &str,
    view: &View<'_>,
) -> Write {
    let name = object.meta().name.clone().unwrap_or_default();
    Write::create(&Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{}", view.environment.suffix())),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: Some(name),
            uid: object.meta().uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some("Normal".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        source: Some(EventSource { component: Some("karpenter".to_owned()), ..EventSource::default() }),
        reporting_component: Some("karpenter".to_owned()),
        first_timestamp: Some(Time(view.now)),
        last_timestamp: Some(Time(view.now)),
        count: Some(1),
        ..Event::default()
    })
}
