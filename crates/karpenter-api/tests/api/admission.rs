//! An API server's admission in miniature: defaults, structural schema, list types and CEL rules.
//!
//! The test at the end demands that every rule of every CRD refuses at least one object of the tables in
//! the sibling modules, so a rule cannot be added without showing what it refuses.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::LabelRules;
use karpenter_api::crd::crds;
use serde_json::{Value, json};

use crate::{admission_cases, nodepool_cases};

/// The place of a rule: the path in the schema, and the keyword or message.
pub(crate) type RuleId = (String, String);

/// One reason to refuse an object.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) rule: RuleId,
    pub(crate) text: String,
}

/// Checks objects of one kind.
pub(crate) struct Admission {
    pub(crate) schema: Value,
    compiled: kube_cel::CompiledSchema,
    structural: jsonschema::Validator,
}

impl Admission {
    pub(crate) fn of(kind: &str, rules: &LabelRules) -> Self {
        let definitions = crds(rules);
        let definition = definitions.iter().find(|definition| definition.spec.names.kind == kind).unwrap();
        Self::new(schema_of(definition))
    }

    fn new(schema: Value) -> Self {
        let compiled = kube_cel::compile_schema(&schema);
        assert!(!compiled.has_errors(), "{:?}", compiled.compilation_errors());
        let structural = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        Self { schema, compiled, structural }
    }

    /// Returns every reason to refuse the object, or to refuse it as an update of the old one.
    pub(crate) fn violations(&self, object: &Value, old: Option<&Value>) -> Vec<Violation> {
        let object = kube_cel::apply_defaults(&self.schema, object);
        let mut violations = self.structural_violations(&object);
        list_violations(&self.schema, &object, "", &mut violations);
        // A real API server evaluates CEL only on objects of the right shape.
        if violations.is_empty() {
            let old = old.map(|old| kube_cel::apply_defaults(&self.schema, old));
            let outcome = kube_cel::Validator::new().validate_compiled(&self.compiled, &object, old.as_ref());
            for error in outcome.err().into_iter().flat_map(kube_cel::ValidationErrors::into_vec) {
                let rule = (schema_path_of_field(&error.field_path), error.rule.clone());
                violations.push(Violation { rule, text: error.to_string() });
            }
        }
        violations
    }

    fn structural_violations(&self, object: &Value) -> Vec<Violation> {
        let report = |error: jsonschema::ValidationError<'_>| {
            let (path, mut keyword) = schema_path_of_pointer(error.schema_path().as_str());
            if keyword == "required" {
                keyword = error.to_string();
            }
            let field = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
            Violation { rule: (path, keyword), text: format!("{field}: {error}") }
        };
        self.structural.iter_errors(object).map(report).collect()
    }
}

pub(crate) fn schema_of(definition: &CustomResourceDefinition) -> Value {
    let validation = definition.spec.versions[0].schema.as_ref().unwrap();
    serde_json::to_value(validation.open_api_v3_schema.as_ref().unwrap()).unwrap()
}

/// `/properties/spec/items/minimum` is the keyword `minimum` at `.spec[]`.
fn schema_path_of_pointer(pointer: &str) -> (String, String) {
    let segments: Vec<&str> = pointer.split('/').skip(1).collect();
    let (keyword, places) = segments.split_last().unwrap();
    let mut path = String::new();
    let mut places = places.iter();
    while let Some(place) = places.next() {
        match *place {
            "properties" => path.extend([".", places.next().unwrap()]),
            "items" => path.push_str("[]"),
            "additionalProperties" => path.push_str("{}"),
            other => panic!("unexpected schema path segment {other}"),
        }
    }
    (path, (*keyword).to_owned())
}

/// `spec.list[3].key` is at `.spec.list[].key`.
fn schema_path_of_field(field: &str) -> String {
    let mut path = String::from(".");
    let mut in_index = false;
    for c in field.chars() {
        if c == ']' {
            in_index = false;
        }
        if !in_index {
            path.push(c);
        }
        if c == '[' {
            in_index = true;
        }
    }
    path
}

/// Lists that are sets or maps hold no item, or no key, twice.
fn list_violations(schema: &Value, value: &Value, path: &str, violations: &mut Vec<Violation>) {
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            list_violations(child, value, &format!("{path}.{name}"), violations);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        list_violations(&schema["items"], item, &format!("{path}[]"), violations);
    }
    let identity = |item: &Value| match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Some(item.to_string()),
        Some("map") => Some(item["type"].to_string()),
        _ => None,
    };
    let mut seen = BTreeSet::new();
    for item in value.as_array().into_iter().flatten().filter_map(identity) {
        if !seen.insert(item.clone()) {
            let rule = (path.to_owned(), "x-kubernetes-list-type".to_owned());
            violations.push(Violation { rule, text: format!("{path}: duplicate {item}") });
        }
    }
}

/// One line of a table: an object, what it was before, and why it is refused, if it is.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) object: Value,
    pub(crate) old: Option<Value>,
    pub(crate) refusal: Option<&'static str>,
    /// The case as a line of `admission_cases.jsonl`.
    line: Value,
}

/// The cases of one kind, each an edit of a valid object.
pub(crate) struct Table {
    pub(crate) kind: &'static str,
    pub(crate) base: Value,
    pub(crate) cases: Vec<Case>,
}

/// A change to an object: a JSON pointer and the value to put there, or nothing to remove what is there.
pub(crate) type Edit<'a> = (&'a str, Option<Value>);

