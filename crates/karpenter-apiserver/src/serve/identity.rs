//! Certificates made on the spot: an authority of its own, and what it signs for the server and for clients.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::clients::ClientCertificates;
use crate::data_dir::{DataDir, DataDirError};

/// The file in a data directory with the key of the authority.
const AUTHORITY_KEY: &str = "authority.key";

/// A certificate could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Making it failed.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library refused it.
    #[error("cannot use the certificate: {0}")]
    Tls(#[from] rustls::Error),
    /// The data directory does not keep the authority's key.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// What the data directory keeps is not the authority's key.
    #[error("{} is no private key ({error}): remove it to have a new one made, and hand out new kubeconfigs", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: rcgen::Error,
    },
}

/// The authority clients trust and the certificate the server shows.
pub struct Identity {
    authority: CertifiedIssuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

/// A client's certificate and its key.
#[derive(Debug, Clone)]
pub struct ClientIdentity {
    /// The certificate in PEM.
    pub certificate_pem: String,
    /// The private key in PEM.
    pub key_pem: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The keys stay out of logs.
        formatter.debug_struct("Identity").field("authority", &self.authority.pem()).finish_non_exhaustive()
    }
}

impl Identity {
    /// Makes an authority and a certificate for `names`, which may be DNS names and IP addresses.
    ///
    /// # Errors
    /// Returns why a certificate cannot be made, for example because a name is malformed.
    pub fn generate(names: &[String]) -> Result<Self, IdentityError> {
        Self::of(KeyPair::generate()?, names)
    }

    /// Makes a certificate for `names` that is signed by the authority of a data directory.
    ///
    /// Whoever trusts the authority from an earlier start trusts this certificate: it has the same name and key.
    ///
    /// # Errors
    /// Returns why the authority's key cannot be kept, or a certificate cannot be made.
    pub fn kept(data_dir: &DataDir, names: &[String]) -> Result<Self, IdentityError> {
        let new = KeyPair::generate()?.serialize_pem();
        let kept = data_dir.secret(AUTHORITY_KEY, || new.into_bytes())?;
        let key = KeyPair::from_pem(&String::from_utf8_lossy(&kept))
            .map_err(|error| IdentityError::Key { path: data_dir.path().join(AUTHORITY_KEY), error })?;
        Self::of(key, names)
    }

    fn of(authority_key: KeyPair, names: &[String]) -> Result<Self, IdentityError> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name = common_name("karpenter embedded authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(authority, authority_key)?;
        let mut server = CertificateParams::new(names.to_vec())?;
        server.distinguished_name = common_name("karpenter embedded apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &authority)?;
        Ok(Self { authority, certificate: certificate.der().clone(), key: key.serialize_der() })
    }

    /// Returns the authority's certificate in PEM.
    pub fn authority_pem(&self) -> String {
        self.authority.pem()
    }

    /// Makes a certificate that shows its holder as `user`, a member of `group`.
    ///
    /// # Errors
    /// Returns why a certificate cannot be made.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<ClientIdentity, IdentityError> {
        let mut client = CertificateParams::default();
        client.distinguished_name = common_name(user);
        if let Some(group) = group {
            client.distinguished_name.push(DnType::OrganizationName, group);
        }
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = client.signed_by(&key, &self.authority)?;
        Ok(ClientIdentity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    /// Returns what judges the certificates of clients.
    pub(super) fn client_certificates(&self) -> Result<ClientCertificates, IdentityError> {
        ClientCertificates::new(self.authority.der().clone(), provider())
    }

    /// Builds the TLS settings of the server.
    pub(super) fn server_config(
        &self,
        clients: Arc<ClientCertificates>,
    ) -> Result<ServerConfig, IdentityError> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![self.certificate.clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
