//! Which of the things the cloud lists a term selects: wildcards, and the newest image of each architecture.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_alibabacloud_client::cs::ClusterImage;
use karpenter_alibabacloud_client::ecs::{self, Tag, TagDescription};

use crate::node_class::{Architecture, Image, ImageAlias, ImageFilter, ImageTerm, Selector};

/// Whether `text` matches a pattern in which `*` stands for any text and `?` for any character.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut read) = (0, 0);
    // Where the last star stands, and how much it has swallowed: more is tried whenever the rest does not fit.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        if at < pattern.len() && pattern[at] == '*' {
            star = Some((at, read));
            at += 1;
        } else if at < pattern.len() && (pattern[at] == '?' || pattern[at] == text[read]) {
            at += 1;
            read += 1;
        } else if let Some((star_at, swallowed)) = star {
            star = Some((star_at, swallowed + 1));
            at = star_at + 1;
            read = swallowed + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

fn is_pattern(value: &str) -> bool {
    value.contains(['*', '?'])
}

/// The longest part of a pattern without wildcards: the cloud looks for names that hold it, which leaves less to look through here.
pub(super) fn longest_literal(pattern: &str) -> Option<&str> {
    pattern.split(['*', '?']).max_by_key(|part| part.len()).filter(|part| !part.is_empty())
}

/// What is asked of the cloud for a term's tags. It knows no wildcards: where a value has one, only the key is asked for.
pub(super) fn tag_filters(tags: &BTreeMap<String, String>) -> Vec<Tag> {
    tags.iter()
        .map(|(key, value)| if is_pattern(value) { Tag::key(key) } else { Tag::new(key, value) })
        .collect()
}

/// Whether tags match where the cloud could not look: values with wildcards.
pub(super) fn tags_match(wanted: &BTreeMap<String, String>, found: &[TagDescription]) -> bool {
    wanted
        .iter()
        .filter(|(_, value)| is_pattern(value))
        .all(|(key, value)| found.iter().any(|tag| tag.key == *key && matches(value, &tag.value)))
}

/// A term in words, for people to find it in their class.
pub(super) fn describe(term: &Selector) -> String {
    let mut parts = Vec::new();
    parts.extend(term.id.iter().map(|id| format!("id {id}")));
    parts.extend(term.name.iter().map(|name| format!("name {name}")));
    parts.extend(term.zone.iter().map(|zone| format!("zone {zone}")));
    parts.extend(term.tags.iter().map(|(key, value)| format!("tag {key}={value}")));
    parts.join(" and ")
}

/// A term for images in words.
pub(super) fn describe_image(term: &ImageTerm) -> String {
    match term {
        ImageTerm::Id(id) => format!("id {id}"),
        ImageTerm::Family(family) => format!("imageFamily {family}"),
        ImageTerm::Alias { family, version: None } => format!("alias {}", family.name()),
        ImageTerm::Alias { family, version: Some(version) } => format!("alias {}@{version}", family.name()),
        ImageTerm::Filter(filter) => {
            let mut parts = Vec::new();
            parts.extend(filter.name.iter().map(|name| format!("name {name}")));
            parts.extend(filter.owner_alias.iter().map(|owner| format!("imageOwnerAlias {owner}")));
            parts.extend(filter.owner_id.iter().map(|owner| format!("imageOwnerID {owner}")));
            parts.extend(filter.tags.iter().map(|(key, value)| format!("tag {key}={value}")));
            parts.join(" and ")
        }
    }
}

/// The images among those listed that a filter selects: the newest of each architecture.
pub(super) fn newest(filter: &ImageFilter, listed: &[ecs::Image]) -> Vec<Image> {
    let selected = |image: &&ecs::Image| {
        let named = filter.name.as_ref().is_none_or(|pattern| {
            image.image_name.as_ref().is_some_and(|name| matches(pattern, name))
                || matches(pattern, &image.image_id)
        });
        named && tags_match(&filter.tags, &image.tags)
    };
    let mut newest: BTreeMap<Architecture, (Option<Timestamp>, &ecs::Image)> = BTreeMap::new();
    for image in listed.iter().filter(selected) {
        let Some(architecture) = image.architecture.as_deref().and_then(Architecture::parse) else {
            continue;
        };
        let candidate = (image.creation_time, image);
        let known = newest.entry(architecture).or_insert(candidate);
        if (candidate.0, &candidate.1.image_id) > (known.0, &known.1.image_id) {
            *known = candidate;
        }
    }
    newest.into_values().filter_map(|(_, found)| image(found)).collect()
}

/// An image as the cloud lists it; none if nothing we launch can run it.
pub(super) fn image(listed: &ecs::Image) -> Option<Image> {
    Some(Image {
        id: listed.image_id.as_str().into(),
        name: listed.image_name.clone(),
        architecture: Architecture::parse(listed.architecture.as_deref()?)?,
        size_gib: listed.size,
    })
}

/// The images of a family among those ACK lists for a version: the newest of each architecture.
pub(super) fn of_family(family: ImageAlias, version: Option<&str>, listed: &[ClusterImage]) -> Vec<Image> {
    let belongs = |image: &&ClusterImage| {
        let (id, name) = (image.image_id.as_str(), image.image_name.as_deref().unwrap_or_default());
        let of_family = match family {
            // The images that are optimized for containers have names of their own, and are another choice.
            ImageAlias::AlibabaCloudLinux3 => id.starts_with("aliyun_3_") && id.contains("G_alibase_"),
            ImageAlias::ContainerOS => name.starts_with("ContainerOS"),
        };
        of_family && version.is_none_or(|version| id.contains(version) || name.contains(version))
    };
    let mut newest: BTreeMap<Architecture, &ClusterImage> = BTreeMap::new();
    for image in listed.iter().filter(belongs) {
        let Some(architecture) = image.architecture.as_deref().and_then(Architecture::parse) else {
            continue;
        };
        let known = newest.entry(architecture).or_insert(image);
        if date(&image.image_id) > date(&known.image_id) {
            *known = image;
        }
    }
    newest
        .into_iter()
        .map(|(architecture, image)| Image {
            id: image.image_id.as_str().into(),
            name: image.image_name.clone(),
            architecture,
            size_gib: None,
        })
        .collect()
}

/// The day in an image's id, as in `…_alibase_20250629.vhd`.
fn date(id: &str) -> Option<u32> {
    id.split(|letter: char| !letter.is_ascii_digit()).rfind(|digits| digits.len() == 8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_any_text_and_any_character() {
        for (pattern, text, expected) in [
            ("123-private*", "123-private-a", true),
            ("123-private*", "123-private", true),
            ("123-private*", "123-public", false),
            ("*", "", true),
            ("*-node", "cluster-node", true),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
            ("v?", "v1", true),
            ("v?", "v", false),
            ("exact", "exact", true),
            ("exact", "exactly", false),
            ("*集群", "我的集群", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn only_what_the_cloud_cannot_look_for_is_looked_for_here() {
        let tags = BTreeMap::from([
            ("Name".to_owned(), "123-private*".to_owned()),
            ("team".to_owned(), "data".to_owned()),
        ]);
        assert_eq!(tag_filters(&tags), [Tag::key("Name"), Tag::new("team", "data")]);
        let tag = |key: &str, value: &str| TagDescription { key: key.into(), value: value.into() };
        assert!(tags_match(&tags, &[tag("Name", "123-private-a")]));
        assert!(!tags_match(&tags, &[tag("Name", "123-public-a")]));
    }

    fn listed(id: &str, architecture: &str, day: i64) -> ecs::Image {
        ecs::Image {
            image_id: id.into(),
            image_name: Some(id.into()),
            architecture: Some(architecture.into()),
            creation_time: Timestamp::from_second(day * 86_400).ok(),
            ..Default::default()
        }
    }

    #[test]
    fn the_newest_image_of_each_architecture_is_taken() {
        let images = [
            listed("m-old", "x86_64", 1),
            listed("m-new", "x86_64", 9),
            listed("m-arm", "arm64", 3),
            listed("m-32", "i386", 99),
        ];
        let ids = |filter: &ImageFilter| -> Vec<String> {
            newest(filter, &images).iter().map(|image| image.id.to_string()).collect()
        };
        assert_eq!(ids(&ImageFilter::default()), ["m-new", "m-arm"]);
        assert_eq!(ids(&ImageFilter { name: Some("m-o*".into()), ..Default::default() }), ["m-old"]);
    }

    #[test]
    fn a_family_is_found_among_acks_images_for_both_architectures() {
        let image = |id: &str, name: &str, architecture: &str| ClusterImage {
            image_id: id.into(),
            image_name: Some(name.into()),
            architecture: Some(architecture.into()),
            ..Default::default()
        };
        let images = [
            image(
                "aliyun_3_x64_20G_container_optimized_alibase_20250629.vhd",
                "Alibaba Cloud Linux 3 Container",
                "x86_64",
            ),
            image("aliyun_3_x64_20G_alibase_20240101.vhd", "Alibaba Cloud Linux 3", "x86_64"),
            image("aliyun_3_x64_20G_alibase_20250101.vhd", "Alibaba Cloud Linux 3", "x86_64"),
            image("aliyun_3_arm64_20G_alibase_20250101.vhd", "Alibaba Cloud Linux 3 Arm", "arm64"),
            image("m-cos", "ContainerOS 3.3", "x86_64"),
        ];
        let ids = |family, version| -> Vec<String> {
            of_family(family, version, &images).iter().map(|image| image.id.to_string()).collect()
        };
        assert_eq!(
            ids(ImageAlias::AlibabaCloudLinux3, None),
            ["aliyun_3_x64_20G_alibase_20250101.vhd", "aliyun_3_arm64_20G_alibase_20250101.vhd"]
        );
        assert_eq!(
            ids(ImageAlias::AlibabaCloudLinux3, Some("20240101")),
            ["aliyun_3_x64_20G_alibase_20240101.vhd"]
        );
        assert_eq!(ids(ImageAlias::ContainerOS, None), ["m-cos"]);
        assert!(ids(ImageAlias::ContainerOS, Some("9.9")).is_empty());
    }
}
