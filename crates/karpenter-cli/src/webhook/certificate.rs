//! The certificate: made here, valid for three months, renewed when a third of that is left.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context as _, anyhow};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// How long a certificate is valid.
const LIFE: SignedDuration = SignedDuration::from_hours(24 * 90);
/// How much of it must be left.
const RENEW_BELOW: SignedDuration = SignedDuration::from_hours(24 * 30);
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// A certificate as the Secret keeps it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) own_pem: String,
    key_pem: String,
    /// What the API server is to trust: this certificate, and the one before it while that is valid.
    pub(super) bundle_pem: String,
    names: String,
    expires: Timestamp,
}

impl Certificate {
    /// Makes a certificate for `names`; whoever trusts the one before it goes on to do so.
    pub(super) fn generate(names: &[String], before: Option<&Self>, now: Timestamp) -> anyhow::Result<Self> {
        let mut parameters = CertificateParams::new(names.to_vec()).context("naming the certificate")?;
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, "karpenter webhook");
        parameters.distinguished_name = name;
        // Its own authority: there is nobody else who could vouch for it.
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let expires = now.checked_add(LIFE).context("dating the certificate")?;
        let (year, month, day) = date(now.checked_sub(DAY).unwrap_or(now));
        parameters.not_before = rcgen::date_time_ymd(year, month, day);
        let (year, month, day) = date(expires);
        parameters.not_after = rcgen::date_time_ymd(year, month, day);
        let key = KeyPair::generate().context("making a key")?;
        let own_pem = parameters.self_signed(&key).context("signing the certificate")?.pem();
        let still_trusted = before.filter(|before| before.expires > now);
        let bundle_pem = own_pem.clone() + still_trusted.map(|before| &*before.own_pem).unwrap_or_default();
        let key_pem = key.serialize_pem();
        Ok(Self { own_pem, key_pem, bundle_pem, names: names.join(","), expires })
    }

    /// Whether it is for these names and will be valid for long enough.
    pub(super) fn is_good(&self, names: &[String], now: Timestamp) -> bool {
        self.names == names.join(",") && self.expires.duration_since(now) > RENEW_BELOW
    }

    /// What a Secret keeps of it.
    pub(super) fn data(&self) -> BTreeMap<String, ByteString> {
        let expires = self.expires.to_string();
        let fields = [
            ("tls.crt", &self.own_pem),
            ("tls.key", &self.key_pem),
            ("ca.crt", &self.bundle_pem),
            ("names", &self.names),
            ("expires", &expires),
        ];
        fields
            .into_iter()
            .map(|(name, text)| (name.to_owned(), ByteString(text.clone().into_bytes())))
            .collect()
    }

    /// The certificate that a Secret keeps; none if it keeps something else.
    pub(super) fn kept(data: &BTreeMap<String, ByteString>) -> Option<Self> {
        let text = |name: &str| String::from_utf8(data.get(name)?.0.clone()).ok();
        Some(Self {
            own_pem: text("tls.crt")?,
            key_pem: text("tls.key")?,
            bundle_pem: text("ca.crt")?,
            names: text("names")?,
            expires: text("expires")?.parse().ok()?,
        })
    }

    fn certified(&self) -> anyhow::Result<CertifiedKey> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(self.own_pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| anyhow!("the certificate is no PEM: {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes())
            .map_err(|error| anyhow!("the key is no PEM: {error}"))?;
        Ok(CertifiedKey::new(chain, any_supported_type(&key).context("using the key")?))
    }
}

fn date(time: Timestamp) -> (i32, u8, u8) {
    let date = TimeZone::UTC.to_datetime(time).date();
    (i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
}

/// The certificate that clients are shown; it can be changed while they come.
#[derive(Default)]
pub(super) struct Shown {
    now: RwLock<Option<(Certificate, Arc<CertifiedKey>)>>,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key stays out of logs.
        f.write_str("Shown")
    }
}

impl Shown {
    /// Shows this certificate from now on.
    pub(super) fn show(&self, certificate: &Certificate) -> anyhow::Result<()> {
        let known = self.now.read().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_some_and(|(shown, _)| shown == certificate) {
            return Ok(());
        }
        drop(known);
        let certified = Arc::new(certificate.certified()?);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Some((certificate.clone(), certified));
        Ok(())
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.now.read().unwrap_or_else(PoisonError::into_inner);
        shown.as_ref().map(|(_, certified)| Arc::clone(certified))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_certificate_is_renewed_in_time_and_the_old_one_stays_trusted_until_it_ends() {
        let names = vec!["karpenter-webhook.karpenter.svc".to_owned()];
        let first = Certificate::generate(&names, None, at("2026-01-01T00:00:00Z")).unwrap();
        assert!(first.is_good(&names, at("2026-02-28T00:00:00Z")));
        assert!(!first.is_good(&names, at("2026-03-05T00:00:00Z")));
        assert!(!first.is_good(&["other".to_owned()], at("2026-01-02T00:00:00Z")));
        let second = Certificate::generate(&names, Some(&first), at("2026-03-05T00:00:00Z")).unwrap();
        assert_eq!(second.bundle_pem, format!("{}{}", second.own_pem, first.own_pem));
        let third = Certificate::generate(&names, Some(&second), at("2027-01-01T00:00:00Z")).unwrap();
        assert_eq!(third.bundle_pem, third.own_pem);
    }

    #[test]
    fn what_a_secret_keeps_is_what_was_put_there() {
        let names = vec!["a".to_owned(), "127.0.0.1".to_owned()];
        let made = Certificate::generate(&names, None, at("2026-01-01T00:00:00Z")).unwrap();
        let kept = Certificate::kept(&made.data()).unwrap();
        assert!(kept == made);
        assert!(kept.certified().is_ok());
        assert!(Certificate::kept(&BTreeMap::new()).is_none());
        let shown = Shown::default();
        shown.show(&kept).unwrap();
        assert!(!format!("{shown:?}").contains("PRIVATE"));
    }
}
