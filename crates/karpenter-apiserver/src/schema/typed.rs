//! Decoding as Go does it: values are checked against the types of a built-in kind, unknown fields are dropped and
//! reported, and everything takes the form in which Kubernetes writes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Node, Scalar, Shape};

/// What a typed decoding found.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    /// Paths of fields the kind does not have, such as `spec.containers[0].imagee`.
    pub(crate) unknown: Vec<String>,
    /// The first value of a wrong type, in the words of Go's decoder.
    pub(crate) error: Option<String>,
}

/// Decodes `value` as `node` in place.
pub(crate) fn decode_typed(value: &mut Value, node: &Node) -> Decoded {
    let mut decoder =
        Decoder { decoded: Decoded::default(), place: Place::default(), path: String::new(), stopped: false };
    decoder.value(value, node);
    decoder.decoded
}

/// Where an error is reported: the innermost struct and the names of the fields that lead there.
#[derive(Clone, Default)]
struct Place {
    structure: &'static str,
    names: String,
}

struct Decoder {
    decoded: Decoded,
    place: Place,
    /// The path with the indices of lists, which unknown fields are reported by.
    path: String,
    /// Whether decoding has come to an end before the end.
    stopped: bool,
}

impl Decoder {
    /// Notes a value that reads itself and cannot: nothing after it is looked at.
    fn fail(&mut self, message: String) {
        if !self.stopped {
            self.decoded.error = Some(message);
            self.stopped = true;
        }
    }

    /// Notes a value that is wrong; the rest is still read, and something worse may turn up.
    fn note(&mut self, message: String) {
        if !self.stopped {
            self.decoded.error.get_or_insert(message);
        }
    }

    fn mismatch(&mut self, found: &str, go_type: &str) {
        let message = self.mismatch_message(found, go_type);
        self.note(message);
    }

