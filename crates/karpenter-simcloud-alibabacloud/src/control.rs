//! The back door for tests that are not written in Rust: `/_simulated/…`, outside the signed API.
//!
//! | request | does |
//! |---|---|
//! | `GET /_simulated/requests?action=A` | the requests so far |
//! | `DELETE /_simulated/requests` | forgets them |
//! | `GET /_simulated/counts` | counts by action |
//! | `GET`, `POST`, `DELETE /_simulated/faults` | the rules of faults, one more, none |
//! | `POST`, `DELETE /_simulated/stock` | a rule of stock, none |
//! | `GET`, `POST /_simulated/switches` | the switches; only those named are changed |
//! | `POST /_simulated/times` | how long things take, in seconds |
//! | `POST /_simulated/policy` | `{key, policy}`: what a key may do; `null` for anything |
//! | `POST /_simulated/objects/KIND` | adds or replaces a `vpc`, `vswitch`, `security-group`, `image`, `cluster`, `role`, `oidc-provider`, `key`, `instance-type`, `reservation`, `queue` |
//! | `POST /_simulated/maintenance` | plans maintenance |
//! | `POST /_simulated/interrupt/INSTANCE` | warns a machine that it will be taken back |
//! | `POST /_simulated/expire/KEY` | ends the life of temporary credentials |
//! | `POST /_simulated/metadata` | `{instance, role}` that the metadata service speaks for |
//! | `GET /_simulated/instances` | machines with everything about them |
//! | `GET /_simulated/queues` | message queues and what lies in them |

