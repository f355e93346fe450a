//! The verbs: what each request does to the store.

mod author;
mod conversion;
mod create;
mod decode;
mod delete;
mod delete_options;
mod json_text;
mod list_options;
mod options;
mod own_write;
mod patch;
mod read;
mod rendering;
mod reviews;
mod subresources;
mod update;
mod watch;

mod binding;
mod eviction;
mod scale;
mod token;

pub(crate) use conversion::{reform, served, stored};
pub(crate) use delete::{DeleteOptions, FOREGROUND, ORPHAN};
pub(crate) use reviews::REVIEWS;
pub(crate) use update::Scope;
