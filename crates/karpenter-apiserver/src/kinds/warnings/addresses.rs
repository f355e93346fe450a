//! Addresses that are understood but should be written in another way.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address, and whether everybody reads it alike.
fn read(text: &str) -> Option<(IpAddr, bool)> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some(match address.to_ipv4_mapped() {
            Some(inner) => (inner.into(), false),
            None => (address.into(), true),
        });
    }
    // Leading zeros once meant nothing and mean octal numbers to some.
    let parts: Option<Vec<u8>> = text.split('.').map(|part| part.parse().ok()).collect();
    let parts: [u8; 4] = parts?.try_into().ok()?;
    Some((Ipv4Addr::from(parts).into(), text.parse::<Ipv4Addr>().is_ok()))
}

/// Returns what is odd about an address.
pub(super) fn address(path: &str, text: &str) -> Option<String> {
    let (address, plain) = read(text)?;
    let shown = address.to_string();
    if !plain {
        return Some(format!("{path}: non-standard IP address {text:?} is invalid: use {shown:?}"));
    }
    (address.is_ipv6() && shown != text)
        .then(|| format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format ({shown:?})"))
}

/// Returns what is odd about a range of addresses.
pub(super) fn range(path: &str, text: &str) -> Vec<String> {
    let Some((address, bits)) = text.split_once('/') else { return Vec::new() };
    let (Some((address, plain)), Ok(bits)) = (read(address), bits.parse::<u32>()) else { return Vec::new() };
    let (network, width): (IpAddr, u32) = match address {
        IpAddr::V4(address) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            (Ipv4Addr::from(u32::from(address) & mask).into(), 32)
        }
        IpAddr::V6(address) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            (Ipv6Addr::from(u128::from(address) & mask).into(), 128)
        }
        _ => return Vec::new(),
    };
    let mut odd = Vec::new();
    if network != address {
        odd.push(format!(
            "{path}: CIDR value {text:?} is ambiguous in this context (should be \"{network}/{bits}\" or \
             \"{address}/{width}\"?)"
        ));
    }
    if !plain {
        odd.push(format!("{path}: non-standard CIDR value {text:?} is invalid: use \"{network}/{bits}\""));
    }
    let shown = format!("{address}/{bits}");
    if odd.is_empty() && address.is_ipv6() && shown != text {
        odd.push(format!(
            "{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({shown:?})"
        ));
    }
    odd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_may_read_differently_is_odd() {
        assert_eq!(address("ip", "10.0.0.1"), None);
        assert_eq!(address("ip", "a"), None);
        let octal = address("ip", "010.0.0.1").unwrap();
        assert_eq!(octal, "ip: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"");
        assert!(address("ip", "::ffff:10.0.0.1").unwrap().ends_with("use \"10.0.0.1\""));
        assert!(address("ip", "2001:DB8::1").unwrap().ends_with("(\"2001:db8::1\")"));
        assert!(range("cidr", "10.0.0.0/8").is_empty());
        let inside = "cidr: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \
                      \"10.0.0.1/32\"?)";
        assert_eq!(range("cidr", "10.0.0.1/8"), [inside]);
    }
}
