//! `karpenter crds`: what `kubectl apply` needs before the controller can run.

use std::process::ExitCode;

use karpenter_api::crd::crds_yaml;
use karpenter_api::{LabelRules, Provider, crds};

use crate::arguments::CrdsArguments;

/// Prints the definitions as a stream of YAML documents.
pub(crate) fn run(arguments: &CrdsArguments) -> anyhow::Result<ExitCode> {
    let rules = if arguments.providers.is_empty() {
        LabelRules::default()
    } else {
        LabelRules::for_providers(&arguments.providers)
    };
    let mut definitions = crds(&rules);
    if arguments.providers.contains(&Provider::Kwok) {
        definitions.push(karpenter_kwok::definition());
    }
    if arguments.providers.contains(&Provider::Aws) {
        definitions.push(karpenter_aws::definition());
    }
    crate::print(crds_yaml(&definitions).as_bytes())
}
