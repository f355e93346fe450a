//! `ECSNodeClass` of `karpenter.k8s.alibabacloud.com`.

use super::conversion::{Draft, Found};
use super::k8s::{self, Spec};
use super::model::Dialect;
use super::status::Status;

karpenter_api::custom_resource! {
    /// How machines on ECS are found, built and configured.
    ECSNodeClass, list "ECSNodeClassList", group "karpenter.k8s.alibabacloud.com", version "v1alpha1",
    plural "ecsnodeclasses", scope ClusterResourceScope, spec Spec, status Status
}

impl Found for ECSNodeClass {
    const DIALECT: Dialect = Dialect::Handbook;

    fn class(&self) -> Draft {
        k8s::class(Self::DIALECT, &self.metadata, &self.spec)
    }

    fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Status {
        self.status.get_or_insert_default()
    }
}
