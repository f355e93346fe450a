//! What is wrong with a CustomResourceDefinition, its schemas apart.
//!
//! Kubernetes names places as in its internal form, where what all versions share stands at the top: a schema that is
//! the same everywhere is `spec.validation`, columns are `spec.additionalPrinterColumns`.

use serde_json::{Value, json};

use super::schema_check::{check_schema, parts};
use crate::error::FieldError;
use crate::kinds::format::{dns_1035_label, dns_subdomain};

const APPROVAL: &str = "api-approved.kubernetes.io";
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";

/// Returns what is wrong with a definition.
pub(crate) fn check(definition: &Value) -> Vec<FieldError> {
    let spec = &definition["spec"];
    let mut errors = Vec::new();
    check_name(definition, &mut errors);
    check_group(definition, &mut errors);
    check_scope_and_conversion(spec, &mut errors);
    check_versions(definition, &mut errors);
    check_names(&spec["names"], &mut errors);
    if spec["preserveUnknownFields"] == true {
        let rule = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                    spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &json!(true), rule));
        check_preserving(spec, &mut errors);
    }
    errors
}

/// What does not go together with keeping unknown fields.
fn check_preserving(spec: &Value, errors: &mut Vec<FieldError>) {
    let mut versions = spec["versions"].as_array().into_iter().flatten();
    if versions.any(|version| has_default(&version["schema"]["openAPIV3Schema"])) {
        let rule = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &json!(true), rule));
    }
    if spec["conversion"]["strategy"] != "None" {
        let rule = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid("spec.conversion.strategy", &spec["conversion"]["strategy"], rule));
    }
}

fn has_default(schema: &Value) -> bool {
    schema.get("default").is_some() || parts(schema, "").iter().any(|(part, _)| has_default(part))
}

