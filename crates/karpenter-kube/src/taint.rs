//! Taints and tolerations.

use k8s_openapi::api::core::v1 as kube;
use karpenter_api::taints::{
    KNOWN_EPHEMERAL, KNOWN_EPHEMERAL_PREFIXES, NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE,
};
use karpenter_core::cluster::{Taint, TaintEffect, Toleration, TolerationOperator};

use crate::invalid::{At, Invalid, each};

/// The taints of a node or template.
pub fn taints<'a>(list: impl IntoIterator<Item = &'a kube::Taint>) -> Result<Vec<Taint>, Invalid> {
    each(list, taint)
}

fn taint(taint: &kube::Taint) -> Result<Taint, Invalid> {
    Ok(Taint {
        key: taint.key.as_str().into(),
        value: taint.value.as_deref().unwrap_or_default().into(),
        effect: effect(&taint.effect)?,
    })
}

/// A pod's tolerations.
pub fn tolerations<'a>(
    list: impl IntoIterator<Item = &'a kube::Toleration>,
) -> Result<Vec<Toleration>, Invalid> {
    each(list, toleration)
}

fn toleration(toleration: &kube::Toleration) -> Result<Toleration, Invalid> {
    let operator = match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        "Lt" => TolerationOperator::Lt,
        "Gt" => TolerationOperator::Gt,
        other => {
            return Err(Invalid::new(format!("{other:?} is not one of Equal, Exists, Lt, Gt")))
                .at("operator");
        }
    };
    Ok(Toleration {
        key: toleration.key.as_deref().unwrap_or_default().into(),
        operator,
        value: toleration.value.as_deref().unwrap_or_default().into(),
        effect: toleration.effect.as_deref().filter(|word| !word.is_empty()).map(effect).transpose()?,
    })
}

fn effect(word: &str) -> Result<TaintEffect, Invalid> {
    match word {
        NO_SCHEDULE => Ok(TaintEffect::NoSchedule),
        PREFER_NO_SCHEDULE => Ok(TaintEffect::PreferNoSchedule),
        NO_EXECUTE => Ok(TaintEffect::NoExecute),
        other => {
            Err(Invalid::new(format!("{other:?} is not one of NoSchedule, PreferNoSchedule, NoExecute")))
                .at("effect")
        }
    }
}

/// The taints that will still be there once the node is initialised: without those that vanish by themselves and those
/// declared as startup taints. Value and time of a taint do not matter.
pub fn lasting_taints(taints: Vec<Taint>, startup: &[Taint]) -> Vec<Taint> {
    let is_startup =
        |taint: &Taint| startup.iter().any(|other| other.key == taint.key && other.effect == taint.effect);
    taints.into_iter().filter(|taint| !is_ephemeral(taint) && !is_startup(taint)).collect()
}

fn is_ephemeral(taint: &Taint) -> bool {
    let effect = match taint.effect {
        TaintEffect::NoSchedule => NO_SCHEDULE,
        TaintEffect::PreferNoSchedule => PREFER_NO_SCHEDULE,
        TaintEffect::NoExecute => NO_EXECUTE,
    };
    KNOWN_EPHEMERAL.contains(&(&*taint.key, effect))
        || KNOWN_EPHEMERAL_PREFIXES.iter().any(|prefix| taint.key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, effect: TaintEffect) -> Taint {
        Taint { key: key.into(), value: "any".into(), effect }
    }

    #[test]
    fn ephemeral_and_startup_taints_are_expected_to_vanish() {
        let startup = [taint("example.com/agent", TaintEffect::NoSchedule)];
        let lasting = taint("example.com/agent", TaintEffect::NoExecute);
        let all = vec![
            taint("node.kubernetes.io/not-ready", TaintEffect::NoExecute),
            taint("readiness.k8s.io/network", TaintEffect::NoSchedule),
            startup[0].clone(),
            lasting.clone(),
        ];
        assert_eq!(lasting_taints(all, &startup), [lasting]);
    }

    #[test]
    fn an_unknown_effect_is_refused_by_name() {
        let odd = kube::Taint { key: "a".into(), effect: "Never".into(), ..Default::default() };
        let invalid = taints([&odd]).unwrap_err();
        assert_eq!(invalid.path, "[0].effect");
    }
}
