//! Image families: what a machine expects in its user data, and which volumes it gets unless the class says otherwise.

use std::fmt;

/// A family of images that start in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are those of `amiFamily`")]
pub enum AmiFamily {
    Al2,
    Al2023,
    Bottlerocket,
    Windows2019,
    Windows2022,
    Windows2025,
    Custom,
}

/// A volume that a family's machines get by default: gp3 and encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultVolume {
    /// Where it is attached.
    pub device: &'static str,
    /// Its size in GiB.
    pub gib: u32,
}

/// A family's name in `amiFamily`, and in aliases.
const NAMES: &[(AmiFamily, &str, Option<&str>)] = &[
    (AmiFamily::Al2, "AL2", Some("al2")),
    (AmiFamily::Al2023, "AL2023", Some("al2023")),
    (AmiFamily::Bottlerocket, "Bottlerocket", Some("bottlerocket")),
    (AmiFamily::Windows2019, "Windows2019", Some("windows2019")),
    (AmiFamily::Windows2022, "Windows2022", Some("windows2022")),
    (AmiFamily::Windows2025, "Windows2025", Some("windows2025")),
    (AmiFamily::Custom, "Custom", None),
];

impl AmiFamily {
    /// The family by its name in `amiFamily`.
    pub fn by_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known, _)| *known == name).map(|(family, ..)| *family)
    }

    /// The family by its name in an alias, in any case.
    pub fn by_alias(name: &str) -> Option<Self> {
        let named = |alias: Option<&str>| alias.is_some_and(|alias| alias.eq_ignore_ascii_case(name));
        NAMES.iter().find(|(_, _, alias)| named(*alias)).map(|(family, ..)| *family)
    }

    /// Its name in `amiFamily`.
    pub fn name(self) -> &'static str {
        self.names().1
    }

    /// Its name in aliases; `Custom` has none.
    pub fn alias(self) -> Option<&'static str> {
        self.names().2
    }

    fn names(self) -> (Self, &'static str, Option<&'static str>) {
        *NAMES.iter().find(|(family, ..)| *family == self).expect("every family is in the table")
    }

    /// The build of Windows; `None` for Linux.
    pub fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            _ => None,
        }
    }

    /// Whether it runs Windows.
    pub fn is_windows(self) -> bool {
        self.windows_build().is_some()
    }

    /// The device on which the kubelet keeps its files unless a mapping says `rootVolume`.
    pub fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::Al2 | Self::Al2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
            Self::Custom => None,
        }
    }

    /// The volumes of machines whose class has no `blockDeviceMappings`.
    pub fn default_volumes(self) -> &'static [DefaultVolume] {
        match self {
            Self::Al2 | Self::Al2023 => &[DefaultVolume { device: "/dev/xvda", gib: 20 }],
            Self::Bottlerocket => &[
                DefaultVolume { device: "/dev/xvda", gib: 4 },
                DefaultVolume { device: "/dev/xvdb", gib: 20 },
            ],
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => {
                &[DefaultVolume { device: "/dev/sda1", gib: 50 }]
            }
            Self::Custom => &[],
        }
    }

    /// Whether memory is reserved for as many pods as interfaces allow, whatever `maxPods` says.
    pub fn uses_eni_limited_memory_overhead(self) -> bool {
        !matches!(self, Self::Bottlerocket | Self::Windows2019 | Self::Windows2022 | Self::Windows2025)
    }

    /// Whether `podsPerCore` has an effect.
    pub fn supports_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    /// Whether the number of pods follows from the network interfaces of the type.
    pub fn supports_eni_limited_pod_density(self) -> bool {
        !self.is_windows()
    }

    /// Whether it passes every field of a kubelet's configuration on.
    pub fn takes_any_kubelet_field(self) -> bool {
        self == Self::Al2023
    }
}

impl fmt::Display for AmiFamily {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