    fn mismatch_message(&self, found: &str, go_type: &str) -> String {
        let Place { structure, names } = &self.place;
        if names.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {go_type}");
        }
        format!("json: cannot unmarshal {found} into Go struct field {structure}.{names} of type {go_type}")
    }

    fn value(&mut self, value: &mut Value, node: &Node) {
        if value.is_null() || self.stopped {
            return;
        }
        match (&node.shape, &mut *value) {
            (Shape::Object(_) | Shape::Named(_), Value::Object(fields)) => self.object(fields, node),
            (Shape::Array(items), Value::Array(values)) => self.list(values, items),
            (Shape::Flexible(inner), Value::Object(_)) => self.value(value, inner),
            (Shape::Flexible(inner), Value::Array(values)) => self.list(values, inner),
            (Shape::Any | Shape::Flexible(_), _) => {}
            (Shape::Scalar(scalar), _) => self.scalar(value, *scalar, node),
            (_, other) => {
                let found = kind_of(other);
                self.mismatch(found, &node.go_type);
            }
        }
    }

    fn list(&mut self, values: &mut [Value], items: &Node) {
        for (index, item) in values.iter_mut().enumerate() {
            let length = self.path.len();
            self.path.extend(["[", &index.to_string(), "]"]);
            if item.is_null() {
                *item = absent(items);
            }
            self.value(item, items);
            self.path.truncate(length);
        }
    }

    fn object(&mut self, fields: &mut Map<String, Value>, node: &Node) {
        let Some(known) = node.fields() else { return };
        let outer = self.place.clone();
        let mut unknown = Vec::new();
        fields.retain(|name, value| {
            if let Some(child) = known.properties.get(name) {
                self.place = Place { structure: known.name, names: joined(&outer.names, child, name) };
                let length = self.enter(name);
                self.value(value, child);
                self.path.truncate(length);
                return !value.is_null();
            }
            let Some(child) = &known.additional else {
                unknown.push(format!("{}{}{name}", self.path, if self.path.is_empty() { "" } else { "." }));
                return false;
            };
            if value.is_null() {
                *value = absent(child);
            }
            let length = self.enter(name);
            self.value(value, child);
            self.path.truncate(length);
            true
        });
        self.decoded.unknown.extend(unknown);
        self.place = outer;
    }

    fn enter(&mut self, name: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        length
    }

    fn scalar(&mut self, value: &mut Value, scalar: Scalar, node: &Node) {
        match (scalar, &*value) {
            (Scalar::String | Scalar::IntOrString, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Number, Value::Number(_)) => {}
            (Scalar::Integer(bits), Value::Number(number)) => {
                if !number.as_i64().is_some_and(|number| fits(number, bits)) {
                    self.mismatch(&format!("number {number}"), &node.go_type);
                }
            }
            (Scalar::IntOrString, Value::Number(number)) => {
                if !number.as_i64().is_some_and(|number| fits(number, 32)) {
                    let message = self.mismatch_message(&format!("number {number}"), "int32");
                    self.fail(message);
                }
            }
            (Scalar::Quantity, Value::Number(number)) => {
                let text = number.to_string();
                self.quantity(value, &text);
            }
            (Scalar::Quantity, Value::String(text)) => {
                let text = text.trim().to_owned();
                self.quantity(value, &text);
            }
            (Scalar::Quantity, _) => self.fail(BAD_QUANTITY.to_owned()),
            (Scalar::Time | Scalar::MicroTime, Value::String(text)) => {
                let text = text.clone();
                self.time(value, &text, scalar);
            }
            (Scalar::Bytes, Value::String(text)) => {
                let text = text.clone();
                self.bytes(value, &text);
            }
            (Scalar::Bytes, Value::Array(items)) => {
                let items = items.clone();
                self.listed_bytes(value, &items);
            }
            (Scalar::Time | Scalar::MicroTime | Scalar::IntOrString, other) => {
                let message = self.mismatch_message(kind_of(other), &node.go_type);
                self.fail(message);
            }
            (_, other) => {
                let found = kind_of(other);
                self.mismatch(found, &node.go_type);
            }
        }
    }

    /// Writes a quantity in its canonical form, as the API does whatever form the client used.
    fn quantity(&mut self, value: &mut Value, text: &str) {
        match text.parse::<karpenter_quantity::Quantity>() {
            Ok(quantity) => *value = Value::String(quantity.to_string()),
            Err(_) => self.fail(BAD_QUANTITY.to_owned()),
        }
    }

    fn time(&mut self, value: &mut Value, text: &str, scalar: Scalar) {
        const LAYOUTS: [&str; 2] = ["2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"];
        match text.parse::<Timestamp>() {
            Ok(time) if scalar == Scalar::Time => *value = json!(format!("{time:.0}")),
            Ok(time) => *value = json!(format!("{time:.6}")),
            Err(_) => {
                let layout = LAYOUTS[usize::from(scalar == Scalar::MicroTime)];
                self.fail(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""));
            }
        }
    }

    /// Bytes may also be given one by one, as numbers.
    fn listed_bytes(&mut self, value: &mut Value, items: &[Value]) {
        let mut bytes = Vec::new();
        for item in items {
            let byte = item.as_u64().and_then(|number| u8::try_from(number).ok());
            match (byte, item) {
                (Some(byte), _) => bytes.push(byte),
                (None, Value::Null) => bytes.push(0),
                (None, Value::Number(number)) => self.mismatch(&format!("number {number}"), "uint8"),
                (None, other) => self.mismatch(kind_of(other), "uint8"),
            }
        }
        *value = json!(STANDARD.encode(bytes));
    }

    fn bytes(&mut self, value: &mut Value, text: &str) {
        // Go skips line breaks.
        let plain: String = text.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
        match STANDARD.decode(&plain) {
            Ok(bytes) => *value = json!(STANDARD.encode(bytes)),
            Err(error) => {
                let at = match error {
                    base64::DecodeError::InvalidByte(at, _)
                    | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                    _ => plain.len().saturating_sub(plain.len() % 4),
                };
                self.note(format!("illegal base64 data at input byte {at}"));
            }
        }
    }
}

