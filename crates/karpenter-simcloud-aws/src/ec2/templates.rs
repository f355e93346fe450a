//! Launch templates: everything about an instance but, often, its type and subnet.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::dry_run;
use super::filters::{Described, Filters};
use crate::answer::Outcome;
use crate::wire::form::Form;
use crate::wire::page::page;
use crate::wire::refusal::Refusal;
use crate::wire::xml::Xml;
use crate::world::{Call, World};

/// The most bytes of a boot script.
const USER_DATA_LIMIT: usize = 16 * 1024;
const PAGE: usize = 200;

/// A launch template with one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchTemplate {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Timestamp,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    pub(crate) data: Arc<Form>,
    creator: String,
    client_token: Option<String>,
}

impl LaunchTemplate {
    /// What it says at `path`: `MetadataOptions.HttpTokens`, `BlockDeviceMapping.1.Ebs.VolumeSize`.
    pub fn setting(&self, path: &str) -> Option<&str> {
        self.data.text(path)
    }

    /// Its boot script, decoded.
    pub fn user_data(&self) -> Vec<u8> {
        user_data(&self.data).unwrap_or_default()
    }
}

impl Described for LaunchTemplate {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "launch-template-name" => Some(vec![self.name.clone()]),
            "create-time" => Some(vec![super::discovery::date(self.created)]),
            _ => None,
        }
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }
}

/// The boot script in some launch data.
pub(super) fn user_data(data: &Form) -> Result<Vec<u8>, Refusal> {
    let malformed = |message: &str| Refusal::new("InvalidUserData.Malformed", message);
    let encoded = data.text("UserData").unwrap_or("");
    let decoded =
        STANDARD.decode(encoded.trim()).map_err(|_| malformed("Invalid BASE64 encoding of user data."))?;
    if decoded.len() > USER_DATA_LIMIT {
        return Err(malformed("User data is limited to 16384 bytes"));
    }
    Ok(decoded)
}

/// Tags for one kind of resource in a request or a template.
pub(super) fn tags_for(form: &Form, resource: &str) -> BTreeMap<String, String> {
    let specifications = form.list("TagSpecification").into_iter();
    let wanted = specifications.filter(|specification| specification.text("ResourceType") == Some(resource));
    wanted.flat_map(|specification| specification.tags("Tag")).collect()
}

fn no_name(name: &str) -> Refusal {
    let message =
        format!("At least one of the launch templates specified in the request does not exist. ({name})");
    Refusal::new("InvalidLaunchTemplateName.NotFoundException", message)
}

fn no_id(id: &str) -> Refusal {
    let message = format!("The specified launch template, with template ID {id}, does not exist.");
    Refusal::new("InvalidLaunchTemplateId.NotFound", message)
}

/// The template that a request names, by id or by name.
pub(super) fn find<'a>(
    templates: &'a BTreeMap<String, LaunchTemplate>,
    chosen: &Form,
    seen: Timestamp,
) -> Result<&'a LaunchTemplate, Refusal> {
    let seen = |template: &&LaunchTemplate| template.created <= seen;
    if let Some(id) = chosen.text("LaunchTemplateId") {
        return templates.get(id).filter(seen).ok_or_else(|| no_id(id));
    }
    let name = chosen.text("LaunchTemplateName").ok_or_else(|| Refusal::missing("LaunchTemplateName"))?;
    templates.values().filter(seen).find(|template| template.name == name).ok_or_else(|| no_name(name))
}

pub(super) fn create(world: &mut World, call: &Call<'_>) -> Outcome {
    let name = call.form.text("LaunchTemplateName").ok_or_else(|| Refusal::missing("LaunchTemplateName"))?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"()./_-".contains(&byte);
    if !(3..=128).contains(&name.len()) || !name.bytes().all(plain) {
        let message = "Launch template names must be between 3 and 128 characters long, and may contain letters, numbers, and the following characters: - ( ) . / _";
        return Err(Refusal::new("InvalidLaunchTemplateName.MalformedException", message));
    }
    let data = call
        .form
        .field("LaunchTemplateData")
        .cloned()
        .ok_or_else(|| Refusal::missing("LaunchTemplateData"))?;
    user_data(&data)?;
    let token = call.form.owned("ClientToken");
    let again = world.templates.values().find(|template| token.is_some() && template.client_token == token);
    if let Some(template) = again {
        if template.name != name || *template.data != data {
            let message = "The request uses the same client token as a previous, but non-identical request.";
            return Err(Refusal::new("IdempotentParameterMismatch", message));
        }
        return Ok(written(template));
    }
    if world.templates.values().any(|template| template.name == name) {
        let message = "Launch template name already in use.";
        return Err(Refusal::new("InvalidLaunchTemplateName.AlreadyExistsException", message));
    }
    dry_run(call)?;
    let template = LaunchTemplate {
        id: world.id("lt"),
        name: name.to_owned(),
        created: call.now,
        tags: tags_for(&call.form, "launch-template"),
        data: Arc::new(data),
        creator: call.caller.clone(),
        client_token: token,
    };
    let answer = written(&template);
    world.templates.insert(template.id.clone(), template);
    Ok(answer)
}

fn written(template: &LaunchTemplate) -> crate::answer::Answer {
    let mut xml = Xml::new();
    xml.node("launchTemplate", |xml| write(xml, template));
    xml.into()
}

fn write(xml: &mut Xml, template: &LaunchTemplate) {
    xml.leaf("launchTemplateId", &template.id)
        .leaf("launchTemplateName", &template.name)
        .leaf("createTime", super::discovery::date(template.created))
        .leaf("createdBy", &template.creator)
        .leaf("defaultVersionNumber", 1)
        .leaf("latestVersionNumber", 1)
        .tags(&template.tags);
}

pub(super) fn describe(world: &World, call: &Call<'_>) -> Outcome {
    let seen = || world.templates.values().filter(|template| template.created <= call.seen);
    let names = call.form.texts("LaunchTemplateName");
    let ids = call.form.texts("LaunchTemplateId");
    if let Some(name) = names.iter().find(|name| !seen().any(|template| template.name == **name)) {
        return Err(no_name(name));
    }
    if let Some(id) = ids.iter().find(|id| !seen().any(|template| template.id == **id)) {
        return Err(no_id(id));
    }
    let wanted = |template: &&LaunchTemplate| {
        (names.is_empty() || names.contains(&template.name)) && (ids.is_empty() || ids.contains(&template.id))
    };
    let found = Filters::read(call).select(seen().filter(wanted))?;
    dry_run(call)?;
    let limit = call.form.number("MaxResults").unwrap_or(PAGE);
    let page = page(found, |template| template.id.clone(), Some(limit), call.form.text("NextToken"))?;
    let mut xml = Xml::new();
    xml.items("launchTemplates", page.items, write);
    xml.maybe("nextToken", page.next);
    Ok(xml.into())
}

pub(super) fn delete(world: &mut World, call: &Call<'_>) -> Outcome {
    let template = find(&world.templates, &call.form, call.now)?.clone();
    dry_run(call)?;
    world.templates.remove(&template.id);
    Ok(written(&template))
}
