//! What the AWS provider counts, with upstream's names and labels.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use karpenter_aws_bootstrap::LARGEST;
use karpenter_aws_client::{Measured, Meter};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

type Labels = Vec<(&'static str, String)>;

/// Buckets of the time a batch waits, in seconds.
const WAITS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.35, 0.5, 0.75, 1.0, 2.0];
/// Buckets of the size of a batch.
const SIZES: [f64; 34] = [
    1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 125.0,
    150.0, 175.0, 200.0, 225.0, 250.0, 275.0, 300.0, 350.0, 400.0, 450.0, 500.0, 550.0, 600.0, 700.0, 800.0,
    900.0, 1000.0,
];
/// Buckets of the time a message lies in the queue, in seconds.
const DELAYS: [f64; 16] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0, 600.0];

/// Buckets of the attempts a call takes beyond the first.
const RETRIES: [f64; 11] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];

/// What is counted. Clones share their counts.
#[derive(Clone)]
pub(crate) struct AwsMetrics {
    launch_failures: Family<Labels, Counter>,
    termination_failures: Family<Labels, Counter>,
    batch_waits: Family<Labels, Histogram, fn() -> Histogram>,
    batch_sizes: Family<Labels, Histogram, fn() -> Histogram>,
    received: Family<Labels, Counter>,
    deleted: Counter,
    delays: Histogram,
    unhealthy: Family<Labels, Counter>,
    /// Size of the user data of each EC2NodeClass.
    user_data: Arc<Mutex<BTreeMap<String, usize>>>,
    calls: Family<Labels, Counter>,
    call_durations: Family<Labels, Histogram, fn() -> Histogram>,
    call_retries: Family<Labels, Histogram, fn() -> Histogram>,
    attempts: Family<Labels, Counter>,
    attempt_durations: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Default for AwsMetrics {
    fn default() -> Self {
        Self {
            launch_failures: Family::default(),
            termination_failures: Family::default(),
            batch_waits: Family::new_with_constructor(|| Histogram::new(WAITS)),
            batch_sizes: Family::new_with_constructor(|| Histogram::new(SIZES)),
            received: Family::default(),
            deleted: Counter::default(),
            delays: Histogram::new(DELAYS),
            unhealthy: Family::default(),
            user_data: Arc::default(),
            calls: Family::default(),
            call_durations: Family::new_with_constructor(|| Histogram::new(durations())),
            call_retries: Family::new_with_constructor(|| Histogram::new(RETRIES)),
            attempts: Family::default(),
            attempt_durations: Family::new_with_constructor(|| Histogram::new(durations())),
        }
    }
}

impl AwsMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "karpenter_cloudprovider_instance_launch_failures",
            "Offerings that EC2 refused to launch",
            self.launch_failures.clone(),
        );
        registry.register(
            "karpenter_cloudprovider_instance_termination_failures",
            "Terminations that EC2 refused",
            self.termination_failures.clone(),
        );
        registry.register(
            "karpenter_cloudprovider_batcher_batch_time_seconds",
            "How long calls wait to be sent together",
            self.batch_waits.clone(),
        );
        registry.register(
            "karpenter_cloudprovider_batcher_batch_size",
            "How many calls are sent together",
            self.batch_sizes.clone(),
        );
        registry.register(
            "karpenter_interruption_received_messages",
            "Messages of the interruption queue, by what they say",
            self.received.clone(),
        );
        registry.register(
            "karpenter_interruption_deleted_messages",
            "Messages of the interruption queue that were dealt with",
            self.deleted.clone(),
        );
        registry.register(
            "karpenter_interruption_message_queue_duration_seconds",
            "From an event until its message was received",
            self.delays.clone(),
        );
        registry.register(
            "karpenter_interruption_instance_status_unhealthy",
            "Instances whose status became bad, by what is wrong",
            self.unhealthy.clone(),
        );
        registry.register_collector(Box::new(UserDataSizes(Arc::clone(&self.user_data))));
        self.register_calls(registry);
    }

    /// Dashboards know these by the names that a wrapper of AWS's SDK for Go gave them.
    fn register_calls(&self, registry: &mut Registry) {
        let prefix = "aws_sdk_go_request";
        registry.register(prefix, "Calls to AWS", self.calls.clone());
        let help = "How long calls to AWS took, with every attempt";
        registry.register(format!("{prefix}_duration_seconds"), help, self.call_durations.clone());
        let help = "How many attempts more than one a call to AWS took";
        registry.register(format!("{prefix}_retry_count"), help, self.call_retries.clone());
        let help = "Attempts of calls to AWS";
        registry.register(format!("{prefix}_attempt"), help, self.attempts.clone());
        let help = "How long attempts of calls to AWS took";
        registry.register(format!("{prefix}_attempt_duration_seconds"), help, self.attempt_durations.clone());
    }

    pub(crate) fn launch_failed(&self, zone: &str, zone_id: &str, capacity_type: &str, reason: &str) {
        let labels =
            [("zone", zone), ("zone_id", zone_id), ("capacity_type", capacity_type), ("reason", reason)];
        self.launch_failures.get_or_create(&owned(&labels)).inc();
    }

    pub(crate) fn termination_failed(&self, zone: &str, zone_id: &str) {
        self.termination_failures.get_or_create(&owned(&[("zone", zone), ("zone_id", zone_id)])).inc();
    }

    pub(crate) fn batched(&self, batcher: &'static str, size: usize, wait: Duration) {
        let labels = owned(&[("batcher", batcher)]);
        self.batch_sizes.get_or_create(&labels).observe(size as f64);
        self.batch_waits.get_or_create(&labels).observe(wait.as_secs_f64());
    }

    pub(crate) fn received(&self, message_type: &str, delay: Option<f64>) {
        self.received.get_or_create(&owned(&[("message_type", message_type)])).inc();
        if let Some(delay) = delay {
            self.delays.observe(delay);
        }
    }

    pub(crate) fn deleted(&self) {
        self.deleted.inc();
    }

    pub(crate) fn unhealthy(&self, category: &str) {
        self.unhealthy.get_or_create(&owned(&[("category", category)])).inc();
    }
}