const BAD_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// What null stands for inside a list or a map.
fn absent(node: &Node) -> Value {
    if node.pointer {
        return Value::Null;
    }
    match &node.shape {
        Shape::Scalar(Scalar::String) => json!(""),
        Shape::Scalar(Scalar::Integer(_) | Scalar::Number | Scalar::IntOrString) => json!(0),
        Shape::Scalar(Scalar::Boolean) => json!(false),
        Shape::Scalar(Scalar::Quantity) => json!("0"),
        Shape::Object(_) | Shape::Named(_) => json!({}),
        _ => Value::Null,
    }
}

fn joined(outer: &str, child: &Node, name: &str) -> String {
    let parts = [outer, child.embedded_in, name];
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(".")
}

/// Odd widths are the unsigned ones, one more than the bits they have.
fn fits(number: i64, bits: u8) -> bool {
    match bits {
        16 => i16::try_from(number).is_ok(),
        17 => u16::try_from(number).is_ok(),
        32 => i32::try_from(number).is_ok(),
        33 => u32::try_from(number).is_ok(),
        _ => true,
    }
}

/// A value's type as Go's decoder names it.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(value: Value) -> String {
        let mut value = value;
        let decoded = decode_typed(&mut value, &Node::built_in("apps/v1", "Deployment"));
        decoded.error.unwrap_or_default()
    }

    #[test]
    fn wrong_types_are_named_as_go_names_them() {
        for (value, expected) in [
            (
                json!({"spec": {"replicas": "x"}}),
                "string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                json!({"spec": {"replicas": 1.5}}),
                "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (json!({"spec": []}), "array into Go struct field Deployment.spec of type v1.DeploymentSpec"),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                "number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                json!({"spec": {"template": {"spec": {"containers": {}}}}}),
                "object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
            ),
            (
                json!({"spec": {"template": {"spec": {"volumes": [{"name": "a", "emptyDir": 5}]}}}}),
                "number into Go struct field Volume.spec.template.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
            ),
        ] {
            assert_eq!(error(value), format!("json: cannot unmarshal {expected}"));
        }
    }

    #[test]
    fn bytes_may_be_listed() {
        let decode = |data: Value| {
            let mut secret = json!({"data": data});
            let decoded = decode_typed(&mut secret, &Node::built_in("v1", "Secret"));
            (secret["data"]["a"].clone(), decoded.error)
        };
        assert_eq!(decode(json!({"a": [97, 98]})), (json!("YWI="), None));
        let error = "json: cannot unmarshal string into Go struct field Secret.data of type uint8";
        assert_eq!(decode(json!({"a": ["x"]})).1.as_deref(), Some(error));
    }

    #[test]
    fn values_take_the_form_kubernetes_writes() {
        let mut pod = json!({
            "metadata": {"creationTimestamp": "2024-01-01T01:00:00+01:00", "labels": {"a": null}},
            "spec": {"containers": [{"resources": {"limits": {"cpu": 0.5, "memory": "1024Ki"}}}], "nodeName": null},
        });
        let decoded = decode_typed(&mut pod, &Node::built_in("v1", "Pod"));
        assert_eq!(decoded.error, None);
        assert_eq!(
            pod["metadata"],
            json!({"creationTimestamp": "2024-01-01T00:00:00Z", "labels": {"a": ""}})
        );
        assert_eq!(
            pod["spec"],
            json!({"containers": [{"resources": {"limits": {"cpu": "500m", "memory": "1Mi"}}}]})
        );
    }

    #[test]
    fn unknown_fields_are_dropped_and_reported_with_indices() {
        let mut pod = json!({"spec": {"containers": [{"imagee": "x"}]}, "other": 1});
        let mut unknown = decode_typed(&mut pod, &Node::built_in("v1", "Pod")).unknown;
        unknown.sort();
        assert_eq!(unknown, ["other", "spec.containers[0].imagee"]);
        assert_eq!(pod, json!({"spec": {"containers": [{}]}}));
    }
}
