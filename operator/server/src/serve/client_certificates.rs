//! Client certificates. A TLS connection only proves that the client holds the key of its
//! certificate. Each request decides anew whether the certificate is trusted. So the trust may
//! change during a connection, and a client with an untrusted certificate can still use a token.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Largest number of certificates that a client may present: its own and its chain. Each costs work
/// to verify, and any client can send any certificates.
const MAX_CHAIN_LENGTH: usize = 4;

/// The certificate chain that the client of a connection presented, its own first. Empty: none.
#[derive(Clone, Debug)]
pub struct ClientCertificates {
    certificates: Arc<[CertificateDer<'static>]>,
    /// Address of the client.
    address: IpAddr,
    /// The last verification.
    verification: Arc<Mutex<Option<Verification>>>,
}

/// Result of a verification of the certificates.
#[derive(Clone, Debug)]
pub struct Verification {
    /// Id of the verifier. Another verifier does not use this result.
    pub verifier_id: u64,
    /// Time from which the result holds.
    pub valid_from: UnixTime,
    /// Time until which the result holds.
    pub valid_until: UnixTime,
    /// Ok, or why the certificates are rejected.
    pub verdict: Result<(), String>,
}

/// No certificates and no address.
impl Default for ClientCertificates {
    fn default() -> Self {
        Self::new(None)
    }
}

impl ClientCertificates {
    /// Returns the chain of a handshake. A chain that is too long counts as none.
    #[must_use]
    pub fn new(certificates: Option<&[CertificateDer<'static>]>) -> Self {
        let chain = certificates.filter(|chain| chain.len() <= MAX_CHAIN_LENGTH);
        Self {
            certificates: chain.unwrap_or_default().into(),
            address: Ipv4Addr::UNSPECIFIED.into(),
            verification: Arc::default(),
        }
    }

    /// Returns the same chain with this client address.
    #[must_use]
    pub(crate) fn with_address(self, address: IpAddr) -> Self {
        Self { address, ..self }
    }

    /// Address of the client.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the verification by one verifier. Verifies once per connection, and again when the
    /// result no longer holds. None: the client presented no certificate.
    pub(crate) fn verify_once(
        &self,
        verifier_id: u64,
        now: UnixTime,
        verify: impl FnOnce(&CertificateDer<'static>, &[CertificateDer<'static>]) -> Verification,
    ) -> Option<Result<(), String>> {
        let (own, others) = self.certificates.split_first()?;
        let mut last = self.verification.lock();
        let is_current = |verification: &&Verification| {
            verification.verifier_id == verifier_id
                && verification.valid_from <= now
                && now <= verification.valid_until
        };
        if let Some(verification) = last.as_ref().filter(is_current) {
            return Some(verification.verdict.clone());
        }
        let verification = last.insert(verify(own, others));
        Some(verification.verdict.clone())
    }
}

/// Asks for a client certificate and accepts any, but verifies that the client holds its key.
#[derive(Debug)]
pub(super) struct AnyClientVerifier(WebPkiSupportedAlgorithms);

impl AnyClientVerifier {
    pub(super) fn new() -> Arc<Self> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        Arc::new(Self(algorithms))
    }
}

impl ClientCertVerifier for AnyClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// Gives no hints, so that the client presents any certificate that it has.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chain_of(count: usize) -> ClientCertificates {
        let certificate = CertificateDer::from(vec![0]);
        ClientCertificates::new(Some(&vec![certificate; count]))
    }

    #[test]
    fn too_long_chain_counts_as_no_certificate() {
        let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1));
        let valid = |_: &_, _: &[_]| Verification {
            verifier_id: 1,
            valid_from: at,
            valid_until: at,
            verdict: Ok(()),
        };
        assert_eq!(chain_of(0).verify_once(1, at, valid), None);
        assert_eq!(
            chain_of(MAX_CHAIN_LENGTH).verify_once(1, at, valid),
            Some(Ok(()))
        );
        assert_eq!(
            chain_of(MAX_CHAIN_LENGTH + 1).verify_once(1, at, valid),
            None
        );
        assert_eq!(chain_of(200).verify_once(1, at, valid), None);
    }
}
