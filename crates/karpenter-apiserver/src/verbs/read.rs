//! get and list.

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};
use serde_json::json;

use super::json_text::parse;
use super::list_options::ListOptions;
use super::update::parse_error;
use crate::error::ApiError;
use crate::registry::Resource;
use crate::selector::{FieldSelector, LabelSelector};
use crate::server::Core;
use crate::store::{Compacted, Key, Page, StoredObject, indexed_position};
use crate::wire::{Answer, Call, Query, Rendering};

/// Both selectors of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Selectors {
    pub(super) labels: LabelSelector,
    pub(super) fields: FieldSelector,
}

impl Selectors {
    pub(super) fn parse(query: &Query, resource: &Resource) -> Result<Self, ApiError> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())?;
        let text = query.get("fieldSelector").unwrap_or_default();
        let fields = FieldSelector::parse(text, resource)?;
        Ok(Self { labels, fields })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns the value of the field that objects are indexed by, if only one is wanted.
    pub(super) fn pinned(&self, resource: &Resource) -> Option<&str> {
        self.fields.exact(indexed_position(&resource.selectable_fields)?)
    }

    pub(super) fn matches(&self, key: &Key, object: &StoredObject) -> bool {
        self.labels.matches(object) && self.fields.matches(key, object)
    }
}

/// Reads tokens as Go does, which does not mind bits that are left over at the end.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&base64::alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// Where a paged list goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Continuation {
    /// The revision of the list; `None` goes on with the objects as they are now.
    pub(super) revision: Option<u64>,
    pub(super) after: Key,
}

impl Continuation {
    pub(super) fn encode(&self) -> String {
        let start = format!("{}/{}", self.after.namespace, self.after.name);
        let revision = self.revision.map_or(json!(-1), |revision| json!(revision));
        URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start}).to_string())
    }

    fn decode(text: &str) -> Result<Self, String> {
        let decoded = LENIENT.decode(text).map_err(|error| match error {
            base64::DecodeError::InvalidByte(at, _) => format!("illegal base64 data at input byte {at}"),
            _ => format!("illegal base64 data at input byte {}", text.len()),
        })?;
        let token = parse(&decoded)?.value;
        let version = token["v"].as_str().unwrap_or_default();
        if version != "meta.k8s.io/v1" {
            return Err(format!("server does not recognize this encoded version {version}"));
        }
        let start = token["start"].as_str().unwrap_or_default();
        match (token["rv"].as_i64(), start.split_once('/')) {
            (None | Some(0), _) => {
                Err("incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned())
            }
            (Some(revision), Some((namespace, name))) => {
                Ok(Self { revision: u64::try_from(revision).ok(), after: Key::new(namespace, name) })
            }
            _ => Err("encoded start key empty (version meta.k8s.io/v1)".to_owned()),
        }
    }
}

/// Checks how much of the objects a table is to carry.
///
/// # Errors
/// 400 when it is none of the known ways.
fn check_included(call: &Call<'_>) -> Result<(), ApiError> {
    let included = call.query.get("includeObject").unwrap_or_default();
    if !matches!(call.rendering, Rendering::Table(_))
        || matches!(included, "" | "None" | "Metadata" | "Object")
    {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "Unable to convert to Table as requested: includeObject: Invalid value: {included:?}: must be 'Metadata', \
         'Object', 'None', or empty"
    )))
}

impl Core {
    pub(crate) fn get(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let key = Key::new(call.namespace(), call.name());
        if let Some(text) = call.query.get("resourceVersion")
            && text.parse::<u64>().is_err()
        {
            // Events are read from the store, and not from a cache.
            return Err(if &*call.resource.name == "events" {
                ApiError::bad_request(format!("invalid resource version: {}", no_revision(text)))
            } else {
                ApiError::unknown_failure(no_revision(text))
            });
        }
        let object = self
            .store
            .get_visible(&call.resource.name, &key)
            .ok_or_else(|| ApiError::not_found(&call.resource.qualified(), call.name()))?;
        check_included(call)?;
        Ok(Answer::ok(self.rendered(call, &object)?))
    }