fn check_name(definition: &Value, errors: &mut Vec<FieldError>) {
    let spec = &definition["spec"];
    let name = &definition["metadata"]["name"];
    if text(name) != format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"])) {
        errors.push(FieldError::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
}

fn check_group(definition: &Value, errors: &mut Vec<FieldError>) {
    let group = &definition["spec"]["group"];
    let name = text(group);
    if name.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
        return;
    }
    let problems = dns_subdomain(name);
    if !problems.is_empty() {
        errors.push(FieldError::invalid("spec.group", group, problems.join(",")));
    } else if !name.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| name == *domain || name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')));
    if protected && text(&definition["metadata"]["annotations"][APPROVAL]).is_empty() {
        let rule = format!(
            "protected groups must have approval annotation \"{APPROVAL}\", see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        errors.push(FieldError::required(format!("metadata.annotations[{APPROVAL}]"), &rule));
    }
}

fn check_scope_and_conversion(spec: &Value, errors: &mut Vec<FieldError>) {
    match text(&spec["scope"]) {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        _ => errors.push(FieldError::unsupported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"])),
    }
    let strategy = &spec["conversion"]["strategy"];
    match text(strategy) {
        "None" => {}
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "Webhook" => errors.push(FieldError::forbidden(
            "spec.conversion.strategy",
            "this server does not ask conversion webhooks; serve one version, or use None",
        )),
        _ => {
            let field = "spec.conversion.strategy";
            errors.push(FieldError::unsupported(field, strategy, &["None", "Webhook"]));
        }
    }
}

fn check_versions(definition: &Value, errors: &mut Vec<FieldError>) {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut broken = |rule: &str| errors.push(FieldError::invalid("spec.versions", &spec["versions"], rule));
    let repeated =
        |index: usize| versions[..index].iter().any(|other| other["name"] == versions[index]["name"]);
    if (0..versions.len()).any(repeated) {
        broken("must contain unique version names");
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        broken("must have exactly one version marked as storage version");
    }
    if definition["status"]["storedVersions"].as_array().is_none_or(Vec::is_empty) {
        let rule = "must have at least one stored version";
        errors.push(FieldError::invalid("status.storedVersions", &Value::Null, rule));
    }
    for (index, version) in versions.iter().enumerate() {
        let problems = dns_1035_label(text(&version["name"]));
        if problems.is_empty() {
            continue;
        }
        if index == 0 && !text(&version["name"]).is_empty() {
            errors.push(FieldError::invalid("spec.version", &version["name"], problems.join(",")));
        }
        let field = format!("spec.versions[{index}].name");
        errors.push(FieldError::invalid(field, &version["name"], problems.join(",")));
    }
    check_shared(versions, "schema", "validation", errors, |version, place, errors| {
        check_version_schema(spec, version, place, errors);
    });
    check_shared(versions, "subresources", "subresources", errors, |version, place, errors| {
        check_scale(&version["subresources"]["scale"], place, errors);
    });
    check_shared(versions, "additionalPrinterColumns", "additionalPrinterColumns", errors, check_columns);
    let schema_is_shared = versions.iter().all(|version| version.get("schema") == versions[0].get("schema"));
    check_shared(versions, "selectableFields", "selectableFields", errors, |version, place, errors| {
        check_selectable(version, place, schema_is_shared, errors);
    });
}

/// Checks a part of every version, or once when all versions share it.
fn check_shared(
    versions: &[Value],
    name: &str,
    shared: &str,
    errors: &mut Vec<FieldError>,
    check: impl Fn(&Value, &str, &mut Vec<FieldError>),
) {
    if versions.iter().all(|version| version.get(name) == versions[0].get(name)) {
        if let Some(version) = versions.first() {
            check(version, &format!("spec.{shared}"), errors);
        }
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        check(version, &format!("spec.versions[{index}].{name}"), errors);
    }
}

fn check_version_schema(spec: &Value, version: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let schema = &version["schema"]["openAPIV3Schema"];
    if schema.is_object() {
        let versions = spec["versions"].as_array().into_iter().flatten();
        let with_status = if place.starts_with("spec.versions") {
            version["subresources"]["status"].is_object()
        } else {
            versions.into_iter().any(|version| version["subresources"]["status"].is_object())
        };
        check_schema(schema, &format!("{place}.openAPIV3Schema"), with_status, errors);
        return;
    }
    for (index, other) in spec["versions"].as_array().into_iter().flatten().enumerate() {
        if std::ptr::eq(other, version) || !place.starts_with("spec.versions") {
            errors.push(FieldError::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
        }
    }
}

fn check_scale(scale: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if !scale.is_object() {
        return;
    }
    for (name, below) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let field = format!("{place}.scale.{name}");
        match text(&scale[name]) {
            "" => errors.push(FieldError::required(field, "")),
            path if !path.starts_with('.') => errors.push(not_simple(field, &scale[name])),
            path if !path.starts_with(below) => {
                let rule = format!("should be a json path under {}", below.trim_end_matches('.'));
                errors.push(FieldError::invalid(field, &scale[name], rule));
            }
            _ => {}
        }
    }
    let selector = &scale["labelSelectorPath"];
    let field = format!("{place}.scale.labelSelectorPath");
    match text(selector) {
        "" => {}
        path if !path.starts_with('.') => errors.push(not_simple(field, selector)),
        path if !path.starts_with(".spec.") && !path.starts_with(".status.") => {
            let rule = "should be a json path under either .spec or .status";
            errors.push(FieldError::invalid(field, selector, rule));
        }
        _ => {}
    }
}

fn check_columns(version: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (index, column) in version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
        let field = |name: &str| format!("{place}[{index}].{name}");
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        if text(&column["name"]).is_empty() {
            errors.push(FieldError::required(field("name"), ""));
        }
        match text(&column["type"]) {
            "" => errors.push(FieldError::required(field("type"), &types)),
            kind if !COLUMN_TYPES.contains(&kind) => {
                errors.push(FieldError::invalid(field("type"), &column["type"], types));
            }
            _ => {}
        }
        let format = text(&column["format"]);
        if !format.is_empty() && !COLUMN_FORMATS.split(',').any(|known| known == format) {
            let rule = format!("must be one of {COLUMN_FORMATS}");
            errors.push(FieldError::invalid(field("format"), &column["format"], rule));
        }
        match text(&column["jsonPath"]) {
            "" => errors.push(FieldError::required(field("JSONPath"), "")),
            path if !path.starts_with('.') => errors.push(not_simple(field("JSONPath"), &column["jsonPath"])),
            _ => {}
        }
    }
}

/// Checks the fields by which objects can be selected; Kubernetes looks for the schema where they stand themselves.
fn check_selectable(version: &Value, place: &str, schema_is_shared: bool, errors: &mut Vec<FieldError>) {
    let fields = version["selectableFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    if fields.is_empty() {
        return;
    }
    let own = place.starts_with("spec.versions");
    let schema = &version["schema"]["openAPIV3Schema"];
    if own && (schema_is_shared || !schema.is_object()) {
        let rule = "may only be set when `version.schema.openAPIV3Schema` is not included";
        errors.push(FieldError::invalid(place, &json!(""), rule));
        return;
    }
    if !own && (!schema_is_shared || !schema.is_object()) {
        let rule = "may only be set when validations.schema is included";
        errors.push(FieldError::invalid(place, &json!(""), rule));
        return;
    }
    let mut seen = Vec::new();
    for (index, selectable) in fields.iter().enumerate() {
        let field = format!("{place}[{index}].jsonPath");
        let path = text(&selectable["jsonPath"]);
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let invalid = |rule: String| FieldError::invalid(field.clone(), &selectable["jsonPath"], rule);
        let found = match described_field(schema, path) {
            Ok(found) => found,
            Err(why) => {
                errors.push(invalid(format!("is an invalid path: {why}")));
                continue;
            }
        };
        if path == ".metadata" || path.starts_with(".metadata.") {
            errors.push(invalid("must not point to fields in metadata".to_owned()));
        }
        if !matches!(text(&found["type"]), "string" | "boolean" | "integer") {
            let rule = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                        formats are allowed.";
            errors.push(invalid(rule.to_owned()));
        }
        if seen.contains(&path) {
            errors.push(FieldError::duplicate(field, &selectable["jsonPath"]));
        }
        seen.push(path);
    }
}

/// Finds the schema of the field at a path, or says what is wrong with the path.
fn described_field<'s>(schema: &'s Value, path: &str) -> Result<&'s Value, String> {
    let Some(names) = path.strip_prefix('.') else {
        let start = path.split(['.', '[']).next().unwrap_or_default();
        return Err(format!("expected [ or . but got: {start}"));
    };
    if names.is_empty() {
        return Err("unexpected end of JSON path".to_owned());
    }
    if names.contains('[') {
        return Err("array notation is not allowed".to_owned());
    }
    names.split('.').try_fold(schema, |place, name| {
        let field = place["properties"].get(name).or_else(|| place.get("additionalProperties"));
        field.filter(|field| field.is_object()).ok_or_else(|| "does not refer to a valid field".to_owned())
    })
}

