//! XML answers as a tree of elements: what clouds send, no more.
//!
//! Names lose their prefix, attributes are dropped, white space between elements is dropped. Answers come from a cloud or from
//! what stands in for it, yet a broken one is an error and never a panic.

/// An element with its text and its children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Its name, without a prefix.
    pub name: String,
    /// Its text; empty when it has children.
    pub text: String,
    /// Its children in order.
    pub children: Vec<Element>,
}

/// Why a text is not XML.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not XML at byte {at}: {what}")]
pub struct XmlError {
    at: usize,
    what: &'static str,
}

/// Deeper than any answer, shallow enough for any stack.
const MAX_DEPTH: usize = 64;

impl Element {
    /// Reads a document.
    ///
    /// # Errors
    /// When the text is not well-formed, as far as this reader looks.
    pub fn parse(document: &str) -> Result<Self, XmlError> {
        Reader { document, at: 0 }.document()
    }

    /// The first child called `name`.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first child called `name`.
    pub fn child_text(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str())
    }

    /// All children called `name`.
    pub fn children_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The first element called `name`, this one included, in document order.
    pub fn find(&self, name: &str) -> Option<&Self> {
        if self.name == name { Some(self) } else { self.children.iter().find_map(|child| child.find(name)) }
    }
}

struct Reader<'a> {
    document: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn document(mut self) -> Result<Element, XmlError> {
        self.skip_misc()?;
        let root = self.element(0)?;
        self.skip_misc()?;
        if self.at == self.document.len() { Ok(root) } else { Err(self.wrong("text after the document")) }
    }

    fn rest(&self) -> &'a str {
        &self.document[self.at..]
    }

    fn wrong(&self, what: &'static str) -> XmlError {
        XmlError { at: self.at, what }
    }

    fn skip_space(&mut self) {
        self.at =
            self.document.len() - self.rest().trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).len();
    }

    /// Skips declarations and comments between elements.
    fn skip_misc(&mut self) -> Result<(), XmlError> {
        loop {
            self.skip_space();
            let end = if self.rest().starts_with("<?") {
                "?>"
            } else if self.rest().starts_with("<!--") {
                "-->"
            } else if self.rest().starts_with("<!") {
                return Err(self.wrong("a document type"));
            } else {
                return Ok(());
            };
            self.through(end)?;
        }
    }

    /// Moves behind the next `end` and returns what stood before it.
    fn through(&mut self, end: &'static str) -> Result<&'a str, XmlError> {
        let found = self.rest().find(end).ok_or_else(|| self.wrong("an open end"))?;
        let before = &self.rest()[..found];
        self.at += found + end.len();
        Ok(before)
    }

    fn element(&mut self, depth: usize) -> Result<Element, XmlError> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("elements nested too deeply"));
        }
        if !self.rest().starts_with('<') {
            return Err(self.wrong("an element was expected"));
        }
        self.at += 1;
        let tag = self.through(">")?;
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name = tag.split([' ', '\t', '\r', '\n']).next().unwrap_or("");
        if name.is_empty() || name.starts_with('/') {
            return Err(self.wrong("an element without a name"));
        }
        let mut element = Element { name: local(name).to_owned(), ..Element::default() };
        if !closed {
            self.content(&mut element, name, depth)?;
        }
        Ok(element)
    }

    /// Reads until the end tag of `element`, which is written `name`.
    fn content(&mut self, element: &mut Element, name: &str, depth: usize) -> Result<(), XmlError> {
        loop {
            let rest = self.rest();
            if rest.starts_with("</") {
                self.at += 2;
                if self.through(">")?.trim_end() != name {
                    return Err(self.wrong("an end tag that closes nothing"));
                }
                if !element.children.is_empty() {
                    element.text.clear();
                }
                return Ok(());
            }
            if rest.starts_with("<![CDATA[") {
                self.at += "<![CDATA[".len();
                let text = self.through("]]>")?;
                element.text.push_str(text);
            } else if rest.starts_with("<!--") {
                self.through("-->")?;
            } else if rest.starts_with("<?") {
                self.through("?>")?;
            } else if rest.starts_with('<') {
                let child = self.element(depth + 1)?;
                element.children.push(child);
            } else {
                let text = self.text()?;
                element.text.push_str(&text);
            }
        }
    }

    /// Reads text up to the next tag.
    fn text(&mut self) -> Result<String, XmlError> {
        let length = self.rest().find('<').ok_or_else(|| self.wrong("an element without an end"))?;
        let raw = &self.rest()[..length];
        let mut text = String::with_capacity(length);
        let mut pieces = raw.split('&');
        text.push_str(pieces.next().unwrap_or(""));
        for piece in pieces {
            let (entity, after) =
                piece.split_once(';').ok_or_else(|| self.wrong("an entity without an end"))?;
            text.push(character(entity).ok_or_else(|| self.wrong("an unknown entity"))?);
            text.push_str(after);
        }
        self.at += length;
        Ok(text)
    }
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

fn character(entity: &str) -> Option<char> {
    match entity {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = entity.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_text_and_entities_are_read() {
        let root = Element::parse(
            "<?xml version=\"1.0\"?>\n<a:Root xmlns:a=\"urn:x\"><!-- c --><Item key=\"v\">1 &lt; 2 &#x41;</Item>\n<Item/><b><![CDATA[<&>]]></b></a:Root>\n",
        )
        .unwrap();
        assert_eq!(root.name, "Root");
        assert_eq!(root.text, "");
        let items: Vec<&str> = root.children_named("Item").map(|item| item.text.as_str()).collect();
        assert_eq!(items, ["1 < 2 A", ""]);
        assert_eq!(root.find("b").unwrap().text, "<&>");
    }

    #[test]
    fn a_broken_document_is_an_error_that_says_where() {
        for broken in [
            "",
            "text",
            "<a>",
            "<a></b>",
            "<a>&nope;</a>",
            "<a>&amp</a>",
            "<a/><b/>",
            "<",
            "<!DOCTYPE a><a/>",
            "</a>",
        ] {
            assert!(Element::parse(broken).is_err(), "{broken}");
        }
        assert_eq!(
            Element::parse("<a>&nope;</a>").unwrap_err().to_string(),
            "not XML at byte 3: an unknown entity"
        );
    }

    #[test]
    fn elements_without_end_do_not_exhaust_the_stack() {
        assert!(Element::parse(&"<a>".repeat(100_000)).is_err());
    }
}
