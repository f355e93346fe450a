//! Status that the server itself writes, as the controllers inside kube-apiserver do.

use serde_json::Value;

use super::update::Scope;
use crate::apply::{Manager, Managers};
use crate::kinds;
use crate::registry::Resource;
use crate::server::Core;
use crate::store::{Expected, Key, StoredObject};

impl Core {
    /// Writes a changed status in the server's own name; `false` when the object changed meanwhile.
    pub(crate) fn write_own_status(
        &self,
        resource: &Resource,
        key: &Key,
        current: &StoredObject,
        mut object: Value,
    ) -> bool {
        let mut before = current.value();
        let mut managers = Managers::take_either(&mut before, &mut object, true);
        let now = self.now();
        let api_version = resource.api_version();
        let manager = Manager {
            name: "kube-apiserver",
            api_version: &api_version,
            subresource: Scope::Status.subresource(),
            now: &now,
            ignored: &kinds::ignored_fields(resource, Scope::Status),
        };
        if !managers.is_empty() {
            managers.update(&before, &object, resource.schema(), manager);
        }
        managers.put(&mut object);
        let expected = Expected::Revision(current.revision);
        self.store.write(&resource.name, key, expected, &mut object, &resource.selectable_fields).is_ok()
    }
}
