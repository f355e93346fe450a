//! Versions of kOps, and what each can do with Karpenter.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The first version that runs Karpenter as it is today.
pub const FIRST_WITH_KARPENTER: KopsVersion = KopsVersion { major: 1, minor: 34 };
/// The first version that delivers `EC2NodeClass`es and NodePools itself.
pub const FIRST_WITH_OBJECTS: KopsVersion = KopsVersion { major: 1, minor: 36 };

/// A version of kOps, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KopsVersion {
    major: u32,
    minor: u32,
}

impl FromStr for KopsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = text.trim().trim_start_matches('v').splitn(3, '.').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self { major, minor }),
            _ => Err(format!("{text:?} is no version of kOps: write it as 1.36.0")),
        }
    }
}

impl Display for KopsVersion {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let version = |text: &str| text.parse::<KopsVersion>().unwrap();
        assert!(version("1.9.0") < version("v1.34.0-beta.1"));
        assert!(version("1.34.2") >= FIRST_WITH_KARPENTER);
        assert!(version("1.37.0-alpha.1") > FIRST_WITH_OBJECTS);
        assert!("latest".parse::<KopsVersion>().is_err());
    }
}
