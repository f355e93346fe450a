//! How calls reach a cloud: HTTP, pauses between attempts, and rates that no API is asked faster than; and what clients of any cloud
//! need besides: variables, encodings, XML.
//!
//! Nothing here knows a cloud. A [`Transport`] carries requests over HTTP or, in tests and simulations, to something in process.

mod clock;
pub mod encoding;
mod http;
mod rates;
mod retry;
mod variables;
mod xml;

pub use clock::RemoteClock;
pub use http::{HttpTransport, Transport, TransportError, TransportSetupError, exchange};
pub use rates::{Rate, Rates, Urgency};
pub use retry::{RetryBudget, RetryPolicy};
pub use variables::Variables;
pub use xml::{Element, XmlError};
