//! Every world is observed, and when it ends the observer has a word.

use std::io::Write as _;
use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_environment::Environment;
use karpenter_observer::History;
use kube::Client;

/// An observer that fails the test in the end if a promise was broken.
pub(crate) struct Observer(karpenter_observer::Observer);

impl Observer {
    pub(crate) fn begin(client: &Client, environment: &Arc<dyn Environment>) -> Self {
        Self(karpenter_observer::Observer::begin(client, environment, SignedDuration::ZERO))
    }

    pub(crate) fn history(&self) -> History {
        self.0.history()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let said = self.history().verdict().unwrap_or_else(|broken| panic!("the observer saw: {broken}"));
        // Past the test harness, which would keep it to itself: `cargo xtask test` adds these up.
        let _ = writeln!(std::io::stdout(), "{said}");
    }
}
