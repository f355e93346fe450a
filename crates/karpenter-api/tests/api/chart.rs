//! The chart knows every value that the table of options names.

use karpenter_api::options::{ALIBABA_CLOUD_OPTIONS, AWS_OPTIONS, FEATURE_GATES, KWOK_OPTIONS, OPTIONS};
use serde_json::Value;

fn values() -> Value {
    serde_saphyr::from_str(include_str!("../../../../charts/karpenter/values.yaml")).unwrap()
}

#[test]
fn every_chart_value_of_an_option_stands_in_the_values_and_its_variable_in_the_template() {
    let (values, template) = (values(), include_str!("../../../../charts/karpenter/templates/_env.tpl"));
    let options = [OPTIONS, KWOK_OPTIONS, AWS_OPTIONS, ALIBABA_CLOUD_OPTIONS].into_iter().flatten();
    for option in options.filter(|option| !option.chart.is_empty()) {
        // What a container gets of resources is read from the container, whatever the values say.
        if !option.chart.starts_with("controller.resources.") {
            let pointer = format!("/{}", option.chart.replace('.', "/"));
            assert!(values.pointer(&pointer).is_some(), "values.yaml has no {}", option.chart);
        }
        assert!(template.contains(option.env), "the chart does not set {}", option.env);
    }
}

#[test]
fn every_feature_gate_stands_in_the_values_with_its_default() {
    let gates = &values()["settings"]["featureGates"];
    for gate in FEATURE_GATES {
        let name = gate.chart.rsplit('.').next().unwrap();
        assert_eq!(gates[name], Value::Bool(gate.default), "{name}");
    }
    assert_eq!(gates.as_object().unwrap().len(), FEATURE_GATES.len());
}
