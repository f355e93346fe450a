//! How quantities and resource lists travel as JSON.

use karpenter_quantity::{CPU, Quantity, ResourceList};
use serde_json::{from_str, json, to_value};

#[test]
fn a_quantity_is_read_from_text_or_number() {
    for (json, canonical) in [
        ("\"1500m\"", "1500m"),
        ("\" 2Gi \"", "2Gi"),
        ("2", "2"),
        ("-3", "-3"),
        ("18446744073709551615", "18446744073709551615"),
        ("0.1", "100m"),
        ("1e3", "1k"),
        ("null", "0"),
    ] {
        let quantity: Quantity = from_str(json).expect(json);
        assert_eq!(quantity.to_string(), canonical, "{json}");
    }
}

#[test]
fn a_quantity_is_written_as_canonical_text() {
    let quantity: Quantity = "1024Ki".parse().expect("legal");
    assert_eq!(to_value(quantity).expect("serializable"), json!("1Mi"));
}

#[test]
fn a_wrong_quantity_is_refused_with_its_text_or_what_was_expected() {
    let error = from_str::<Quantity>("\"2 Gi\"").expect_err("a blank inside");
    assert!(error.to_string().contains("quantity \"2 Gi\" does not end in a known suffix"), "{error}");
    let error = from_str::<Quantity>("true").expect_err("a boolean");
    assert!(error.to_string().contains("expected a quantity such as \"100m\", 2 or \"1.5Gi\""), "{error}");
}

#[test]
fn a_resource_list_is_a_plain_map() {
    let list: ResourceList = from_str(r#"{"memory":"1Gi","cpu":2,"nvidia.com/gpu":"1"}"#).expect("legal");
    assert_eq!(list.get(CPU), Quantity::from_units(2));
    assert_eq!(
        to_value(&list).expect("serializable"),
        json!({"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"})
    );
}
