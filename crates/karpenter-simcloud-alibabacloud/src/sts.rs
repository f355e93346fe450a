//! STS: temporary credentials for tokens of service accounts.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::call::{Call, seconds};
use crate::service::{in_seconds, unknown_action};
use crate::signature::hex;
use crate::wire::{Body, Refusal, Reply};
use crate::world::{AccessKey, OidcProvider, Role, World};

pub(crate) fn dispatch(action: &str, world: &mut World, call: &Call<'_>) -> Reply {
    match action {
        "AssumeRoleWithOIDC" => assume_role(world, call),
        "GetCallerIdentity" => Ok(Body::Json(caller_identity(world, call))),
        _ => unknown_action(action),
    }
}

fn assume_role(world: &mut World, call: &Call<'_>) -> Reply {
    let params = &call.params;
    let session = params.required("RoleSessionName")?;
    let fits = |found: char| found.is_ascii_alphanumeric() || ".@-_".contains(found);
    if !(2..=64).contains(&session.len()) || !session.chars().all(fits) {
        return Err(Refusal::new(
            400,
            "InvalidParameter.RoleSessionName",
            "The name of the session is not valid.",
        ));
    }
    let (arn, provider_arn) = (params.required("RoleArn")?, params.required("OIDCProviderArn")?);
    let is = |role: &&Role| world.role_arn(&role.name).eq_ignore_ascii_case(arn);
    let missing = || Refusal::not_found("EntityNotExist.Role", &format!("role {arn}"));
    let role = world.roles.values().find(is).cloned().ok_or_else(missing)?;
    let missing =
        || Refusal::not_found("EntityNotExist.OIDCProvider", &format!("OIDC provider {provider_arn}"));
    let provider = world.oidc_providers.get(provider_arn).cloned().ok_or_else(missing)?;
    check_token(params.required("OIDCToken")?, &provider, &role, call.now)?;
    let asked: u32 = params.number("DurationSeconds")?.unwrap_or(3600);
    if !(900..=role.max_session).contains(&asked) {
        let message = format!("The session must last from 900 to {} seconds.", role.max_session);
        return Err(Refusal::new(400, "InvalidParameter.DurationSeconds", message));
    }
    let key = session_key(world, &role.name, asked, call.now, call.environment);
    Ok(Body::Json(json!({
        "Credentials": credentials(&key),
        "AssumedRoleUser": {
            "Arn": format!("{}/{session}", arn.replace(":role/", ":assumed-role/")),
            "AssumedRoleId": format!("300000000000000000:{session}"),
        },
        "OIDCTokenInfo": {"Issuer": provider.issuer, "ClientIds": provider.audiences.join(",")},
    })))
}

/// Gives out credentials of a role.
pub(crate) fn session_key(
    world: &mut World,
    role: &str,
    lasting: u32,
    now: Timestamp,
    environment: &dyn karpenter_environment::Environment,
) -> AccessKey {
    let lasting = world.switches.session_seconds.unwrap_or(lasting);
    let random = || hex(&environment.entropy());
    let key = AccessKey {
        id: format!("STS.{}", random()),
        secret: random(),
        token: Some(format!("{}{}", random(), random())),
        expires: Some(in_seconds(now, lasting)),
        role: Some(role.to_owned()),
        policy: None,
    };
    world.keys.insert(key.id.clone(), key.clone());
    key
}

/// As STS writes credentials.
pub(crate) fn credentials(key: &AccessKey) -> Value {
    json!({
        "AccessKeyId": key.id,
        "AccessKeySecret": key.secret,
        "SecurityToken": key.token,
        "Expiration": key.expires.map(seconds),
    })
}

/// Whether a token may take a role. Its signature is not checked: who issues tokens in a simulation has no published keys.
fn check_token(token: &str, provider: &OidcProvider, role: &Role, now: Timestamp) -> Result<(), Refusal> {
    let refuse =
        |code: &str, message: &str| Err(Refusal::new(400, format!("AuthenticationFail.{code}"), message));
    let claims =
        token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok());
    let claims: Option<Value> = claims.and_then(|claims| serde_json::from_slice(&claims).ok());
    let Some(claims) = claims else {
        return refuse("OIDCToken.Invalid", "The token is no JSON Web Token.");
    };
    if claims["iss"].as_str() != Some(provider.issuer.as_str()) {
        return refuse(
            "OIDCToken.IssuerMismatch",
            "The token is issued by another than the OIDC provider says.",
        );
    }
    let audiences = match &claims["aud"] {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().into_iter().collect::<Vec<_>>(),
    };
    if !audiences.iter().any(|audience| provider.audiences.iter().any(|known| known == audience)) {
        return refuse("OIDCToken.AudienceMismatch", "The token is for another audience.");
    }
    if claims["exp"].as_i64().is_none_or(|expires| expires <= now.as_second()) {
        return refuse("OIDCToken.Expired", "The token has expired.");
    }
    let subject = claims["sub"].as_str();
    let trusted = role.oidc_providers.contains(&provider.arn)
        && role.subject.as_deref().is_none_or(|wanted| subject == Some(wanted));
    if trusted {
        return Ok(());
    }
    let message = format!("The role {} does not trust this token.", role.name);
    Err(Refusal::new(403, "NoPermission", message))
}

fn caller_identity(world: &World, call: &Call<'_>) -> Value {
    let role = call.caller.as_ref().and_then(|caller| caller.role.clone());
    let (arn, kind) = match &role {
        Some(role) => (world.role_arn(role).replace(":role/", ":assumed-role/"), "AssumedRoleUser"),
        None => (format!("acs:ram::{}:user/simulated", world.account), "RAMUser"),
    };
    json!({
        "AccountId": world.account,
        "Arn": arn,
        "IdentityType": kind,
        "PrincipalId": "200000000000000000",
        "UserId": "200000000000000000",
    })
}
