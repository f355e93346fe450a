//! NodeOverlays: what they match and how they change prices and capacity.

use karpenter_api::LabelRules;
use karpenter_core::catalog::{NodeOverlay, OverlayPrice};

use crate::invalid::{At, Invalid, each};
use crate::resources::resource_list;
use crate::selector::api_requirement;

/// The overlay as the core sees it.
pub fn node_overlay(object: &karpenter_api::NodeOverlay, rules: &LabelRules) -> Result<NodeOverlay, Invalid> {
    let spec = &object.spec;
    let requirements = each(&spec.requirements, |line| api_requirement(line, rules));
    let absolute = spec.price.as_deref().map(price).transpose().at("spec.price")?;
    let adjusted =
        spec.price_adjustment.as_deref().map(price_adjustment).transpose().at("spec.priceAdjustment")?;
    Ok(NodeOverlay {
        name: object.metadata.name.as_deref().unwrap_or_default().into(),
        weight: spec.weight.unwrap_or(0),
        requirements: requirements.at("spec.requirements")?,
        price: absolute.or(adjusted),
        capacity: resource_list(spec.capacity.as_ref()).at("spec.capacity")?,
    })
}

fn price(text: &str) -> Result<OverlayPrice, Invalid> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = if is_plain { text.parse().ok() } else { None };
    let complain = || Invalid::new(format!("{text:?} is not a price; write it like \"0.25\""));
    number.map(OverlayPrice::Absolute).ok_or_else(complain)
}

fn price_adjustment(text: &str) -> Result<OverlayPrice, Invalid> {
    let complain = || {
        Invalid::new(format!(
            "{text:?} is not a price adjustment; write it like \"+0.05\", \"-0.05\" or \"-10%\""
        ))
    };
    let (amount, make): (&str, fn(f64) -> OverlayPrice) = match text.strip_suffix('%') {
        Some(percent) => (percent, OverlayPrice::Percent),
        None => (text, OverlayPrice::Add),
    };
    let digits =
        amount.strip_prefix(['+', '-']).filter(|digits| price(digits).is_ok()).ok_or_else(complain)?;
    let magnitude: f64 = digits.parse().map_err(|_| complain())?;
    Ok(make(if amount.starts_with('-') { -magnitude } else { magnitude }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn price_adjustments_are_signed_amounts_or_percentages() {
        let check =
            |text: &str, expected: OverlayPrice| assert_eq!(price_adjustment(text), Ok(expected), "{text}");
        check("+0.5", OverlayPrice::Add(0.5));
        check("-.5", OverlayPrice::Add(-0.5));
        check("+120%", OverlayPrice::Percent(120.0));
        check("-100%", OverlayPrice::Percent(-100.0));
        for odd in ["", "0.5", "10%", "+", "-%", "+-1", "+1e3", "+inf", "+1.2.3"] {
            assert!(price_adjustment(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_price_is_a_plain_decimal_number() {
        assert_eq!(price("0.25"), Ok(OverlayPrice::Absolute(0.25)));
        for odd in ["", "-1", "+1", "1e3", "NaN", "."] {
            assert!(price(odd).is_err(), "{odd}");
        }
    }
}
