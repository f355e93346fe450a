//! No text from outside, however odd, brings a parser or a check down.

use jiff::SignedDuration;
use karpenter_api::duration::{GoDuration, format_duration, parse_duration};
use karpenter_api::hash::nodepool_hash;
use karpenter_api::label_syntax::{label_value, qualified_name};
use karpenter_api::options::{FeatureGates, OPTIONS, Options, SchedulerConfig};
use karpenter_api::validation::validate_nodepool;
use karpenter_api::{LabelRules, NodePool, Provider};
use proptest::prelude::*;
use serde_json::json;

/// Texts that look like what a parser expects, and texts that do not.
fn odd_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,24}",
        "[-+0-9.hmsunµd]{0,16}",
        "[A-Za-z]{0,6}(=(true|false|1|))?(,[A-Za-z=]{0,8}){0,3}",
        "[a-zA-Z0-9._/ -]{0,80}",
        "(\\{|\\[|- |[a-zA-Z]+: |\\n  |'|&a |\\*a){0,8}",
    ]
}

proptest! {
    #[test]
    fn parsers_answer_for_any_text(text in odd_text()) {
        let _ = (parse_duration(&text), GoDuration::parse(&text), qualified_name(&text), label_value(&text));
        let _ = (FeatureGates::parse(&text), SchedulerConfig::parse(&text), text.parse::<Provider>());
        let rules = LabelRules::for_providers(Provider::ALL);
        prop_assert!(!(rules.is_well_known(&text) && rules.is_restricted(&text)));
        prop_assert_eq!(rules.normalize(rules.normalize(&text)), rules.normalize(&text));
    }

    #[test]
    fn options_answer_for_any_arguments_and_environment(
        args in prop::collection::vec(
            prop_oneof![
                odd_text(),
                (prop::sample::select(OPTIONS), odd_text()).prop_map(|(spec, value)| format!("--{}={value}", spec.flag)),
                prop::sample::select(OPTIONS).prop_map(|spec| format!("-{}", spec.flag)),
            ],
            0..4,
        ),
        value in prop::option::of(odd_text()),
    ) {
        if let Err(error) = Options::parse(&args, &|_| value.clone()) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn a_duration_survives_being_printed(nanos in any::<i64>()) {
        let duration = SignedDuration::from_nanos(nanos);
        prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
    }

    #[test]
    fn any_pool_can_be_checked_hashed_and_written_back(
        key in odd_text(), value in odd_text(), operator in odd_text(), min_values in any::<i64>(),
    ) {
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {},
            "spec": {"template": {
                "metadata": {"labels": {&key: &value}},
                "spec": {
                    "requirements": [{"key": &key, "operator": operator, "values": [&value], "minValues": min_values}],
                    "taints": [{"key": &key, "effect": &value, "value": &key}],
                    "nodeClassRef": {"group": &key, "kind": &value, "name": ""}
                }
            }, "limits": {&key: &value}}
        });
        let pool: NodePool = serde_json::from_value(object.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&pool).unwrap(), object);
        let findings = validate_nodepool(&pool, &LabelRules::default());
        prop_assert_eq!(findings.is_valid(), findings.message().is_empty());
        prop_assert!(nodepool_hash(&pool).parse::<u64>().is_ok());
    }
}
