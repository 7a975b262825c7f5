//! Client certificates. A TLS connection proves that the client holds the key of its certificate,
//! and no more. Each request decides by itself whether the certificate is trusted. So the trust may
//! change during a connection, and a client with a worthless certificate can still use a token.

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

/// Certificates that a client may present at most: its own and its chain. Each one costs work to
/// verify, and any client can present any.
const MOST: usize = 4;

/// The certificate chain that the client of a connection presented, its own first. Empty: none.
#[derive(Clone, Debug)]
pub struct Shown {
    certificates: Arc<[CertificateDer<'static>]>,
    /// Address of the client.
    address: IpAddr,
    /// The last verification.
    found: Arc<Mutex<Option<Found>>>,
}

/// Result of a verification of the certificates.
#[derive(Clone, Debug)]
pub struct Found {
    /// Id of the verifier. Another verifier verifies anew.
    pub by: u64,
    /// Time from which the result holds.
    pub from: UnixTime,
    /// Time until which the result holds.
    pub until: UnixTime,
    /// Ok, or why the certificates are rejected.
    pub verdict: Result<(), String>,
}

/// No certificates and no address.
impl Default for Shown {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Shown {
    /// The chain of a handshake. One that is too long counts as none.
    #[must_use]
    pub fn new(certificates: Option<&[CertificateDer<'static>]>) -> Self {
        let shown = certificates.filter(|shown| shown.len() <= MOST);
        Self {
            certificates: shown.unwrap_or_default().into(),
            address: Ipv4Addr::UNSPECIFIED.into(),
            found: Arc::default(),
        }
    }

    /// The same chain from that address.
    #[must_use]
    pub fn at(self, address: IpAddr) -> Self {
        Self { address, ..self }
    }

    /// Address of the client.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The verification by one verifier. It runs once per connection, and again when its result no
    /// longer holds. None: no certificate was presented.
    pub fn found(
        &self,
        by: u64,
        now: UnixTime,
        look: impl FnOnce(&CertificateDer<'static>, &[CertificateDer<'static>]) -> Found,
    ) -> Option<Result<(), String>> {
        let (own, others) = self.certificates.split_first()?;
        let mut last = self.found.lock();
        let holds = |found: &&Found| found.by == by && found.from <= now && now <= found.until;
        if let Some(found) = last.as_ref().filter(holds) {
            return Some(found.verdict.clone());
        }
        let found = last.insert(look(own, others));
        Some(found.verdict.clone())
    }
}

/// Asks for a client certificate and accepts any, but verifies that the client holds its key.
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

    /// No hints, so that the client presents any certificate that it has.
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

    fn shown(count: usize) -> Shown {
        let certificate = CertificateDer::from(vec![0]);
        Shown::new(Some(&vec![certificate; count]))
    }

    #[test]
    fn a_chain_that_is_too_long_is_none() {
        let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1));
        let good = |_: &_, _: &[_]| Found {
            by: 1,
            from: at,
            until: at,
            verdict: Ok(()),
        };
        assert_eq!(shown(0).found(1, at, good), None);
        assert_eq!(shown(MOST).found(1, at, good), Some(Ok(())));
        assert_eq!(shown(MOST + 1).found(1, at, good), None);
        assert_eq!(shown(200).found(1, at, good), None);
    }
}
