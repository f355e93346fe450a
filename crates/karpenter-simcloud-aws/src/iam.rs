//! IAM: instance profiles and the roles in them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::answer::Outcome;
use crate::description::Description;
use crate::service::unknown;
use crate::wire::page::page;
use crate::wire::refusal::Refusal;
use crate::wire::xml::Xml;
use crate::world::{Call, World};

/// IAM lists so many at once unless asked for fewer.
const PAGE: usize = 100;

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) path: String,
    pub(crate) id: String,
    pub(crate) created: Timestamp,
}

/// An instance profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstanceProfile {
    pub(crate) path: String,
    pub(crate) id: String,
    pub(crate) created: Timestamp,
    pub(crate) role: Option<String>,
    pub(crate) tags: BTreeMap<String, String>,
}

/// Roles and profiles by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identities {
    pub(crate) roles: BTreeMap<String, Role>,
    pub(crate) profiles: BTreeMap<String, InstanceProfile>,
}

impl Identities {
    pub(crate) fn new(description: &Description, now: Timestamp) -> Self {
        let names = [
            format!("KarpenterNodeRole-{}", description.cluster_name),
            format!("{}-node", description.cluster_name),
            format!("{}-karpenter-node-role", description.cluster_name),
        ];
        let role = |index: usize| Role {
            path: "/".to_owned(),
            id: format!("AROASIMULATED{index:08}"),
            created: now,
        };
        let roles = names.into_iter().enumerate().map(|(index, name)| (name, role(index))).collect();
        Self { roles, profiles: BTreeMap::new() }
    }
}

pub(crate) fn answer(world: &mut World, call: &Call<'_>) -> Outcome {
    match call.operation {
        "GetInstanceProfile" => {
            let name = name(call, "InstanceProfileName")?;
            let found = profile(world, name)?;
            let mut xml = Xml::new();
            xml.node("InstanceProfile", |xml| write_profile(xml, world, name, found));
            Ok(xml.into())
        }
        "CreateInstanceProfile" => create(world, call),
        "DeleteInstanceProfile" => delete(world, call),
        "TagInstanceProfile" => {
            let tags = call.form.tags("Tags");
            profile_mut(world, name(call, "InstanceProfileName")?)?.tags.extend(tags);
            Ok(Xml::new().into())
        }
        "UntagInstanceProfile" => {
            let keys = call.form.texts("TagKeys");
            profile_mut(world, name(call, "InstanceProfileName")?)?.tags.retain(|key, _| !keys.contains(key));
            Ok(Xml::new().into())
        }
        "AddRoleToInstanceProfile" => add_role(world, call),
        "RemoveRoleFromInstanceProfile" => remove_role(world, call),
        "ListInstanceProfiles" => list(world, call),
        "GetRole" => {
            let name = name(call, "RoleName")?;
            let role = role(world, name)?;
            let mut xml = Xml::new();
            xml.node("Role", |xml| write_role(xml, &world.description, name, role));
            Ok(xml.into())
        }
        "CreateRole" => create_role(world, call),
        "DeleteRole" => delete_role(world, call),
        other => Err(unknown(other)),
    }
}

fn name<'a>(call: &'a Call<'_>, field: &str) -> Result<&'a str, Refusal> {
    let name = call.form.text(field).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Refusal::new("ValidationError", format!("{field} must not be empty")))?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte);
    if name.len() > 128 || !name.bytes().all(plain) {
        let message = format!("The specified value for {field} is invalid: {name}");
        return Err(Refusal::new("ValidationError", message));
    }
    Ok(name)
}

fn no_profile(name: &str) -> Refusal {
    Refusal::new("NoSuchEntity", format!("Instance Profile {name} cannot be found.")).status(404)
}

fn profile<'a>(world: &'a World, name: &str) -> Result<&'a InstanceProfile, Refusal> {
    world.identities.profiles.get(name).ok_or_else(|| no_profile(name))
}

fn profile_mut<'a>(world: &'a mut World, name: &str) -> Result<&'a mut InstanceProfile, Refusal> {
    world.identities.profiles.get_mut(name).ok_or_else(|| no_profile(name))
}

fn role<'a>(world: &'a World, name: &str) -> Result<&'a Role, Refusal> {
    let missing =
        || Refusal::new("NoSuchEntity", format!("The role with name {name} cannot be found.")).status(404);
    world.identities.roles.get(name).ok_or_else(missing)
}

fn create(world: &mut World, call: &Call<'_>) -> Outcome {
    let name = name(call, "InstanceProfileName")?;
    if world.identities.profiles.contains_key(name) {
        let message = format!("Instance Profile {name} already exists.");
        return Err(Refusal::new("EntityAlreadyExists", message).status(409));
    }
    let created = InstanceProfile {
        path: path(call)?,
        id: world.letters("AIPA", 21),
        created: call.now,
        role: None,
        tags: call.form.tags("Tags"),
    };
    let mut xml = Xml::new();
    xml.node("InstanceProfile", |xml| write_profile(xml, world, name, &created));
    world.identities.profiles.insert(name.to_owned(), created);
    Ok(xml.into())
}

