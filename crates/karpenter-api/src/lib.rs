//! Karpenter's API: the four custom resources, the labels, taints, annotations and conditions around
//! them, the rules they obey, and the options of the controller.
//!
//! This crate holds names and shapes, never decisions. Field names, defaults, patterns, CEL rules, flags
//! and environment variables are those of upstream Karpenter 1.15, so manifests, clients and charts keep
//! working; every description is our own.
//!
//! Where to start reading:
//! - one file per kind ([`nodepool`], [`nodeclaim`], [`nodeoverlay`], [`capacitybuffer`]) holds the Rust
//!   types and, beside them, the schema the API server enforces;
//! - [`crd::crds`] assembles the CustomResourceDefinitions for a set of [`LabelRules`];
//! - [`validation`] holds the checks CEL cannot express, whose result becomes `ValidationSucceeded`;
//! - [`options`] is the table of flags from which parsing and documentation are derived.

pub mod annotations;
pub mod capacitybuffer;
pub mod condition;
pub mod crd;
pub mod duration;
pub mod hash;
pub mod label_rules;
pub mod label_syntax;
pub mod labels;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
pub mod options;
pub mod requirement;
pub mod resource;
pub mod schema;
pub mod taints;
pub mod validation;
pub mod yaml;

pub use capacitybuffer::CapacityBuffer;
pub use crd::crds;
pub use duration::{GoDuration, NillableDuration};
pub use label_rules::{LabelRules, Provider};
pub use nodeclaim::NodeClaim;
pub use nodeoverlay::NodeOverlay;
pub use nodepool::NodePool;
pub use requirement::{Operator, Requirement};
