//! Validating admission policies: rules about writes in CEL, put into force by bindings.

use serde_json::{Value, json};

use super::Write;
use super::expression::Scope;
use super::rules::{Selectors, WriteRule};
use crate::derived::Objects;
use crate::error::ApiError;
use crate::registry::{Registry, Resource};
use crate::selector::LabelSelector;
use crate::server::Core;
use crate::store::Key;
use crate::wire::Call;

/// Which writes a policy or a binding is about.
#[derive(Debug)]
struct Constraints {
    rules: Vec<WriteRule>,
    exceptions: Vec<WriteRule>,
    selectors: Selectors,
}

impl Constraints {
    fn read(value: &Value) -> Self {
        let rules = |name: &str| value[name].as_array().into_iter().flatten().map(WriteRule::read).collect();
        Self {
            rules: rules("resourceRules"),
            exceptions: rules("excludeResourceRules"),
            selectors: Selectors::read(value),
        }
    }

    /// Whether a write is meant; a binding that names no resources means all that its policy means.
    fn include(
        &self,
        write: &Write<'_>,
        resource: &Resource,
        namespace: Option<&Value>,
        without_rules: bool,
    ) -> bool {
        let named = |rules: &[WriteRule]| rules.iter().any(|rule| rule.is_about(write, resource));
        (named(&self.rules) || (without_rules && self.rules.is_empty()))
            && !named(&self.exceptions)
            && self.selectors.choose(write, namespace)
    }
}

#[derive(Debug)]
struct Binding {
    name: String,
    constraints: Constraints,
    actions: Vec<String>,
    parameters: Value,
}

#[derive(Debug)]
struct Policy {
    name: String,
    spec: Value,
    constraints: Constraints,
    bindings: Vec<Binding>,
}

/// All policies with their bindings.
#[derive(Debug)]
pub(super) struct Policies(Vec<Policy>);

