//! Whom a client certificate names: the common name is the user, organizations are groups.
//!
//! The TLS library has verified the certificate against the authority; here only its subject is read, by walking the
//! DER elements on the way to it.

use std::fmt::Write as _;

use ring::digest;

use super::{AUTHENTICATED, CREDENTIAL, User};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const EXPLICIT_VERSION: u8 = 0xa0;
/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.4.10.
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// Returns the user of a certificate in DER; `None` when it names nobody.
pub(crate) fn subject_user(certificate: &[u8]) -> Option<User> {
    let mut signed = element(&mut { certificate }, SEQUENCE)?;
    let mut body = element(&mut signed, SEQUENCE)?;
    if body.first() == Some(&EXPLICIT_VERSION) {
        any(&mut body)?;
    }
    // Serial number, signature algorithm, issuer and validity come before the subject.
    for _ in 0..4 {
        any(&mut body)?;
    }
    let mut subject = element(&mut body, SEQUENCE)?;
    let mut user = User::default();
    while !subject.is_empty() {
        let mut attributes = element(&mut subject, SET)?;
        while !attributes.is_empty() {
            let mut attribute = element(&mut attributes, SEQUENCE)?;
            let kind = element(&mut attribute, OBJECT_IDENTIFIER)?;
            let (_, value) = any(&mut attribute)?;
            let value = std::str::from_utf8(value).ok()?.to_owned();
            match kind {
                COMMON_NAME => user.name = value,
                ORGANIZATION => user.groups.push(value),
                _ => {}
            }
        }
    }
    user.groups.push(AUTHENTICATED.to_owned());
    let fingerprint = digest::digest(&digest::SHA256, certificate);
    let fingerprint = fingerprint.as_ref().iter().fold(String::from("X509SHA256="), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    user.extra.insert(CREDENTIAL.to_owned(), vec![fingerprint]);
    (!user.name.is_empty()).then_some(user)
}

/// Takes the next element, which must have this tag, and returns its content.
fn element<'d>(rest: &mut &'d [u8], tag: u8) -> Option<&'d [u8]> {
    any(rest).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}

/// Takes the next element and returns its tag and content.
fn any<'d>(rest: &mut &'d [u8]) -> Option<(u8, &'d [u8])> {
    let (tag, after) = rest.split_first()?;
    let (first, mut after) = after.split_first()?;
    let mut length = usize::from(*first);
    if *first >= 0x80 {
        let (bytes, tail) =
            after.split_at_checked(usize::from(first & 0x7f)).filter(|(b, _)| b.len() <= 4)?;
        length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        after = tail;
    }
    let (content, tail) = after.split_at_checked(length)?;
    *rest = tail;
    Some((*tag, content))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    #[test]
    fn the_common_name_is_the_user_and_organizations_are_groups() {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, "jane");
        parameters.distinguished_name.push(DnType::OrganizationName, "dev");
        let certificate = parameters.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let user = subject_user(certificate.der()).unwrap();
        assert_eq!(user.name, "jane");
        assert_eq!(user.groups, ["dev", "system:authenticated"]);
        assert!(user.extra[CREDENTIAL][0].starts_with("X509SHA256="));
    }

    #[test]
    fn damaged_certificates_name_nobody() {
        assert_eq!(subject_user(b""), None);
        assert_eq!(subject_user(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0x00]), None);
    }
}
