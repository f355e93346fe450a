//! What the server allocates for Services.

use serde_json::Value;

/// A change that says nothing about allocated addresses keeps them.
pub(super) fn keep_allocated(old: &Value, new: &mut Value) {
    if old["spec"]["type"] == "ExternalName" || new["spec"]["type"] == "ExternalName" {
        return;
    }
    for name in ["clusterIP", "clusterIPs"] {
        let (was, is) = (&old["spec"][name], &new["spec"][name]);
        if is.is_null() && !was.is_null() {
            new["spec"][name] = was.clone();
        }
    }
}