fn not_simple(field: String, path: &Value) -> FieldError {
    FieldError::invalid(field, path, "must be a simple json path starting with .")
}

fn check_names(names: &Value, errors: &mut Vec<FieldError>) {
    for name in ["plural", "singular", "kind", "listKind"] {
        let given = text(&names[name]);
        let field = format!("spec.names.{name}");
        if given.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let mixed = name.to_lowercase().ends_with("kind");
        let problems = dns_1035_label(&if mixed { given.to_lowercase() } else { given.to_owned() });
        if !problems.is_empty() {
            let start = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(FieldError::invalid(field, &names[name], format!("{start}{}", problems.join(","))));
        }
    }
    for list in ["shortNames", "categories"] {
        for (index, name) in names[list].as_array().into_iter().flatten().enumerate() {
            let problems = dns_1035_label(text(name));
            if !problems.is_empty() {
                let field = format!("spec.names.{list}[{index}]");
                errors.push(FieldError::invalid(field, name, problems.join(",")));
            }
        }
    }
    if !text(&names["kind"]).is_empty() && names["kind"] == names["listKind"] {
        let rule = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", &names["listKind"], rule));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectable_fields_are_looked_for_in_the_schema() {
        let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let spec = json!({"type": "object", "properties": {"mode": {"type": "string"}, "map": map}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let wrong = |path: &str| described_field(&schema, path).err().unwrap_or_default();
        assert_eq!((wrong(".spec.mode"), wrong(".spec.map.any")), (String::new(), String::new()));
        assert_eq!(wrong(".spec.mood"), "does not refer to a valid field");
        assert_eq!(wrong(".spec.map[0]"), "array notation is not allowed");
        assert_eq!(wrong("spec.mode"), "expected [ or . but got: spec");
        assert_eq!(wrong("."), "unexpected end of JSON path");
    }
}
