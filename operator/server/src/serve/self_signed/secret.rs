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

use super::issue::IssuedCertificate;
use crate::serve::Pem;

/// The shown certificate and key, named as in a Secret of type kubernetes.io/tls.
const CURRENT: (&str, &str) = ("tls.crt", "tls.key");
/// The next certificate and its key.
const NEXT: (&str, &str) = ("next.crt", "next.key");
/// Authorities that API servers have to trust.
const AUTHORITIES: &str = "ca.crt";

/// A certificate is renewed when this fraction (1/n) of its lifetime is left.
const RENEWAL_FRACTION: u32 = 3;

/// A certificate in the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredCertificate {
    pub(super) pem: Pem,
    not_before: Timestamp,
    not_after: Timestamp,
    names: Vec<String>,
}

/// A trusted authority.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TrustedAuthority {
    pem: String,
    not_after: Timestamp,
}

/// Content of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CertificateSecret {
    current: Option<StoredCertificate>,
    next: Option<StoredCertificate>,
    authorities: Vec<TrustedAuthority>,
}

/// Next step of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RenewalStep {
    /// Nothing to do.
    Nothing,
    /// There is no valid certificate: make one, and show it at once.
    Begin,
    /// The shown certificate expires soon: make the next one, and publish its authority.
    Prepare,
    /// The next authority is trusted: show the next certificate.
    Swap,
}

impl StoredCertificate {
    /// Parses the certificate. None: it cannot be read, or the key does not belong to it.
    fn parse(pem: Pem) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(&pem.certificate).ok()?;
        let key = PrivateKeyDer::from_pem_slice(&pem.key).ok()?;
        CertifiedKey::from_der(vec![der.clone()], key, &ring::default_provider()).ok()?;
        let (_, read) = X509Certificate::from_der(&der).ok()?;
        let names = read.subject_alternative_name().ok().flatten();
        let names = names.map(|names| &names.value.general_names);
        let names = names.into_iter().flatten().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => format_address(bytes),
            _ => None,
        });
        Some(Self {
            not_before: to_timestamp(read.validity().not_before.timestamp())?,
            not_after: to_timestamp(read.validity().not_after.timestamp())?,
            names: names.collect(),
            pem,
        })
    }

    /// Returns true if one of these authorities has signed the certificate. Otherwise clients
    /// cannot trust it.
    fn is_signed_by(&self, authorities: &[TrustedAuthority]) -> bool {
        let has_signed = |authority: &TrustedAuthority| {
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

    fn covers(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.names.contains(name))
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        self.not_after <= now
    }

    /// Returns the time from the start to the end of the validity.
    fn lifetime(&self) -> Duration {
        let whole = self.not_after.duration_since(self.not_before);
        Duration::try_from(whole).unwrap_or_default()
    }

    fn is_due_for_renewal(&self, now: Timestamp) -> bool {
        let left = Duration::try_from(self.not_after.duration_since(now)).unwrap_or_default();
        left < self
            .lifetime()
            .checked_div(RENEWAL_FRACTION)
            .unwrap_or_default()
    }
}

