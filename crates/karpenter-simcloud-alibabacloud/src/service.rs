//! The front door: every request passes here, from its signature to its record.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use karpenter_environment::Environment;
use karpenter_simcloud::{Market, Nobody, Plenty, Watcher};
use serde_json::{Value, json};

use crate::call::{Call, after};
use crate::faults::{Fault, Trouble, without_details};
use crate::record::Recorded;
use crate::signature::{self, header};
use crate::wire::{Body, Params, Refusal, Reply, decode_query, percent_decode};
use crate::world::{AccessKey, World};
use crate::{cms, control, cs, ecs, life, metadata, mns, ram, sts, vpc};

/// How far a request's clock may be off.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(15);

/// Alibaba Cloud in one value: answers requests, over HTTP or in process. Clones share the same cloud.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    world: Mutex<World>,
    environment: Arc<dyn Environment>,
    market: Arc<dyn Market>,
    watcher: Arc<dyn Watcher>,
    /// Held while somebody is told what machines did, so that it is told in order.
    telling: Mutex<()>,
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").finish_non_exhaustive()
    }
}

/// The connection broke; whether anything was done is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection was reset by the simulated cloud")]
pub struct ConnectionReset;

impl Service {
    /// A cloud that sells whatever is asked for and tells nobody.
    pub fn new(world: World, environment: Arc<dyn Environment>) -> Self {
        Self::with(world, environment, Arc::new(Plenty), Arc::new(Nobody))
    }

    /// A cloud that sells what `market` has and tells `watcher` what machines do. The watcher must not call the service.
    pub fn with(
        world: World,
        environment: Arc<dyn Environment>,
        market: Arc<dyn Market>,
        watcher: Arc<dyn Watcher>,
    ) -> Self {
        let world = Mutex::new(world);
        Self { inner: Arc::new(Inner { world, environment, market, watcher, telling: Mutex::default() }) }
    }

    /// Looks at the cloud, or changes it.
    pub fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let changed = change(&mut self.world());
        self.tell();
        changed
    }

    /// Answers a request. Delays and broken connections are left to the caller, who finds them with [`Trouble::of`]; [`Service::answer`] heeds them.
    pub fn handle(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let response = {
            let now = self.inner.environment.now();
            let mut world = self.world();
            life::advance(&mut world, &*self.inner.market, now);
            self.route(&mut world, request, now)
        };
        self.tell();
        response
    }

    /// Answers a request, late or not at all where that was asked for.
    ///
    /// # Errors
    /// When the connection is to break.
    pub async fn answer(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ConnectionReset> {
        self.await_message(&request).await;
        let response = self.handle(&request);
        match Trouble::of(&response) {
            Some(Trouble::Reset) => Err(ConnectionReset),
            Some(Trouble::Slow(late)) => {
                tokio::time::sleep(late).await;
                Ok(response)
            }
            None => Ok(response),
        }
    }

    /// Holds a request for messages back until there is one, as long as it is willing to wait.
    async fn await_message(&self, request: &Request<Bytes>) {
        let Some((queue, patience)) = mns::patience(request) else { return };
        let deadline = tokio::time::Instant::now() + patience;
        let waits = || {
            let now = self.inner.environment.now();
            self.world().queues.get(&queue).is_some_and(|queue| !queue.has_visible(now))
        };
        while waits() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(mns::GLANCE).await;
        }
    }

    /// Lets time pass; returns when there is something to do again.
    pub fn tick(&self, now: Timestamp) -> Option<Timestamp> {
        let next = life::advance(&mut self.world(), &*self.inner.market, now);
        self.tell();
        next
    }

    /// Warns a machine that it will be taken back, and takes it back when its notice is over. Whether there is such a machine.
    pub fn interrupt(&self, instance: &str) -> bool {
        let now = self.inner.environment.now();
        self.change(|world| life::warn(world, instance, now, true))
    }

    pub(crate) fn environment(&self) -> &dyn Environment {
        &*self.inner.environment
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.inner.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        let _order = self.inner.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let events = std::mem::take(&mut self.world().outbox);
        events.into_iter().for_each(|event| self.inner.watcher.happened(event));
    }

    fn route(&self, world: &mut World, request: &Request<Bytes>, now: Timestamp) -> Response<Bytes> {
        let path = request.uri().path();
        if path.starts_with("/_simulated/") {
            return control::handle(world, request, now);
        }
        if path.starts_with("/latest/") {
            return metadata::handle(world, request, now, &*self.inner.environment);
        }
        self.api(world, request, now)
    }

    fn api(&self, world: &mut World, request: &Request<Bytes>, now: Timestamp) -> Response<Bytes> {
        let request_id = self.inner.environment.uid().to_uppercase();
        let params = Params::new(decode_query(request.uri().query().unwrap_or_default()));
        let target = Target::of(request, &params);
        let path = request.uri().path().split('/').filter(|part| !part.is_empty());
        let mut call = Call {
            now,
            path: path.map(|part| percent_decode(part, false)).collect(),
            body: serde_json::from_slice(request.body())
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(request.body()).into_owned())),
            params,
            caller: None,
            environment: &*self.inner.environment,
            market: &*self.inner.market,
        };
        let fault = self.fault(world, &target);
        let reply = identify(world, request, &target, now)
            .map(|caller| call.caller = caller)
            .and_then(|()| admit(world, &target, &call, fault.as_ref()))
            .and_then(|()| target.dispatch(world, &call));
        record(world, request, &target, &call, &reply);
        respond(&target, reply, fault.as_ref(), &request_id)
    }

    fn fault(&self, world: &mut World, target: &Target) -> Option<Fault> {
        world.faults.take(&target.action, |bound| self.inner.environment.below(bound))
    }
}

