//! A thin client for the operations of AWS that the provider and the kOps state store call.
//!
//! Signing, retries, endpoints and the choice of credentials are pure and tested as such; a [`Transport`] carries requests over
//! HTTP or, in tests and simulations, to something in process. Start at [`Client`].

mod client;
mod config;
mod credentials;
pub mod ec2;
mod eks;
mod endpoint;
mod error;
pub mod iam;
mod json;
mod meter;
mod pricing;
mod profile;
mod query;
mod s3;
mod sign;
mod sqs;
mod ssm;
mod wire;
mod xml_value;

pub use client::{Client, ClientError};
pub use config::{Config, ConfigError};
pub use credentials::{Credentials, CredentialsError, Source, TokenPlace};
pub use eks::{
    CertificateAuthority, Cluster, Eks, KubernetesNetworkConfig, ManagedResource, ZonalShift, ZonalShifts,
};
pub use endpoint::{Endpoint, Endpoints, Service, pricing_region};
pub use error::{Error, ErrorKind, classify};
pub use karpenter_transport::{
    HttpTransport, RetryPolicy, Transport, TransportError, TransportSetupError, Variables,
};
pub use meter::{Measured, Meter};
pub use pricing::{Attributes, OnDemandPrice, Pricing};
pub use profile::{ProfileError, Profiles, Settings};
pub use query::{PagedOperation, Pages, QueryOperation};
pub use s3::{Condition, Encryption, Object, ObjectSummary, PutObject, S3};
pub use sign::{Scope, UnusableCredentials, sign};
pub use sqs::{Message, ReceiveMessage, Sqs};
pub use ssm::{Parameter, Ssm};
