//! Content of the Secret: the shown certificate, the next one, and all authorities to trust. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::issue::Issued;
use crate::serve::Pem;

/// The shown certificate and key, named as in a Secret of type kubernetes.io/tls.
const SHOWN: (&str, &str) = ("tls.crt", "tls.key");
/// The next certificate and its key.
const NEXT: (&str, &str) = ("next.crt", "next.key");
/// Authorities that API servers have to trust.
const AUTHORITIES: &str = "ca.crt";

/// A certificate is renewed when this fraction (1/n) of its lifetime is left.
const RENEWED_AT: u32 = 3;

/// A certificate in the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) pem: Pem,
    begins: Timestamp,
    ends: Timestamp,
    names: Vec<String>,
}

/// A trusted authority.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Authority {
    pem: String,
    ends: Timestamp,
}

/// Content of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    shown: Option<Certificate>,
    next: Option<Certificate>,
    authorities: Vec<Authority>,
}

/// Next step of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Everything is in order.
    Nothing,
    /// There is no valid certificate: make one, and show it at once.
    Begin,
    /// The shown certificate expires soon: make the next, and have its authority trusted.
    Prepare,
    /// The next authority is trusted: show the next certificate.
    Swap,
}

impl Certificate {
    /// None: the certificate cannot be read, or the key does not belong to it.
    fn read(pem: Pem) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(&pem.certificate).ok()?;
        let key = PrivateKeyDer::from_pem_slice(&pem.key).ok()?;
        CertifiedKey::from_der(vec![der.clone()], key, &ring::default_provider()).ok()?;
        let (_, read) = X509Certificate::from_der(&der).ok()?;
        let names = read.subject_alternative_name().ok().flatten();
        let names = names.map(|names| &names.value.general_names);
        let names = names.into_iter().flatten().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => address(bytes),
            _ => None,
        });
        Some(Self {
            begins: time(read.validity().not_before.timestamp())?,
            ends: time(read.validity().not_after.timestamp())?,
            names: names.collect(),
            pem,
        })
    }

    /// True if one of these authorities has signed the certificate. Otherwise clients cannot trust
    /// it.
    fn is_known_to(&self, authorities: &[Authority]) -> bool {
        let has_signed = |authority: &Authority| {
            let der = CertificateDer::from_pem_slice(&self.pem.certificate).ok()?;
            let (_, read) = X509Certificate::from_der(&der).ok()?;
            let der = CertificateDer::from_pem_slice(authority.pem.as_bytes()).ok()?;
            let (_, authority) = X509Certificate::from_der(&der).ok()?;
            let signed = read.verify_signature(Some(authority.public_key()));
            Some(read.issuer() == authority.subject() && signed.is_ok())
        };
        let mut all = authorities.iter();
        all.any(|authority| has_signed(authority).unwrap_or_default())
    }

    fn is_for(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.names.contains(name))
    }

    fn has_ended(&self, now: Timestamp) -> bool {
        self.ends <= now
    }

    /// Time from the start to the end of its validity.
    fn lifetime(&self) -> Duration {
        let whole = self.ends.duration_since(self.begins);
        Duration::try_from(whole).unwrap_or_default()
    }

    fn is_old(&self, now: Timestamp) -> bool {
        let left = Duration::try_from(self.ends.duration_since(now)).unwrap_or_default();
        left < self.lifetime().checked_div(RENEWED_AT).unwrap_or_default()
    }
}

