//! What a client accepts: JSON or YAML, and objects whole, as their metadata or as a table.

use std::cmp::Reverse;

use http::{HeaderMap, header};

use crate::error::ApiError;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The version of `meta.k8s.io` in which other forms of objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1beta1,
}

impl MetaVersion {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The shape in which a client wants objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rendering {
    Object,
    Table(MetaVersion),
    /// The metadata of one object.
    Metadata(MetaVersion),
    /// The metadata of the objects of a list.
    MetadataList(MetaVersion),
}

/// What can be offered to a request, as far as formats go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Objects of a kind from a CRD, whose formats are negotiated once.
    Custom,
    /// One built-in object.
    Object,
    /// A list of built-in objects or their changes.
    List,
}

/// One choice of an `Accept` header.
struct Choice<'h> {
    media: &'h str,
    quality: u32,
    /// What follows the media type.
    parameters: Vec<(&'h str, &'h str)>,
}

impl<'h> Choice<'h> {
    fn parse(text: &'h str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().filter(|media| !media.is_empty()).unwrap_or("*/*");
        let parameters: Vec<_> = parts.filter_map(|parameter| parameter.split_once('=')).collect();
        let named = parameters.iter().find(|(name, _)| *name == "q");
        let quality = named.and_then(|(_, text)| text.parse::<f64>().ok()).unwrap_or(1.0);
        // Three digits are all that HTTP knows.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1000")]
        let quality = (quality.clamp(0.0, 1.0) * 1000.0) as u32;
        Self { media, quality, parameters }
    }

    fn parameter(&self, name: &str) -> Option<&'h str> {
        self.parameters.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    /// How much the choice leaves open: nothing, the format, everything.
    fn openness(&self) -> usize {
        self.media.matches('*').count()
    }

    /// The shape that is asked for; `None` when there is no such shape.
    fn rendering(&self) -> Option<Rendering> {
        if self.parameter("stream").is_some_and(|stream| stream != "watch") {
            return None;
        }
        if ["as", "g", "v"].iter().all(|name| self.parameter(name).is_none()) {
            return Some(Rendering::Object);
        }
        let version = match (self.parameter("g"), self.parameter("v")) {
            (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
            (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1beta1,
            _ => return None,
        };
        match self.parameter("as") {
            Some("Table") => Some(Rendering::Table(version)),
            Some("PartialObjectMetadata") => Some(Rendering::Metadata(version)),
            Some("PartialObjectMetadataList") => Some(Rendering::MetadataList(version)),
            _ => None,
        }
    }
}

fn accepted(headers: &HeaderMap) -> Vec<Choice<'_>> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let mut choices: Vec<Choice<'_>> = accept.split(',').map(Choice::parse).collect();
    // What names its format goes before what leaves it open, whatever it is worth to the client.
    choices.sort_by_key(|choice| (choice.openness(), Reverse(choice.quality)));
    choices
}

/// Checks that something is written in a format that the client names.
///
/// # Errors
/// 406 when no built-in kind is.
pub(crate) fn check_accepted(headers: &HeaderMap, offer: Offer) -> Result<(), ApiError> {
    let known = |choice: &Choice<'_>| matches!(choice.media, JSON | YAML | PROTOBUF | "*/*");
    if offer == Offer::Custom || accepted(headers).iter().any(known) {
        return Ok(());
    }
    Err(ApiError::no_representation(offer == Offer::List))
}

/// Chooses the shape of the answer; not everything can be shown in a table.
///
/// # Errors
/// 406 when the client takes neither JSON nor YAML nor anything, or only shapes that nothing is written in.
pub(crate) fn rendering(headers: &HeaderMap, tables: bool) -> Result<Rendering, ApiError> {
    accepted(headers)
        .iter()
        .filter(|choice| matches!(choice.media, JSON | YAML | "*/*"))
        .filter_map(Choice::rendering)
        .find(|rendering| tables || !matches!(rendering, Rendering::Table(_)))
        .ok_or_else(ApiError::not_acceptable)
}

/// Whether a client would rather read YAML than JSON.
pub(crate) fn prefers_yaml(headers: &HeaderMap) -> bool {
    let choices = accepted(headers);
    let mut media = choices.iter().map(|choice| choice.media);
    media.find(|media| matches!(*media, YAML | JSON | "*/*")) == Some(YAML)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        headers
    }

    #[test]
    fn the_first_acceptable_rendering_wins() {
        let render = |accept: &str| rendering(&headers(accept), true).ok();
        let table = |version: &str| format!("application/json;as=Table;v={version};g=meta.k8s.io");
        let kubectl = format!("{},{},application/json", table("v1"), table("v1beta1"));
        assert_eq!(render(&kubectl), Some(Rendering::Table(MetaVersion::V1)));
        let old = format!("{},{},application/json", table("v2"), table("v1beta1"));
        assert_eq!(render(&old), Some(Rendering::Table(MetaVersion::V1beta1)));
        assert_eq!(render("application/vnd.kubernetes.protobuf,application/json"), Some(Rendering::Object));
        assert_eq!(render("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(render("application/json;as=Table"), None);
        assert_eq!(render(""), Some(Rendering::Object));
        assert_eq!(rendering(&headers(&kubectl), false), Ok(Rendering::Object));
        assert!(rendering(&headers(&table("v1")), false).is_err());
    }

    #[test]
    fn what_is_available_depends_on_what_is_asked_for() {
        let refusal = |offer| check_accepted(&headers("text/html"), offer).unwrap_err().message;
        assert!(refusal(Offer::List).ends_with("application/vnd.kubernetes.protobuf;stream=watch"));
        assert!(refusal(Offer::Object).ends_with("application/vnd.kubernetes.protobuf"));
        assert_eq!(check_accepted(&headers("text/html"), Offer::Custom), Ok(()));
        let refusal = rendering(&headers("text/html"), true).unwrap_err().message;
        assert!(refusal.starts_with("only the following media types"), "{refusal}");
    }

    #[test]
    fn the_format_worth_most_is_the_one_preferred() {
        let prefers = |accept: &str| prefers_yaml(&headers(accept));
        assert!(prefers("application/yaml"));
        assert!(prefers("text/html, application/yaml;q=0.9, application/json;q=0.8"));
        assert!(prefers("*/*;q=0.9,application/yaml;q=0.1"));
        assert!(!prefers("application/json, application/yaml"));
        assert!(!prefers("*/*"));
    }
}
