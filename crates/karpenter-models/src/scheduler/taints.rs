//! Taints and tolerations.

use k8s_openapi::api::core::v1 as core;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Effect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away if they can.
    PreferNoSchedule,
    /// New pods stay away and running ones are evicted.
    NoExecute,
}

impl Effect {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "NoSchedule" => Some(Self::NoSchedule),
            "PreferNoSchedule" => Some(Self::PreferNoSchedule),
            "NoExecute" => Some(Self::NoExecute),
            _ => None,
        }
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Taint {
    /// The taint's key.
    pub(crate) key: String,
    /// The taint's value, empty when there is none.
    pub(crate) value: String,
    /// What it does.
    pub(crate) effect: Effect,
}

/// Reads the taints of a node.
pub(crate) fn read_taints(node: &core::Node) -> Vec<Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().filter_map(Taint::read).collect()
}

impl Taint {
    fn read(taint: &core::Taint) -> Option<Self> {
        let value = taint.value.clone().unwrap_or_default();
        Some(Self { key: taint.key.clone(), value, effect: Effect::parse(&taint.effect)? })
    }
}

/// What a toleration asks of a taint's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Operator {
    Exists,
    Equal(String),
    /// The taint's value is a number above the toleration's.
    Above(i64),
    /// The taint's value is a number below the toleration's.
    Below(i64),
    Never,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Toleration {
    /// Empty tolerates every key.
    key: String,
    operator: Operator,
    /// `None` tolerates every effect.
    effect: Option<Effect>,
    /// For how long `NoExecute` is tolerated; `None` is for ever.
    pub(crate) seconds: Option<i64>,
}

impl Toleration {
    /// Reads the tolerations of a pod.
    pub(crate) fn of(spec: &core::PodSpec) -> Vec<Self> {
        spec.tolerations.iter().flatten().filter_map(Self::read).collect()
    }

    /// Tolerates every taint for ever.
    pub(crate) fn everything() -> Self {
        Self { key: String::new(), operator: Operator::Exists, effect: None, seconds: None }
    }

    fn read(toleration: &core::Toleration) -> Option<Self> {
        let value = toleration.value.clone().unwrap_or_default();
        let operator = match toleration.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => Operator::Equal(value),
            "Exists" => Operator::Exists,
            "Gt" => decimal(&value).map_or(Operator::Never, Operator::Above),
            "Lt" => decimal(&value).map_or(Operator::Never, Operator::Below),
            _ => Operator::Never,
        };
        let effect = match toleration.effect.as_deref().unwrap_or_default() {
            "" => None,
            named => Some(Effect::parse(named)?),
        };
        let key = toleration.key.clone().unwrap_or_default();
        Some(Self { key, operator, effect, seconds: toleration.toleration_seconds })
    }

    /// Returns whether a taint is tolerated.
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match &self.operator {
            Operator::Exists => true,
            Operator::Equal(value) => *value == taint.value,
            Operator::Above(bound) => decimal(&taint.value).is_some_and(|value| value > *bound),
            Operator::Below(bound) => decimal(&taint.value).is_some_and(|value| value < *bound),
            Operator::Never => false,
        }
    }
}

/// Reads a number without a plus sign or leading zeros, the only form comparisons accept.
fn decimal(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Returns whether any of the tolerations covers a taint.
pub(crate) fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}

/// Returns the first taint that keeps new pods with these tolerations away.
pub(crate) fn first_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    let mut binding = taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
    binding.find(|taint| !is_tolerated(taint, tolerations))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(toleration: Value, taint: (&str, &str, &str), expected: bool) {
        let spec = json!({"containers": [], "tolerations": [toleration]});
        let tolerations = Toleration::of(&serde_json::from_value(spec).unwrap());
        let (key, value, effect) = taint;
        let effect = Effect::parse(effect).unwrap();
        let taint = Taint { key: key.into(), value: value.into(), effect };
        assert_eq!(is_tolerated(&taint, &tolerations), expected);
    }

    #[test]
    fn a_toleration_matches_by_key_value_and_effect() {
        let equal = json!({"key": "a", "value": "b", "effect": "NoSchedule"});
        check(equal.clone(), ("a", "b", "NoSchedule"), true);
        check(equal.clone(), ("a", "c", "NoSchedule"), false);
        check(equal, ("a", "b", "NoExecute"), false);
        check(json!({"key": "a", "operator": "Exists"}), ("a", "c", "NoExecute"), true);
        check(json!({"key": "a", "operator": "Exists"}), ("b", "c", "NoExecute"), false);
        check(json!({"operator": "Exists"}), ("b", "c", "NoSchedule"), true);
    }

    #[test]
    fn comparisons_are_between_whole_numbers() {
        check(json!({"key": "a", "operator": "Gt", "value": "5"}), ("a", "6", "NoSchedule"), true);
        check(json!({"key": "a", "operator": "Gt", "value": "5"}), ("a", "5", "NoSchedule"), false);
        check(json!({"key": "a", "operator": "Lt", "value": "5"}), ("a", "-4", "NoSchedule"), true);
        check(json!({"key": "a", "operator": "Lt", "value": "5"}), ("a", "04", "NoSchedule"), false);
    }
}
