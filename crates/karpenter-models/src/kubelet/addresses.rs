//! Addresses that follow from names, so that they are the same in every run.

/// Returns the address of a node.
pub(super) fn node_address(name: &str) -> String {
    let [a, b, c, _] = hash(name).to_be_bytes();
    format!("10.{}.{}.{}", a & 0x0f, b, c.max(1))
}

/// Returns the address of a pod.
pub(super) fn pod_address(uid: &str) -> String {
    let [a, b, c, _] = hash(uid).to_be_bytes();
    format!("10.{}.{}.{}", 128 | (a & 0x7f), b, c.max(1))
}

/// The 32-bit FNV-1a hash: short, and the same everywhere.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_pods_live_in_networks_of_their_own() {
        assert_eq!(node_address("a"), node_address("a"));
        assert_ne!(node_address("a"), node_address("b"));
        assert!(pod_address("a").split('.').nth(1).unwrap().parse::<u8>().unwrap() >= 128);
    }
}
