//! What the kubelet's configuration may hold.

use karpenter_aws_bootstrap::AmiFamily;
use karpenter_aws_bootstrap::kubelet::{unsupported, validate};
use serde_json::{Map, Value, json};

fn fields(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn good_configurations_pass() {
    let good = [
        json!({}),
        json!({"maxPods": 110, "podsPerCore": 0, "clusterDNS": ["10.0.0.10"]}),
        json!({"maxPods": "min(max_pods, 40)"}),
        json!({"kubeReserved": {"cpu": "100m", "memory": "100Mi", "ephemeral-storage": "1Gi", "pid": "1000"}}),
        json!({"systemReserved": {"memory": "max_pods * 11"}}),
        json!({"evictionHard": {"memory.available": "5%", "nodefs.available": "10.5%", "nodefs.inodesFree": "100Mi"}}),
        json!({"evictionSoft": {"pid.available": "0%"}, "evictionSoftGracePeriod": {"pid.available": "1m30s"}}),
        json!({"evictionMinimumReclaim": {"imagefs.inodesFree": "100%"}}),
        json!({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 10}),
        json!({"imageGCHighThresholdPercent": 5}),
        json!({"cpuCFSQuota": false, "cpuManagerPolicy": "static", "topologyManagerPolicyOptions": {"a": "b"}}),
        json!({"authentication": {"webhook": {"enabled": true, "cacheTTL": "2m"}}}),
        json!({"shutdownGracePeriodByPodPriority": [{"priority": 1, "shutdownGracePeriodSeconds": 30}]}),
        json!({"featureGates": {"X": true}, "logging": {"format": "json"}, "memoryThrottlingFactor": 0.9}),
        json!({"userNamespaces": {"idsPerPod": 65536}, "crashLoopBackOff": {"maxContainerRestartPeriod": "10s"}}),
    ];
    for configuration in good {
        assert_eq!(validate(&fields(&configuration)), Ok(()), "{configuration}");
    }
}

#[test]
fn bad_configurations_are_refused_with_the_place() {
    let bad = [
        (json!({"registerWithTaints": []}), "spec.kubelet.registerWithTaints"),
        (json!({"maxpods": 1}), "spec.kubelet.maxpods"),
        (json!({"maxPods": -1}), "spec.kubelet.maxPods"),
        (json!({"maxPods": 1.5}), "spec.kubelet.maxPods"),
        (json!({"podsPerCore": -1}), "spec.kubelet.podsPerCore"),
        (json!({"podsPerCore": "2"}), "spec.kubelet.podsPerCore"),
        (json!({"podsPerCore": 4_294_967_296_i64}), "spec.kubelet.podsPerCore"),
        (json!({"evictionMaxPodGracePeriod": -1}), "spec.kubelet.evictionMaxPodGracePeriod"),
        (json!({"clusterDNS": "10.0.0.10"}), "spec.kubelet.clusterDNS"),
        (json!({"cpuCFSQuota": "yes"}), "spec.kubelet.cpuCFSQuota"),
        (json!({"syncFrequency": "soon"}), "spec.kubelet.syncFrequency"),
        (json!({"authentication": {"webhook": {"on": true}}}), "spec.kubelet.authentication.webhook.on"),
        (json!({"reservedMemory": [{"node": 1}]}), "spec.kubelet.reservedMemory[0].node"),
        (json!({"featureGates": {"X": "true"}}), "spec.kubelet.featureGates"),
        (json!({"kubeReserved": {"gpu": "1"}}), "spec.kubelet.kubeReserved[gpu]"),
        (json!({"kubeReserved": {"cpu": "-100m"}}), "spec.kubelet.kubeReserved[cpu]"),
        (json!({"systemReserved": {"cpu": "-vcpus"}}), "spec.kubelet.systemReserved[cpu]"),
        (json!({"systemReserved": {"cpu": 1}}), "spec.kubelet.systemReserved"),
        (json!({"evictionHard": {"memory": "5%"}}), "spec.kubelet.evictionHard[memory]"),
        (
            json!({"evictionHard": {"memory.available": "105%"}}),
            "spec.kubelet.evictionHard[memory.available]",
        ),
        (json!({"evictionHard": {"memory.available": "-5%"}}), "spec.kubelet.evictionHard[memory.available]"),
        (json!({"evictionHard": {"memory.available": "few"}}), "spec.kubelet.evictionHard[memory.available]"),
        (
            json!({"evictionHard": {"memory.available": "-1Gi"}}),
            "spec.kubelet.evictionHard[memory.available]",
        ),
        (json!({"evictionMinimumReclaim": {"x": "1Gi"}}), "spec.kubelet.evictionMinimumReclaim[x]"),
        (json!({"evictionSoft": {"memory.available": "5%"}}), "spec.kubelet.evictionSoftGracePeriod"),
        (json!({"evictionSoftGracePeriod": {"memory.available": "1m"}}), "spec.kubelet.evictionSoft "),
        (
            json!({"evictionSoft": {"memory.available": "5%"}, "evictionSoftGracePeriod": {"memory.available": "-1m"}}),
            "spec.kubelet.evictionSoftGracePeriod[memory.available]",
        ),
        (json!({"imageGCHighThresholdPercent": 101}), "spec.kubelet.imageGCHighThresholdPercent"),
        (json!({"imageGCLowThresholdPercent": -1}), "spec.kubelet.imageGCLowThresholdPercent"),
        (
            json!({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50}),
            "spec.kubelet.imageGCHighThresholdPercent must be greater",
        ),
    ];
    for (configuration, place) in bad {
        let error = validate(&fields(&configuration)).unwrap_err().to_string();
        assert!(error.contains(place), "{configuration}: {error}");
    }
}

#[test]
fn families_apply_what_they_know() {
    let cases = [
        (AmiFamily::Al2023, json!({"cpuManagerPolicy": "static", "clusterDNS": ["a", "b"]}), None),
        (AmiFamily::Custom, json!({"cpuManagerPolicy": "static"}), None),
        (AmiFamily::Al2, json!({"maxPods": 5, "podsPerCore": 2, "cpuCFSQuota": true}), None),
        (AmiFamily::Al2, json!({"cpuManagerPolicy": "static"}), Some("cpuManagerPolicy")),
        (AmiFamily::Bottlerocket, json!({"podsPerCore": 2}), Some("podsPerCore")),
        (AmiFamily::Bottlerocket, json!({"clusterDNS": ["a", "b"]}), Some("clusterDNS")),
        (AmiFamily::Windows2022, json!({"podsPerCore": 2}), None),
        (AmiFamily::Windows2022, json!({"evictionMinimumReclaim": {}}), Some("evictionMinimumReclaim")),
    ];
    for (family, configuration, refused) in cases {
        let message = unsupported(family, &fields(&configuration));
        match refused {
            None => assert_eq!(message, None, "{family} {configuration}"),
            Some(field) => assert!(message.as_deref().unwrap().contains(field), "{family}: {message:?}"),
        }
    }
}
