//! Options: upstream's names and defaults, the order of precedence, and what is reported.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use karpenter_api::options::{
    AWS_OPTIONS, AwsOptions, FeatureGate, KWOK_OPTIONS, KwokOptions, LogLevel, MinValuesPolicy, OPTIONS,
    OptionError, Options, PreferencePolicy, Source, Warning, reference,
};

fn parse(args: &[&str], env: &[(&str, &str)]) -> Result<(Options, Vec<Warning>), OptionError> {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Options::parse(&args, &lookup)
}

fn options(args: &[&str], env: &[(&str, &str)]) -> Options {
    let (options, warnings) = parse(args, env).unwrap();
    assert_eq!(warnings, [], "{args:?} {env:?}");
    options
}

#[test]
fn the_documentation_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page == reference(), "run: cargo run -p karpenter-api --example options > docs/options.md");
}

#[test]
fn names_and_defaults_are_upstreams() {
    let rows: Vec<String> = OPTIONS
        .iter()
        .chain(KWOK_OPTIONS)
        .map(|spec| format!("--{} {} {}", spec.flag, spec.env, spec.default))
        .collect();
    let expected = [
        "--karpenter-service KARPENTER_SERVICE ",
        "--metrics-port METRICS_PORT 8080",
        "--metrics-token-file METRICS_TOKEN_FILE ",
        "--metrics-max-series METRICS_MAX_SERIES 0",
        "--disable-pod-metrics DISABLE_POD_METRICS false",
        "--health-probe-port HEALTH_PROBE_PORT 8081",
        "--kube-client-qps KUBE_CLIENT_QPS 200",
        "--kube-client-burst KUBE_CLIENT_BURST 300",
        "--enable-profiling ENABLE_PROFILING false",
        "--disable-controller-warmup DISABLE_CONTROLLER_WARMUP true",
        "--disable-leader-election DISABLE_LEADER_ELECTION false",
        "--disable-cluster-state-observability DISABLE_CLUSTER_STATE_OBSERVABILITY false",
        "--leader-election-name LEADER_ELECTION_NAME karpenter-leader-election",
        "--leader-election-namespace LEADER_ELECTION_NAMESPACE ",
        "--memory-limit MEMORY_LIMIT -1",
        "--cpu-requests CPU_REQUESTS 1000",
        "--log-level LOG_LEVEL info",
        "--log-output-paths LOG_OUTPUT_PATHS stdout",
        "--log-error-output-paths LOG_ERROR_OUTPUT_PATHS stderr",
        "--batch-max-duration BATCH_MAX_DURATION 10s",
        "--batch-idle-duration BATCH_IDLE_DURATION 1s",
        "--preference-policy PREFERENCE_POLICY Respect",
        "--min-values-policy MIN_VALUES_POLICY Strict",
        "--packing-policy PACKING_POLICY Cheapest",
        "--ignore-dra-requests IGNORE_DRA_REQUESTS true",
        "--legacy-node-repair LEGACY_NODE_REPAIR false",
        "--disable-voluntary-disruption DISABLE_VOLUNTARY_DISRUPTION false",
        "--dry-run DRY_RUN false",
        "--feature-gates FEATURE_GATES NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false,TerminateFirstDrift=false,TerminateFirstRepair=false,PodDeletionCostManagement=false",
        "--scheduler-config SCHEDULER_CONFIG ",
        "--instance-types-file-path INSTANCE_TYPES_FILE_PATH ",
    ];
    assert_eq!(rows, expected);
    let flags: BTreeSet<_> = OPTIONS.iter().map(|spec| spec.flag).collect();
    assert_eq!(flags.len(), OPTIONS.len());
}

#[test]
fn every_default_can_be_read() {
    let defaults = options(&[], &[]);
    assert_eq!(defaults.metrics_port, 8080);
    assert!(defaults.disable_controller_warmup && defaults.ignore_dra_requests && !defaults.enable_profiling);
    assert_eq!(defaults.batch_max_duration, SignedDuration::from_secs(10));
    assert_eq!((defaults.memory_limit, defaults.cpu_requests), (-1, 1000));
    assert!(defaults.feature_gates.is_on(FeatureGate::ReservedCapacity));
    assert!(defaults.scheduler_config.default_constraints.is_empty());
    // Giving every default explicitly changes nothing.
    let args: Vec<String> = OPTIONS.iter().map(|spec| format!("--{}={}", spec.flag, spec.default)).collect();
    assert_eq!(Options::parse(&args, &|_| None).unwrap(), (defaults, Vec::new()));
}

