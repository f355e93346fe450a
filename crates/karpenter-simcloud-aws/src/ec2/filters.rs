//! Filters of describe operations: names with any of some values, `*` and `?` as wildcards.

use std::collections::BTreeMap;

use crate::wire::form::Form;
use crate::wire::refusal::Refusal;
use crate::world::Call;

/// What filters look at.
pub(crate) trait Described {
    /// The values under a filter's name; `None` where there is no such filter.
    fn values(&self, filter: &str) -> Option<Vec<String>>;

    /// Its tags.
    fn tags(&self) -> &BTreeMap<String, String>;
}

/// The filters of a request; all must hold.
pub(crate) struct Filters(Vec<(String, Vec<String>)>);

impl Filters {
    pub(crate) fn read(call: &Call<'_>) -> Self {
        // botocore writes Value, some SDKs write Values.
        let values = |filter: &Form| {
            let found = filter.texts("Value");
            if found.is_empty() { filter.texts("Values") } else { found }
        };
        let read = |filter: &Form| (filter.owned("Name").unwrap_or_default(), values(filter));
        Self(call.form.list("Filter").into_iter().map(read).collect())
    }

    /// Whether something passes.
    pub(crate) fn pass(&self, thing: &impl Described) -> Result<bool, Refusal> {
        for (name, wanted) in &self.0 {
            let found = values(thing, name)?;
            let hit = found.iter().any(|found| wanted.iter().any(|pattern| glob(pattern, found)));
            if !hit {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Those that pass.
    pub(crate) fn select<'a, T: Described>(
        &self,
        things: impl IntoIterator<Item = &'a T>,
    ) -> Result<Vec<&'a T>, Refusal> {
        let mut passed = Vec::new();
        for thing in things {
            if self.pass(thing)? {
                passed.push(thing);
            }
        }
        Ok(passed)
    }
}

fn values(thing: &impl Described, name: &str) -> Result<Vec<String>, Refusal> {
    if name == "tag-key" {
        return Ok(thing.tags().keys().cloned().collect());
    }
    if name == "tag-value" {
        return Ok(thing.tags().values().cloned().collect());
    }
    if let Some(key) = name.strip_prefix("tag:") {
        return Ok(thing.tags().get(key).cloned().into_iter().collect());
    }
    let unknown = || Refusal::new("InvalidParameterValue", format!("The filter '{name}' is invalid"));
    thing.values(name).ok_or_else(unknown)
}

/// Whether `text` fits `pattern`, whose `*` is any text and `?` any character; a backslash takes the meaning away.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    fn fits(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|skipped| fits(rest, &text[skipped..])),
            ['?', rest @ ..] => !text.is_empty() && fits(rest, &text[1..]),
            ['\\', plain, rest @ ..] | [plain, rest @ ..] => {
                text.first() == Some(plain) && fits(rest, &text[1..])
            }
        }
    }
    if !pattern.contains(['*', '?', '\\']) {
        return pattern == text;
    }
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    fits(&pattern, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_any_text_and_any_character() {
        for (pattern, text, fits) in [
            ("*-private*", "acc-private-a", true),
            ("acc-private*", "acc-public-a", false),
            ("m?.large", "m5.large", true),
            ("m?.large", "m.large", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }
}
