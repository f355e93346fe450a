//! Images: those that EKS publishes, with the SSM parameters that name them, and those of the account.

use std::collections::BTreeMap;

use jiff::civil::date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

use crate::network::id;

/// Who publishes images for EKS.
pub(crate) const PUBLISHER: &str = "602401143452";
/// How long an image is good after its publication.
const LIFE: i64 = 2 * 365;
/// The versions of Kubernetes there are images for.
const MINORS: std::ops::RangeInclusive<u32> = 26..=36;
/// Releases of the images, from old to new.
const RELEASES: [(&str, &str, [i16; 3]); 3] = [
    ("20260620", "1.44.0", [2026, 6, 20]),
    ("20260915", "1.46.0", [2026, 9, 15]),
    ("20261110", "1.48.0", [2026, 11, 10]),
];

/// How an image reads its boot script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Amazon Linux 2: cloud-init runs a script that calls `/etc/eks/bootstrap.sh`.
    Al2,
    /// Amazon Linux 2023: nodeadm reads `NodeConfig`.
    Al2023,
    /// Bottlerocket: settings in TOML.
    Bottlerocket,
    /// Windows: `PowerShell` calls `Start-EKSBootstrap.ps1`.
    Windows,
    /// Any other Linux: cloud-init runs whatever script there is.
    Other,
}

impl Family {
    /// The family by an image's name.
    pub fn of(name: &str) -> Self {
        let name = name.to_lowercase();
        if name.contains("al2023") {
            Self::Al2023
        } else if name.contains("bottlerocket") {
            Self::Bottlerocket
        } else if name.contains("windows") {
            Self::Windows
        } else if name.starts_with("amazon-eks") {
            Self::Al2
        } else {
            Self::Other
        }
    }
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The account it belongs to.
    pub owner: String,
    /// The owner's alias, say `amazon`.
    pub owner_alias: Option<String>,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// How it reads its boot script.
    pub family: Family,
    /// The device of its root volume.
    pub root_device: String,
    /// When it was made.
    pub created: Timestamp,
    /// From when on it should not be used any more.
    pub deprecated: Option<Timestamp>,
    /// `available` or what else there is.
    pub state: String,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl Image {
    /// An image as it comes from the account itself.
    pub fn named(name: &str, architecture: &str, owner: &str, created: Timestamp) -> Self {
        let family = Family::of(name);
        let root_device = if family == Family::Windows { "/dev/sda1" } else { "/dev/xvda" };
        Self {
            id: id("ami", name),
            name: name.to_owned(),
            owner: owner.to_owned(),
            owner_alias: (owner == PUBLISHER).then(|| "amazon".to_owned()),
            architecture: architecture.to_owned(),
            family,
            root_device: root_device.to_owned(),
            created,
            deprecated: created.checked_add(SignedDuration::from_hours(24 * LIFE)).ok(),
            state: "available".to_owned(),
            tags: BTreeMap::new(),
        }
    }
}

/// All images, and the parameters that name some of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Images {
    pub(crate) images: BTreeMap<String, Image>,
    pub(crate) parameters: BTreeMap<String, String>,
}

impl Images {
    /// What EKS publishes.
    pub(crate) fn published() -> Self {
        let mut images = Self::default();
        for minor in MINORS {
            let version = format!("1.{minor}");
            for (stamp, bottlerocket, [year, month, day]) in RELEASES {
                let created = date(year, month as i8, day as i8)
                    .to_zoned(TimeZone::UTC)
                    .map_or(Timestamp::UNIX_EPOCH, |day| day.timestamp());
                images.amazon_linux(&version, minor, stamp, created);
                images.bottlerocket(&version, bottlerocket, created);
                images.windows(&version, minor, stamp, created);
            }
        }
        images
    }

    fn publish(&mut self, name: &str, architecture: &str, created: Timestamp, parameters: &[String]) {
        let image = Image::named(name, architecture, PUBLISHER, created);
        for parameter in parameters {
            self.parameters.insert(parameter.clone(), image.id.clone());
        }
        self.images.insert(image.id.clone(), image);
    }

