//! The hash by which a NodeClaim knows that its ECSNodeClass has changed.
//!
//! It is made from the model, so a default that is written out is the default, and the order of lists of tags does not count. What
//! selectors find is compared machine by machine instead, and what concerns only the next launch (how a zone is chosen, which
//! reservation is used) rolls no nodes.

use serde_json::{Value, json};

use super::model::{Class, DataDisk, SpotBid};

/// Version of the hash; where it differs, claims are stamped anew and not called drifted.
pub const HASH_VERSION: &str = "rs1";

/// The hash of what a class asks for.
pub(super) fn of(class: &Class) -> String {
    let system = &class.system_disk;
    let spot = match class.spot {
        SpotBid::AsPriceGo => Value::Null,
        SpotBid::Limit(limit) => json!(limit),
    };
    let input = json!([
        class.resource_group,
        class.launch_template,
        class.ram_role,
        [json!(class.login.password), json!(class.login.inherit_password), json!(class.login.key_pair)],
        class.metadata.map(|options| json!([options.enabled, options.token_required, options.hop_limit])),
        [
            json!(system.categories),
            json!(system.size_gib),
            json!(system.performance_level),
            json!(system.encrypted),
            json!(system.kms_key)
        ],
        class.data_disks.iter().map(data_disk).collect::<Vec<_>>(),
        class.format_data_disk,
        spot,
        class.kubelet,
        class.user_data,
        class.tags,
    ]);
    fnv1a(input.to_string().as_bytes()).to_string()
}

fn data_disk(disk: &DataDisk) -> Value {
    json!([
        disk.categories,
        disk.size_gib,
        disk.device,
        disk.performance_level,
        disk.encrypted,
        disk.kms_key,
        disk.snapshot,
        disk.delete_with_instance
    ])
}

/// FNV-1a with 64 bits: no secret is kept, so any well-mixed hash will do.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