impl Policies {
    pub(super) fn read([policies, bindings]: &[Objects; 2]) -> Self {
        let bindings: Vec<Value> = bindings.iter().map(|(_, binding)| binding.value()).collect();
        let policy = |key: &Key, spec: Value| {
            let own = bindings.iter().filter(|binding| binding["spec"]["policyName"] == *key.name);
            let bindings = own.map(|binding| {
                let actions = binding["spec"]["validationActions"].as_array().into_iter().flatten();
                Binding {
                    name: binding["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                    constraints: Constraints::read(&binding["spec"]["matchResources"]),
                    actions: actions.filter_map(Value::as_str).map(str::to_owned).collect(),
                    parameters: binding["spec"]["paramRef"].clone(),
                }
            });
            Policy {
                name: key.name.to_string(),
                constraints: Constraints::read(&spec["matchConstraints"]),
                bindings: bindings.collect(),
                spec,
            }
        };
        Self(policies.iter().map(|(key, stored)| policy(key, stored.value()["spec"].take())).collect())
    }
}

/// A validation that did not hold.
struct Failure {
    message: String,
    reason: String,
}

impl Failure {
    fn new(message: String) -> Self {
        Self { message, reason: String::new() }
    }
}

impl Core {
    /// Judges a write by all policies in force.
    ///
    /// # Errors
    /// The denial of the first policy that denies.
    pub(super) fn apply_policies(&self, call: &Call<'_>, write: &Write<'_>) -> Result<(), ApiError> {
        let policies = self.admission.policies.current(&self.store, Policies::read);
        let namespace = self.namespace_object(call, write);
        let (registry, namespace) = (self.registry(), namespace.as_ref());
        for policy in &policies.0 {
            if !policy.constraints.include(write, &call.resource, namespace, false) {
                continue;
            }
            for binding in &policy.bindings {
                if !binding.constraints.include(write, &call.resource, namespace, true) {
                    continue;
                }
                for failure in self.failures(call, write, policy, binding, &registry, namespace) {
                    judge(call, write, policy, binding, &failure)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the validations of a policy that do not hold.
    fn failures(
        &self,
        call: &Call<'_>,
        write: &Write<'_>,
        policy: &Policy,
        binding: &Binding,
        registry: &Registry,
        namespace: Option<&Value>,
    ) -> Vec<Failure> {
        let strict = policy.spec["failurePolicy"] != "Ignore";
        let parameters = match self.parameters(policy, binding, registry, write.namespace) {
            Ok(parameters) => parameters,
            Err(_) if !strict => return Vec::new(),
            Err(error) => return vec![Failure::new(format!("failed to configure binding: {error}"))],
        };
        let mut failures = Vec::new();
        for parameter in parameters {
            let mut scope = Scope::new(write, &call.resource, call.user);
            scope.add("namespaceObject", namespace.filter(|_| call.resource.namespaced));
            scope.add("params", parameter.as_ref());
            failures.extend(evaluate(&policy.spec, &mut scope, strict));
        }
        failures
    }

    /// Returns the parameter objects of a binding; one that is null when the policy takes none.
    fn parameters(
        &self,
        policy: &Policy,
        binding: &Binding,
        registry: &Registry,
        namespace: &str,
    ) -> Result<Vec<Option<Value>>, String> {
        let (kind, reference) = (&policy.spec["paramKind"], &binding.parameters);
        if !kind.is_object() || !reference.is_object() {
            return Ok(vec![None]);
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&kind["apiVersion"]), text(&kind["kind"]));
        let resource = registry.find_kind(&api_version, &kind).ok_or_else(|| {
            format!("failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'")
        })?;
        let own = text(&reference["namespace"]);
        let namespace = match (resource.namespaced, own.is_empty()) {
            (false, _) => "",
            (true, true) => namespace,
            (true, false) => &own,
        };
        let found: Vec<Option<Value>> = if let Some(name) = reference["name"].as_str() {
            let stored = self.store.get(&resource.name, &Key::new(namespace, name));
            stored.into_iter().map(|stored| Some(stored.value())).collect()
        } else {
            let selector = LabelSelector::from_object(&reference["selector"]);
            let place = resource.namespaced.then_some(namespace);
            let page = self.store.list(&resource.name, place, None, None);
            let objects = page.map(|page| page.objects).unwrap_or_default();
            let chosen = objects.iter().filter(|(_, stored)| selector.matches(stored));
            chosen.map(|(_, stored)| Some(stored.value())).collect()
        };
        if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(found)
    }
}

/// Evaluates the conditions and validations of a policy.
fn evaluate(spec: &Value, scope: &mut Scope, strict: bool) -> Vec<Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |name: &str| spec[name].as_array().cloned().unwrap_or_default();
    for variable in list("variables") {
        scope.add_variable(&text(&variable["name"]), &text(&variable["expression"]));
    }
    let mut broken = Vec::new();
    for condition in list("matchConditions") {
        match scope.is_true(&text(&condition["expression"])) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(error) => broken.push(Failure::new(error)),
        }
    }
    if !broken.is_empty() {
        broken.truncate(usize::from(strict));
        return broken;
    }
    let mut failures = Vec::new();
    for validation in list("validations") {
        let expression = text(&validation["expression"]);
        let message = match scope.is_true(&expression) {
            Err(error) if strict => error,
            Ok(true) | Err(_) => continue,
            Ok(false) => {
                let computed = validation["messageExpression"].as_str().and_then(|text| scope.text(text));
                let fixed =
                    || validation["message"].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
                let computed = computed.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
                computed.or_else(fixed).unwrap_or_else(|| format!("failed expression: {}", expression.trim()))
            }
        };
        failures.push(Failure { message, reason: text(&validation["reason"]) });
    }
    failures
}

/// Does what a binding says about a validation that does not hold.
fn judge(
    call: &Call<'_>,
    write: &Write<'_>,
    policy: &Policy,
    binding: &Binding,
    failure: &Failure,
) -> Result<(), ApiError> {
    let place = format!("ValidatingAdmissionPolicy '{}' with binding '{}'", policy.name, binding.name);
    if binding.actions.iter().any(|action| action == "Warn") {
        call.session.warn(format!("Validation failed for {place}: {}", failure.message));
    }
    if !binding.actions.iter().any(|action| action == "Deny") {
        return Ok(());
    }
    let message = format!("{place} denied request: {}", failure.message);
    let mut error = ApiError::forbidden(&call.resource.name, write.name, &message);
    let (reason, code) = match failure.reason.as_str() {
        "" => ("Invalid", 422),
        "Unauthorized" => ("Unauthorized", 401),
        "Forbidden" => ("Forbidden", 403),
        "RequestEntityTooLarge" => ("RequestEntityTooLarge", 413),
        other => (other, 422),
    };
    error.reason = reason.to_owned().into();
    error.code = http::StatusCode::from_u16(code).expect("a code of the table above");
    error.details["causes"] = json!([{"message": message}]);
    Err(error)
}
