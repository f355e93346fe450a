//! MIME archives: several documents in one user data, each with its content type.

use std::fmt;

/// The content type of a shell script.
pub const SHELL_SCRIPT: &str = "text/x-shellscript; charset=\"us-ascii\"";
/// The content type of nodeadm's configuration.
pub const NODE_CONFIG: &str = "application/node.eks.aws";
/// What separates parts; the same that EKS's own documents show.
const BOUNDARY: &str = "//";

/// Why a text is no archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MimeError {
    /// The headers end without a blank line.
    #[error("the user data begins like a MIME archive, but no blank line ends its headers")]
    Unfinished,
    /// A header line without a colon.
    #[error("{0:?} is not a MIME header; write \"Name: value\"")]
    Header(String),
    /// The archive says it holds something else than parts.
    #[error("the user data has the content type {0:?}; a MIME archive must be \"multipart/mixed\"")]
    NotMultipart(String),
    /// It is not said what separates the parts.
    #[error("the MIME archive in the user data names no boundary; add one, for example boundary=\"//\"")]
    NoBoundary,
    /// The last part is not closed.
    #[error("the MIME archive in the user data has no closing line \"--{0}--\"")]
    Unclosed(String),
}

/// A document with its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    headers: Vec<(String, String)>,
    content: String,
}

impl Part {
    /// A document of this content type.
    pub fn new(content_type: &str, content: impl Into<String>) -> Self {
        Self { headers: vec![("Content-Type".to_owned(), content_type.to_owned())], content: content.into() }
    }

    /// Its content type, if it says one.
    pub fn content_type(&self) -> Option<&str> {
        header(&self.headers, "Content-Type")
    }

    /// The document.
    pub fn content(&self) -> &str {
        &self.content
    }
}

/// Several documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// The documents, in order.
    pub parts: Vec<Part>,
}

impl Archive {
    /// Whether a text claims to be an archive.
    pub fn is_archive(text: &str) -> bool {
        let text = text.trim_start();
        text.starts_with("MIME-Version:") || text.starts_with("Content-Type:")
    }

    /// Reads an archive.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, MimeError> {
        let text = text.trim_start().replace('\r', "");
        let (headers, body) = read_headers(&text)?;
        let content_type = header(&headers, "Content-Type").unwrap_or_default();
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if !kind.to_ascii_lowercase().starts_with("multipart/") {
            return Err(MimeError::NotMultipart(content_type.to_owned()));
        }
        let boundary = parameter(content_type, "boundary").filter(|boundary| !boundary.is_empty());
        let parts = split(body, &boundary.ok_or(MimeError::NoBoundary)?)?;
        let read = |part: &String| {
            let (headers, content) = read_headers(part)?;
            Ok(Part { headers, content: content.to_owned() })
        };
        Ok(Self { parts: parts.iter().map(read).collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for Archive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Shells take a carriage return for a part of the last word of a line.
        let clean = |text: &str| text.replace('\r', "");
        write!(out, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n")?;
        for part in &self.parts {
            writeln!(out, "\n--{BOUNDARY}")?;
            for (name, value) in &part.headers {
                writeln!(out, "{name}: {value}")?;
            }
            write!(out, "\n{}", clean(&part.content))?;
        }
        writeln!(out, "\n--{BOUNDARY}--")
    }
}

type Headers = Vec<(String, String)>;

/// Splits headers from what follows them; a line that begins with a blank continues the one before.
fn read_headers(text: &str) -> Result<(Headers, &str), MimeError> {
    let mut headers = Headers::new();
    let mut rest = text;
    loop {
        let (line, after) = rest.split_once('\n').ok_or(MimeError::Unfinished)?;
        rest = after;
        if line.trim().is_empty() {
            return Ok((headers, rest));
        }
        match headers.last_mut() {
            Some((_, value)) if line.starts_with([' ', '\t']) => {
                value.push(' ');
                value.push_str(line.trim());
            }
            _ => {
                let (name, value) = line.split_once(':').ok_or_else(|| MimeError::Header(line.to_owned()))?;
                headers.push((name.trim().to_owned(), value.trim().to_owned()));
            }
        }
    }
}

fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// A parameter of a content type, with or without quotes.
fn parameter(content_type: &str, name: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (known, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"').to_owned();
        known.trim().eq_ignore_ascii_case(name).then_some(value)
    })
}

/// The texts between the lines that separate parts. The line break before a separator belongs to the separator.
fn split(body: &str, boundary: &str) -> Result<Vec<String>, MimeError> {
    let (opening, closing) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut parts: Vec<String> = Vec::new();
    let mut inside = false;
    for line in body.split_inclusive('\n') {
        let separator = line.trim_end();
        if separator == closing || separator == opening {
            if let Some(last) = parts.last_mut()
                && has_content(last)
            {
                last.pop();
            }
            if separator == closing {
                return Ok(parts);
            }
            inside = true;
            parts.push(String::new());
        } else if inside && let Some(part) = parts.last_mut() {
            part.push_str(line);
        }
    }
    Err(MimeError::Unclosed(boundary.to_owned()))
}

/// Whether anything follows the blank line after the headers.
fn has_content(part: &str) -> bool {
    let content = part.strip_prefix('\n').or_else(|| part.split_once("\n\n").map(|(_, content)| content));
    content.is_some_and(|content| !content.is_empty())
}
