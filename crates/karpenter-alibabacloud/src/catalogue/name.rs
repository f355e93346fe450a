//! What the name of an instance type says: `ecs.<family>[-<variant>].<size>`.
//!
//! The cloud says the family itself, and that is what counts where it does; names are cut only for what it does not say.

/// The parts of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    /// The first two parts, variant included: `ecs.t6-c1m4`.
    pub(super) prefix: &'a str,
    /// The family: `ecs.t6`.
    pub(super) family: &'a str,
    /// The letters that say what the family is for: `t`.
    pub(super) category: &'a str,
    /// The family's number: `6`.
    pub(super) generation: Option<&'a str>,
    /// The last part: `large`.
    pub(super) size: Option<&'a str>,
}

/// Reads the name of a type, whose family the cloud may have said.
pub(super) fn read<'a>(id: &'a str, family: Option<&'a str>) -> Name<'a> {
    let second_dot = id.match_indices('.').nth(1).map(|(at, _)| at);
    let prefix = second_dot.map_or(id, |at| &id[..at]);
    let size = second_dot.and_then(|_| id.rsplit('.').next());
    let family = family.filter(|family| !family.is_empty()).unwrap_or(prefix);
    let (category, generation) = category(family.strip_prefix("ecs.").unwrap_or(family));
    Name { prefix, family, category, generation, size }
}

/// The letters before the first digit and the digits after them. A family without a number, such as `e` or `video-trans`, is its own
/// category; of a variant (`e-c1m2`) only the letters count, and a size in terabytes (`r-2tb5`) stands before the number.
fn category(family: &str) -> (&str, Option<&str>) {
    let letters = &family[..run(family, |byte| byte.is_ascii_lowercase())];
    let rest = &family[letters.len()..];
    let number = |text: &'_ str| run(text, |byte| byte.is_ascii_digit());
    if letters.is_empty() || rest.is_empty() {
        return (family, None);
    }
    if number(rest) > 0 {
        return (letters, Some(&rest[..number(rest)]));
    }
    let variant = &rest[1..];
    let after_size = variant[number(variant)..].strip_prefix("tb").filter(|_| number(variant) > 0);
    if let Some(after) = after_size.filter(|after| number(after) > 0) {
        return (letters, Some(&after[..number(after)]));
    }
    let ratio = variant.starts_with('c') && number(&variant[1..]) > 0;
    (if ratio { letters } else { family }, None)
}

fn run(text: &str, belongs: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| belongs(*byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_the_cloud_means_them() {
        for (id, family, expected) in [
            ("ecs.g7.large", Some("ecs.g7"), ("ecs.g7", "ecs.g7", "g", Some("7"), Some("large"))),
            ("ecs.t6-c1m4.large", Some("ecs.t6"), ("ecs.t6-c1m4", "ecs.t6", "t", Some("6"), Some("large"))),
            ("ecs.t6-c1m4.large", None, ("ecs.t6-c1m4", "ecs.t6-c1m4", "t", Some("6"), Some("large"))),
            (
                "ecs.gn7i-c8g1.2xlarge",
                Some("ecs.gn7i"),
                ("ecs.gn7i-c8g1", "ecs.gn7i", "gn", Some("7"), Some("2xlarge")),
            ),
            (
                "ecs.ebmg7.32xlarge",
                Some("ecs.ebmg7"),
                ("ecs.ebmg7", "ecs.ebmg7", "ebmg", Some("7"), Some("32xlarge")),
            ),
            (
                "ecs.sn1ne.large",
                Some("ecs.sn1ne"),
                ("ecs.sn1ne", "ecs.sn1ne", "sn", Some("1"), Some("large")),
            ),
            ("ecs.u0.c1m2.xlarge", Some("ecs.u0"), ("ecs.u0", "ecs.u0", "u", Some("0"), Some("xlarge"))),
            ("ecs.e-c1m1.large", None, ("ecs.e-c1m1", "ecs.e-c1m1", "e", None, Some("large"))),
            ("ecs.e-c1m1.large", Some("ecs.e"), ("ecs.e-c1m1", "ecs.e", "e", None, Some("large"))),
            ("ecs.re-4tb6.x", None, ("ecs.re-4tb6", "ecs.re-4tb6", "re", Some("6"), Some("x"))),
            (
                "ecs.video-trans.26xhevc",
                None,
                ("ecs.video-trans", "ecs.video-trans", "video-trans", None, Some("26xhevc")),
            ),
            ("odd", None, ("odd", "odd", "odd", None, None)),
            ("", None, ("", "", "", None, None)),
        ] {
            let name = read(id, family);
            assert_eq!(
                (name.prefix, name.family, name.category, name.generation, name.size),
                expected,
                "{id}"
            );
        }
    }
}