impl Table {
    pub(crate) fn new(kind: &'static str, base: Value) -> Self {
        Self { kind, base, cases: Vec::new() }
    }

    pub(crate) fn accept(&mut self, name: &str, pointer: &str, value: Value) {
        self.add(name, &[(pointer, Some(value))], None, None);
    }

    pub(crate) fn refuse(&mut self, name: &str, pointer: &str, value: Value, refusal: &'static str) {
        self.add(name, &[(pointer, Some(value))], None, Some(refusal));
    }

    pub(crate) fn add(
        &mut self,
        name: &str,
        edits: &[Edit<'_>],
        old: Option<&[Edit<'_>]>,
        refusal: Option<&'static str>,
    ) {
        let object = edited(&self.base, edits);
        let mut line = json!({"kind": self.kind, "case": name, "edits": written(edits)});
        if let Some(edits) = old {
            line["old"] = written(edits);
        }
        let old = old.map(|edits| edited(&self.base, edits));
        self.cases.push(Case { name: format!("{}: {name}", self.kind), object, old, refusal, line });
    }
}

/// Edits as a file keeps them: a pointer and a value, or the pointer alone of what is removed.
fn written(edits: &[Edit<'_>]) -> Value {
    let one = |(pointer, value): &Edit<'_>| match value {
        Some(value) => json!([pointer, value]),
        None => json!([pointer]),
    };
    edits.iter().map(one).collect()
}

pub(crate) fn edited(base: &Value, edits: &[Edit<'_>]) -> Value {
    let mut object = base.clone();
    for (pointer, value) in edits {
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        let mut place = &mut object;
        for segment in parent.split('/').skip(1) {
            place = match segment.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => &mut place[segment.replace("~1", "/")],
            };
        }
        let last = last.replace("~1", "/");
        match (value, last.parse::<usize>()) {
            (Some(value), Ok(index)) => place[index] = value.clone(),
            (Some(value), Err(_)) => place[&last] = value.clone(),
            (None, _) => {
                place.as_object_mut().unwrap().remove(&last).unwrap();
            }
        }
    }
    object
}

/// Every rule of a schema that an object can break, other than the plain type of a field.
fn rules_of(schema: &Value, path: &str, rules: &mut BTreeSet<RuleId>) {
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        rules_of(child, &format!("{path}.{name}"), rules);
    }
    if schema["items"].is_object() {
        rules_of(&schema["items"], &format!("{path}[]"), rules);
    }
    if schema["additionalProperties"].is_object() {
        rules_of(&schema["additionalProperties"], &format!("{path}{{}}"), rules);
    }
    let is_list = schema["type"] == "array";
    for keyword in [
        "pattern",
        "enum",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "maxItems",
        "maxProperties",
        "anyOf",
    ] {
        // String keywords on a list are part of upstream's schema but bind nothing.
        let binds = !(is_list && matches!(keyword, "pattern" | "maxLength"));
        if binds && !schema[keyword].is_null() {
            rules.insert((path.to_owned(), keyword.to_owned()));
        }
    }
    if schema["format"] == "date-time" {
        rules.insert((path.to_owned(), "format".to_owned()));
    }
    if matches!(schema["x-kubernetes-list-type"].as_str(), Some("set" | "map")) {
        rules.insert((path.to_owned(), "x-kubernetes-list-type".to_owned()));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        // A required field with a default is never missing by the time it is checked.
        if schema["properties"][name.as_str().unwrap()]["default"].is_null() {
            rules.insert((path.to_owned(), format!("{name} is a required property")));
        }
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        rules.insert((path.to_owned(), rule["rule"].as_str().unwrap().to_owned()));
    }
}

fn tables() -> [Table; 4] {
    [
        nodepool_cases::nodepool(),
        admission_cases::nodeclaim(),
        admission_cases::nodeoverlay(),
        admission_cases::capacitybuffer(),
    ]
}

/// The conformance run sends the same cases to real servers; it reads them from this file.
#[test]
fn the_file_with_the_cases_is_what_the_tables_say() {
    let mut lines = Vec::new();
    for table in tables() {
        lines.push(json!({"kind": table.kind, "base": table.base}));
        lines.extend(table.cases.into_iter().map(|case| case.line));
    }
    let text: String = lines.iter().map(|line| line.to_string() + "\n").collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/admission_cases.jsonl");
    if std::env::var_os("KARPENTER_WRITE_CASES").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default() == text;
    assert!(current, "run the tests of karpenter-api once with KARPENTER_WRITE_CASES=1");
}

#[test]
fn every_case_is_accepted_or_refused_as_the_tables_say_and_every_rule_refuses_something() {
    let rules = LabelRules::for_providers(karpenter_api::Provider::ALL);
    for table in tables() {
        let admission = Admission::of(table.kind, &rules);
        let mut unbroken = BTreeSet::new();
        rules_of(&admission.schema, "", &mut unbroken);
        for case in &table.cases {
            let violations = admission.violations(&case.object, case.old.as_ref());
            let texts: Vec<&str> = violations.iter().map(|violation| violation.text.as_str()).collect();
            match case.refusal {
                None => assert!(texts.is_empty(), "{} should be accepted, but: {texts:?}", case.name),
                Some(refusal) => assert!(
                    texts.iter().any(|text| text.contains(refusal)),
                    "{} should be refused with {refusal:?}, but: {texts:?}",
                    case.name
                ),
            }
            for violation in &violations {
                unbroken.remove(&violation.rule);
            }
        }
        assert!(unbroken.is_empty(), "{}: no case breaks {unbroken:#?}", table.kind);
    }
}
