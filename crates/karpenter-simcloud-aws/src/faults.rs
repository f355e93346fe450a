//! What goes wrong, on purpose.

use karpenter_environment::Environment;
use serde::{Deserialize, Serialize};

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// Which operation it meets; `*` is any.
    pub operation: String,
    /// How often, before it is over; `None` is for ever.
    #[serde(default)]
    pub times: Option<u32>,
    /// With what probability, by the seeded chance of the environment.
    #[serde(default = "always")]
    pub probability: f64,
    /// What goes wrong.
    pub kind: FaultKind,
}

fn always() -> f64 {
    1.0
}

/// A kind of fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum FaultKind {
    /// The account calls too often: `RequestLimitExceeded`, or as the service calls it.
    Throttle,
    /// The service fails inside: status 500.
    InternalError,
    /// The caller may not do this: `UnauthorizedOperation`, or as the service calls it.
    Denied,
    /// The caller's keys have expired.
    ExpiredCredentials,
    /// Any other error.
    Error {
        /// Its status.
        status: u16,
        /// Its code.
        code: String,
        /// What it says.
        message: String,
    },
    /// The connection breaks before the request is looked at.
    ResetBefore,
    /// The request is carried out and the connection breaks before the answer.
    ResetAfter,
    /// The answer takes so many milliseconds longer.
    Slow {
        /// How long.
        milliseconds: u64,
    },
    /// What is read is so many seconds old.
    Stale {
        /// How old.
        seconds: u32,
    },
    /// A fleet does not get machines of these offerings; what is left out means any.
    Capacity {
        /// The code of the error, say `InsufficientInstanceCapacity`.
        code: String,
        /// The instance type.
        #[serde(default)]
        instance_type: Option<String>,
        /// The zone.
        #[serde(default)]
        zone: Option<String>,
        /// `spot`, `on-demand` or `reserved`.
        #[serde(default)]
        capacity_type: Option<String>,
    },
}

impl Fault {
    /// A fault that meets an operation so many times.
    pub fn times(operation: &str, times: u32, kind: FaultKind) -> Self {
        Self { operation: operation.to_owned(), times: Some(times), probability: 1.0, kind }
    }

    /// A fault that meets an operation with a probability, for ever.
    pub fn chance(operation: &str, probability: f64, kind: FaultKind) -> Self {
        Self { operation: operation.to_owned(), times: None, probability, kind }
    }

    /// No machines, with a probability for each offering of each fleet.
    pub fn no_capacity(code: &str, probability: f64) -> Self {
        let kind = FaultKind::Capacity {
            code: code.to_owned(),
            instance_type: None,
            zone: None,
            capacity_type: None,
        };
        Self::chance("CreateFleet", probability, kind)
    }
}

/// The faults in force, in the order they were set.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn show(&self) -> &[Fault] {
        &self.0
    }

    /// What goes wrong with one call; capacity is drawn per offering.
    pub(crate) fn draw(&mut self, operation: &str, environment: &dyn Environment) -> Vec<FaultKind> {
        self.take(operation, environment, |kind| !matches!(kind, FaultKind::Capacity { .. }))
    }

    /// The code of the error with which an offering is refused, if it is.
    pub(crate) fn draw_capacity(
        &mut self,
        offering: &karpenter_provider::OfferingKey,
        environment: &dyn Environment,
    ) -> Option<String> {
        let covers =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        let drawn = self.take("CreateFleet", environment, |kind| match kind {
            FaultKind::Capacity { instance_type, zone, capacity_type, .. } => {
                covers(instance_type, &offering.instance_type)
                    && covers(zone, &offering.zone)
                    && covers(capacity_type, &offering.capacity_type)
            }
            _ => false,
        });
        drawn.into_iter().find_map(|kind| match kind {
            FaultKind::Capacity { code, .. } => Some(code),
            _ => None,
        })
    }

    fn take(
        &mut self,
        operation: &str,
        environment: &dyn Environment,
        wanted: impl Fn(&FaultKind) -> bool,
    ) -> Vec<FaultKind> {
        let mut drawn = Vec::new();
        for fault in &mut self.0 {
            let meets = (fault.operation == "*" || fault.operation == operation) && wanted(&fault.kind);
            if !meets || !happens(fault.probability, environment) {
                continue;
            }
            if let Some(times) = &mut fault.times {
                if *times == 0 {
                    continue;
                }
                *times -= 1;
            }
            drawn.push(fault.kind.clone());
        }
        self.0.retain(|fault| fault.times != Some(0));
        drawn
    }
}

fn happens(probability: f64, environment: &dyn Environment) -> bool {
    const SCALE: u64 = 1 << 32;
    // What is certain draws nothing, so that setting it changes no other chance.
    probability >= 1.0 || (environment.below(SCALE) as f64) < probability * SCALE as f64
}
