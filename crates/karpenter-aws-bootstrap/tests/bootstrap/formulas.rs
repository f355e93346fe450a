//! Formulas in a kubelet's configuration.

use karpenter_aws_bootstrap::kubelet::{Expression, ExpressionError, Kubelet, MaxPods, TypeFacts};
use serde_json::{Value, json};

fn facts() -> TypeFacts {
    TypeFacts {
        vcpus: 8,
        memory_mib: 32_768,
        default_enis: 4,
        ips_per_eni: 15,
        max_pods: 58,
        instance_type: "m5.2xlarge".to_owned(),
    }
}

#[test]
fn formulas_know_the_type() {
    let cases = [
        ("110", 110),
        ("vcpus * 10", 80),
        ("max_pods - 8", 50),
        ("memory_mib / 1024", 32),
        ("default_enis * (ips_per_eni - 1) + 2", 58),
        ("min(max_pods, 50)", 50),
        ("max(max_pods, 110)", 110),
        ("min(1, 2, 3)", 1),
        ("min(vcpus, 2.5)", 2),
        ("max(2.5, vcpus)", 8),
        ("double(vcpus) * 1.99", 15),
        ("instance_type.startsWith('m5') ? 20 : 30", 20),
        ("instance_type == 'm5.2xlarge' && vcpus > 4 ? 7 : 8", 7),
    ];
    for (text, pods) in cases {
        assert_eq!(Expression::compile(text).unwrap().max_pods(&facts()), Ok(pods), "{text}");
    }
}

#[test]
fn what_is_no_formula_is_refused_at_once() {
    for text in
        ["", "vcpus +", "cores * 2", "instance_type", "vcpus > 4", "vcpus + 'a'", "sum(1, 2)", "min()"]
    {
        let error = Expression::compile(text).err();
        assert!(matches!(error, Some(ExpressionError::Invalid { .. })), "{text}: {error:?}");
    }
}

#[test]
fn a_formula_may_fail_for_a_type() {
    let pods = |text: &str| Expression::compile(text).unwrap().max_pods(&facts());
    for text in ["1 / (vcpus - 8)", "vcpus - 20", "vcpus * 1000000000", "1.0 / double(vcpus - 8)"] {
        let error = pods(text).unwrap_err();
        assert!(error.to_string().contains("m5.2xlarge"), "{error}");
    }
}

#[test]
fn reserved_amounts_have_units_and_steps() {
    let cases = [
        ("cpu", "vcpus * 3", "30m"),
        ("cpu", "80", "80m"),
        ("cpu", "81", "90m"),
        ("memory", "255 + 11 * max_pods", "896Mi"),
        ("memory", "0", "0Mi"),
        ("ephemeral-storage", "vcpus / 2", "4Gi"),
        ("pid", "1000.9", "1000"),
    ];
    for (resource, text, amount) in cases {
        let found = Expression::compile(text).unwrap().reserved(resource, &facts());
        assert_eq!(found.as_deref(), Ok(amount), "{resource} {text}");
    }
    assert!(Expression::compile("0 - vcpus").unwrap().reserved("cpu", &facts()).is_err());
}

fn kubelet(fields: &Value) -> Kubelet {
    Kubelet::read(fields.as_object().unwrap())
}

#[test]
fn a_configuration_is_resolved_for_a_type() {
    let fields = json!({
        "maxPods": "min(max_pods, 40)",
        "kubeReserved": {"cpu": "100m", "memory": "max_pods * 10"},
        "systemReserved": {"pid": "1 / (vcpus - 8)"},
    });
    let kubelet = kubelet(&fields);
    assert_eq!(
        kubelet.expressions().into_iter().map(|(field, _)| field).collect::<Vec<_>>(),
        ["maxPods", "kubeReserved.memory", "systemReserved.pid"]
    );
    let resolved = kubelet.resolved(&facts(), 58, true);
    assert_eq!(resolved.max_pods, Some(MaxPods::Number(40)));
    assert_eq!(resolved.kube_reserved["cpu"], "100m");
    assert_eq!(resolved.kube_reserved["memory"], "400Mi", "with the pods the other formula gave");
    assert!(resolved.system_reserved.is_empty(), "what has no value is left out");
}

#[test]
fn with_the_gate_off_formulas_count_for_nothing() {
    let fields =
        json!({"maxPods": "min(max_pods, 40)", "kubeReserved": {"cpu": "100m", "memory": "max_pods"}});
    let resolved = kubelet(&fields).resolved(&facts(), 58, false);
    assert_eq!(resolved.max_pods, None);
    assert_eq!(resolved.kube_reserved.len(), 1);
}
