//! Which value of a JSON text stands at a place in it: readers tell where they stopped as a line and a column, people look for a
//! field.

use std::fmt::Write as _;

/// A list or an object that the place is inside of.
enum Around {
    List(usize),
    Object(String),
}

/// Returns the path of the value that begins or ends last before a place, both counted as `serde_json` counts them.
pub(super) fn path_at(text: &str, line: usize, column: usize) -> String {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let bytes = text.as_bytes().get(..start + column).unwrap_or(text.as_bytes());
    let mut around: Vec<Around> = Vec::new();
    let mut path = String::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b',' => {
                if let Some(Around::List(index)) = around.last_mut() {
                    *index += 1;
                }
            }
            b'{' | b'[' => {
                path = written(&around);
                around.push(if *byte == b'{' { Around::Object(String::new()) } else { Around::List(0) });
            }
            b'}' | b']' => {
                around.pop();
                path = written(&around);
            }
            b'"' => {
                let end = end_of_string(bytes, at);
                let follows = text.as_bytes()[end..].iter().find(|byte| !byte.is_ascii_whitespace());
                match around.last_mut() {
                    Some(Around::Object(key)) if follows == Some(&b':') => {
                        text.get(at..end.saturating_sub(1)).unwrap_or_default().clone_into(key);
                    }
                    // A colon announces a value; anything else is a part of one.
                    _ => path = written(&around),
                }
                at = end;
            }
            // A colon announces a value; anything else is a part of one.
            _ => path = written(&around),
        }
    }
    path
}

/// Where the string ends whose first byte inside is at `from`.
fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn written(around: &[Around]) -> String {
    around.iter().fold(String::new(), |mut path, place| {
        match place {
            Around::List(index) => write!(path, "[{index}]").expect("a string takes everything"),
            Around::Object(key) => {
                path.extend((!path.is_empty()).then_some('.'));
                path.push_str(key);
            }
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path at the `^` of a one-line text.
    fn path(marked: &str) -> String {
        let column = marked.find('^').expect("a mark");
        path_at(&marked.replace('^', ""), 1, column)
    }

    #[test]
    fn a_value_is_where_it_ends() {
        assert_eq!(path(r#"{"a":{"b":[1,"x"^]}}"#), "a.b[1]");
        assert_eq!(path(r#"{"a":{"b":[1,"x"]}^}"#), "a");
        assert_eq!(path(r#"{"a":{"b":tr^ue}}"#), "a.b");
        assert_eq!(path(r#"{"a":1, "b":^ {}}"#), "b");
        assert_eq!(path(r#"{"a":1}^"#), "");
        assert_eq!(path("^{}"), "");
    }

    #[test]
    fn strings_may_hold_anything() {
        assert_eq!(path(r#"{"a\"}":[{"k":"],}{"},{"k":2^}]}"#), r#"a\"}[1].k"#);
        assert_eq!(path(r#"{"a":"unfinis^"#), "a");
    }

    #[test]
    fn lines_count() {
        assert_eq!(path_at("{\n  \"a\": [\n    1,\n    2\n  ]\n}", 4, 5), "a[1]");
    }
}