impl AwsMetrics {
    /// Takes how large the user data of a class is; says so once it comes near to what EC2 takes.
    pub(crate) fn user_data(&self, class: &str, bytes: usize) {
        let mut sizes = self.user_data.lock().unwrap_or_else(PoisonError::into_inner);
        let before = sizes.insert(class.to_owned(), bytes);
        let near = |bytes: usize| bytes * 10 >= LARGEST * 9;
        if near(bytes) && !before.is_some_and(near) {
            tracing::warn!(
                "the user data of EC2NodeClass {class} has {bytes} of the {LARGEST} bytes that EC2 takes; shorten userData before it is refused"
            );
        }
    }

    /// Forgets classes that are not among `names`.
    pub(crate) fn keep_only(&self, names: &BTreeSet<String>) {
        let mut sizes = self.user_data.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.retain(|name, _| names.contains(name));
    }
}

/// Shows how large user data is.
#[derive(Debug)]
struct UserDataSizes(Arc<Mutex<BTreeMap<String, usize>>>);

impl Collector for UserDataSizes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let name = "karpenter_ec2nodeclasses_userdata_bytes";
        let help = "Size of the user data of an EC2NodeClass";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (class, bytes) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let labels = [("nodeclass", class.as_str())];
            ConstGauge::new(*bytes as f64).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Meter for AwsMetrics {
    fn attempt(&self, attempt: &Measured) {
        let labels = called(attempt);
        self.attempts.get_or_create(&labels).inc();
        self.attempt_durations.get_or_create(&labels).observe(attempt.took.as_secs_f64());
    }

    fn call(&self, call: &Measured, retries: u32) {
        let labels = called(call);
        self.calls.get_or_create(&labels).inc();
        self.call_durations.get_or_create(&labels).observe(call.took.as_secs_f64());
        self.call_retries.get_or_create(&labels).observe(f64::from(retries));
    }
}

fn called(call: &Measured) -> Labels {
    let status = call.status.to_string();
    owned(&[("service", call.service), ("action", call.operation), ("code", &status)])
}

/// Buckets of the time a call takes, in seconds.
fn durations() -> impl Iterator<Item = f64> {
    exponential_buckets(0.01, 1.5, 20)
}

fn owned(labels: &[(&'static str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}
