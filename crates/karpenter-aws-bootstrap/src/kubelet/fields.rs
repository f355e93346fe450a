//! The fields of `KubeletConfiguration` v1beta1 and what they may hold.

use serde_json::Value;

/// What a field may hold.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Bool,
    Int32,
    Int64,
    Float,
    Text,
    /// A Go duration such as `10s`.
    Duration,
    Texts,
    Numbers,
    TextMap,
    TextsMap,
    BoolMap,
    /// An object of these fields.
    Object(&'static [(&'static str, Shape)]),
    /// A list of objects of these fields.
    Objects(&'static [(&'static str, Shape)]),
    /// An object that is passed on unread.
    Open,
}

use Shape::{
    Bool, BoolMap, Duration, Float, Int32, Int64, Numbers, Object, Objects, Open, Text, TextMap, Texts,
    TextsMap,
};

const AUTHENTICATION: &[(&str, Shape)] = &[
    ("x509", Object(&[("clientCAFile", Text)])),
    ("webhook", Object(&[("enabled", Bool), ("cacheTTL", Duration)])),
    ("anonymous", Object(&[("enabled", Bool)])),
];
const AUTHORIZATION: &[(&str, Shape)] = &[
    ("mode", Text),
    ("webhook", Object(&[("cacheAuthorizedTTL", Duration), ("cacheUnauthorizedTTL", Duration)])),
];
const SHUTDOWN: &[(&str, Shape)] = &[("priority", Int32), ("shutdownGracePeriodSeconds", Int64)];
const RESERVED_MEMORY: &[(&str, Shape)] = &[("numaNode", Int32), ("limits", Open)];

/// Every field.
pub(super) const CONFIGURATION: &[(&str, Shape)] = &[
    ("apiVersion", Text),
    ("kind", Text),
    ("enableServer", Bool),
    ("staticPodPath", Text),
    ("podLogsDir", Text),
    ("syncFrequency", Duration),
    ("fileCheckFrequency", Duration),
    ("httpCheckFrequency", Duration),
    ("staticPodURL", Text),
    ("staticPodURLHeader", TextsMap),
    ("address", Text),
    ("port", Int32),
    ("readOnlyPort", Int32),
    ("tlsCertFile", Text),
    ("tlsPrivateKeyFile", Text),
    ("tlsCipherSuites", Texts),
    ("tlsCurvePreferences", Numbers),
    ("tlsMinVersion", Text),
    ("rotateCertificates", Bool),
    ("serverTLSBootstrap", Bool),
    ("authentication", Object(AUTHENTICATION)),
    ("authorization", Object(AUTHORIZATION)),
    ("registryPullQPS", Int32),
    ("registryBurst", Int32),
    ("imagePullCredentialsVerificationPolicy", Text),
    ("preloadedImagesVerificationAllowlist", Texts),
    ("eventRecordQPS", Int32),
    ("eventBurst", Int32),
    ("enableDebuggingHandlers", Bool),
    ("enableContentionProfiling", Bool),
    ("healthzPort", Int32),
    ("healthzBindAddress", Text),
    ("oomScoreAdj", Int32),
    ("clusterDomain", Text),
    ("clusterDNS", Texts),
    ("streamingConnectionIdleTimeout", Duration),
    ("nodeStatusUpdateFrequency", Duration),
    ("nodeStatusReportFrequency", Duration),
    ("nodeLeaseDurationSeconds", Int32),
    ("imageMinimumGCAge", Duration),
    ("imageMaximumGCAge", Duration),
    ("imageGCHighThresholdPercent", Int32),
    ("imageGCLowThresholdPercent", Int32),
    ("volumeStatsAggPeriod", Duration),
    ("kubeletCgroups", Text),
    ("systemCgroups", Text),
    ("cgroupRoot", Text),
    ("cgroupsPerQOS", Bool),
    ("cgroupDriver", Text),
    ("cpuManagerPolicy", Text),
    ("singleProcessOOMKill", Bool),
    ("cpuManagerPolicyOptions", TextMap),
    ("cpuManagerReconcilePeriod", Duration),
    ("memoryManagerPolicy", Text),
    ("topologyManagerPolicy", Text),
    ("topologyManagerScope", Text),
    ("topologyManagerPolicyOptions", TextMap),
    ("qosReserved", TextMap),
    ("runtimeRequestTimeout", Duration),
    ("hairpinMode", Text),
    ("maxPods", Int32),
    ("podCIDR", Text),
    ("podPidsLimit", Int64),
    ("resolvConf", Text),
    ("runOnce", Bool),
    ("cpuCFSQuota", Bool),
    ("cpuCFSQuotaPeriod", Duration),
    ("nodeStatusMaxImages", Int32),
    ("maxOpenFiles", Int64),
    ("contentType", Text),
    ("kubeAPIQPS", Int32),
    ("kubeAPIBurst", Int32),
    ("serializeImagePulls", Bool),
    ("maxParallelImagePulls", Int32),
    ("evictionHard", TextMap),
    ("evictionSoft", TextMap),
    ("evictionSoftGracePeriod", TextMap),
    ("evictionPressureTransitionPeriod", Duration),
    ("evictionMaxPodGracePeriod", Int32),
    ("evictionMinimumReclaim", TextMap),
    ("mergeDefaultEvictionSettings", Bool),
    ("podsPerCore", Int32),
    ("enableControllerAttachDetach", Bool),
    ("protectKernelDefaults", Bool),
    ("makeIPTablesUtilChains", Bool),
    ("iptablesMasqueradeBit", Int32),
    ("iptablesDropBit", Int32),
    ("featureGates", BoolMap),
    ("failSwapOn", Bool),
    ("memorySwap", Object(&[("swapBehavior", Text)])),
    ("containerLogMaxSize", Text),
    ("containerLogMaxFiles", Int32),
    ("containerLogMaxWorkers", Int32),
    ("containerLogMonitorInterval", Duration),
    ("configMapAndSecretChangeDetectionStrategy", Text),
    ("systemReserved", TextMap),
    ("kubeReserved", TextMap),
    ("reservedSystemCPUs", Text),
    ("showHiddenMetricsForVersion", Text),
    ("systemReservedCgroup", Text),
    ("kubeReservedCgroup", Text),
    ("enforceNodeAllocatable", Texts),
    ("allowedUnsafeSysctls", Texts),
    ("volumePluginDir", Text),
    ("providerID", Text),
    ("kernelMemcgNotification", Bool),
    ("logging", Open),
    ("enableSystemLogHandler", Bool),
    ("enableSystemLogQuery", Bool),
    ("shutdownGracePeriod", Duration),
    ("shutdownGracePeriodCriticalPods", Duration),
    ("shutdownGracePeriodByPodPriority", Objects(SHUTDOWN)),
    ("crashLoopBackOff", Object(&[("maxContainerRestartPeriod", Duration)])),
    ("reservedMemory", Objects(RESERVED_MEMORY)),
    ("enableProfilingHandler", Bool),
    ("enableDebugFlagsHandler", Bool),
    ("seccompDefault", Bool),
    ("memoryThrottlingFactor", Float),
    ("memoryReservationPolicy", Text),
    ("registerNode", Bool),
    ("tracing", Open),
    ("localStorageCapacityIsolation", Bool),
    ("containerRuntimeEndpoint", Text),
    ("imageServiceEndpoint", Text),
    ("failCgroupV1", Bool),
    ("userNamespaces", Object(&[("idsPerPod", Int64)])),
];

