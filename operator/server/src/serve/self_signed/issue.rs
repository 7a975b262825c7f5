//! A certificate that the operator issues itself. An authority signs this one certificate, and its
//! key is thrown away. So clients that trust the authority trust only this certificate.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use time::OffsetDateTime;

use crate::serve::Pem;

/// Largest difference between clocks: a certificate is valid from this long before its creation.
const SKEW: Duration = Duration::from_secs(3600);

/// A certificate, and the authority that signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IssuedCertificate {
    /// The authority that clients have to trust, as PEM.
    pub(super) authority: String,
    /// The certificate and its key.
    pub(super) pem: Pem,
}

/// Issues a certificate with this name for these hosts, valid for `lifetime` from now on.
pub(super) fn issue(
    name: &str,
    hosts: &[String],
    now: Timestamp,
    lifetime: Duration,
) -> anyhow::Result<IssuedCertificate> {
    let skew = SKEW.min(lifetime.checked_div(10).unwrap_or_default());
    let begins = now.saturating_sub(skew)?;
    let ends = now.saturating_add(lifetime)?;
    let mut params = CertificateParams::new(Vec::new())?;
    // The time in the name tells authorities apart in logs.
    params.distinguished_name = distinguished_name(format!("{name}, made at {now}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_before = to_offset_date_time(begins)?;
    params.not_after = to_offset_date_time(ends)?;
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = distinguished_name(name.to_owned());
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = to_offset_date_time(begins)?;
    params.not_after = to_offset_date_time(ends)?;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;
    Ok(IssuedCertificate {
        authority: authority.pem(),
        pem: Pem {
            certificate: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
        },
    })
}

fn distinguished_name(common_name: String) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Converts a time to rcgen's type, in whole seconds.
fn to_offset_date_time(at: Timestamp) -> anyhow::Result<OffsetDateTime> {
    Ok(OffsetDateTime::from_unix_timestamp(at.as_second())?)
}
