//! kOps' InstanceGroups as Karpenter's objects.
//!
//! An [`Inventory`] is a cluster with its groups, read from YAML. [`validate`] says what kOps would refuse of it,
//! [`generate`] writes an EC2NodeClass and a NodePool for every group that Karpenter manages. Both are functions of plain
//! data: what a cloud knows comes in as [`Answers`].

mod apply;
mod ask;
mod channel;
mod cloud;
mod complete;
mod create;
mod edit;
mod field_error;
mod generate;
mod machine_types;
mod model;
mod node_class;
mod node_pool;
mod objects;
mod store;
mod validate;
mod version;
mod wire;
mod yaml;

pub use apply::{
    ANNOTATION, ApplyError, ApplyPlan, Live, LiveCluster, Outcome, Prune, identity, line_diff, live_refusals,
    plan,
};
pub use ask::ask;
pub use cloud::{Answers, CloudFacts, Image, InstanceTypeFact, Questions, questions};
pub use create::{CreateError, CreateOptions, create};
pub use edit::EditError;
pub use field_error::{FieldError, Kind};
pub use generate::{GenerateError, Scripts, generate};
pub use machine_types::MachineType;
pub use model::{Cluster, InstanceGroup, Inventory, KARPENTER, ReadError};
pub use objects::{LABELS, Pair};
pub use store::{
    Change, FileStore, S3Store, StateStore, StoreError, Stored, read_cluster, read_scripts, write_all,
};
pub use validate::{Refusal, Source, validate, validate_version};
pub use version::{FIRST_WITH_KARPENTER, FIRST_WITH_OBJECTS, KopsVersion};
pub use yaml::{YamlError, read_documents};
