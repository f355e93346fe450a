//! What the cloud has to say: images and machine types.
//!
//! Decisions never ask a cloud. [`questions`] lists what they will want to know of an inventory, somebody answers
//! ([`CloudFacts`] from a file, or EC2 and SSM), and the answers are data.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::channel;
use crate::machine_types::{self, MachineType};
use crate::model::{InstanceGroup, Inventory};

/// An image as EC2 describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// `ami-…`
    pub id: String,
    /// The name its owner gave it.
    pub name: String,
    /// The owner's account.
    pub owner: String,
    /// RFC 3339.
    pub creation_date: String,
    /// Where the root volume is attached, such as `/dev/xvda`.
    pub root_device_name: String,
    /// `x86_64` or `arm64`.
    pub architecture: String,
}

/// How an InstanceGroup names its image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ImageReference<'i> {
    Id(&'i str),
    SsmParameter(&'i str),
    Name { owner: &'i str, name: &'i str },
}

impl<'i> ImageReference<'i> {
    /// The four forms, in the order in which kOps tries them.
    pub(crate) fn parse(image: &'i str) -> Self {
        let image = image.trim();
        if image.starts_with("ami-") {
            return Self::Id(image);
        }
        if let Some(parameter) = image.strip_prefix("ssm:") {
            return Self::SsmParameter(parameter);
        }
        match image.split_once('/') {
            None => Self::Name { owner: "self", name: image },
            Some((owner, name)) => Self::Name { owner: account_of(owner), name },
        }
    }
}

/// The accounts of image makers that have names.
fn account_of(owner: &str) -> &str {
    match owner {
        "amazon" | "amazon.com" => "137112412989",
        "debian" | "debian11" => "136693071363",
        "flatcar" => "075585003325",
        "redhat" | "redhat.com" => "309956199498",
        "ubuntu" => "099720109477",
        "rocky" | "rockylinux" => "792107900819",
        other => other,
    }
}

/// What has to be asked before an inventory can be judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// Images as the groups name them.
    pub images: BTreeSet<String>,
    /// Machine types as the groups name them.
    pub machine_types: BTreeSet<String>,
    /// The channel's image for each architecture (`x86_64`, `arm64`), where a group names none.
    pub default_images: BTreeMap<String, String>,
}

/// The answers to [`Questions`].
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The newest image for each name, or why there is none.
    pub images: BTreeMap<String, Result<Image, String>>,
    /// Machine types that exist.
    pub machine_types: BTreeMap<String, MachineType>,
    /// The image for each architecture (`x86_64`, `arm64`), for groups that name none.
    pub default_images: BTreeMap<String, String>,
}

impl Answers {
    /// How a group's image is named: by the group, or by the channel for the architecture of its machine type.
    pub(crate) fn image_name(&self, group: &InstanceGroup) -> Result<String, String> {
        if !group.image().is_empty() {
            return Ok(group.image().to_owned());
        }
        let machine = group.machine_type.split(',').next().and_then(|name| self.machine_types.get(name));
        let runs = |architecture: &&String| match machine {
            None => *architecture == "x86_64",
            Some(machine) => machine.architectures.contains(architecture),
        };
        let found = self.default_images.keys().find(runs).and_then(|name| self.default_images.get(name));
        found
            .cloned()
            .ok_or_else(|| "no image is named, and the channel's image is not known here".to_owned())
    }
}

/// Lists what is to be asked about an inventory.
pub fn questions(inventory: &Inventory) -> Questions {
    let mut questions = Questions::default();
    for group in &inventory.groups {
        if !group.image().is_empty() {
            questions.images.insert(group.image().to_owned());
        }
        let mixed = group.mixed_instances_policy.iter().flat_map(|policy| &policy.instances);
        for list in mixed.chain([&group.machine_type]) {
            questions.machine_types.insert(list.clone());
            questions.machine_types.extend(list.split(',').map(str::to_owned));
        }
    }
    questions.machine_types.remove("");
    if inventory.groups.iter().any(|group| group.image().is_empty()) {
        let version = inventory.cluster.kubernetes_version.as_deref().unwrap_or_default();
        questions.default_images = channel::images(version);
    }
    questions
}

/// What a cloud would answer, written down.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudFacts {
    /// The account whose images need no owner.
    #[serde(rename = "accountID")]
    pub account_id: String,
    /// The images there are.
    pub images: Vec<Image>,
    /// SSM parameters and their values.
    pub ssm_parameters: BTreeMap<String, String>,
    /// Machine types there are; those of the built-in table when the list is missing.
    pub instance_types: Option<Vec<InstanceTypeFact>>,
    /// The image for each architecture, for groups that name none; over those of the stable channel.
    pub default_images: BTreeMap<String, String>,
}

/// A machine type, written down.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceTypeFact {
    /// Such as `m5.large`.
    pub name: String,
    /// `x86_64`, `arm64`.
    pub architectures: Vec<String>,
    /// Whether it has GPUs.
    pub gpu: bool,
}

impl CloudFacts {
    /// Reads facts from YAML.
    ///
    /// # Errors
    ///
    /// The text is no YAML or has other fields than facts have.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    /// Answers the questions.
    pub fn answer(&self, questions: &Questions) -> Answers {
        let mut images: BTreeMap<_, _> = BTreeMap::new();
        let mut default_images = questions.default_images.clone();
        default_images.extend(self.default_images.clone());
        for name in questions.images.iter().chain(default_images.values()) {
            images.insert(name.clone(), self.find(&ImageReference::parse(name)));
        }
        let types = questions.machine_types.iter();
        let machine_types = types.filter_map(|name| Some((name.clone(), self.machine_type(name)?))).collect();
        Answers { images, machine_types, default_images }
    }