fn to_timestamp(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

fn format_address(bytes: &[u8]) -> Option<String> {
    let four = <[u8; 4]>::try_from(bytes).map(std::net::IpAddr::from);
    let address = four.or_else(|_| <[u8; 16]>::try_from(bytes).map(std::net::IpAddr::from));
    Some(address.ok()?.to_string())
}

impl CertificateSecret {
    /// Reads the data of the Secret. A certificate counts as missing if it is damaged, or if its
    /// key or the authority that signed it is missing.
    pub(super) fn read(data: &BTreeMap<String, ByteString>) -> Self {
        let field = |name: &str| data.get(name).map(|bytes| bytes.0.clone());
        let authorities = field(AUTHORITIES).unwrap_or_default();
        let authorities = parse_authorities(&String::from_utf8_lossy(&authorities));
        let certificate = |(certificate, key): (&str, &str)| {
            let read = StoredCertificate::parse(Pem {
                certificate: field(certificate)?,
                key: field(key)?,
            });
            read.filter(|read| read.is_signed_by(&authorities))
        };
        Self {
            current: certificate(CURRENT),
            next: certificate(NEXT),
            authorities,
        }
    }

    /// Writes the content to the data of the Secret. Other data stay.
    pub(super) fn write(&self, data: &mut BTreeMap<String, ByteString>) {
        let mut put = |(certificate, key): (&str, &str), stored: Option<&StoredCertificate>| {
            for (name, bytes) in [
                (certificate, stored.map(|stored| &stored.pem.certificate)),
                (key, stored.map(|stored| &stored.pem.key)),
            ] {
                match bytes {
                    Some(bytes) => data.insert(name.to_owned(), ByteString(bytes.clone())),
                    None => data.remove(name),
                };
            }
        };
        put(CURRENT, self.current.as_ref());
        put(NEXT, self.next.as_ref());
        let trusted = ByteString(self.trust_bundle().into_bytes());
        data.insert(AUTHORITIES.to_owned(), trusted);
    }

    /// Returns the shown certificate, if there is one.
    pub(super) fn current(&self) -> Option<&StoredCertificate> {
        self.current.as_ref()
    }

    /// Authorities that API servers have to trust, as PEM.
    pub(super) fn trust_bundle(&self) -> String {
        self.authorities.iter().map(|a| a.pem.as_str()).collect()
    }

    /// Returns how long API servers must have trusted all authorities before the next certificate
    /// is shown.
    pub(super) fn settle_time(&self) -> Duration {
        let lifetime = self.current.as_ref().map(StoredCertificate::lifetime);
        let share = lifetime.unwrap_or_default().checked_div(30);
        share
            .unwrap_or_default()
            .clamp(Duration::from_secs(1), Duration::from_secs(60))
    }

    /// Returns the next step. `trusted_for`: how long API servers have trusted all authorities, or
    /// None if they do not trust them yet.
    pub(super) fn next_step(
        &self,
        names: &[String],
        now: Timestamp,
        trusted_for: Option<Duration>,
    ) -> RenewalStep {
        let is_good = |c: &&StoredCertificate| !c.has_expired(now) && c.covers(names);
        let next = self.next.as_ref().filter(is_good);
        let Some(current) = self.current.as_ref().filter(|c| !c.has_expired(now)) else {
            return if next.is_some() {
                RenewalStep::Swap
            } else {
                RenewalStep::Begin
            };
        };
        if next.is_some() {
            let is_settled = trusted_for.is_some_and(|so_long| so_long >= self.settle_time());
            return if is_settled {
                RenewalStep::Swap
            } else {
                RenewalStep::Nothing
            };
        }
        if current.is_due_for_renewal(now) || !current.covers(names) {
            RenewalStep::Prepare
        } else {
            RenewalStep::Nothing
        }
    }

    /// Shows the issued certificate from now on.
    pub(super) fn start(&mut self, issued: IssuedCertificate, now: Timestamp) {
        self.current = StoredCertificate::parse(issued.pem);
        self.next = None;
        self.add_authority(&issued.authority, now);
    }

    /// Stores the issued certificate as the next one.
    pub(super) fn prepare(&mut self, issued: IssuedCertificate, now: Timestamp) {
        self.next = StoredCertificate::parse(issued.pem);
        self.add_authority(&issued.authority, now);
    }

    /// Shows the next certificate from now on. Other replicas may show the previous one for a
    /// while, so its authority stays until it expires.
    pub(super) fn swap(&mut self, now: Timestamp) {
        if let Some(next) = self.next.take() {
            self.current = Some(next);
        }
        self.authorities
            .retain(|authority| authority.not_after > now);
    }

    fn add_authority(&mut self, authority: &str, now: Timestamp) {
        self.authorities
            .retain(|authority| authority.not_after > now);
        self.authorities.extend(parse_authorities(authority));
    }
}

/// Splits a text into authorities. Leaves out damaged ones, because API servers refuse a list that
/// contains one.
fn parse_authorities(text: &str) -> Vec<TrustedAuthority> {
    const END: &str = "-----END CERTIFICATE-----";
    let parts = text.split_inclusive(END).filter(|part| part.ends_with(END));
    let read = parts.filter_map(|part| {
        let pem = format!("{}\n", part.trim_start());
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        let (_, read) = X509Certificate::from_der(&der).ok()?;
        read.verify_signature(None).ok()?;
        // The signature does not cover the whole file, so this parses the rest as well.
        ParsedCertificate::try_from(&der).ok()?;
        let ends = to_timestamp(read.validity().not_after.timestamp())?;
        Some(TrustedAuthority {
            pem,
            not_after: ends,
        })
    });
    read.collect()
}

#[cfg(test)]
mod tests;
