//! The CapacityBuffers of a scenario, with the templates and workloads they refer to.

use std::sync::Arc;

use karpenter_api::CapacityBuffer;
use karpenter_core::cluster::Pod;
use serde_json::Value;

use super::format::{Scenario, api_object};
use super::pods::PodSource;
use crate::buffer::ChunkSource;
use crate::invalid::{At, Invalid};

/// Adds the virtual pods of every buffer to the pods that wait.
pub(super) fn add_virtual_pods(
    scenario: &Scenario<'_>,
    pending: &mut Vec<Arc<Pod>>,
    source: &mut PodSource<'_>,
) -> Result<(), Invalid> {
    for (index, written) in scenario.capacity_buffers.iter().enumerate() {
        add_buffer(scenario, written, pending, source).at_index(index)?;
    }
    Ok(())
}

fn add_buffer(
    scenario: &Scenario<'_>,
    written: &Value,
    pending: &mut Vec<Arc<Pod>>,
    source: &mut PodSource<'_>,
) -> Result<(), Invalid> {
    let buffer: CapacityBuffer = api_object(written)?;
    source.add_buffer(&buffer, chunk_source(scenario, &buffer)?, pending)
}

fn chunk_source<'a>(scenario: &'a Scenario<'_>, buffer: &CapacityBuffer) -> Result<ChunkSource<'a>, Invalid> {
    let namespace = or_default(buffer.metadata.namespace.as_deref());
    if let Some(reference) = &buffer.spec.pod_template_ref {
        let is_meant = |metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
            metadata.name.as_ref() == Some(&reference.name)
                && or_default(metadata.namespace.as_deref()) == namespace
        };
        let found = scenario.pod_templates.iter().find(|template| is_meant(&template.metadata));
        let template = found.and_then(|found| found.template.as_ref());
        let missing = || not_found("podTemplates", &format!("{namespace}/{}", reference.name));
        let template = template.ok_or_else(missing).at("spec.podTemplateRef")?;
        return Ok(ChunkSource { template, workload_replicas: None });
    }
    let Some(reference) = &buffer.spec.scalable_ref else {
        let message = "needs a podTemplateRef or a scalableRef to know the shape of a chunk";
        return Err(Invalid::new(message)).at("spec");
    };
    let found = scenario.workloads.iter().find(|workload| {
        workload.kind == reference.kind
            && workload.metadata.name.as_ref() == Some(&reference.name)
            && or_default(workload.metadata.namespace.as_deref()) == namespace
    });
    let missing = || not_found("workloads", &format!("{} {namespace}/{}", reference.kind, reference.name));
    let workload = found.ok_or_else(missing).at("spec.scalableRef")?;
    // A workload that does not say how many pods it wants gets one.
    let replicas = workload.spec.replicas.unwrap_or(1);
    Ok(ChunkSource { template: &workload.spec.template, workload_replicas: Some(replicas) })
}

fn or_default(namespace: Option<&str>) -> &str {
    namespace.filter(|name| !name.is_empty()).unwrap_or("default")
}

fn not_found(list: &str, name: &str) -> Invalid {
    Invalid::new(format!("there is no {name} in the scenario; add it to {list}"))
}