    fn find(&self, reference: &ImageReference<'_>) -> Result<Image, String> {
        match reference {
            ImageReference::Id(id) => {
                newest(self.images.iter().filter(|image| image.id == *id)).ok_or_else(not_found)
            }
            ImageReference::SsmParameter(name) => {
                let id = self
                    .ssm_parameters
                    .get(*name)
                    .ok_or_else(|| format!("there is no SSM parameter {name:?}"))?;
                self.find(&ImageReference::Id(id))
            }
            ImageReference::Name { owner, name } => {
                let owner = if *owner == "self" { &self.account_id } else { *owner };
                let matching = |image: &&Image| image.owner == owner && matches_filter(name, &image.name);
                newest(self.images.iter().filter(matching)).ok_or_else(not_found)
            }
        }
    }

    fn machine_type(&self, name: &str) -> Option<MachineType> {
        let Some(facts) = &self.instance_types else {
            return machine_types::known(name);
        };
        let fact = facts.iter().find(|fact| fact.name == name)?;
        Some(MachineType { architectures: fact.architectures.clone(), has_gpu: fact.gpu })
    }
}

fn not_found() -> String {
    "there is no such image".to_owned()
}

/// The image made last; of several made at once the first.
pub(crate) fn newest<'i>(images: impl Iterator<Item = &'i Image>) -> Option<Image> {
    let made = |image: &Image| image.creation_date.parse::<jiff::Timestamp>().ok();
    let later = |best: &'i Image, next: &'i Image| if made(next) > made(best) { next } else { best };
    images.reduce(later).cloned()
}

enum Part {
    Text(char),
    One,
    Any,
}

/// Whether a name passes a filter of EC2: `*` is any text, `?` any character, `\` takes the next one literally.
fn matches_filter(filter: &str, name: &str) -> bool {
    let mut characters = filter.chars();
    let mut parts = Vec::new();
    while let Some(character) = characters.next() {
        parts.push(match character {
            '*' => Part::Any,
            '?' => Part::One,
            '\\' => Part::Text(characters.next().unwrap_or('\\')),
            other => Part::Text(other),
        });
    }
    let name: Vec<char> = name.chars().collect();
    let (mut part, mut position) = (0, 0);
    // Where to go on when the text after the last `*` does not fit: only the last one ever needs to take more.
    let mut retry: Option<(usize, usize)> = None;
    while position < name.len() {
        match parts.get(part) {
            Some(Part::Any) => {
                retry = Some((part + 1, position));
                part += 1;
            }
            Some(Part::One) => (part, position) = (part + 1, position + 1),
            Some(Part::Text(wanted)) if *wanted == name[position] => {
                (part, position) = (part + 1, position + 1);
            }
            _ => {
                let Some((after, taken)) = retry else { return false };
                retry = Some((after, taken + 1));
                (part, position) = (after, taken + 1);
            }
        }
    }
    parts[part..].iter().all(|part| matches!(part, Part::Any))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_four_forms() {
        let name = |owner: &'static str, name: &'static str| ImageReference::Name { owner, name };
        assert_eq!(ImageReference::parse(" ami-1 "), ImageReference::Id("ami-1"));
        assert_eq!(ImageReference::parse("ssm:/a/b"), ImageReference::SsmParameter("/a/b"));
        assert_eq!(ImageReference::parse("mine"), name("self", "mine"));
        assert_eq!(ImageReference::parse("ubuntu/images/x*"), name("099720109477", "images/x*"));
        assert_eq!(ImageReference::parse("1234/a/b"), name("1234", "a/b"));
    }

    #[test]
    fn a_filter_has_wildcards() {
        for (filter, name, expected) in [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("**b*", "aabb", true),
            ("é?", "éa", true),
        ] {
            assert_eq!(matches_filter(filter, name), expected, "{filter} {name}");
        }
    }

    #[test]
    fn the_newest_image_answers_and_accounts_keep_their_zeros() {
        let facts = CloudFacts::read(
            "accountID: '1'\nimages:\n- {id: ami-1, name: a-1, owner: 099720109477, creationDate: '2026-01-01T00:00:00.000Z'}\n- {id: ami-2, name: a-2, owner: 099720109477, creationDate: '2026-02-01T00:00:00.000Z'}\n- {id: ami-3, name: a-3, owner: '1', creationDate: '2025-02-01T00:00:00.000Z'}\nssmParameters: {/p: ami-1}\n",
        )
        .unwrap();
        let ask = |image: &str| {
            let questions = Questions { images: [image.to_owned()].into(), ..Questions::default() };
            facts.answer(&questions).images.remove(image).unwrap().map(|image| image.id)
        };
        assert_eq!(ask("ubuntu/a-*").as_deref(), Ok("ami-2"));
        assert_eq!(ask("a-*").as_deref(), Ok("ami-3"));
        assert_eq!(ask("ssm:/p").as_deref(), Ok("ami-1"));
        assert!(ask("ssm:/q").is_err());
        assert!(ask("ami-9").is_err());
        assert!(ask("debian/a-*").is_err());
    }
}
