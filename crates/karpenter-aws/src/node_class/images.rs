//! From AMI selector terms to the images of a class: the parameters and queries they need, and the order of what is found.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_aws_bootstrap::{Alias, AliasError, AmiFamily, ImageParameter, Variant, requirements};
use karpenter_aws_client::ec2::{DescribeImages, Filter, Image};

use super::selectors::tag_filters;
use super::{Ami, AmiSelectorTerm, EC2NodeClassSpec};

const PAGE: u32 = 1000;
/// Ids of images begin so; a parameter with another value holds no image.
const ID_PREFIX: &str = "ami-";

/// What a parameter of SSM was found to hold; `None` if it does not exist.
pub(super) type Values = BTreeMap<String, Option<String>>;

/// A parameter whose value is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedParameter {
    pub(super) path: String,
    /// Whether AWS publishes it for an alias; others are the user's.
    pub(super) published: bool,
    pub(super) mutable: bool,
    variants: Vec<Variant>,
}

/// A question for images, and what those with known ids were made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageQuery {
    pub(super) request: DescribeImages,
    pub(super) variants: BTreeMap<String, Vec<Variant>>,
}

impl EC2NodeClassSpec {
    /// The alias among its terms, if it can be read.
    pub(crate) fn alias(&self) -> Option<Result<Alias, AliasError>> {
        self.ami_selector_terms.iter().find_map(|term| term.alias.as_deref()).map(Alias::parse)
    }

    /// Its image family, by the field or by the alias.
    pub fn family(&self) -> AmiFamily {
        let named = self.ami_family.as_deref().and_then(AmiFamily::by_name);
        let aliased = || self.alias().and_then(Result::ok).map(|alias| alias.family);
        named.or_else(aliased).unwrap_or(AmiFamily::Al2)
    }
}

/// The parameters that must be read before images can be asked for.
pub(super) fn parameters(
    terms: &[AmiSelectorTerm],
    kubernetes: &str,
) -> Result<Vec<WantedParameter>, AliasError> {
    let published = |parameter: ImageParameter| WantedParameter {
        path: parameter.path,
        published: true,
        mutable: parameter.mutable,
        variants: parameter.variants,
    };
    let own = |path: &String| WantedParameter {
        path: path.clone(),
        published: false,
        mutable: false,
        variants: Vec::new(),
    };
    let mut wanted = Vec::new();
    for term in terms {
        if let Some(alias) = &term.alias {
            wanted.extend(Alias::parse(alias)?.parameters(kubernetes)?.into_iter().map(published));
        } else if term.id.is_none() {
            wanted.extend(term.ssm_parameter.iter().map(own));
        }
    }
    Ok(wanted)
}

/// The questions for the images of `terms`, given what parameters hold.
pub(super) fn queries(
    terms: &[AmiSelectorTerm],
    wanted: &[WantedParameter],
    values: &Values,
) -> Vec<ImageQuery> {
    let mut by_id = BTreeMap::<String, Vec<Variant>>::new();
    for id in terms.iter().filter_map(|term| term.id.clone()) {
        by_id.entry(id).or_default();
    }
    for parameter in wanted {
        match values.get(&parameter.path).and_then(Option::as_deref) {
            Some(id) if id.starts_with(ID_PREFIX) => {
                by_id.entry(id.to_owned()).or_default().extend(parameter.variants.iter().copied());
            }
            Some(other) => {
                tracing::warn!(
                    "SSM parameter {} is left out: {other:?} is no id of an image",
                    parameter.path
                );
            }
            None => tracing::debug!("SSM parameter {} is left out: it does not exist", parameter.path),
        }
    }
    let ids: Vec<&str> = by_id.keys().map(String::as_str).collect();
    let with_ids = (!by_id.is_empty()).then(|| ImageQuery {
        request: describe(vec![Filter::new("image-id", ids)], Vec::new()),
        variants: by_id.clone(),
    });
    let described =
        |term: &&AmiSelectorTerm| term.alias.is_none() && term.id.is_none() && term.ssm_parameter.is_none();
    with_ids.into_iter().chain(terms.iter().filter(described).map(query)).collect()
}

fn query(term: &AmiSelectorTerm) -> ImageQuery {
    let name = term.name.iter().map(|name| Filter::new("name", [name.as_str()]));
    let filters = name.chain(tag_filters(&term.tags)).collect();
    let owners = match (&term.owner, &term.name) {
        (Some(owner), _) => vec![owner.clone()],
        // Anybody can publish an image under any name.
        (None, Some(_)) => vec!["self".to_owned(), "amazon".to_owned()],
        (None, None) => Vec::new(),
    };
    ImageQuery { request: describe(filters, owners), variants: BTreeMap::new() }
}

fn describe(mut filters: Vec<Filter>, owners: Vec<String>) -> DescribeImages {
    filters.push(Filter::new("state", ["available"]));
    DescribeImages { filters, owners, include_deprecated: Some(true), max_results: Some(PAGE) }
}

/// The images of a class, newest first: for equal requirements one that is not deprecated, then the newest.
pub(super) fn images(found: &[(ImageQuery, Vec<Image>)], now: Timestamp) -> Vec<Ami> {
    let mut best: BTreeMap<String, Candidate> = BTreeMap::new();
    for (query, images) in found {
        for image in images {
            for candidate in candidates(image, query.variants.get(&image.image_id), now) {
                let rivals = format!("{:?}", candidate.ami.requirements);
                let known = best.get(&rivals);
                if known.is_none_or(|known| candidate.rank() > known.rank()) {
                    best.insert(rivals, candidate);
                }
            }
        }
    }
    let mut all: Vec<Candidate> = best.into_values().collect();
    all.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.ami.id.cmp(&b.ami.id)));
    all.into_iter().map(|candidate| candidate.ami).collect()
}

struct Candidate {
    ami: Ami,
    created: String,
}

impl Candidate {
    fn rank(&self) -> (bool, &str, Option<&str>, &str) {
        (self.ami.deprecated.is_none(), &self.created, self.ami.name.as_deref(), &self.ami.id)
    }
}

/// An image once for everything it was made for.
fn candidates(image: &Image, variants: Option<&Vec<Variant>>, now: Timestamp) -> Vec<Candidate> {
    let variants: Vec<Option<Variant>> = match variants {
        Some(variants) if !variants.is_empty() => variants.iter().copied().map(Some).collect(),
        _ => vec![None],
    };
    let arch = image.architecture.as_deref().unwrap_or_default();
    let candidate = |variant: Option<Variant>| {
        Some(Candidate {
            ami: Ami {
                deprecated: is_deprecated(image, now).then_some(true),
                id: image.image_id.clone(),
                name: image.name.clone(),
                requirements: requirements(arch, variant)?,
            },
            created: image.creation_date.clone().unwrap_or_default(),
        })
    };
    variants.into_iter().filter_map(candidate).collect()
}

/// Whether its publisher says that it should no longer be used.
pub(super) fn is_deprecated(image: &Image, now: Timestamp) -> bool {
    let time = image.deprecation_time.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    time.is_some_and(|time| time <= now)
}
