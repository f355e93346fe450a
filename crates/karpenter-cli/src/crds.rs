//! `karpenter crds`: what `kubectl apply` needs before the controller can run.

use std::process::ExitCode;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::crd::crds_yaml;
use karpenter_api::{LabelRules, Provider, crds};

use crate::arguments::CrdsArguments;

/// Prints the definitions as a stream of YAML documents.
pub(crate) fn run(arguments: &CrdsArguments) -> anyhow::Result<ExitCode> {
    crate::print(crds_yaml(&definitions(&arguments.providers)).as_bytes())
}

/// Karpenter's definitions and those of the providers.
pub(crate) fn definitions(providers: &[Provider]) -> Vec<CustomResourceDefinition> {
    let rules =
        if providers.is_empty() { LabelRules::default() } else { LabelRules::for_providers(providers) };
    let mut definitions = crds(&rules);
    if providers.contains(&Provider::Kwok) {
        definitions.push(karpenter_kwok::definition());
    }
    if providers.contains(&Provider::Aws) {
        definitions.push(karpenter_aws::definition());
    }
    if providers.contains(&Provider::AlibabaCloud) {
        definitions.extend(karpenter_alibabacloud::node_class::definitions());
    }
    definitions
}
