//! Which machines an image is for, as requirements, and whether a machine meets them.

use k8s_openapi::api::core::v1::NodeSelectorRequirement;
use karpenter_api::labels;

/// Label with the number of accelerators (Inferentia, Trainium) of a type.
const ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
/// Label with the number of GPUs of a type.
const GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// What an image was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Machines without accelerators.
    Standard,
    /// Machines with GPUs.
    Nvidia,
    /// Machines with Inferentia or Trainium.
    Neuron,
    /// Windows of this build.
    Windows(&'static str),
}

impl Variant {
    /// Its name in the paths of parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Nvidia => "nvidia",
            Self::Neuron => "neuron",
            Self::Windows(_) => "windows",
        }
    }

    fn requirements(self) -> Vec<NodeSelectorRequirement> {
        match self {
            Self::Standard => vec![absent(ACCELERATOR_COUNT), absent(GPU_COUNT)],
            Self::Nvidia => vec![present(GPU_COUNT)],
            Self::Neuron => vec![present(ACCELERATOR_COUNT)],
            Self::Windows(build) => vec![is(labels::OS, "windows"), is(WINDOWS_BUILD, build)],
        }
    }
}

/// The requirements of an image of EC2's architecture `arch` made for `variant`; `None` if no node has that architecture.
pub fn requirements(arch: &str, variant: Option<Variant>) -> Option<Vec<NodeSelectorRequirement>> {
    let arch = match arch {
        "x86_64" => "amd64",
        "arm64" => "arm64",
        _ => return None,
    };
    let mut all = variant.map(Variant::requirements).unwrap_or_default();
    all.push(is(labels::ARCH, arch));
    all.sort_by(|a, b| (a.key.len(), &a.key).cmp(&(b.key.len(), &b.key)));
    Some(all)
}

/// Whether a machine whose labels `label` looks up meets all requirements of an image.
pub fn fits<'l>(requirements: &[NodeSelectorRequirement], label: impl Fn(&str) -> Option<&'l str>) -> bool {
    requirements.iter().all(|requirement| {
        let value = label(&requirement.key);
        let listed = || {
            let values = requirement.values.as_deref().unwrap_or_default();
            value.is_some_and(|value| values.iter().any(|known| known == value))
        };
        match requirement.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    })
}

fn is(key: &str, value: &str) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![value.to_owned()]),
    }
}

fn present(key: &str) -> NodeSelectorRequirement {
    NodeSelectorRequirement { key: key.to_owned(), operator: "Exists".to_owned(), values: None }
}

fn absent(key: &str) -> NodeSelectorRequirement {
    NodeSelectorRequirement { key: key.to_owned(), operator: "DoesNotExist".to_owned(), values: None }
}
