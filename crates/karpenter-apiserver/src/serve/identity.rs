//! Certificates made on the spot: an authority of its own and a server certificate signed by it.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Making it failed.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library refused it.
    #[error("cannot use the certificate: {0}")]
    Tls(#[from] rustls::Error),
}

/// The authority clients trust and the certificate the server shows.
#[derive(Debug)]
pub struct Identity {
    authority_pem: String,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    /// Makes an authority and a certificate for `names`, which may be DNS names and IP addresses.
    ///
    /// # Errors
    /// Returns why a certificate cannot be made, for example because a name is malformed.
    pub fn generate(names: &[String]) -> Result<Self, IdentityError> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name = common_name("karpenter embedded authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut server = CertificateParams::new(names.to_vec())?;
        server.distinguished_name = common_name("karpenter embedded apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &authority)?;
        Ok(Self {
            authority_pem: authority.pem(),
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
        })
    }

    /// Returns the authority's certificate in PEM.
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// Builds the TLS settings of the server.
    pub(super) fn server_config(&self) -> Result<ServerConfig, IdentityError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
