//! What lint has found: a stable code, where, why, and what to do about it.

use std::fmt;

use karpenter_api::NodePool;
use serde::{Serialize, Serializer};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// It works, though probably not as meant.
    Warning,
    /// It can never work.
    Error,
}

impl Severity {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $name:ident = $text:literal, $severity:ident;)+) => {
        /// What kind of mistake it is. Names and texts stay, so that scripts can rely on them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $meaning])+ $name,)+
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The code as it is printed.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// How bad such a finding is.
            pub fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)+ }
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($meaning),+).trim_ascii(),)+ }
            }
        }
    };
}

codes! {
    /// A label, taint, requirement or quantity is not written as Karpenter can read it.
    Invalid = "Invalid", Error;
    /// Some values of a requirement are ignored, because the label cannot have them.
    ValueIgnored = "ValueIgnored", Warning;
    /// An annotation that only this Karpenter understands cannot be read.
    AnnotationUnreadable = "AnnotationUnreadable", Warning;
    /// Lines of one label exclude each other.
    RequirementsContradict = "RequirementsContradict", Error;
    /// No instance type has what one requirement asks for.
    RequirementUnsatisfiable = "RequirementUnsatisfiable", Error;
    /// Every requirement can be met, but no instance type meets them together.
    RequirementsUnsatisfiable = "RequirementsUnsatisfiable", Error;
    /// Instance types are left, but none is sold in a zone and capacity type that the pool allows.
    NoOffering = "NoOffering", Error;
    /// Fewer values are left than minValues asks for.
    MinValuesUnreachable = "MinValuesUnreachable", Error;
    /// A value that no instance type has stands among values that exist.
    ValueUnknown = "ValueUnknown", Warning;
    /// A label that nobody defines is spelt almost as one that is.
    LabelMisspelt = "LabelMisspelt", Warning;
    /// The limits do not leave room for a single node.
    LimitBelowOneNode = "LimitBelowOneNode", Error;
    /// A limit of zero keeps the pool from getting nodes.
    LimitZero = "LimitZero", Warning;
    /// A limit bounds a resource that none of the pool's machines has.
    LimitWithoutEffect = "LimitWithoutEffect", Warning;
    /// A static pool wants more nodes than its limit allows.
    ReplicasAboveLimit = "ReplicasAboveLimit", Error;
    /// No node may ever be disrupted for any reason.
    BudgetNeverOpens = "BudgetNeverOpens", Warning;
    /// The schedule of a budget cannot be read, so that nothing may be disrupted.
    BudgetUnreadable = "BudgetUnreadable", Error;
    /// The schedule of a budget names a time that never comes.
    BudgetNeverInForce = "BudgetNeverInForce", Warning;
    /// All budgets have windows, and outside of them any number of nodes may be disrupted.
    BudgetUnboundedOutside = "BudgetUnboundedOutside", Note;
    /// The NodeClass that the pool names does not exist.
    NodeClassMissing = "NodeClassMissing", Error;
    /// The pool names a NodeClass of a kind that the provider does not serve.
    NodeClassNotServed = "NodeClassNotServed", Warning;
    /// Nodes expire before they have been quiet long enough to be consolidated.
    NeverConsolidated = "NeverConsolidated", Warning;
    /// Nodes live so short that much of their life is spent starting and draining.
    ShortLife = "ShortLife", Warning;
    /// Nothing bounds how large the pool may become.
    NoLimits = "NoLimits", Note;
    /// Two pools of equal weight serve the same pods; which one is used is decided by their names.
    EqualWeights = "EqualWeights", Note;
    /// A PodDisruptionBudget never lets a pod go, so that nodes with such pods never drain.
    NeverDrains = "NeverDrains", Warning;
    /// Two PodDisruptionBudgets select the same pods, which makes eviction fail.
    BudgetsOverlap = "BudgetsOverlap", Warning;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The object that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Object {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Object {
    pub(crate) fn node_pool(pool: &NodePool) -> Self {
        Self { kind: "NodePool", namespace: None, name: pool.metadata.name.clone().unwrap_or_default() }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        self.namespace.iter().try_for_each(|namespace| write!(f, "{namespace}/"))?;
        f.write_str(&self.name)
    }
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of mistake it is.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// In which object.
    pub object: Object,
    /// In which field of it, as in `spec.template.spec.requirements[0]`.
    pub field: String,
    /// What is wrong, as a sentence without a full stop.
    pub cause: String,
    /// What to do about it, as a sentence without a full stop.
    pub remedy: String,
}

impl Finding {
    pub(crate) fn new(
        code: Code,
        object: &Object,
        field: impl Into<String>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let severity = code.severity();
        let (field, cause, remedy) = (field.into(), cause.into(), remedy.into());
        Self { code, severity, object: object.clone(), field, cause, remedy }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {} [{}]", self.field, self.cause, self.remedy, self.code)
    }
}
