//! Dry runs: effects are shown to a witness instead of being performed.

use crate::write::Write;

/// An effect that was not performed.
#[derive(Clone, Copy, Debug)]
pub enum Withheld<'a> {
    /// A write to the Kubernetes API.
    Write(&'a Write),
    /// An action outside it, as the middle of a sentence.
    Action(&'a str),
}

impl Withheld<'_> {
    /// What sort of effect it is, without the object it is about: "create NodeClaim".
    pub fn sort(&self) -> String {
        match self {
            Self::Write(write) => write.sort(),
            Self::Action(action) => action.split_whitespace().next().unwrap_or_default().to_owned(),
        }
    }

    /// Whether it writes an object of this kind.
    pub fn is_about(&self, kind: &str) -> bool {
        matches!(self, Self::Write(write) if write.singular == kind)
    }
}

impl std::fmt::Display for Withheld<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Write(write) => write!(formatter, "{write}"),
            Self::Action(action) => formatter.write_str(action),
        }
    }
}

/// Is shown what would have been done.
pub trait Witness: Send + Sync + 'static {
    /// Hears of one effect that `controller` asked for. It is asked for again as long as the cluster stays as it is, ever more rarely.
    fn withheld(&self, controller: &'static str, effect: Withheld<'_>);
}