fn path(call: &Call<'_>) -> Result<String, Refusal> {
    let path = call.form.text("Path").unwrap_or("/");
    if path.starts_with('/') && path.ends_with('/') && path.len() <= 512 {
        return Ok(path.to_owned());
    }
    Err(Refusal::new("ValidationError", format!("The specified value for path is invalid: {path}")))
}

fn delete(world: &mut World, call: &Call<'_>) -> Outcome {
    let name = name(call, "InstanceProfileName")?;
    if profile(world, name)?.role.is_some() {
        let message = "Cannot delete entity, must remove roles from instance profile first.";
        return Err(Refusal::new("DeleteConflict", message).status(409));
    }
    world.identities.profiles.remove(name);
    Ok(Xml::new().into())
}

fn add_role(world: &mut World, call: &Call<'_>) -> Outcome {
    let wanted = name(call, "RoleName")?;
    let name = name(call, "InstanceProfileName")?;
    profile(world, name)?;
    role(world, wanted)?;
    let profile = profile_mut(world, name)?;
    if profile.role.is_some() {
        let message = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1";
        return Err(Refusal::new("LimitExceeded", message).status(409));
    }
    profile.role = Some(wanted.to_owned());
    Ok(Xml::new().into())
}

fn remove_role(world: &mut World, call: &Call<'_>) -> Outcome {
    let wanted = name(call, "RoleName")?;
    let name = name(call, "InstanceProfileName")?;
    let profile = profile_mut(world, name)?;
    if profile.role.as_deref() != Some(wanted) {
        let message = format!("The role with name {wanted} cannot be found.");
        return Err(Refusal::new("NoSuchEntity", message).status(404));
    }
    profile.role = None;
    Ok(Xml::new().into())
}

fn list(world: &World, call: &Call<'_>) -> Outcome {
    let prefix = call.form.text("PathPrefix").unwrap_or("/");
    let found = world.identities.profiles.iter().filter(|(_, profile)| profile.path.starts_with(prefix));
    let limit = call.form.number("MaxItems").unwrap_or(PAGE);
    let page = page(found.collect(), |(name, _)| (*name).clone(), Some(limit), call.form.text("Marker"))?;
    let mut xml = Xml::new();
    xml.node("InstanceProfiles", |xml| {
        for (name, profile) in page.items {
            xml.node("member", |xml| write_profile(xml, world, name, profile));
        }
    });
    xml.leaf("IsTruncated", page.next.is_some()).maybe("Marker", page.next);
    Ok(xml.into())
}

fn create_role(world: &mut World, call: &Call<'_>) -> Outcome {
    let name = name(call, "RoleName")?;
    if world.identities.roles.contains_key(name) {
        let message = format!("Role with name {name} already exists.");
        return Err(Refusal::new("EntityAlreadyExists", message).status(409));
    }
    let created = Role { path: path(call)?, id: world.letters("AROA", 21), created: call.now };
    let mut xml = Xml::new();
    xml.node("Role", |xml| write_role(xml, &world.description, name, &created));
    world.identities.roles.insert(name.to_owned(), created);
    Ok(xml.into())
}

fn delete_role(world: &mut World, call: &Call<'_>) -> Outcome {
    let name = name(call, "RoleName")?;
    role(world, name)?;
    if world.identities.profiles.values().any(|profile| profile.role.as_deref() == Some(name)) {
        let message = "Cannot delete entity, must remove roles from instance profile first.";
        return Err(Refusal::new("DeleteConflict", message).status(409));
    }
    world.identities.roles.remove(name);
    Ok(Xml::new().into())
}

fn write_profile(xml: &mut Xml, world: &World, name: &str, profile: &InstanceProfile) {
    let arn = world.description.arn("iam", &format!("instance-profile{}{name}", profile.path));
    xml.leaf("Path", &profile.path)
        .leaf("InstanceProfileName", name)
        .leaf("InstanceProfileId", &profile.id)
        .leaf("Arn", arn)
        .leaf("CreateDate", seconds(profile.created));
    xml.node("Roles", |xml| {
        if let Some((name, role)) =
            profile.role.as_ref().and_then(|name| world.identities.roles.get_key_value(name))
        {
            xml.node("member", |xml| write_role(xml, &world.description, name, role));
        }
    });
    xml.node("Tags", |xml| {
        for (key, value) in &profile.tags {
            xml.node("member", |xml| {
                xml.leaf("Key", key).leaf("Value", value);
            });
        }
    });
}

fn write_role(xml: &mut Xml, description: &Description, name: &str, role: &Role) {
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}"#;
    xml.leaf("Path", &role.path)
        .leaf("RoleName", name)
        .leaf("RoleId", &role.id)
        .leaf("Arn", description.arn("iam", &format!("role{}{name}", role.path)))
        .leaf("CreateDate", seconds(role.created))
        .leaf("AssumeRolePolicyDocument", crate::wire::uri::encode(policy, b""));
}

/// IAM's times have whole seconds.
fn seconds(time: Timestamp) -> String {
    karpenter_environment::format_time(time)
}
