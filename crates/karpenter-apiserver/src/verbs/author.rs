//! Who writes: what the entry of `managedFields` says that a write is credited to.

use super::options::WriteOptions;
use super::update::Scope;
use crate::apply::{FieldSet, Manager, Managers};
use crate::kinds;
use crate::server::Core;
use crate::wire::Call;

/// The author of one write.
pub(super) struct Author {
    name: String,
    api_version: String,
    subresource: &'static str,
    now: String,
    ignored: FieldSet,
}

impl Author {
    /// The author of a write to the call's resource.
    pub(super) fn of(core: &Core, call: &Call<'_>, options: &WriteOptions, scope: Scope) -> Self {
        Self {
            name: options.manager.clone(),
            api_version: call.resource.api_version(),
            subresource: scope.subresource(),
            now: call.session.draw("time", || core.now()),
            ignored: kinds::ignored_fields(&call.resource, scope),
        }
    }

    /// The author of an object that nobody keeps: a review, or one of another kind that is sent to a subresource.
    pub(super) fn of_request(
        core: &Core,
        manager: &str,
        api_version: &str,
        subresource: &'static str,
    ) -> Self {
        Self {
            name: manager.to_owned(),
            api_version: api_version.to_owned(),
            subresource,
            now: core.now(),
            ignored: FieldSet::default(),
        }
    }

    pub(super) fn manager(&self) -> Manager<'_> {
        Manager {
            name: &self.name,
            api_version: &self.api_version,
            subresource: self.subresource,
            now: &self.now,
            ignored: &self.ignored,
        }
    }
}

/// Forgets managers that speak of versions in which the call's kind does not exist.
pub(super) fn forget_unknown_versions(call: &Call<'_>, managers: &mut Managers) {
    let resource = &call.resource;
    managers.retain_versions(|version| {
        if resource.is_custom() {
            return version.split_once('/').is_some_and(|(group, _)| group == resource.group);
        }
        // The core group does not know of the others, nor they of it.
        let same_side = version.contains('/') != resource.group.is_empty();
        version == resource.api_version() || (same_side && kinds::is_known(version, &resource.kind))
    });
}
