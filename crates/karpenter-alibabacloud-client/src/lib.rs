//! A thin client for the operations of Alibaba Cloud that the provider calls.
//!
//! Signing, endpoints, the choice of credentials and the meaning of errors are pure and tested as such; a [`Transport`] carries requests
//! over HTTP or, in tests and simulations, to something in process. Every operation names the right it needs ([`Operation::RAM_ACTION`]),
//! so the policy document follows from the code. Start at [`Client`].

mod client;
pub mod cms;
mod config;
mod credentials;
pub mod cs;
pub mod ecs;
mod endpoint;
mod error;
pub mod mns;
mod operation;
pub mod ram;
mod sign;
pub mod sts;
pub mod vpc;
mod wire;
mod wrapped;

pub use client::{Client, ClientError};
pub use config::{Config, ConfigError};
pub use credentials::{Credentials, CredentialsError, Profile, Source};
pub use endpoint::{Endpoints, Service};
pub use error::{Error, ErrorKind, classify};
pub use karpenter_transport::{
    HttpTransport, Rate, Rates, RetryPolicy, Transport, TransportError, TransportSetupError, Urgency,
    Variables,
};
pub use operation::{Operation, Page, PagedOperation, Pages, Route};
pub use sign::{Seal, UnusableCredentials, sign, sign_mns};