    fn amazon_linux(&mut self, version: &str, minor: u32, stamp: &str, created: Timestamp) {
        let base = format!("/aws/service/eks/optimized-ami/{version}");
        // Amazon Linux 2 ends with 1.32.
        if minor < 33 {
            let kinds = [("", "", "x86_64"), ("-arm64", "-arm64", "arm64"), ("-gpu", "-gpu", "x86_64")];
            for (path, infix, architecture) in kinds {
                let name = format!("amazon-eks{infix}-node-{version}-v{stamp}");
                let path = |which: &str| format!("{base}/amazon-linux-2{path}/{which}/image_id");
                self.publish(&name, architecture, created, &[path("recommended"), path(&name)]);
            }
        }
        let kinds = [
            ("x86_64", "standard"),
            ("x86_64", "nvidia"),
            ("x86_64", "neuron"),
            ("arm64", "standard"),
            ("arm64", "nvidia"),
        ];
        for (architecture, variant) in kinds {
            let name = format!("amazon-eks-node-al2023-{architecture}-{variant}-{version}-v{stamp}");
            let path =
                |which: &str| format!("{base}/amazon-linux-2023/{architecture}/{variant}/{which}/image_id");
            self.publish(&name, architecture, created, &[path("recommended"), path(&name)]);
        }
    }

    fn bottlerocket(&mut self, version: &str, release: &str, created: Timestamp) {
        for variant in ["", "-nvidia"] {
            for architecture in ["x86_64", "arm64"] {
                let kind = format!("aws-k8s-{version}{variant}");
                let name = format!("bottlerocket-{kind}-{architecture}-v{release}-0a1b2c3d");
                let path =
                    |which: &str| format!("/aws/service/bottlerocket/{kind}/{architecture}/{which}/image_id");
                self.publish(&name, architecture, created, &[path("latest"), path(release)]);
            }
        }
    }

    fn windows(&mut self, version: &str, minor: u32, stamp: &str, created: Timestamp) {
        for year in [2019, 2022, 2025] {
            if year == 2025 && minor < 35 {
                continue;
            }
            let kind = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{version}");
            let name = format!("{kind}-{}.{}.{}", &stamp[..4], &stamp[4..6], &stamp[6..]);
            let path = format!("/aws/service/ami-windows-latest/{kind}/image_id");
            self.publish(&name, "x86_64", created, &[path]);
        }
    }

    /// Makes an image one that should not be used any more.
    pub(crate) fn deprecate(&mut self, image: &str, now: Timestamp) -> bool {
        let found = self.images.get_mut(image);
        let is_there = found.is_some();
        if let Some(image) = found {
            image.deprecated = Some(now.saturating_sub(1.second()).unwrap_or(now));
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alias_path_names_the_newest_image() {
        let images = Images::published();
        let paths = [
            (
                "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-arm64/recommended/image_id",
                Family::Al2,
                "arm64",
            ),
            (
                "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/neuron/recommended/image_id",
                Family::Al2023,
                "x86_64",
            ),
            (
                "/aws/service/bottlerocket/aws-k8s-1.34-nvidia/arm64/latest/image_id",
                Family::Bottlerocket,
                "arm64",
            ),
            (
                "/aws/service/ami-windows-latest/Windows_Server-2025-English-Core-EKS_Optimized-1.35/image_id",
                Family::Windows,
                "x86_64",
            ),
        ];
        for (path, family, architecture) in paths {
            let image = &images.images[&images.parameters[path]];
            assert_eq!((image.family, &*image.architecture), (family, architecture), "{path}");
            assert!(image.created.to_string().starts_with("2026-11-10"), "{path}");
        }
        let gone = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2/recommended/image_id";
        assert!(!images.parameters.contains_key(gone), "Amazon Linux 2 has ended");
    }
}
