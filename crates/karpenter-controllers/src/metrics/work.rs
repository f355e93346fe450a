//! How busy the controllers are and how the API server answers them, under the names that dashboards of controller-runtime,
//! of work queues and of client-go know.

use std::time::Duration;

use karpenter_runtime::{Ending, LookMeter, Meter, Target};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::{Labels, Metrics};

/// The series of one controller, looked up once: a busy cluster asks for thousands of looks a second.
struct Looks {
    done: Counter,
    again: Counter,
    failed: Counter,
    errors: Counter,
    time: Histogram,
    adds: Counter,
    retries: Counter,
    work: Histogram,
}

impl LookMeter for Looks {
    fn asked(&self) {
        self.adds.inc();
    }

    fn ended(&self, ending: Ending, took: Duration) {
        match ending {
            Ending::Done => self.done.inc(),
            Ending::Again => self.again.inc(),
            Ending::Failed => {
                self.errors.inc();
                self.retries.inc();
                self.failed.inc()
            }
        };
        self.time.observe(took.as_secs_f64());
        self.work.observe(took.as_secs_f64());
    }
}

impl Meter for Metrics {
    fn of_controller(&self, name: &'static str) -> Box<dyn LookMeter> {
        let controller: Labels<1> = [("controller", name.to_owned())];
        let ended = |result: &str| {
            let [controller] = controller.clone();
            self.reconciles.of(&[controller, ("result", result.to_owned())])
        };
        // There is one work queue for each controller, and it has the controller's name.
        let queue: Labels<2> = [("controller", name.to_owned()), ("name", name.to_owned())];
        Box::new(Looks {
            done: ended("success"),
            again: ended("requeue_after"),
            failed: ended("error"),
            errors: self.reconcile_errors.of(&controller),
            time: self.reconcile_time.of(&controller),
            adds: self.queue_adds.of(&queue),
            retries: self.queue_retries.of(&queue),
            work: self.queue_work.of(&queue),
        })
    }

    fn answered(&self, method: &str, target: &Target<'_>, code: Option<u16>, took: Duration) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.requests.of(&[("code", code), ("method", method.to_owned())]).inc();
        let labels = [
            ("verb", method),
            ("group", target.group),
            ("version", target.version),
            ("kind", target.resource),
            ("subresource", target.subresource),
        ];
        let labels = labels.map(|(name, value)| (name, value.to_owned()));
        self.request_duration.of(&labels).observe(took.as_secs_f64());
    }
}
