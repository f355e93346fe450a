//! The query protocols' requests: flat names such as `Filter.1.Value.2` as a tree.

use std::collections::BTreeMap;

use super::uri;

/// A value with what is below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    text: Option<String>,
    fields: BTreeMap<String, Form>,
}

impl Form {
    /// Reads a form; `Filter.1.Name` and `Filters.member.1.Name` alike become lists.
    pub(crate) fn read(body: &str) -> Self {
        let mut form = Self::default();
        for (name, value) in uri::pairs(body, true) {
            let mut at = &mut form;
            for part in name.split('.').filter(|part| !matches!(*part, "member" | "item")) {
                at = at.fields.entry(part.to_owned()).or_default();
            }
            at.text = Some(value);
        }
        form
    }

    /// This, with what `over` says instead.
    pub(crate) fn merged(&self, over: &Self) -> Self {
        let mut merged = self.clone();
        merged.fields.extend(over.fields.clone());
        merged
    }

    /// Everything but what is below `name`.
    pub(crate) fn without(&self, name: &str) -> Self {
        let mut rest = self.clone();
        rest.fields.remove(name);
        rest
    }

    /// Nothing but what is below `name`.
    pub(crate) fn only(&self, name: &str) -> Self {
        let kept = self.fields.get_key_value(name).map(|(name, form)| (name.clone(), form.clone()));
        Self { text: None, fields: kept.into_iter().collect() }
    }

    /// What is below `name`.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.fields.get(name)
    }

    /// What is below `path`, which has dots.
    pub(crate) fn at(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |form, name| form.field(name))
    }

    /// The text at `path`.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.at(path)?.text.as_deref()
    }

    /// The text of this value itself.
    pub(crate) fn own(&self) -> &str {
        self.text.as_deref().unwrap_or("")
    }

    /// The text at `path` as an owned value.
    pub(crate) fn owned(&self, path: &str) -> Option<String> {
        self.text(path).map(str::to_owned)
    }

    /// The number at `path`, if it is one.
    pub(crate) fn number<N: std::str::FromStr>(&self, path: &str) -> Option<N> {
        self.text(path)?.parse().ok()
    }

    /// Whether the value at `path` is true.
    pub(crate) fn flag(&self, path: &str) -> bool {
        self.text(path).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// The list at `path`, in the order of its numbers.
    pub(crate) fn list(&self, path: &str) -> Vec<&Self> {
        let Some(form) = self.at(path) else { return Vec::new() };
        let mut items: Vec<(u32, &Self)> =
            form.fields.iter().filter_map(|(number, item)| Some((number.parse().ok()?, item))).collect();
        items.sort_by_key(|(number, _)| *number);
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// The list of texts at `path`.
    pub(crate) fn texts(&self, path: &str) -> Vec<String> {
        self.list(path).into_iter().map(|item| item.own().to_owned()).collect()
    }

    /// Keys and values below `path`, as in `Tag.1.Key` and `Tag.1.Value`.
    pub(crate) fn tags(&self, path: &str) -> BTreeMap<String, String> {
        let pair = |item: &Self| Some((item.owned("Key")?, item.owned("Value").unwrap_or_default()));
        self.list(path).into_iter().filter_map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_numbers_are_lists_in_the_order_of_the_numbers() {
        let form = Form::read(
            "Action=A&Filter.1.Name=tag%3Ax&Filter.1.Value.10=b&Filter.1.Value.2=a+c&Tags.member.1.Key=k",
        );
        let filter = form.list("Filter")[0];
        assert_eq!(filter.text("Name"), Some("tag:x"));
        assert_eq!(filter.texts("Value"), ["a c", "b"]);
        assert_eq!(form.tags("Tags"), [("k".to_owned(), String::new())].into());
        assert_eq!(form.text("Filter.1.Name"), Some("tag:x"));
    }
}