/// What is wrong with `value` at `path`; `None` if it has the shape.
pub(super) fn misfit(path: &str, value: &Value, shape: Shape) -> Option<String> {
    let wanted = match shape {
        Object(fields) => return misfit_of_object(path, value, fields),
        Objects(fields) => {
            let Some(items) = value.as_array() else { return Some(format!("{path} must be a list")) };
            let item = |(index, item)| misfit_of_object(&format!("{path}[{index}]"), item, fields);
            return items.iter().enumerate().find_map(item);
        }
        Bool => (value.is_boolean(), "true or false"),
        Int32 => (value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()), "a whole number"),
        Int64 => (value.is_i64(), "a whole number"),
        Float => (value.is_number(), "a number"),
        Text => (value.is_string(), "a text"),
        Duration => (is_duration(value), "a duration such as \"10s\""),
        Texts => (all_of(value, Value::is_string), "a list of texts"),
        Numbers => (all_of(value, Value::is_i64), "a list of whole numbers"),
        TextMap => (all_in(value, Value::is_string), "a map of texts"),
        TextsMap => (all_in(value, |list| all_of(list, Value::is_string)), "a map of lists of texts"),
        BoolMap => (all_in(value, Value::is_boolean), "a map of true and false"),
        Open => (value.is_object(), "an object"),
    };
    (!wanted.0).then(|| format!("{path} must be {}", wanted.1))
}

fn misfit_of_object(path: &str, value: &Value, fields: &[(&str, Shape)]) -> Option<String> {
    let Some(object) = value.as_object() else { return Some(format!("{path} must be an object")) };
    object.iter().find_map(|(name, value)| {
        let path = format!("{path}.{name}");
        match fields.iter().find(|(known, _)| known == name) {
            Some((_, shape)) => misfit(&path, value, *shape),
            None => Some(format!("{path} is not a field of KubeletConfiguration; check its spelling")),
        }
    })
}

fn is_duration(value: &Value) -> bool {
    value.as_str().is_some_and(|text| karpenter_api::duration::parse_duration(text).is_ok())
}

fn all_of(value: &Value, holds: impl Fn(&Value) -> bool) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(holds))
}

fn all_in(value: &Value, holds: impl Fn(&Value) -> bool) -> bool {
    value.as_object().is_some_and(|entries| entries.values().all(holds))
}
