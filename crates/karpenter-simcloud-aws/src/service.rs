//! The front: takes a request, checks who sent it, lets what goes wrong go wrong, and answers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use jiff::{SignedDuration, Timestamp};
use karpenter_environment::Environment;
use karpenter_simcloud::{Market, Watcher};
use serde_json::Value;
use tokio::sync::Notify;

use crate::answer::{Answer, Outcome};
use crate::description::Description;
use crate::faults::{Fault, FaultKind};
use crate::records::Records;
use crate::route::{Api, Route};
use crate::wire::refusal::Refusal;
use crate::wire::signature::{self, Claim};
use crate::world::{Call, World};
use crate::{control, ec2, eks, iam, pricing, s3, sqs, ssm, sts};

/// The connection broke before the answer was there: a fault that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by peer (a fault that was asked for)")]
pub struct ConnectionReset;

/// AWS, as far as it is simulated. Clones are the same account.
#[derive(Clone)]
pub struct Service {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    world: Mutex<World>,
    environment: Arc<dyn Environment>,
    watcher: Arc<dyn Watcher>,
    /// Something is due sooner than all else.
    changed: Notify,
    /// A message has come.
    messages: Notify,
}

/// What a request meets besides its own outcome.
#[derive(Default)]
struct Trouble {
    refusal: Option<Refusal>,
    before: bool,
    after: bool,
    slow: Duration,
    stale: SignedDuration,
}

impl Service {
    /// An account as described, whose machines come from `market`; `watcher` is told what happens to them.
    pub fn new(
        description: Description,
        market: Arc<dyn Market>,
        watcher: Arc<dyn Watcher>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        let world = Mutex::new(World::new(description, market, Arc::clone(&environment)));
        let (changed, messages) = (Notify::new(), Notify::new());
        Self { shared: Arc::new(Shared { world, environment, watcher, changed, messages }) }
    }