/// Which action of which service a request means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) service: &'static str,
    pub(crate) action: String,
}

impl Target {
    fn of(request: &Request<Bytes>, params: &Params) -> Self {
        let said = |name: &str, other: &str| {
            header(request.headers(), name).or_else(|| params.text(other)).unwrap_or_default()
        };
        let version = said("x-acs-version", "Version");
        let path: Vec<&str> = request.uri().path().split('/').filter(|part| !part.is_empty()).collect();
        if path.first() == Some(&"queues") {
            return Self { service: "mns", action: mns::action(request.method(), params).to_owned() };
        }
        if !path.is_empty() {
            return Self { service: "cs", action: cs::action(request.method(), &path).to_owned() };
        }
        let service = match version.as_str() {
            "2014-05-26" => "ecs",
            "2016-04-28" => "vpc",
            "2015-04-01" => "sts",
            "2015-05-01" => "ram",
            "2019-01-01" => "cms",
            _ => "",
        };
        Self { service, action: said("x-acs-action", "Action") }
    }

    /// As RAM policies name it.
    fn permission(&self) -> String {
        // Several messages at a time need the same right as one.
        let action =
            if self.service == "mns" { self.action.trim_start_matches("Batch") } else { &self.action };
        format!("{}:{action}", self.service)
    }

    fn anonymous(&self) -> bool {
        self.service == "sts" && self.action == "AssumeRoleWithOIDC"
    }

    fn dispatch(&self, world: &mut World, call: &Call<'_>) -> Reply {
        match self.service {
            "ecs" => ecs::dispatch(&self.action, world, call),
            "vpc" => vpc::dispatch(&self.action, world, call),
            "cs" => cs::dispatch(&self.action, world, call),
            "sts" => sts::dispatch(&self.action, world, call),
            "ram" => ram::dispatch(&self.action, world, call),
            "cms" => cms::dispatch(&self.action, world, call),
            "mns" => mns::dispatch(&self.action, world, call),
            _ => Err(Refusal::new(404, "InvalidVersion", "The specified parameter Version is not valid.")),
        }
    }
}

/// The answer for an action that nobody serves.
pub(crate) fn unknown_action(action: &str) -> Reply {
    Err(Refusal::new(404, "InvalidAction.NotFound", format!("The simulated cloud has no action {action}.")))
}

/// Who sent a request.
fn identify(
    world: &mut World,
    request: &Request<Bytes>,
    target: &Target,
    now: Timestamp,
) -> Result<Option<AccessKey>, Refusal> {
    if target.anonymous() {
        return Ok(None);
    }
    let Some(claim) = signature::claim(request)? else {
        if world.switches.verify_signatures {
            return Err(Refusal::missing("Authorization"));
        }
        return Ok(None);
    };
    let unknown = || Refusal::new(404, "InvalidAccessKeyId.NotFound", "Specified access key is not found.");
    let key = world.keys.get(&claim.access_key).cloned().ok_or_else(unknown)?;
    if !world.switches.verify_signatures {
        return Ok(Some(key));
    }
    claim.verify(request, &key.secret)?;
    check_freshness(world, &claim, now)?;
    if key.token != claim.security_token {
        let message = "The security token does not belong to the access key.";
        return Err(Refusal::new(400, "InvalidSecurityToken.MismatchWithAccessKey", message));
    }
    if key.expires.is_some_and(|expires| expires <= now) {
        return Err(Refusal::new(403, "InvalidSecurityToken.Expired", "The security token has expired."));
    }
    Ok(Some(key))
}

/// Whether a signed request is of now and comes for the first time.
fn check_freshness(world: &mut World, claim: &signature::Claim, now: Timestamp) -> Result<(), Refusal> {
    let date = claim.date.as_deref().unwrap_or_default();
    let parsed = date
        .parse::<Timestamp>()
        .ok()
        .or_else(|| jiff::fmt::rfc2822::parse(date).ok().map(|zoned| zoned.timestamp()));
    let date = parsed.ok_or_else(|| {
        Refusal::new(400, "InvalidTimeStamp.Format", "The date of the request is malformed.")
    })?;
    if now.duration_since(date).abs() > CLOCK_SKEW {
        return Err(Refusal::new(
            400,
            "InvalidTimeStamp.Expired",
            "The date of the request is too far from the service's clock.",
        ));
    }
    if !claim.is_for_once() {
        return Ok(());
    }
    let nonce = claim.nonce.clone().ok_or_else(|| Refusal::missing("x-acs-signature-nonce"))?;
    if !world.nonces.is_new(nonce, now) {
        return Err(Refusal::new(400, "SignatureNonceUsed", "The nonce of the request was used before."));
    }
    Ok(())
}

