//! The images that kOps' stable channel names for groups that name none.
//!
//! Channels are read from the network by kOps; here they are a table, which a file of facts can replace
//! (`defaultImages`). It is as of July 2026.

use std::collections::BTreeMap;

/// The account that publishes Ubuntu.
const OWNER: &str = "099720109477";

/// The image of the stable channel for an architecture (`amd64`, `arm64`), for Kubernetes 1.27 and later.
pub(crate) fn image(kubernetes_version: &str, architecture: &str) -> Option<String> {
    let mut numbers = kubernetes_version.trim_start_matches('v').split('.').map(str::parse::<u32>);
    let (Some(Ok(1)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else { return None };
    let name = match minor {
        ..27 => return None,
        27..32 => "hvm-ssd/ubuntu-jammy-22.04",
        32.. => "hvm-ssd-gp3/ubuntu-noble-24.04",
    };
    Some(format!("{OWNER}/ubuntu/images/{name}-{architecture}-server-20260714"))
}

/// The images by the names EC2 has for architectures.
pub(crate) fn images(kubernetes_version: &str) -> BTreeMap<String, String> {
    [("x86_64", "amd64"), ("arm64", "arm64")]
        .into_iter()
        .filter_map(|(name, architecture)| Some((name.to_owned(), image(kubernetes_version, architecture)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_kubernetes_decides() {
        let found = |version: &str| image(version, "arm64");
        assert!(found("v1.35.0").is_some_and(|image| image.contains("ubuntu-noble-24.04-arm64-server")));
        assert!(found("1.31.4").is_some_and(|image| image.contains("ubuntu-jammy-22.04-arm64-server")));
        assert_eq!(found("1.20.0"), None);
        assert_eq!(found("latest"), None);
        assert_eq!(images("1.33.0").len(), 2);
    }
}
