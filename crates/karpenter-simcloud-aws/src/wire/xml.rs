//! Writes XML answers.

use std::collections::BTreeMap;
use std::fmt::Display;

/// Elements, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Xml(String);

impl Xml {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// An element that holds a text.
    pub(crate) fn leaf(&mut self, name: &str, value: impl Display) -> &mut Self {
        self.open(name);
        for character in value.to_string().chars() {
            match character {
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '&' => self.0.push_str("&amp;"),
                '"' => self.0.push_str("&quot;"),
                other => self.0.push(other),
            }
        }
        self.close(name)
    }

    /// An element that holds a text, if there is one.
    pub(crate) fn maybe(&mut self, name: &str, value: Option<impl Display>) -> &mut Self {
        if let Some(value) = value {
            self.leaf(name, value);
        }
        self
    }

    /// An element that holds others.
    pub(crate) fn node(&mut self, name: &str, content: impl FnOnce(&mut Self)) -> &mut Self {
        self.open(name);
        content(self);
        self.close(name)
    }

    /// A list as EC2 writes it.
    pub(crate) fn items<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut content: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.node(name, |xml| {
            for item in items {
                xml.node("item", |xml| content(xml, item));
            }
        })
    }

    /// A list of texts as EC2 writes it.
    pub(crate) fn texts<T: Display>(&mut self, name: &str, texts: impl IntoIterator<Item = T>) -> &mut Self {
        self.node(name, |xml| {
            for text in texts {
                xml.leaf("item", text);
            }
        })
    }

    /// Tags as EC2 writes them.
    pub(crate) fn tags(&mut self, tags: &BTreeMap<String, String>) -> &mut Self {
        if tags.is_empty() {
            return self;
        }
        self.items("tagSet", tags, |xml, (key, value)| {
            xml.leaf("key", key).leaf("value", value);
        })
    }

    /// Elements that were written elsewhere.
    pub(crate) fn append(&mut self, other: &Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    /// The document: this, inside an element of a name space.
    pub(crate) fn document(self, root: &str, name_space: &str) -> String {
        let Self(content) = self;
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root} xmlns=\"{name_space}\">{content}</{root}>"
        )
    }

    fn open(&mut self, name: &str) {
        self.0.push('<');
        self.0.push_str(name);
        self.0.push('>');
    }

    fn close(&mut self, name: &str) -> &mut Self {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_lists_have_items() {
        let mut xml = Xml::new();
        xml.leaf("a", "1 < 2 & 3").maybe("b", None::<u8>).texts("c", [1, 2]);
        assert_eq!(
            xml.document("R", "urn:x"),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<R xmlns=\"urn:x\"><a>1 &lt; 2 &amp; 3</a><c><item>1</item><item>2</item></c></R>"
        );
    }
}
