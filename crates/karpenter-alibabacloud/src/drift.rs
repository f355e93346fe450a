//! Why a machine is no longer what its class asks for.

use std::collections::BTreeSet;

use karpenter_alibabacloud_client::ecs::Instance;
use karpenter_api::NodeClaim;

use crate::node_class::{HASH_VERSION, ResolvedClass};

/// The class's fields that cannot be compared with the machine have changed.
pub const NODE_CLASS: &str = "NodeClassDrift";
/// The image is no longer among those the class selects.
pub const IMAGE: &str = "ImageDrift";
/// The vSwitch is no longer among those the class selects.
pub const V_SWITCH: &str = "VSwitchDrift";
/// The security groups are not those the class selects.
pub const SECURITY_GROUPS: &str = "SecurityGroupDrift";

/// One word for what has changed; `None` if nothing has. What nobody says is no change.
pub fn reason(claim: &NodeClaim, class: &ResolvedClass, instance: Option<&Instance>) -> Option<&'static str> {
    if hash_differs(claim, class) {
        return Some(NODE_CLASS);
    }
    let resolved = &class.resolved;
    let of_claim = claim.status.as_ref().and_then(|status| status.image_id.as_deref());
    let image = instance.and_then(|instance| instance.image_id.as_deref()).or(of_claim);
    if let Some(image) = image
        && !resolved.images.is_empty()
        && !resolved.images.iter().any(|known| *known.id == *image)
    {
        return Some(IMAGE);
    }
    let instance = instance?;
    let v_switch = instance.vpc_attributes.v_switch_id.as_deref().filter(|id| !id.is_empty());
    if let Some(v_switch) = v_switch
        && !resolved.v_switches.is_empty()
        && !resolved.v_switches.iter().any(|known| *known.id == *v_switch)
    {
        return Some(V_SWITCH);
    }
    let actual: BTreeSet<&str> = instance.security_group_ids.iter().map(String::as_str).collect();
    let wanted: BTreeSet<&str> = resolved.security_groups.iter().map(|group| &*group.id).collect();
    (!actual.is_empty() && !wanted.is_empty() && actual != wanted).then_some(SECURITY_GROUPS)
}

/// Whether the claim was launched with other fields. A hash made in another way says nothing.
fn hash_differs(claim: &NodeClaim, class: &ResolvedClass) -> bool {
    let dialect = class.class.key.dialect;
    let annotations = claim.metadata.annotations.as_ref();
    let read = |key: String| annotations.and_then(|annotations| annotations.get(&key)).map(String::as_str);
    read(dialect.hash_version_annotation()) == Some(HASH_VERSION)
        && read(dialect.hash_annotation()).is_some_and(|hash| hash != class.class.hash)
}
