//! Work that is done again and again; what fails is tried again sooner.

use std::time::Duration;

use karpenter_runtime::{Caches, Change, Controller, Effect, Key, Outcome, Request, View, Wakes, Watches};

/// How soon failed work is tried again.
const AGAIN: Duration = Duration::from_mins(1);

/// Does its work every so often.
pub(crate) struct Periodic {
    name: &'static str,
    period: Duration,
    /// What the work changes, as the middle of a sentence; `None` if it only looks.
    action: Option<&'static str>,
    /// Whether the work was done before the start.
    later: bool,
    /// How the work that was just done ended.
    ended: Option<Result<(), String>>,
}

impl Periodic {
    pub(crate) fn new(name: &'static str, period: Duration, action: Option<&'static str>) -> Self {
        Self { name, period, action, later: false, ended: None }
    }

    /// Does its work for the first time after a period, because it was done before the start.
    #[must_use]
    pub(crate) fn later(self) -> Self {
        Self { later: true, ..self }
    }
}

/// The work; what it is, is known to whoever does it.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    action: Option<&'static str>,
}

impl Request for Work {
    fn action(&self) -> Option<String> {
        self.action.map(str::to_owned)
    }
}

impl Controller for Periodic {
    type Request = Work;
    type Reply = Result<(), String>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn watches(&self, _: &mut Watches) {}

    fn begin(&mut self, _: &Caches, wakes: &mut Wakes) {
        wakes.wake_after(Key::everything(), if self.later { self.period } else { Duration::ZERO });
    }

    fn wake(&mut self, _: &Change, _: &Caches, _: &mut Wakes) {}

    fn reconcile(&mut self, _: &Key, _: &View<'_>) -> Outcome<Work> {
        match self.ended.take() {
            Some(Ok(())) => Outcome::after(self.period),
            Some(Err(_)) => Outcome::after(self.period.min(AGAIN)),
            None => Outcome::after(self.period).then(Effect::Request(Work { action: self.action })),
        }
    }

    fn hear(&mut self, _: &Key, reply: Result<(), String>, _: &View<'_>) {
        if let Err(error) = &reply {
            tracing::warn!(controller = self.name, "{error}");
        }
        self.ended = Some(reply);
    }
}
