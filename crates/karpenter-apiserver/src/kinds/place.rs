//! A value with the path that leads to it, and the list that rules report to.
//!
//! Paths are only put together when something is wrong: most objects are right.

use serde_json::Value;

use crate::error::FieldError;

/// How a place is reached from the one around it.
#[derive(Clone, Copy)]
enum Step<'p> {
    Root(&'p str),
    Field(&'p str),
    Index(usize),
    Key(&'p str),
}

/// A value somewhere in an object.
#[derive(Clone, Copy)]
pub(super) struct Place<'v, 'p> {
    pub(super) value: &'v Value,
    outer: Option<&'p Place<'v, 'p>>,
    step: Step<'p>,
}

static NOTHING: Value = Value::Null;

impl<'v, 'p> Place<'v, 'p> {
    /// A value with a path that is already known; the empty path is the object itself.
    pub(super) fn root(path: &'p str, value: &'v Value) -> Self {
        Self { value, outer: None, step: Step::Root(path) }
    }

    /// The place of a field, which may be absent.
    pub(super) fn field<'c>(&'c self, name: &'c str) -> Place<'v, 'c> {
        Place { value: self.value.get(name).unwrap_or(&NOTHING), outer: Some(self), step: Step::Field(name) }
    }

    /// The places of the items of a list.
    pub(super) fn items<'c>(&'c self) -> impl Iterator<Item = Place<'v, 'c>> {
        let items = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().enumerate().map(move |(index, value)| Place {
            value,
            outer: Some(self),
            step: Step::Index(index),
        })
    }

    /// The places of the values of a map.
    pub(super) fn entries<'c>(&'c self) -> impl Iterator<Item = (&'v str, Place<'v, 'c>)>
    where
        'v: 'c,
    {
        self.value
            .as_object()
            .into_iter()
            .flatten()
            .map(move |(key, value)| (key.as_str(), Place { value, outer: Some(self), step: Step::Key(key) }))
    }

    pub(super) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    pub(super) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub(super) fn flag(&self) -> bool {
        self.value.as_bool().unwrap_or(false)
    }

    pub(super) fn len(&self) -> usize {
        self.value
            .as_array()
            .map(Vec::len)
            .or_else(|| self.value.as_object().map(serde_json::Map::len))
            .unwrap_or(0)
    }

    /// Whether something is there.
    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    pub(super) fn path(&self) -> String {
        let outer = self.outer.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Root(path) => path.to_owned(),
            Step::Field(name) if outer.is_empty() => name.to_owned(),
            Step::Field(name) => format!("{outer}.{name}"),
            Step::Index(index) => format!("{outer}[{index}]"),
            Step::Key(key) => format!("{outer}[{key}]"),
        }
    }

    pub(super) fn invalid(&self, rule: impl std::fmt::Display) -> FieldError {
        FieldError::invalid(self.path(), self.value, rule)
    }

    pub(super) fn invalid_value(&self, value: &Value, rule: impl std::fmt::Display) -> FieldError {
        FieldError::invalid(self.path(), value, rule)
    }

    pub(super) fn required(&self, rule: &str) -> FieldError {
        FieldError::required(self.path(), rule)
    }

    pub(super) fn forbidden(&self, rule: &str) -> FieldError {
        FieldError::forbidden(self.path(), rule)
    }

    pub(super) fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.path(), self.value)
    }

    pub(super) fn unsupported(&self, supported: &[&str]) -> FieldError {
        let value = if self.value.is_null() { &EMPTY } else { self.value };
        FieldError::unsupported(self.path(), value, supported)
    }
}

static EMPTY: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::String(String::new()));

/// What is wrong with an object.
#[derive(Default)]
pub(super) struct Errors(pub(super) Vec<FieldError>);

impl Errors {
    pub(super) fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    pub(super) fn add(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        self.0.extend(errors);
    }

    /// Reports every way in which a text does not have its form.
    pub(super) fn form(&mut self, place: &Place<'_, '_>, wrong: Vec<String>) {
        for rule in wrong {
            let text = Value::String(place.text().to_owned());
            let value = if place.value.is_null() { &text } else { place.value };
            self.0.push(FieldError::invalid(place.path(), value, rule));
        }
    }

    /// Reports a number below zero.
    pub(super) fn not_negative(&mut self, place: &Place<'_, '_>) {
        if place.number().is_some_and(|number| number < 0) {
            self.push(place.invalid("must be greater than or equal to 0"));
        }
    }

    /// Reports a text that is missing or not one of a set.
    pub(super) fn one_of(&mut self, place: &Place<'_, '_>, supported: &[&str]) {
        match place.text() {
            "" => self.push(place.required("")),
            text if !supported.contains(&text) => self.push(place.unsupported(supported)),
            _ => {}
        }
    }

    /// Reports a text that is there and not one of a set.
    pub(super) fn one_of_or_none(&mut self, place: &Place<'_, '_>, supported: &[&str]) {
        if place.is_set() && !supported.contains(&place.text()) {
            self.push(place.unsupported(supported));
        }
    }

    /// Reports a field whose value changed.
    pub(super) fn immutable(&mut self, new: &Place<'_, '_>, old: &Place<'_, '_>) {
        if new.value != old.value {
            self.push(new.invalid("field is immutable"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_knows_the_way_that_leads_to_it() {
        let pod = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "x"}}}]}});
        let root = Place::root("", &pod);
        let spec = root.field("spec");
        let containers = spec.field("containers");
        let container = containers.items().next().unwrap();
        assert_eq!(container.field("name").path(), "spec.containers[0].name");
        let resources = container.field("resources");
        let limits = resources.field("limits");
        assert_eq!(limits.entries().next().unwrap().1.path(), "spec.containers[0].resources.limits[cpu]");
        assert_eq!(
            Place::root("template.spec", &pod["spec"]).field("nodeName").path(),
            "template.spec.nodeName"
        );
    }
}
