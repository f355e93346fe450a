//! The metadata service of a machine.

use bytes::Bytes;
use http::{Method, Request, Response};
use jiff::Timestamp;
use karpenter_environment::Environment;
use serde_json::json;

use crate::call::seconds;
use crate::service::{in_seconds, plain};
use crate::signature::{header, hex};
use crate::sts;
use crate::world::World;

const TTL_HEADER: &str = "x-aliyun-ecs-metadata-token-ttl-seconds";
const TOKEN_HEADER: &str = "x-aliyun-ecs-metadata-token";
/// How long a role's credentials from here last.
const SESSION_SECONDS: u32 = 6 * 3600;

pub(crate) fn handle(
    world: &mut World,
    request: &Request<Bytes>,
    now: Timestamp,
    environment: &dyn Environment,
) -> Response<Bytes> {
    let path = request.uri().path();
    if path == "/latest/api/token" {
        return token(world, request, now, environment);
    }
    if request.method() != Method::GET {
        return plain(405, "text/plain", "The metadata service is only read.".to_owned());
    }
    if !admitted(world, request, now) {
        return plain(403, "text/plain", "The metadata service wants a token.".to_owned());
    }
    let answer = path.strip_prefix("/latest/meta-data/").and_then(|path| read(world, path, now, environment));
    match answer {
        Some(text) => plain(200, "text/plain", text),
        None => plain(404, "text/plain", "There is no such entry.".to_owned()),
    }
}

fn token(
    world: &mut World,
    request: &Request<Bytes>,
    now: Timestamp,
    environment: &dyn Environment,
) -> Response<Bytes> {
    let ttl = header(request.headers(), TTL_HEADER).and_then(|ttl| ttl.parse().ok());
    match ttl.filter(|ttl| (1..=21_600).contains(ttl)) {
        Some(ttl) if request.method() == Method::PUT => {
            let token = hex(&environment.entropy());
            world.metadata_tokens.insert(token.clone(), in_seconds(now, ttl));
            plain(200, "text/plain", token)
        }
        _ => plain(400, "text/plain", format!("PUT with the header {TTL_HEADER}, 1 to 21600.")),
    }
}

/// A token must be good when there is one, and there must be one when it is required.
fn admitted(world: &World, request: &Request<Bytes>, now: Timestamp) -> bool {
    match header(request.headers(), TOKEN_HEADER) {
        Some(token) => world.metadata_tokens.get(&token).is_some_and(|expires| *expires > now),
        None => !world.switches.metadata_token_required,
    }
}

fn read(world: &mut World, path: &str, now: Timestamp, environment: &dyn Environment) -> Option<String> {
    let own = world.metadata_instance.as_ref().and_then(|id| world.instances.get(id));
    let role = world
        .metadata_role
        .clone()
        .or_else(|| own.map(|own| own.role.clone()).filter(|role| !role.is_empty()));
    match path {
        "region-id" => Some(world.region.clone()),
        "instance-id" => own.map(|own| own.id.clone()),
        "zone-id" => own.map(|own| own.zone.clone()),
        "owner-account-id" => Some(world.account.clone()),
        "instance/spot/termination-time" => {
            own.and_then(|own| own.released_at).filter(|time| *time < Timestamp::MAX).map(seconds)
        }
        "ram/security-credentials" | "ram/security-credentials/" => role,
        _ => {
            let asked = path.strip_prefix("ram/security-credentials/")?;
            let role = role.filter(|role| role == asked)?;
            let key = sts::session_key(world, &role, SESSION_SECONDS, now, environment);
            let mut answer = sts::credentials(&key);
            answer["LastUpdated"] = json!(seconds(now));
            answer["Code"] = json!("Success");
            Some(answer.to_string())
        }
    }
}