#[test]
fn a_flag_wins_over_the_environment_and_the_environment_over_the_default() {
    let env = [("METRICS_PORT", "9000"), ("LOG_LEVEL", "debug"), ("BATCH_IDLE_DURATION", "250ms")];
    let from_env = options(&[], &env);
    assert_eq!((from_env.metrics_port, from_env.log_level), (9000, LogLevel::Debug));
    assert_eq!(from_env.batch_idle_duration, SignedDuration::from_millis(250));
    assert_eq!(options(&["--metrics-port=9001"], &env).metrics_port, 9001);
    assert_eq!(options(&["-metrics-port", "0x2329"], &env).metrics_port, 9001);
    assert_eq!(options(&["--metrics-port=1", "--metrics-port=2"], &env).metrics_port, 2);
    assert_eq!(options(&[], &[("LEADER_ELECTION_NAME", "")]).leader_election_name, "");
    assert_eq!(options(&[], &[("LOG_LEVEL", "")]).log_level, LogLevel::Info);
}

#[test]
fn switches_take_true_and_false_and_stand_alone_for_true() {
    assert!(options(&["--enable-profiling"], &[]).enable_profiling);
    assert!(!options(&["--enable-profiling=false"], &[("ENABLE_PROFILING", "1")]).enable_profiling);
    assert!(options(&[], &[("ENABLE_PROFILING", "T")]).enable_profiling);
    let error = parse(&["--enable-profiling=1"], &[]).unwrap_err().to_string();
    assert_eq!(error, "--enable-profiling has the value \"1\", but it must be true or false");
}

#[test]
fn an_unreadable_variable_gives_way_to_the_default_and_is_reported() {
    for (env, value) in [
        ("METRICS_PORT", "http"),
        ("METRICS_PORT", "70000"),
        ("CPU_REQUESTS", "1.5"),
        ("ENABLE_PROFILING", "yes"),
        ("BATCH_MAX_DURATION", "10"),
    ] {
        let (options, warnings) = parse(&[], &[(env, value)]).unwrap();
        assert_eq!(options, self::options(&[], &[]));
        assert_eq!(warnings.len(), 1, "{env}");
        assert!(warnings[0].to_string().starts_with(&format!("{env} has the value {value:?}, but ")));
    }
}

#[test]
fn words_that_mean_nothing_stop_the_controller_wherever_they_come_from() {
    for (env, value, problem) in [
        ("LOG_LEVEL", "warn", "it must be debug, info or error"),
        ("PREFERENCE_POLICY", "respect", "it must be Respect or Ignore"),
        ("MIN_VALUES_POLICY", "Loose", "it must be Strict or BestEffort"),
        ("FEATURE_GATES", "NodeRepair", "write Name=true or Name=false"),
        ("SCHEDULER_CONFIG", "x: 1", "unknown field `x`"),
    ] {
        let error = parse(&[], &[(env, value)]).unwrap_err().to_string();
        assert!(error.starts_with(env) && error.contains(problem), "{error}");
    }
    let chosen = options(&["--preference-policy=Ignore", "--min-values-policy", "BestEffort"], &[]);
    assert_eq!(chosen.preference_policy, PreferencePolicy::Ignore);
    assert_eq!(chosen.min_values_policy, MinValuesPolicy::BestEffort);
}

#[test]
fn an_unknown_gate_is_reported_and_changes_nothing() {
    let (options, warnings) = parse(&["--feature-gates=NodeRepair=true,Warp=true"], &[]).unwrap();
    assert!(options.feature_gates.is_on(FeatureGate::NodeRepair));
    assert_eq!(warnings[0].to_string(), "--feature-gates: there is no feature gate \"Warp\"; it is ignored");
}