    pub(crate) fn list(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let selectors = Selectors::parse(call.query, &call.resource)?;
        let options = ListOptions::read(call.query, false)?;
        let pinned = call.query.get("resourceVersion").is_some_and(|version| version != "0");
        if pinned && call.query.get("continue").is_some() {
            let message = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(message));
        }
        check_included(call)?;
        // What may be of any age comes from a cache, whole.
        let cached = call.query.get("resourceVersion") == Some("0")
            && call.query.get("continue").is_none()
            && &*call.resource.name != "events";
        let limit = if cached { 0 } else { options.limit };
        let page = self.page(call, &options, &selectors)?;
        let revision = page.revision;
        let total = page.objects.len();
        let mut kept = Vec::with_capacity(if limit == 0 { total } else { limit.min(total) });
        let mut consumed = 0;
        for (key, object) in &page.objects {
            if limit > 0 && kept.len() == limit {
                break;
            }
            consumed += 1;
            if selectors.matches(key, object) {
                kept.push(object);
            }
        }
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if limit > 0 && consumed < total {
            let after = (*page.objects[consumed - 1].0).clone();
            metadata["continue"] = Continuation { revision: Some(revision), after }.encode().into();
            if selectors.is_empty() {
                metadata["remainingItemCount"] = (total - consumed).into();
            }
        }
        if call.resource.is_custom() && metadata.get("continue").is_none() {
            metadata["continue"] = "".into();
        }
        Ok(Answer::ok(self.rendered_list(call, metadata, &kept)?))
    }

    /// Reads the objects a list may show, at the revision the request asks for.
    fn page(&self, call: &Call<'_>, options: &ListOptions, selectors: &Selectors) -> Result<Page, ApiError> {
        let namespace = call.target.namespace.as_deref();
        let name = &call.resource.name;
        if let Some(token) = call.query.get("continue") {
            let token = Continuation::decode(token).map_err(|why| {
                ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
            })?;
            let revision = token.revision.unwrap_or_else(|| self.store.visible_revision());
            let page = self.store.list(name, namespace, Some(&token.after), Some(revision));
            let rest = || Continuation { revision: None, after: token.after.clone() };
            return page.map_err(|_| ApiError::expired_page(rest().encode()));
        }
        let asked = match call.query.get("resourceVersion") {
            None => 0,
            Some(text) => text.parse().map_err(|_| {
                ApiError::bad_request(format!("invalid resource version: {}", no_revision(text)))
            })?,
        };
        let current = self.store.visible_revision();
        if asked > current {
            return Err(ApiError::too_large_resource_version(asked, current));
        }
        let exact = asked > 0 && (options.exact || (!options.not_older && options.limit > 0));
        let revision = if exact { asked } else { current };
        // Where a page ends depends on what was left out, so pages are not taken from the index.
        let pinned = selectors.pinned(&call.resource).filter(|_| options.limit == 0);
        let page = match pinned {
            Some(value) => self.store.list_with(name, value, namespace, revision),
            None => self.store.list(name, namespace, None, Some(revision)),
        };
        page.map_err(|_| ApiError::expired("The resourceVersion for the provided list is too old."))
    }
}

/// Says that a text is no resource version.
pub(super) fn no_revision(text: &str) -> String {
    format!("resourceVersion: Invalid value: {text:?}: {}", parse_error(text))
}

/// The error of a revision that is no longer remembered.
pub(super) fn too_old(asked: u64, compacted: Compacted) -> ApiError {
    ApiError::expired(format!("too old resource version: {asked} ({})", compacted.oldest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continuation_survives_its_token() {
        let continuation = Continuation { revision: Some(7), after: Key::new("ns", "pod-1") };
        assert_eq!(Continuation::decode(&continuation.encode()), Ok(continuation));
        assert!(Continuation::decode("nonsense").is_err());
    }
}
