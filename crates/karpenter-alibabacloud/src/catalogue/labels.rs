//! The labels of an instance type, in the words of every dialect in use, so that NodePools of any of them match.

use std::borrow::Cow;
use std::collections::BTreeMap;

use karpenter_alibabacloud_client::ecs;
use karpenter_api::labels::alibabacloud::{GROUP, GROUP_ACS, GROUP_COM};
use karpenter_api::labels::{ARCH, INSTANCE_TYPE, OS, REGION};

use super::name;
use crate::node_class::Architecture;

/// Kubernetes takes no longer value.
const LONGEST: usize = 63;

/// What each dialect writes before the name of an attribute; all but the first mean the cloud's own family.
const PREFIXES: [(&str, &str); 4] =
    [(GROUP, "instance-"), (GROUP_COM, "ecs-instance-"), (GROUP_COM, "instance-"), (GROUP_ACS, "instance-")];

/// An attribute of a type, with CloudPilot's value where that differs.
struct Attribute<'a> {
    name: &'static str,
    value: Cow<'a, str>,
    cloud_pilot: Option<Cow<'a, str>>,
}

/// The labels of a type, without zone and capacity type.
pub(super) fn of(
    described: &ecs::InstanceType,
    architecture: Architecture,
    region: &str,
) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (INSTANCE_TYPE.to_owned(), described.instance_type_id.clone()),
        (ARCH.to_owned(), architecture.label().to_owned()),
        (OS.to_owned(), "linux".to_owned()),
        (REGION.to_owned(), region.to_owned()),
    ]);
    for attribute in attributes(described) {
        for (index, (domain, prefix)) in PREFIXES.into_iter().enumerate() {
            let special = attribute.cloud_pilot.as_deref().filter(|_| index == 0);
            let value = special.unwrap_or(&attribute.value).to_owned();
            labels.insert(format!("{domain}/{prefix}{}", attribute.name), value);
        }
        if matches!(attribute.name, "family" | "size") {
            labels.insert(
                format!("node.kubernetes.io/instance-{}", attribute.name),
                attribute.value.into_owned(),
            );
        }
    }
    labels
}

fn attributes(described: &ecs::InstanceType) -> Vec<Attribute<'_>> {
    let name = name::read(&described.instance_type_id, described.instance_type_family.as_deref());
    let mut attributes: Vec<Attribute<'_>> = Vec::new();
    let mut say = |name: &'static str, value: Cow<'_, str>| {
        let value = valid(&value);
        if !value.is_empty() {
            attributes.push(Attribute { name, value: Cow::Owned(value), cloud_pilot: None });
        }
    };
    say("category", name.category.into());
    say("generation", name.generation.unwrap_or_default().into());
    say("size", name.size.unwrap_or_default().into());
    say("cpu", described.cpu_core_count.to_string().into());
    say(
        "cpu-model",
        described.physical_processor_model.as_deref().and_then(cpu_model).unwrap_or_default().into(),
    );
    say("memory", mebibytes(described).to_string().into());
    let gpus = described.gpu_amount.unwrap_or_default();
    let gpu = described.gpu_spec.as_deref().filter(|spec| gpus > 0 && !spec.trim().is_empty());
    if let Some(spec) = gpu {
        say("gpu-name", spec.to_lowercase().into());
        say("gpu-count", gpus.to_string().into());
        let memory = described.gpu_memory_size.filter(|memory| *memory > 0.0);
        say("gpu-memory", memory.map(|memory| (memory as u64).to_string()).unwrap_or_default().into());
    }
    attributes.push(Attribute {
        name: "family",
        value: name.family.into(),
        cloud_pilot: Some(name.prefix.into()),
    });
    if let Some(manufacturer) = gpu.and_then(|spec| spec.split_whitespace().next()) {
        let manufacturer = valid(manufacturer);
        attributes.push(Attribute {
            name: "gpu-manufacturer",
            value: manufacturer.to_lowercase().into(),
            cloud_pilot: Some(manufacturer.into()),
        });
    }
    attributes
}

/// Whole MiB: a fraction or an exponent would be no label, and could not be compared.
pub(super) fn mebibytes(described: &ecs::InstanceType) -> u64 {
    (described.memory_size.max(0.0) * 1024.0).round() as u64
}

fn cpu_model(model: &str) -> Option<&'static str> {
    const MAKERS: [(&str, &str); 7] = [
        ("intel", "intel"),
        ("amd", "amd"),
        ("yitian", "yitian"),
        ("kunpeng", "kunpeng"),
        ("ampere", "ampere"),
        ("altra", "ampere"),
        ("hygon", "hygon"),
    ];
    let model = model.to_lowercase();
    MAKERS.into_iter().find(|(mark, _)| model.contains(mark)).map(|(_, name)| name)
}

/// The nearest text that may be the value of a label.
fn valid(text: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let text: String =
        text.trim().chars().map(|letter| if allowed(letter) { letter } else { '-' }).take(LONGEST).collect();
    text.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()
}