/// Whether a request may go on: rates, permissions, and faults that come before anything is done.
fn admit(world: &mut World, target: &Target, call: &Call<'_>, fault: Option<&Fault>) -> Result<(), Refusal> {
    let calls = world.records.this_minute(&target.action, call.now);
    let limit = world.switches.per_minute.get(&target.action);
    if limit.is_some_and(|limit| calls > *limit) {
        let refusal = Fault::Throttle { retry_after: None }.refusal();
        return Err(refusal.expect("throttling is a refusal"));
    }
    if let Some(refusal) = fault.and_then(Fault::refusal) {
        return Err(refusal);
    }
    let permission = target.permission();
    check_permission(world, call, &permission)
}

/// Whether the caller's own policy and that of its role allow something.
pub(crate) fn check_permission(world: &World, call: &Call<'_>, permission: &str) -> Result<(), Refusal> {
    let Some(caller) = &call.caller else { return Ok(()) };
    let role = caller.role.as_ref().and_then(|role| world.roles.get(role));
    let policies = [caller.policy.as_ref(), role.and_then(|role| role.policy.as_ref())];
    if policies.into_iter().flatten().all(|policy| policy.allows(permission)) {
        return Ok(());
    }
    let code = if permission.starts_with("ram:") || permission.starts_with("sts:") {
        "NoPermission"
    } else {
        "Forbidden.RAM"
    };
    let mut refusal =
        Refusal::new(403, code, format!("The caller is not authorized: no policy allows {permission}."));
    refusal.denied = Some(permission.to_owned());
    Err(refusal)
}

fn record(world: &mut World, request: &Request<Bytes>, target: &Target, call: &Call<'_>, reply: &Reply) {
    let (status, code) = match reply {
        Ok(_) => (200, String::new()),
        Err(refusal) => (refusal.status, refusal.code.clone()),
    };
    let key = signature::claim(request).ok().flatten().map(|claim| claim.access_key);
    world.records.add(Recorded {
        time: call.now,
        service: target.service.to_owned(),
        action: target.action.clone(),
        params: call.params.all().clone(),
        body: String::from_utf8_lossy(request.body()).into_owned(),
        key: key.unwrap_or_default(),
        status,
        code,
    });
}

fn respond(target: &Target, reply: Reply, fault: Option<&Fault>, request_id: &str) -> Response<Bytes> {
    let mut response = match reply {
        Ok(Body::Text(text)) => plain(200, "text/plain", text),
        Ok(Body::Xml(status, text)) => plain(status, "text/xml", text),
        Ok(Body::Json(mut value)) => {
            if target.service != "cs"
                && let Some(fields) = value.as_object_mut()
            {
                fields.insert("RequestId".to_owned(), json!(request_id));
            }
            if fault == Some(&Fault::MissingFields) {
                without_details(&mut value);
            }
            plain(200, "application/json", value.to_string())
        }
        Err(refusal) => refused(target, &refusal, request_id),
    };
    match fault {
        Some(Fault::Reset | Fault::ResetAfterCommit) => {
            response.extensions_mut().insert(Trouble::Reset);
        }
        Some(Fault::Slow { milliseconds }) => {
            response.extensions_mut().insert(Trouble::Slow(Duration::from_millis(*milliseconds)));
        }
        Some(Fault::MalformedJson) => *response.body_mut() = Bytes::from_static(b"{\"RequestId\": <html>"),
        _ => {}
    }
    response
}

fn refused(target: &Target, refusal: &Refusal, request_id: &str) -> Response<Bytes> {
    if target.service == "mns" {
        let (status, text) = mns::refused(refusal, request_id);
        return plain(status, "text/xml", text);
    }
    let mut body = if target.service == "cs" {
        json!({"code": refusal.code, "message": refusal.message, "requestId": request_id, "status": refusal.status})
    } else {
        json!({
            "RequestId": request_id,
            "HostId": format!("{}.simulated", target.service),
            "Code": refusal.code,
            "Message": refusal.message,
            "Recommend": "",
        })
    };
    if let Some(action) = &refusal.denied {
        body["AccessDeniedDetail"] = json!({"AuthAction": action, "NoPermissionType": "ImplicitDeny"});
    }
    let mut response = plain(refusal.status, "application/json", body.to_string());
    if let Some(seconds) = refusal.retry_after {
        response.headers_mut().insert("x-acs-retry-after", seconds.into());
    }
    response
}

/// An answer with a body.
pub(crate) fn plain(status: u16, content_type: &'static str, body: String) -> Response<Bytes> {
    let response = Response::builder().status(status).header("content-type", content_type);
    response.body(Bytes::from(body)).expect("statuses are three digits and the header is well-formed")
}

/// When something that lasts so many seconds from now is over.
pub(crate) fn in_seconds(now: Timestamp, seconds: u32) -> Timestamp {
    after(now, SignedDuration::from_secs(i64::from(seconds)))
}
