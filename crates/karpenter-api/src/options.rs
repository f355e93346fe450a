//! The controller's options: one table of flag, environment variable, chart value, default and meaning.
//!
//! The table ([`OPTIONS`]) is the single source: [`Options`] is read through it, and [`reference()`] renders it
//! for the documentation. A flag wins over its environment variable, which wins over the default. Names and
//! rules are upstream's, with one addition: what upstream ignores in silence (an environment variable that
//! cannot be read, an unknown feature gate, arguments after the flags) is reported as a [`Warning`].
//!
//! A provider adds options of its own with [`options_table!`](crate::options_table) and reads them from the
//! same [`Source`].

mod alibabacloud;
mod aws;
mod feature_gates;
mod reference;
mod scheduler_config;
mod source;
mod value;

pub use alibabacloud::{ALIBABA_CLOUD_OPTIONS, AlibabaCloudOptions};
pub use aws::{AWS_OPTIONS, AwsFeatureGates, AwsOptions};
pub use feature_gates::{FEATURE_GATES, FeatureGate, FeatureGateSpec, FeatureGates, GateError, Stage};
pub use reference::{markdown_table, reference};
pub use scheduler_config::{SchedulerConfig, SchedulerConfigError};
pub use source::{OptionError, Source, Warning};
pub use value::{LogLevel, MinValuesPolicy, OptionValue, PackingPolicy, PreferencePolicy};

use jiff::SignedDuration;

/// One row of an options table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Name of the flag, without dashes.
    pub flag: &'static str,
    /// Name of the environment variable.
    pub env: &'static str,
    /// Path of the value in the Helm chart; empty if the variable is set through `controller.env`.
    pub chart: &'static str,
    /// The default, as it would be written on the command line.
    pub default: &'static str,
    /// Whether the flag may stand without a value, meaning `true`.
    pub is_switch: bool,
    /// What the option does.
    pub help: &'static str,
}

/// Declares a struct of options and the table it is read from; each field's doc comment is its help.
#[macro_export]
macro_rules! options_table {
    (
        $(#[$attribute:meta])* $name:ident, table $table:ident;
        $($(#[doc = $help:literal])+ $field:ident: $type:ty = $default:expr, $flag:literal, $env:literal, $chart:literal;)+
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $help])+ pub $field: $type,)+
        }

        #[doc = concat!("The rows behind [`", stringify!($name), "`].")]
        pub const $table: &[$crate::options::OptionSpec] = &[$($crate::options::OptionSpec {
            flag: $flag,
            env: $env,
            chart: $chart,
            default: $default,
            is_switch: <$type as $crate::options::OptionValue>::IS_SWITCH,
            help: concat!($($help),+),
        },)+];

        impl $name {
            /// Reads every option from the source.
            ///
            /// # Errors
            /// Returns the first option whose value cannot be used.
            pub fn read(source: &mut $crate::options::Source<'_>) -> Result<Self, $crate::options::OptionError> {
                let mut rows = $table.iter();
                let mut row = || rows.next().expect("the table has a row for every field");
                Ok(Self { $($field: source.read(row())?,)+ })
            }
        }
    };
}

