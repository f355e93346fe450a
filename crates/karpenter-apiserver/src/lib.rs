//! A Kubernetes API server in the process that needs one: local mode, end-to-end tests, simulation.
//!
//! [`ApiServer`] is a `tower` service. Hand it to `kube::Client::new(server, "default")` and controllers run on it
//! without a socket; [`serve::serve`] puts it on TCP with TLS and a kubeconfig for kubectl and helm. Objects live in memory
//! as JSON text. All time and chance come from an [`Environment`], and garbage collection runs in steps that the
//! caller drives ([`ApiServer::step`]), so a simulation replays byte for byte.
//!
//! # What is served
//!
//! The resources that `docs/apiserver.md` lists, which a test holds against discovery.
//!
//! Verbs: get, list (paging, selectors, resourceVersion semantics), watch (bookmarks, initial events, 410), create,
//! update, patch (JSON, merge, strategic merge, server-side apply), delete, deletecollection. Subresources: status,
//! scale, eviction, binding, token, finalize. Also discovery in both forms, OpenAPI v3 and v2, Tables, `/version` and health.
//!
//! Callers are known by client certificates of the server's authority, configured bearer tokens and tokens of service
//! accounts, and may impersonate others. Whoever is known may do everything unless
//! [`Authorization::Rbac`] is asked for; then roles and bindings decide, and the roles every cluster has are there.
//!
//! Validating and mutating webhooks are called over HTTPS and validating admission policies are evaluated, for every
//! write a client makes; what the collector deletes does not pass them. A webhook behind a Service is reached through an
//! endpoint that somebody has written down for it.
//!
//! # What is not
//!
//! CBOR (415/406), answers in protobuf (bodies are read in it), conversion webhooks (a CRD that asks for conversion
//! is refused), exec, log, port-forward, proxy, ephemeral containers and resize (404), and those validation rules of
//! built-in kinds that the `kinds` module does not have. `cargo xtask conformance` compares this server with the real
//! one; `accepted.yaml` of `karpenter-conformance` lists the classes of answers that differ, each with its reason.

mod admission;
mod apply;
mod authentication;
mod authorization;
mod collector;
mod crd;
mod data_dir;
mod derived;
mod discovery;
mod error;
mod health;
mod kinds;
mod openapi;
mod patch;
mod registry;
mod schema;
mod selector;
pub mod serve;
mod server;
pub mod store;
mod table;
mod verbs;
mod wire;

pub use authentication::User;
pub use authorization::Authorization;
pub use data_dir::{DataDir, DataDirError, write_private};
pub use karpenter_environment::{Environment, SeededEnvironment, SystemEnvironment};
pub use server::{ApiServer, Options};
pub use wire::ResponseBody;
