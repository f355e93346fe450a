//! Amazon EC2 as a provider of machines.
//!
//! So far it holds [`EC2NodeClass`], by which users say what machines look like.

mod node_class;

pub use node_class::*;
