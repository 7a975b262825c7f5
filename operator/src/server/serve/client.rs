//! Certificates that clients show. A connection proves that its client has the key of what it
//! shows, and no more: whether the certificate is worth anything is asked with each request, by
//! whom it concerns, so that who is trusted may change while a connection lives, and who shows
//! one of no worth may still bear a token.

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

/// Certificates that a client may show at most: its own, and what leads from it to an authority.
/// Each more is work for whoever looks where they lead, and anybody may show any.
const MOST: usize = 4;

/// What the client of a connection has shown: its own certificate first. Empty: nothing.
#[derive(Clone, Debug)]
pub struct Shown {
    certificates: Arc<[CertificateDer<'static>]>,
    /// Where it is.
    address: IpAddr,
    /// What was found of them last.
    found: Arc<Mutex<Option<Found>>>,
}

/// What somebody has found of certificates.
#[derive(Clone, Debug)]
pub struct Found {
    /// Who: another asks anew.
    pub by: u64,
    /// From when it holds.
    pub from: UnixTime,
    /// Until when.
    pub until: UnixTime,
    /// They are good, or why not.
    pub verdict: Result<(), String>,
}

/// Nothing, from nowhere.
impl Default for Shown {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Shown {
    /// What a handshake has shown. More than is of use is nothing.
    #[must_use]
    pub fn new(certificates: Option<&[CertificateDer<'static>]>) -> Self {
        let shown = certificates.filter(|shown| shown.len() <= MOST);
        Self {
            certificates: shown.unwrap_or_default().into(),
            address: Ipv4Addr::UNSPECIFIED.into(),
            found: Arc::default(),
        }
    }

    /// The same from that address.
    #[must_use]
    pub fn at(self, address: IpAddr) -> Self {
        Self { address, ..self }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// What is found of them by somebody: looked for once a connection, and again when it does
    /// not hold any more. None: nothing is shown.
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
