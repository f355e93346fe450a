//! CEL expressions about a write: match conditions of webhooks and the validations of policies.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as Cel};
use serde_json::{Value, json};

use super::Write;
use crate::authentication::User;
use crate::crd;
use crate::registry::Resource;

/// What expressions can see.
pub(super) struct Scope {
    context: Context<'static>,
    variables: HashMap<Key, Cel>,
}

impl Scope {
    /// Builds the scope of a write, taken as one of `resource`.
    pub(super) fn new(write: &Write<'_>, resource: &Resource, user: &User) -> Self {
        let mut context = Context::default().with_all();
        let value = |value: Option<&Value>| value.map_or(Cel::Null, to_cel);
        context.add_variable_from_value("object", value(write.object));
        context.add_variable_from_value("oldObject", value(write.old));
        let request = json!({
            "operation": write.operation, "name": write.name, "namespace": write.namespace,
            "subResource": write.subresource, "dryRun": write.dry_run, "options": write.options,
            "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
            "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
            "userInfo": user.to_value(),
        });
        context.add_variable_from_value("request", to_cel(&request));
        Self { context, variables: HashMap::new() }
    }

    /// Adds an object under a name of its own.
    pub(super) fn add(&mut self, name: &str, value: Option<&Value>) {
        self.context.add_variable_from_value(name, value.map_or(Cel::Null, to_cel));
    }

    /// Evaluates an expression and adds it to `variables`. One that fails is missing, which only matters to whoever
    /// uses it.
    pub(super) fn add_variable(&mut self, name: &str, expression: &str) {
        if let Ok(value) = self.evaluate(expression) {
            self.variables.insert(Key::String(Arc::new(name.to_owned())), value);
            let variables = Map { map: Arc::new(self.variables.clone()) };
            self.context.add_variable_from_value("variables", Cel::Map(variables));
        }
    }

    /// Evaluates an expression that is true or false.
    ///
    /// # Errors
    /// Returns the sentence about an expression that fails or is neither.
    pub(super) fn is_true(&self, expression: &str) -> Result<bool, String> {
        match self.evaluate(expression)? {
            Cel::Bool(value) => Ok(value),
            other => Err(format!("expression '{expression}' resulted in {other:?}, which is no boolean")),
        }
    }

    /// Evaluates an expression that is a text.
    pub(super) fn text(&self, expression: &str) -> Option<String> {
        match self.evaluate(expression) {
            Ok(Cel::String(text)) => Some(text.as_ref().clone()),
            _ => None,
        }
    }

    fn evaluate(&self, expression: &str) -> Result<Cel, String> {
        let program = compiled(expression).map_err(|error| format!("compilation failed: {error}"))?;
        program.execute(&self.context).map_err(|error| {
            format!("expression '{expression}' resulted in error: {}", lower(&error.to_string()))
        })
    }
}

fn compiled(expression: &str) -> Result<Program, String> {
    match crd::too_deep(expression) {
        Some(flaw) => Err(flaw),
        None => Program::compile(expression).map_err(|error| error.to_string()),
    }
}

/// Says why an expression is no expression; `None` when it is one.
pub(super) fn flaw(expression: &str) -> Option<String> {
    let error = compiled(expression).err()?;
    // Kubernetes indents the lines that show the place.
    Some(format!("compilation failed: {}", error.replace("\n|", "\n |")))
}

/// Errors of the engine begin with a capital, those of Kubernetes do not.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

fn to_cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Cel::Int(integer),
            None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(fields) => {
            let entry =
                |(name, value): (&String, &Value)| (Key::String(Arc::new(name.clone())), to_cel(value));
            Cel::Map(Map { map: Arc::new(fields.iter().map(entry).collect()) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn expressions_see_the_object_the_request_and_variables() {
        let registry = Registry::built_in();
        let pods = registry.find("", "v1", "pods").unwrap();
        let object = json!({"metadata": {"labels": {"app-name": "x"}}, "spec": {"n": 3}});
        let write = Write { operation: "CREATE", object: Some(&object), ..Write::default() };
        let mut scope = Scope::new(&write, pods, &User::admin());
        scope.add_variable("double", "object.spec.n * 2");
        scope.add_variable("broken", "object.spec.missing");
        for expression in [
            "object.metadata.labels['app-name'] == 'x'",
            "oldObject == null",
            "variables.double == 6",
            "request.resource.resource == 'pods' && 'system:masters' in request.userInfo.groups",
            "!has(object.spec.m)",
        ] {
            assert_eq!(scope.is_true(expression), Ok(true), "{expression}");
        }
        assert!(scope.is_true("variables.broken == 1").is_err());
        assert!(scope.is_true("object.spec.n").is_err());
        assert_eq!(scope.text("'n is ' + string(object.spec.n)").as_deref(), Some("n is 3"));
        assert!(flaw("object.").is_some());
    }
}