#[test]
fn a_command_line_that_is_wrong_says_how_to_mend_it() {
    let error = |args: &[&str]| parse(args, &[]).unwrap_err().to_string();
    assert_eq!(error(&["--metric-port=1"]), "there is no flag --metric-port; did you mean --metrics-port?");
    assert_eq!(error(&["--warp"]), "there is no flag --warp");
    assert_eq!(error(&["--metrics-port"]), "--metrics-port needs a value; write --metrics-port=VALUE");
    assert_eq!(error(&["--=1"]), "\"--=1\" is not a flag; write --name or --name=value");
    assert_eq!(
        error(&["--metrics-port=x"]),
        "--metrics-port has the value \"x\", but it must be a whole number"
    );
    assert_eq!(parse(&["--help"], &[]), Err(OptionError::Help));
    let (options, warnings) = parse(&["--enable-profiling", "false", "--metrics-port=1"], &[]).unwrap();
    assert!(options.enable_profiling && options.metrics_port == 8080);
    assert_eq!(warnings, [Warning::ArgumentsIgnored("false".to_owned())]);
}

#[test]
fn a_cpu_request_that_is_none_counts_as_one_core() {
    assert_eq!(options(&["--cpu-requests=0"], &[]).cpu_requests, 1000);
    assert_eq!(options(&["--cpu-requests=-5"], &[]).cpu_requests, 1000);
    assert_eq!(options(&["--cpu-requests=2500"], &[]).cpu_requests, 2500);
}

#[test]
fn a_provider_reads_its_own_options_from_the_same_arguments() {
    let args = ["--instance-types-file-path=types.json".to_owned(), "--metrics-port=1".to_owned()];
    let mut source = Source::new(&args, &|_| None, &[OPTIONS, KWOK_OPTIONS]).unwrap();
    assert_eq!(Options::read(&mut source).unwrap().metrics_port, 1);
    assert_eq!(KwokOptions::read(&mut source).unwrap().instance_types_file_path, "types.json");
    assert!(Options::parse(&args, &|_| None).is_err());
}

fn aws_options(args: &[&str]) -> AwsOptions {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let mut source = Source::new(&args, &|_| None, &[OPTIONS, AWS_OPTIONS]).unwrap();
    AwsOptions::read(&mut source).unwrap()
}

#[test]
fn names_and_defaults_of_the_aws_provider_are_upstreams() {
    let rows: Vec<String> =
        AWS_OPTIONS.iter().map(|spec| format!("--{} {} {}", spec.flag, spec.env, spec.default)).collect();
    let expected = [
        "--cluster-name CLUSTER_NAME ",
        "--cluster-endpoint CLUSTER_ENDPOINT ",
        "--cluster-ca-bundle CLUSTER_CA_BUNDLE ",
        "--isolated-vpc ISOLATED_VPC false",
        "--eks-control-plane EKS_CONTROL_PLANE false",
        "--vm-memory-overhead-percent VM_MEMORY_OVERHEAD_PERCENT 0.075",
        "--interruption-queue INTERRUPTION_QUEUE ",
        "--reserved-enis RESERVED_ENIS 0",
        "--disable-dry-run DISABLE_DRY_RUN false",
        "--enable-zonal-shift ENABLE_ZONAL_SHIFT false",
        "--ami-refresh-interval AMI_REFRESH_INTERVAL 1m",
        "--subnet-refresh-interval SUBNET_REFRESH_INTERVAL 1m",
        "--aws-feature-gates AWS_FEATURE_GATES NodeClassCEL=false",
        "--replace-on-rebalance REPLACE_ON_REBALANCE false",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn what_the_aws_provider_cannot_work_with_is_said_all_at_once() {
    assert_eq!(aws_options(&["--cluster-name=demo"]).validate(), Ok(()));
    assert!(
        aws_options(&["--cluster-name=demo", "--aws-feature-gates=NodeClassCEL=true"])
            .aws_feature_gates
            .node_class_cel
    );
    let wrong = [
        "--cluster-endpoint=example.com",
        "--vm-memory-overhead-percent=-1",
        "--reserved-enis=-1",
        "--ami-refresh-interval=30s",
        "--subnet-refresh-interval=59s",
    ];
    let mistakes = aws_options(&wrong).validate().unwrap_err();
    assert_eq!(mistakes.len(), 6, "{mistakes:?}");
}
