//! Aliases such as `al2023@latest`, and the SSM parameters in which AWS publishes the images behind them.

use crate::family::AmiFamily;
use crate::variant::Variant;

/// An image family at a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The family.
    pub family: AmiFamily,
    /// `latest`, or what the family's publisher calls a release.
    pub version: String,
}

/// Why a text is no alias, or not one that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AliasError {
    /// There is no `@`, or nothing on one side of it.
    #[error("{0:?} is not an alias; write a family and a version, for example \"al2023@latest\"")]
    Malformed(String),
    /// No family has this name.
    #[error(
        "{0:?} names no image family; use al2, al2023, bottlerocket, windows2019, windows2022 or windows2025"
    )]
    UnknownFamily(String),
    /// Windows images are published without a history.
    #[error("{0:?} asks for a version of Windows; only \"latest\" is published")]
    WindowsVersion(String),
    /// The family is not published for the cluster's version of Kubernetes.
    #[error("{family} images are not published for Kubernetes {version}: {remedy}")]
    Unsupported {
        /// The family.
        family: AmiFamily,
        /// The cluster's version.
        version: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The cluster's version cannot be read.
    #[error("the Kubernetes version {0:?} is not of the form 1.34, so no image can be looked up for it")]
    KubernetesVersion(String),
}

/// A parameter that holds the id of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageParameter {
    /// Its name.
    pub path: String,
    /// Which machines the image is for; each becomes an entry of the status.
    pub variants: Vec<Variant>,
    /// Whether AWS changes what it says, so that it must be read again.
    pub mutable: bool,
}

const LATEST: &str = "latest";
/// AWS publishes no AL2 images from this minor version of Kubernetes on.
const AL2_ENDS: u32 = 33;
/// Windows Server 2025 is published from this minor version on.
const WINDOWS_2025_BEGINS: u32 = 35;

impl Alias {
    /// Reads an alias.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, AliasError> {
        let malformed = || AliasError::Malformed(text.to_owned());
        let (name, version) = text.split_once('@').ok_or_else(malformed)?;
        let named = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric());
        if !named || version.is_empty() {
            return Err(malformed());
        }
        let family = AmiFamily::by_alias(name).ok_or_else(|| AliasError::UnknownFamily(text.to_owned()))?;
        if family.is_windows() && version != LATEST {
            return Err(AliasError::WindowsVersion(text.to_owned()));
        }
        Ok(Self { family, version: version.to_owned() })
    }

    /// Whether it follows new releases.
    pub fn is_latest(&self) -> bool {
        self.version == LATEST
    }

    /// The parameters that hold its images for a cluster of version `kubernetes`, say `1.34`.
    ///
    /// # Errors
    /// When the family is not published for this version.
    pub fn parameters(&self, kubernetes: &str) -> Result<Vec<ImageParameter>, AliasError> {
        self.supported(kubernetes)?;
        let parameter = |(path, variants): (String, Vec<Variant>)| ImageParameter {
            path,
            variants,
            mutable: self.is_latest(),
        };
        let paths = match self.family {
            AmiFamily::Al2 => self.al2(kubernetes),
            AmiFamily::Al2023 => self.al2023(kubernetes),
            AmiFamily::Bottlerocket => self.bottlerocket(kubernetes),
            _ => self.windows(kubernetes),
        };
        Ok(paths.into_iter().map(parameter).collect())
    }

    fn supported(&self, kubernetes: &str) -> Result<(), AliasError> {
        let minor = minor(kubernetes).ok_or_else(|| AliasError::KubernetesVersion(kubernetes.to_owned()))?;
        let remedy = match self.family {
            AmiFamily::Al2 if minor >= AL2_ENDS => "use the alias al2023@latest",
            AmiFamily::Windows2025 if minor < WINDOWS_2025_BEGINS => {
                "use the alias windows2022@latest, or upgrade the cluster to 1.35"
            }
            _ => return Ok(()),
        };
        Err(AliasError::Unsupported { family: self.family, version: kubernetes.to_owned(), remedy })
    }

    fn release(&self, pinned: impl FnOnce(&str) -> String) -> String {
        if self.is_latest() { "recommended".to_owned() } else { pinned(&self.version) }
    }

    fn al2(&self, kubernetes: &str) -> Vec<(String, Vec<Variant>)> {
        let path = |folder: &str, node: &str| {
            let release = self.release(|version| format!("amazon-eks-{node}-{kubernetes}-{version}"));
            format!("/aws/service/eks/optimized-ami/{kubernetes}/{folder}/{release}/image_id")
        };
        vec![
            (path("amazon-linux-2", "node"), vec![Variant::Standard]),
            (path("amazon-linux-2-arm64", "arm64-node"), vec![Variant::Standard]),
            (path("amazon-linux-2-gpu", "gpu-node"), vec![Variant::Neuron, Variant::Nvidia]),
        ]
    }

    fn al2023(&self, kubernetes: &str) -> Vec<(String, Vec<Variant>)> {
        let path = |(arch, variant): (&str, Variant)| {
            let name = variant.name();
            let release = self
                .release(|version| format!("amazon-eks-node-al2023-{arch}-{name}-{kubernetes}-{version}"));
            let folder = format!("/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023");
            (format!("{folder}/{arch}/{name}/{release}/image_id"), vec![variant])
        };
        let builds = [
            ("x86_64", Variant::Standard),
            ("x86_64", Variant::Nvidia),
            ("x86_64", Variant::Neuron),
            ("arm64", Variant::Standard),
            ("arm64", Variant::Nvidia),
        ];
        builds.into_iter().map(path).collect()
    }

    fn bottlerocket(&self, kubernetes: &str) -> Vec<(String, Vec<Variant>)> {
        let version = self.version.strip_prefix('v').unwrap_or(&self.version);
        let path = |flavour: &str, arch: &str| {
            format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{flavour}/{arch}/{version}/image_id")
        };
        vec![
            (path("", "x86_64"), vec![Variant::Standard, Variant::Neuron]),
            (path("", "arm64"), vec![Variant::Standard]),
            (path("-nvidia", "x86_64"), vec![Variant::Nvidia]),
            (path("-nvidia", "arm64"), vec![Variant::Nvidia]),
        ]
    }

    fn windows(&self, kubernetes: &str) -> Vec<(String, Vec<Variant>)> {
        let year = self.family.name().trim_start_matches("Windows");
        let name = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}");
        let build = self.family.windows_build().unwrap_or_default();
        vec![(format!("/aws/service/ami-windows-latest/{name}/image_id"), vec![Variant::Windows(build)])]
    }
}

/// The minor part of `1.34`.
fn minor(kubernetes: &str) -> Option<u32> {
    let (major, minor) = kubernetes.split_once('.')?;
    major.parse::<u32>().ok()?;
    minor.parse().ok()
}
