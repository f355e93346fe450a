//! Runs controllers: watches feed caches, changes wake keys, keys are reconciled in the order of time, effects are
//! performed against the Kubernetes API.
//!
//! A [`Controller`] decides and does nothing: [`Controller::reconcile`] looks at caches at one moment and returns
//! effects as data. The [`Runtime`] performs them, stage after stage; any prefix of them may have happened when the process
//! dies, so the next reconcile must be right from there.
//!
//! What a controller may rely on:
//!
//! - **It starts with the whole picture.** Nothing is reconciled before every watched kind has been listed once.
//! - **It sees its own writes.** The object that the server answers to a write enters the caches before the key is reconciled
//!   again, and an older watch event never takes it back. (Bindings and evictions answer no object, and of a kind watched
//!   through a selector only the server knows what belongs to it: those are seen when the watch tells.)
//! - **One key, one reconcile at a time.** A key woken while its effects are under way is reconciled once more after them.
//! - **Time is one clock.** Everything waits on tokio's clock. Under a paused single-threaded runtime, with the API server in
//!   the same process, time passes only while everybody waits, and the same run is the same bytes.

mod cache;
mod controller;
mod dry_run;
mod key;
mod kind;
mod leadership;
mod lean;
mod meter;
mod perform;
mod permit;
mod queue;
mod runtime;
mod throttle;
mod watch;
mod write;

pub use cache::{Cache, Caches, Change, Delta, Kept};
pub use controller::{Controller, Effect, Outcome, Pace, Request, View, Wakes, Watches};
pub use dry_run::{Withheld, Witness};
pub use key::Key;
pub use kind::Kind;
pub use kube::core::Status;
pub use leadership::{Candidacy, Leadership};
pub use lean::without_managed_fields;
pub use meter::{Ending, LookMeter, Meter, Metered, Metering, Target};
pub use permit::{NotPermitted, Permit, Permitted};
pub use runtime::{Handle, Runtime};
pub use throttle::{Throttle, Throttled};
pub use write::{Write, WriteKind};