options_table! {
    /// Options of the controller, whatever the provider.
    Options, table OPTIONS;

    /// Name of the controller's Service. Accepted for compatibility and not used.
    karpenter_service: String = "", "karpenter-service", "KARPENTER_SERVICE", "";
    /// Port for metrics.
    metrics_port: u16 = "8080", "metrics-port", "METRICS_PORT", "controller.metrics.port";
    /// File with the token that whoever scrapes metrics must show as a bearer token; empty asks nobody. The file is
    /// read at every scrape, so the token can be changed. Ours alone.
    metrics_token_file: String = "", "metrics-token-file", "METRICS_TOKEN_FILE", "controller.metrics.tokenSecret";
    /// Most series that one gauge shows; 0 means any number. A further metric says how many are left
    /// out. Ours alone.
    metrics_max_series: i64 = "0", "metrics-max-series", "METRICS_MAX_SERIES", "controller.metrics.maxSeries";
    /// Leaves out metrics with a series for every pod; the sums over all pods stay. Ours alone.
    disable_pod_metrics: bool = "false", "disable-pod-metrics", "DISABLE_POD_METRICS", "controller.metrics.disablePodMetrics";
    /// Port for liveness and readiness probes.
    health_probe_port: u16 = "8081", "health-probe-port", "HEALTH_PROBE_PORT", "controller.healthProbe.port";
    /// Requests per second to the API server, on average.
    kube_client_qps: i64 = "200", "kube-client-qps", "KUBE_CLIENT_QPS", "";
    /// Requests to the API server that may come at once.
    kube_client_burst: i64 = "300", "kube-client-burst", "KUBE_CLIENT_BURST", "";
    /// Serves profiles on the metrics port.
    enable_profiling: bool = "false", "enable-profiling", "ENABLE_PROFILING", "";
    /// Accepted for compatibility and without effect: a standby replica always fills its caches, so that it can lead at once.
    disable_controller_warmup: bool = "true", "disable-controller-warmup", "DISABLE_CONTROLLER_WARMUP", "";
    /// Runs without leader election; for a single replica.
    disable_leader_election: bool = "false", "disable-leader-election", "DISABLE_LEADER_ELECTION", "";
    /// Leaves out metrics and events about the state of pods, nodes and pools.
    disable_cluster_state_observability: bool = "false", "disable-cluster-state-observability",
        "DISABLE_CLUSTER_STATE_OBSERVABILITY", "settings.disableClusterStateObservability";
    /// Name of the Lease by which replicas elect a leader.
    leader_election_name: String = "karpenter-leader-election", "leader-election-name", "LEADER_ELECTION_NAME", "";
    /// Namespace of that Lease; empty means the controller's own.
    leader_election_namespace: String = "", "leader-election-namespace", "LEADER_ELECTION_NAMESPACE", "";
    /// Memory limit of the container in bytes; -1 means none.
    memory_limit: i64 = "-1", "memory-limit", "MEMORY_LIMIT", "controller.resources.limits.memory";
    /// CPU request of the container in thousandths of a core; concurrency grows with it.
    cpu_requests: i64 = "1000", "cpu-requests", "CPU_REQUESTS", "controller.resources.requests.cpu";
    /// How much is logged: debug, info or error.
    log_level: LogLevel = "info", "log-level", "LOG_LEVEL", "logLevel";
    /// Where logs go, separated by commas.
    log_output_paths: String = "stdout", "log-output-paths", "LOG_OUTPUT_PATHS", "logOutputPaths";
    /// Where errors of the logger itself go, separated by commas.
    log_error_output_paths: String = "stderr", "log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS", "logErrorOutputPaths";
    /// Longest time pods are collected before a batch is planned. Longer batches give fewer, larger nodes.
    batch_max_duration: SignedDuration = "10s", "batch-max-duration", "BATCH_MAX_DURATION", "settings.batchMaxDuration";
    /// A batch is planned as soon as no pod has come for this long.
    batch_idle_duration: SignedDuration = "1s", "batch-idle-duration", "BATCH_IDLE_DURATION", "settings.batchIdleDuration";
    /// Whether preferences of pods (preferred affinities, spread that is not mandatory) are honoured while
    /// possible: Respect or Ignore.
    preference_policy: PreferencePolicy = "Respect", "preference-policy", "PREFERENCE_POLICY", "settings.preferencePolicy";
    /// What happens when minValues cannot be met: Strict refuses, BestEffort relaxes.
    min_values_policy: MinValuesPolicy = "Strict", "min-values-policy", "MIN_VALUES_POLICY", "settings.minValuesPolicy";
    /// Which of several plans is kept: Cheapest, or FewestNodes, which is nearer to upstream's and pays more for it where fewer
    /// nodes are dearer. Ours alone.
    packing_policy: PackingPolicy = "Cheapest", "packing-policy", "PACKING_POLICY", "settings.packingPolicy";
    /// Plans pods as if they had no resource claims (DRA).
    ignore_dra_requests: bool = "true", "ignore-dra-requests", "IGNORE_DRA_REQUESTS", "settings.ignoreDRARequests";
    /// With the gate NodeRepair, repairs nodes the old way: replacement only, without budgets, priorities
    /// or the do-not-repair annotation.
    legacy_node_repair: bool = "false", "legacy-node-repair", "LEGACY_NODE_REPAIR", "";
    /// Stops all voluntary disruption at once: consolidation, emptiness, drift, rotation and repair. Expiration,
    /// interruption and deletions by hand go on. Ours alone.
    disable_voluntary_disruption: bool = "false", "disable-voluntary-disruption", "DISABLE_VOLUNTARY_DISRUPTION",
        "settings.disableVoluntaryDisruption";
    /// Only shows what would be done: takes no Lease, writes nothing, starts and stops no machine, and so can run beside
    /// the autoscaler in charge. What it would do is in its log, its metrics and at /dry-run of the metrics port. Ours alone.
    dry_run: bool = "false", "dry-run", "DRY_RUN", "";
    /// Feature gates to switch on or off, as Name=true,Other=false.
    feature_gates: FeatureGates = feature_gates::DEFAULTS, "feature-gates", "FEATURE_GATES", "settings.featureGates";
    /// YAML or JSON that repeats those settings of kube-scheduler that planning must share; the one setting is
    /// podTopologySpread.defaultConstraints.
    scheduler_config: SchedulerConfig = "", "scheduler-config", "SCHEDULER_CONFIG", "settings.schedulerConfig";
}

options_table! {
    /// Options of the KWOK provider.
    KwokOptions, table KWOK_OPTIONS;

    /// JSON file with the instance types to offer instead of the built-in ones.
    instance_types_file_path: String = "", "instance-types-file-path", "INSTANCE_TYPES_FILE_PATH", "";
}

/// CPU request assumed when the given one is not positive, as it is when the container requests none.
const CPU_REQUESTS_DEFAULT: i64 = 1000;

impl Options {
    /// Reads the options from arguments and environment, together with what could not be honoured.
    ///
    /// # Errors
    /// Returns the first thing that makes the command line or the environment unusable.
    pub fn parse(
        args: &[String],
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Self, Vec<Warning>), OptionError> {
        let mut source = Source::new(args, env, &[OPTIONS])?;
        let mut options = Self::read(&mut source)?;
        options.normalize();
        Ok((options, source.into_warnings()))
    }

    /// Replaces values that stand for "not given".
    pub fn normalize(&mut self) {
        if self.cpu_requests <= 0 {
            self.cpu_requests = CPU_REQUESTS_DEFAULT;
        }
    }
}
