//! Client certificates: asked for, never demanded, and judged after the handshake.
//!
//! Kubernetes answers a certificate it does not trust with 401 rather than with a broken connection, so the
//! handshake takes any certificate and [`ClientCertificates::peer`] says what it is worth.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

use super::IdentityError;
use crate::authentication::{Peer, subject_user};

/// Takes every client certificate during the handshake and knows which ones the authority signed.
#[derive(Debug)]
pub(super) struct ClientCertificates {
    trusted: Arc<dyn ClientCertVerifier>,
}

impl ClientCertificates {
    /// Trusts certificates that `authority` signed.
    pub(super) fn new(
        authority: CertificateDer<'static>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, IdentityError> {
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let trusted = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Self { trusted })
    }

    /// Says who is at the other end of a connection.
    pub(super) fn peer(&self, chain: Option<&[CertificateDer<'_>]>) -> Peer {
        let Some((first, intermediates)) = chain.and_then(<[_]>::split_first) else { return Peer::Unknown };
        match self.trusted.verify_client_cert(first, intermediates, UnixTime::now()) {
            Ok(_) => subject_user(first).map_or(Peer::Refused, Peer::User),
            Err(_) => Peer::Refused,
        }
    }
}

impl ClientCertVerifier for ClientCertificates {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.trusted.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.trusted.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.trusted.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trusted.supported_verify_schemes()
    }
}
