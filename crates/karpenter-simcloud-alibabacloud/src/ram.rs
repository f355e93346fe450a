//! RAM: roles.

use serde_json::{Value, json};

use crate::call::{Call, seconds};
use crate::service::unknown_action;
use crate::wire::{Body, Refusal, Reply};
use crate::world::{Role, World};

pub(crate) fn dispatch(action: &str, world: &mut World, call: &Call<'_>) -> Reply {
    match action {
        "GetRole" => get_role(world, call),
        _ => unknown_action(action),
    }
}

fn get_role(world: &World, call: &Call<'_>) -> Reply {
    let name = call.params.required("RoleName")?;
    let missing = || Refusal::not_found("EntityNotExist.Role", &format!("role {name}"));
    let role = world.roles.get(name).ok_or_else(missing)?;
    Ok(Body::Json(json!({"Role": {
        "RoleId": "300000000000000000",
        "RoleName": role.name,
        "Arn": world.role_arn(&role.name),
        "Description": "",
        "MaxSessionDuration": role.max_session,
        "CreateDate": seconds(jiff::Timestamp::UNIX_EPOCH),
        "AssumeRolePolicyDocument": trust(role).to_string(),
    }})))
}

fn trust(role: &Role) -> Value {
    let mut statements = Vec::new();
    if !role.services.is_empty() {
        statements.push(json!({
            "Action": "sts:AssumeRole",
            "Effect": "Allow",
            "Principal": {"Service": role.services},
        }));
    }
    if !role.oidc_providers.is_empty() {
        let subject = role.subject.iter().collect::<Vec<_>>();
        statements.push(json!({
            "Action": "sts:AssumeRole",
            "Effect": "Allow",
            "Principal": {"Federated": role.oidc_providers},
            "Condition": {"StringEquals": {"oidc:sub": subject}},
        }));
    }
    json!({"Version": "1", "Statement": statements})
}
