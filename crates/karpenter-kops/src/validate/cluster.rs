//! The rules of the cluster that have to do with Karpenter.

use crate::field_error::FieldError;
use crate::model::Cluster;
use crate::validate::group::reserved_cloud_labels;

const DISCOVERY: &str = "spec.serviceAccountIssuerDiscovery";

pub(super) fn errors(cluster: &Cluster) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if cluster.enables_karpenter() && !cluster.uses_service_account_roles {
        errors.push(FieldError::forbidden(
            "spec.karpenter.enabled",
            "Karpenter gets its permissions as a service account: set spec.iam.useServiceAccountExternalPermissions to true",
        ));
    }
    let handler = cluster.node_termination_handler.as_ref();
    if cluster.enables_karpenter() && handler.is_some_and(|handler| handler.enabled != Some(false)) {
        errors.push(FieldError::forbidden(
            "spec.cloudProvider.aws.nodeTerminationHandler",
            "Karpenter and the node termination handler cannot both be there: disable the handler or remove its block",
        ));
    }
    if let Some(discovery) = &cluster.issuer_discovery {
        let (store, service) = (!discovery.discovery_store.is_empty(), discovery.discovery_service.is_some());
        if store && service {
            let reason = "a discovery store and a discovery service exclude each other: keep one";
            errors.push(FieldError::forbidden(format!("{DISCOVERY}.discoveryStore"), reason));
        }
        if discovery.enable_aws_oidc_provider && !store && !service {
            let reason = "the OIDC provider needs a discoveryStore or a discoveryService";
            errors.push(FieldError::forbidden(format!("{DISCOVERY}.enableAWSOIDCProvider"), reason));
        }
    }
    errors.extend(reserved_cloud_labels(&cluster.cloud_labels));
    errors
}