    /// Answers one request.
    ///
    /// # Errors
    /// Only where a fault breaks the connection; a refusal is an answer too.
    pub async fn handle(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ConnectionReset> {
        let request_id = self.shared.environment.uid();
        let claim = Claim::read(&request);
        let Some(route) = Route::find(&request, claim.as_ref()) else {
            let refusal = Refusal::new(
                "UnknownOperation",
                format!("Nothing is simulated for {} {}.", request.method(), request.uri()),
            );
            return Ok(self.dated(refusal.status(404).answer(Api::Ec2, &request_id)));
        };
        let (outcome, trouble) = self.decide(&request, claim.as_ref(), &route);
        if trouble.before {
            return Err(ConnectionReset);
        }
        self.deliver();
        let outcome = self.wait_for_messages(&request, &route, outcome).await;
        if !trouble.slow.is_zero() {
            tokio::time::sleep(trouble.slow).await;
        }
        if trouble.after {
            return Err(ConnectionReset);
        }
        let response = match outcome {
            Ok(answer) => answer.response(&route, &request_id),
            Err(refusal) => {
                self.world().records.failed(&route.operation, &refusal.code);
                refusal.answer(route.api, &request_id)
            }
        };
        Ok(self.dated(response))
    }

    /// Everything that happens under the lock.
    fn decide(&self, request: &Request<Bytes>, claim: Option<&Claim>, route: &Route) -> (Outcome, Trouble) {
        let now = self.shared.environment.now();
        let mut world = self.world();
        world.advance(now);
        if route.api != Api::Control {
            world.records.add(&route.operation, now);
        }
        let caller = match check(&world, request, claim, route, now) {
            Ok(caller) => caller,
            Err(refusal) => return (Err(refusal), Trouble::default()),
        };
        let drawn = world.faults.draw(&route.operation, &*self.shared.environment);
        let mut trouble = Trouble::default();
        drawn.into_iter().for_each(|kind| trouble.add(kind, route.api, &route.operation));
        if trouble.before {
            return (Err(Refusal::new("ConnectionReset", "")), trouble);
        }
        if let Some(refusal) = trouble.refusal.take() {
            return (Err(refusal), trouble);
        }
        let seen = world.seen(now, trouble.stale);
        let call = Call::read(request, &route.operation, caller, now, seen);
        (dispatch(&mut world, route.api, &call), trouble)
    }

    /// Lets everything happen that is due at `now`, and says when to call again.
    pub fn tick(&self, now: Timestamp) -> Option<Timestamp> {
        let next = {
            let mut world = self.world();
            world.advance(now);
            world.next(now)
        };
        self.deliver();
        next
    }

    /// Lets time pass until it is dropped.
    pub async fn run(&self) {
        loop {
            let now = self.shared.environment.now();
            let changed = self.shared.changed.notified();
            match self.tick(now) {
                Some(next) => {
                    let pause = Duration::try_from(next.duration_since(now)).unwrap_or_default();
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep(pause.max(Duration::from_millis(1))) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// Adds a fault.
    pub fn inject(&self, fault: Fault) {
        self.world().faults.add(fault);
    }

    /// Takes all faults away.
    pub fn heal(&self) {
        self.world().faults.clear();
    }

    /// Who called what since the start, or since [`Service::forget_records`].
    pub fn records(&self) -> Records {
        self.world().records.clone()
    }

    /// Counts from zero again.
    pub fn forget_records(&self) {
        self.world().records.clear();
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.environment.now()
    }

    /// Tells everybody who waits what happened, outside the lock.
    pub(crate) fn deliver(&self) {
        let (events, sent, sooner) = {
            let mut world = self.world();
            let world = &mut *world;
            (
                std::mem::take(&mut world.outbox),
                std::mem::take(&mut world.sent),
                std::mem::take(&mut world.agenda.sooner),
            )
        };
        if sent > 0 {
            self.shared.messages.notify_waiters();
        }
        if sooner {
            self.shared.changed.notify_waiters();
        }
        events.into_iter().for_each(|event| self.shared.watcher.happened(event));
    }

    /// A long poll: an empty answer is kept back until a message can be seen or the time is over.
    async fn wait_for_messages(&self, request: &Request<Bytes>, route: &Route, outcome: Outcome) -> Outcome {
        let body: Value = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
        let seconds = body["WaitTimeSeconds"].as_u64().unwrap_or(0);
        if route.api != Api::Sqs || route.operation != "ReceiveMessage" || seconds == 0 {
            return outcome;
        }
        let queue = body["QueueUrl"].as_str().and_then(|url| url.rsplit('/').next()).unwrap_or("").to_owned();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds);
        let mut outcome = outcome;
        loop {
            let arrived = self.shared.messages.notified();
            let empty = matches!(&outcome, Ok(Answer::Json(body)) if body.get("Messages").is_none());
            if !empty || tokio::time::Instant::now() >= deadline {
                return outcome;
            }
            tokio::select! {
                () = arrived => {}
                () = tokio::time::sleep_until(self.visible_by(&queue, deadline)) => {}
            }
            let now = self.now();
            let mut world = self.world();
            world.advance(now);
            let call = Call::read(request, &route.operation, String::new(), now, now);
            outcome = sqs::answer(&mut world, &call);
        }
    }

    /// When a message can be seen again that nobody has deleted, but not later than `deadline`.
    fn visible_by(&self, queue: &str, deadline: tokio::time::Instant) -> tokio::time::Instant {
        let next = sqs::next_visible(&self.world().queues, queue);
        let pause = next.map(|next| Duration::try_from(next.duration_since(self.now())).unwrap_or_default());
        // A moment later, so that it can be seen then.
        let pause = pause.map(|pause| pause + Duration::from_millis(1));
        pause.map_or(deadline, |pause| deadline.min(tokio::time::Instant::now() + pause))
    }

    /// Callers with wrong clocks learn the time.
    fn dated(&self, mut response: Response<Bytes>) -> Response<Bytes> {
        let date = self.now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        if let Ok(date) = HeaderValue::from_str(&date) {
            response.headers_mut().insert(header::DATE, date);
        }
        response
    }
}

/// Who calls, if that is true.
fn check(
    world: &World,
    request: &Request<Bytes>,
    claim: Option<&Claim>,
    route: &Route,
    now: Timestamp,
) -> Result<String, Refusal> {
    let open = matches!(route.api, Api::Control | Api::PodIdentity)
        || matches!(&*route.operation, "AssumeRoleWithWebIdentity" | "AssumeRoleForPodIdentity");
    let Some(claim) = claim else {
        return if open { Ok(String::new()) } else { Err(signature::unsigned(route.api)) };
    };
    let keys = world.keys.get(&claim.access_key_id);
    claim.check(request, route.api, keys, now)?;
    Ok(keys.map(|keys| keys.arn.clone()).unwrap_or_default())
}

fn dispatch(world: &mut World, api: Api, call: &Call<'_>) -> Outcome {
    match api {
        Api::Ec2 => ec2::answer(world, call),
        Api::Iam => iam::answer(world, call),
        Api::Sts => sts::answer(world, call),
        Api::Eks => eks::answer(world, call),
        Api::ArcZonalShift => eks::managed_resource(world, call),
        Api::Ssm => ssm::answer(world, call),
        Api::PodIdentity | Api::EksAuth => sts::pod_identity(world, call),
        Api::Sqs => sqs::answer(world, call),
        Api::Pricing => pricing::answer(world, call),
        Api::S3 => s3::answer(world, call),
        Api::Control => Ok(control::answer(world, call)),
    }
}

/// An operation nobody simulates.
pub(crate) fn unknown(operation: &str) -> Refusal {
    Refusal::new("InvalidAction", format!("The action {operation} is not simulated."))
}

impl Trouble {
    fn add(&mut self, kind: FaultKind, api: Api, operation: &str) {
        let json = !matches!(api, Api::Ec2 | Api::Iam | Api::Sts | Api::S3);
        match kind {
            FaultKind::ResetBefore => self.before = true,
            FaultKind::ResetAfter => self.after = true,
            FaultKind::Slow { milliseconds } => self.slow += Duration::from_millis(milliseconds),
            FaultKind::Stale { seconds } => self.stale = SignedDuration::from_secs(i64::from(seconds)),
            FaultKind::Capacity { .. } => {}
            FaultKind::Throttle => {
                let (code, status) = match api {
                    Api::Ec2 => ("RequestLimitExceeded", 503),
                    Api::S3 => ("SlowDown", 503),
                    Api::Iam | Api::Sts => ("Throttling", 400),
                    _ => ("ThrottlingException", 400),
                };
                self.refusal.get_or_insert(Refusal::new(code, "Request limit exceeded.").status(status));
            }
            FaultKind::InternalError => {
                let code = if json { "InternalServerError" } else { "InternalError" };
                let message = "An internal error has occurred.";
                self.refusal.get_or_insert(Refusal::new(code, message).status(500));
            }
            FaultKind::Denied => {
                let (code, status) = match api {
                    Api::Ec2 => ("UnauthorizedOperation", 403),
                    _ if json => ("AccessDeniedException", 400),
                    _ => ("AccessDenied", 403),
                };
                let message = format!(
                    "You are not authorized to perform this operation: no identity-based policy allows the {operation} action."
                );
                self.refusal.get_or_insert(Refusal::new(code, message).status(status));
            }
            FaultKind::ExpiredCredentials => {
                self.refusal.get_or_insert(signature::expired_keys(api));
            }
            FaultKind::Error { status, code, message } => {
                self.refusal.get_or_insert(Refusal { status, code, message });
            }
        }
    }
}
