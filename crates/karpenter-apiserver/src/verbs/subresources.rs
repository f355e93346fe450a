//! Requests for parts of objects: which subresource serves which verb.

use super::update::Scope;
use crate::error::ApiError;
use crate::registry::Subresource;
use crate::server::Core;
use crate::wire::{Answer, Call};

impl Core {
    pub(crate) fn subresource(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let name = call.target.subresource.as_deref().unwrap_or_default();
        let Some(subresource) = call.resource.subresource(name).cloned() else {
            return Err(if call.resource.is_custom() {
                ApiError::not_found(&call.resource.name, call.name())
            } else {
                ApiError::unknown_resource()
            });
        };
        let scope = match &subresource {
            Subresource::Status => Scope::Status,
            Subresource::Finalize => Scope::Finalize,
            Subresource::Scale(paths) => return self.scale(call, paths),
            Subresource::Eviction => return self.only_post(call, Self::evict),
            Subresource::Binding => return self.only_post(call, Self::bind),
            Subresource::Token => return self.only_post(call, Self::issue_token),
        };
        match (call.method.as_str(), scope) {
            ("GET", Scope::Status) => self.get(call),
            ("PUT", _) => self.update_scope(call, scope),
            ("PATCH", Scope::Status) => self.patch_scope(call, scope),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    fn only_post(
        &self,
        call: &Call<'_>,
        serve: impl FnOnce(&Self, &Call<'_>) -> Result<Answer, ApiError>,
    ) -> Result<Answer, ApiError> {
        if call.method == http::Method::POST {
            serve(self, call)
        } else {
            Err(ApiError::method_not_allowed())
        }
    }
}