fn time(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

fn address(bytes: &[u8]) -> Option<String> {
    let four = <[u8; 4]>::try_from(bytes).map(std::net::IpAddr::from);
    let address = four.or_else(|_| <[u8; 16]>::try_from(bytes).map(std::net::IpAddr::from));
    Some(address.ok()?.to_string())
}

impl Kept {
    /// Reads the data of the Secret. A damaged certificate counts as missing. So does one without
    /// its key or without the authority that signed it.
    pub(super) fn read(data: &BTreeMap<String, ByteString>) -> Self {
        let field = |name: &str| data.get(name).map(|bytes| bytes.0.clone());
        let authorities = field(AUTHORITIES).unwrap_or_default();
        let authorities = split(&String::from_utf8_lossy(&authorities));
        let certificate = |(certificate, key): (&str, &str)| {
            let read = Certificate::read(Pem {
                certificate: field(certificate)?,
                key: field(key)?,
            });
            read.filter(|read| read.is_known_to(&authorities))
        };
        Self {
            shown: certificate(SHOWN),
            next: certificate(NEXT),
            authorities,
        }
    }

    /// Writes the content to the data of the Secret. Other data stay.
    pub(super) fn write(&self, data: &mut BTreeMap<String, ByteString>) {
        let mut put = |(certificate, key): (&str, &str), kept: Option<&Certificate>| {
            for (name, bytes) in [
                (certificate, kept.map(|kept| &kept.pem.certificate)),
                (key, kept.map(|kept| &kept.pem.key)),
            ] {
                match bytes {
                    Some(bytes) => data.insert(name.to_owned(), ByteString(bytes.clone())),
                    None => data.remove(name),
                };
            }
        };
        put(SHOWN, self.shown.as_ref());
        put(NEXT, self.next.as_ref());
        let trusted = ByteString(self.trusted().into_bytes());
        data.insert(AUTHORITIES.to_owned(), trusted);
    }

    /// The shown certificate, if there is one.
    pub(super) fn shown(&self) -> Option<&Certificate> {
        self.shown.as_ref()
    }

    /// Authorities that API servers have to trust, as PEM.
    pub(super) fn trusted(&self) -> String {
        self.authorities.iter().map(|a| a.pem.as_str()).collect()
    }

    /// How long API servers must have trusted all authorities before the next certificate is shown.
    pub(super) fn settles_in(&self) -> Duration {
        let lifetime = self.shown.as_ref().map(Certificate::lifetime);
        let share = lifetime.unwrap_or_default().checked_div(30);
        share
            .unwrap_or_default()
            .clamp(Duration::from_secs(1), Duration::from_secs(60))
    }

    /// The next step, if API servers have trusted all authorities for so long. None: they do not
    /// trust them yet.
    pub(super) fn step(
        &self,
        names: &[String],
        now: Timestamp,
        trusted_for: Option<Duration>,
    ) -> Step {
        let is_good = |c: &&Certificate| !c.has_ended(now) && c.is_for(names);
        let next = self.next.as_ref().filter(is_good);
        let Some(shown) = self.shown.as_ref().filter(|c| !c.has_ended(now)) else {
            return if next.is_some() {
                Step::Swap
            } else {
                Step::Begin
            };
        };
        if next.is_some() {
            let is_settled = trusted_for.is_some_and(|so_long| so_long >= self.settles_in());
            return if is_settled {
                Step::Swap
            } else {
                Step::Nothing
            };
        }
        if shown.is_old(now) || !shown.is_for(names) {
            Step::Prepare
        } else {
            Step::Nothing
        }
    }

    /// Shows the issued certificate from now on.
    pub(super) fn begin(&mut self, issued: Issued, now: Timestamp) {
        self.shown = Certificate::read(issued.pem);
        self.next = None;
        self.trust(&issued.authority, now);
    }

    /// Stores the issued certificate as the next one.
    pub(super) fn prepare(&mut self, issued: Issued, now: Timestamp) {
        self.next = Certificate::read(issued.pem);
        self.trust(&issued.authority, now);
    }

    /// Shows the next certificate from now on. Other replicas may show the previous one for a
    /// while, so its authority stays until it expires.
    pub(super) fn swap(&mut self, now: Timestamp) {
        if let Some(next) = self.next.take() {
            self.shown = Some(next);
        }
        self.authorities.retain(|authority| authority.ends > now);
    }

    fn trust(&mut self, authority: &str, now: Timestamp) {
        self.authorities.retain(|authority| authority.ends > now);
        self.authorities.extend(split(authority));
    }
}

/// Splits a text into authorities. API servers refuse a list with a damaged one, so damaged ones
/// are left out.
fn split(text: &str) -> Vec<Authority> {
    const END: &str = "-----END CERTIFICATE-----";
    let parts = text.split_inclusive(END).filter(|part| part.ends_with(END));
    let read = parts.filter_map(|part| {
        let pem = format!("{}\n", part.trim_start());
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        let (_, read) = X509Certificate::from_der(&der).ok()?;
        read.verify_signature(None).ok()?;
        // The signature does not cover the whole file, so the rest is parsed as well.
        ParsedCertificate::try_from(&der).ok()?;
        let ends = time(read.validity().not_after.timestamp())?;
        Some(Authority { pem, ends })
    });
    read.collect()
}

#[cfg(test)]
mod tests;