use bytes::Bytes;
use http::{Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::life;
use crate::permissions::Policy;
use crate::service::plain;
use crate::settings::Times;
use crate::wire::decode_query;
use crate::world::World;

type Answer = Result<Value, String>;

pub(crate) fn handle(world: &mut World, request: &Request<Bytes>, now: Timestamp) -> Response<Bytes> {
    let path: Vec<&str> = request.uri().path().split('/').filter(|part| !part.is_empty()).skip(1).collect();
    let answer = match *request.method() {
        Method::GET => read(world, request, &path),
        Method::POST => write(world, request, &path, now),
        Method::DELETE => remove(world, &path),
        _ => Err("Use GET, POST or DELETE.".to_owned()),
    };
    match answer {
        Ok(value) => plain(200, "application/json", value.to_string()),
        Err(why) => plain(400, "application/json", json!({"error": why}).to_string()),
    }
}

fn read(world: &World, request: &Request<Bytes>, path: &[&str]) -> Answer {
    match path {
        ["requests"] => {
            let query = decode_query(request.uri().query().unwrap_or_default());
            let action = query.iter().find(|(name, _)| name == "action").map(|(_, action)| action);
            let wanted =
                world.records.requests().filter(|found| action.is_none_or(|action| *action == found.action));
            Ok(json!(wanted.collect::<Vec<_>>()))
        }
        ["counts"] => Ok(json!(world.records.counts())),
        ["faults"] => Ok(json!(world.faults.rules())),
        ["switches"] => Ok(json!(world.switches)),
        ["instances"] => Ok(json!(world.instances.values().collect::<Vec<_>>())),
        ["queues"] => Ok(json!(world.queues.values().collect::<Vec<_>>())),
        _ => Err(format!("There is nothing to read at {}.", path.join("/"))),
    }
}

fn remove(world: &mut World, path: &[&str]) -> Answer {
    match path {
        ["requests"] => world.records.clear(),
        ["faults"] => world.faults.clear(),
        ["stock"] => world.stock.clear(),
        _ => return Err(format!("There is nothing to remove at {}.", path.join("/"))),
    }
    Ok(json!({}))
}

fn body<T: DeserializeOwned>(request: &Request<Bytes>) -> Result<T, String> {
    serde_json::from_slice(request.body()).map_err(|error| format!("The body cannot be read: {error}."))
}

#[derive(Deserialize)]
struct NewPolicy {
    key: String,
    policy: Option<Policy>,
}

#[derive(Deserialize)]
struct NewMetadata {
    instance: Option<String>,
    role: Option<String>,
}

fn write(world: &mut World, request: &Request<Bytes>, path: &[&str], now: Timestamp) -> Answer {
    match path {
        ["faults"] => world.faults.add(body(request)?),
        ["stock"] => world.stock.push(body(request)?),
        ["maintenance"] => world.maintenance.push(body(request)?),
        ["switches"] => {
            let mut all = json!(world.switches);
            let changes: serde_json::Map<String, Value> = body(request)?;
            changes.into_iter().for_each(|(name, value)| all[name] = value);
            world.switches =
                serde_json::from_value(all).map_err(|error| format!("A switch is wrong: {error}."))?;
        }
        ["times"] => set_times(&mut world.times, &body(request)?)?,
        ["policy"] => {
            let NewPolicy { key, policy } = body(request)?;
            world.keys.get_mut(&key).ok_or_else(|| format!("There is no key {key}."))?.policy = policy;
        }
        ["metadata"] => {
            let NewMetadata { instance, role } = body(request)?;
            (world.metadata_instance, world.metadata_role) = (instance, role);
        }
        ["interrupt", id] => {
            if !life::warn(world, id, now, true) {
                return Err(format!("There is no machine {id}."));
            }
        }
        ["expire", id] => {
            world.keys.get_mut(*id).ok_or_else(|| format!("There is no key {id}."))?.expires = Some(now);
        }
        ["objects", kind] => put(world, request, kind)?,
        _ => return Err(format!("There is nothing to write at {}.", path.join("/"))),
    }
    Ok(json!({}))
}

fn put(world: &mut World, request: &Request<Bytes>, kind: &str) -> Result<(), String> {
    macro_rules! insert {
        ($map:ident, $key:ident) => {{
            let mut given: Value = body(request)?;
            // What the object had before stays where nothing new is said.
            if let Some(old) = given[stringify!($key)].as_str().and_then(|key| world.$map.get(key)) {
                let mut merged = json!(old);
                for (name, value) in given.as_object().into_iter().flatten() {
                    merged[name] = value.clone();
                }
                given = merged;
            }
            let object = serde_json::from_value(given);
            let object = object.map_err(|error| format!("The object is wrong: {error}."))?;
            insert(&mut world.$map, object, |object| object.$key.clone());
        }};
    }
    match kind {
        "vpc" => insert!(vpcs, id),
        "vswitch" => insert!(vswitches, id),
        "security-group" => insert!(security_groups, id),
        "image" => insert!(images, id),
        "cluster" => insert!(clusters, id),
        "role" => insert!(roles, name),
        "oidc-provider" => insert!(oidc_providers, arn),
        "key" => insert!(keys, id),
        "instance-type" => insert!(types, id),
        "reservation" => insert!(reservations, id),
        "queue" => insert!(queues, name),
        _ => return Err(format!("There are no objects of kind {kind}.")),
    }
    Ok(())
}

fn insert<T>(map: &mut std::collections::BTreeMap<String, T>, object: T, key: impl Fn(&T) -> String) {
    map.insert(key(&object), object);
}

fn set_times(times: &mut Times, given: &serde_json::Map<String, Value>) -> Result<(), String> {
    for (name, value) in given {
        let seconds = value.as_f64().ok_or_else(|| format!("{name} is no number of seconds."))?;
        let place = match name.as_str() {
            "pending" => &mut times.pending,
            "starting" => &mut times.starting,
            "booting" => &mut times.booting,
            "stopping" => &mut times.stopping,
            "notice" => &mut times.notice,
            "event_delay" => &mut times.event_delay,
            _ => return Err(format!("Nothing takes a time called {name}.")),
        };
        *place = SignedDuration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    }
    Ok(())
}
