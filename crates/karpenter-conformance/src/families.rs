//! Families of scripts: what is asked of both servers. Each family is a function from chance to a script.

mod applies;
mod bad_requests;
mod cases;
mod clients;
mod creates;
mod custom;
mod deletes;
mod karpenter;
mod lists;
mod patches;
mod subresources;
mod updates;
mod watches;

use anyhow::Result;

use crate::kinds::Kinds;
use crate::random::Random;
use crate::samples::{self, Resource};
use crate::script::Script;

/// What scripts are made from.
pub(crate) struct Library {
    pub(crate) resources: Vec<Resource>,
    pub(crate) kinds: Kinds,
}

impl Library {
    pub(crate) fn read() -> Result<Self> {
        Ok(Self { resources: samples::resources()?, kinds: Kinds::read() })
    }

    pub(crate) fn any(&self, random: &mut Random) -> &Resource {
        &self.resources[random.below(self.resources.len())]
    }

    /// The resource with this path.
    pub(crate) fn resource(&self, path: &str) -> &Resource {
        let found = self.resources.iter().find(|resource| resource.path == path);
        found.unwrap_or_else(|| panic!("the samples have no {path}"))
    }

    /// An object of a resource with up to `most` mutations.
    pub(crate) fn mutated(
        &self,
        script: &mut Script,
        resource: &Resource,
        name: &str,
        most: usize,
    ) -> serde_json::Value {
        let mut object = script.sample(resource, name);
        if let Some(root) = self.kinds.root(resource.api_version(), resource.kind()) {
            for _ in 0..script.random.below(most + 1) {
                crate::mutate::mutate(&self.kinds, &mut script.random, &mut object, &root);
            }
        }
        object
    }
}

pub(crate) use cases::scripts as cases;

/// The family that is not written by chance.
pub(crate) const CASES: &str = "cases";

type Family = fn(&Library, &mut Script);

/// Name, weight and function of every family.
const FAMILIES: &[(&str, usize, Family)] = &[
    ("creates", 30, creates::script),
    ("metadata", 8, creates::metadata),
    ("updates", 12, updates::script),
    ("patches", 12, patches::script),
    ("strategic", 10, patches::strategic),
    ("applies", 14, applies::script),
    ("lists", 6, lists::script),
    ("watches", 6, watches::script),
    ("deletes", 8, deletes::script),
    ("status", 6, subresources::status),
    ("scale", 4, subresources::scale),
    ("eviction", 4, subresources::eviction),
    ("binding", 3, subresources::binding),
    ("token", 2, subresources::token),
    ("bad requests", 6, bad_requests::script),
    ("custom", 6, custom::objects),
    ("definitions", 3, custom::definitions),
    ("karpenter", 8, karpenter::script),
    ("clients", 10, clients::script),
];

/// Writes the script with this number.
pub(crate) fn script(library: &Library, seed: u64, number: u64, prefix: &str, only: Option<&str>) -> Script {
    let mut random = Random::new(seed, number);
    let chosen: Vec<_> = FAMILIES.iter().filter(|(name, ..)| only.is_none_or(|only| *name == only)).collect();
    let total = chosen.iter().map(|(_, weight, _)| weight).sum();
    let mut ticket = random.below(total);
    let mut found = chosen.first().expect("some family has the name asked for");
    for family in &chosen {
        if ticket < family.1 {
            found = family;
            break;
        }
        ticket -= family.1;
    }
    let mut script = Script::new(found.0, &format!("{prefix}{number}"), random);
    (found.2)(library, &mut script);
    script
}

/// The names of all families.
pub(crate) fn names() -> Vec<&'static str> {
    FAMILIES.iter().map(|(name, ..)| *name).chain([CASES]).collect()
}
