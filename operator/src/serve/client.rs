//! Certificates that clients show. A connection proves that its client has the key of what it
//! shows, and no more: whether the certificate is worth anything is asked with each request, by
//! whom it concerns, so that who is trusted may change while a connection lives, and who shows
//! one of no worth may still bear a token.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// What the client of a connection has shown: its own certificate first. Empty: nothing.
#[derive(Clone, Debug, Default)]
pub struct Shown(Arc<[CertificateDer<'static>]>);

impl Shown {
    /// What a handshake has shown.
    #[must_use]
    pub fn new(certificates: Option<&[CertificateDer<'static>]>) -> Self {
        Self(certificates.unwrap_or_default().into())
    }

    /// The client's own, and those that lead from it to one that is trusted.
    #[must_use]
    pub fn split(&self) -> Option<(&CertificateDer<'static>, &[CertificateDer<'static>])> {
        self.0.split_first()
    }
}

/// Asks for a certificate, takes whichever comes, and holds its bearer to the key.
#[derive(Debug)]
pub(super) struct Whoever(WebPkiSupportedAlgorithms);

impl Whoever {
    pub(super) fn new() -> Arc<Self> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        Arc::new(Self(algorithms))
    }
}

impl ClientCertVerifier for Whoever {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None: a client is to show what it has.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
