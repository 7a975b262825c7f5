//! A certificate of our own: signed by an authority that is made for it alone, whose
//! key is thrown away. Who knows the authority knows this one certificate, and nobody can
//! make another.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use time::OffsetDateTime;

use crate::server::serve::Pem;

/// How far clocks may be apart, at most: a certificate is good since before it was made.
const SKEW: Duration = Duration::from_secs(3600);

/// A certificate, and who knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Issued {
    /// Whom clients are to trust, as PEM.
    pub(super) authority: String,
    /// The certificate and its key.
    pub(super) pem: Pem,
}

/// A certificate of this name for these hosts, good for so long from now on.
pub(super) fn issue(
    name: &str,
    hosts: &[String],
    now: Timestamp,
    lifetime: Duration,
) -> anyhow::Result<Issued> {
    let skew = SKEW.min(lifetime.checked_div(10).unwrap_or_default());
    let begins = now.saturating_sub(skew)?;
    let ends = now.saturating_add(lifetime)?;
    let mut params = CertificateParams::new(Vec::new())?;
    // Two of one name would be taken for each other by whoever reads about them.
    params.distinguished_name = named(format!("{name}, made at {now}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_before = date(begins)?;
    params.not_after = date(ends)?;
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = named(name.to_owned());
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = date(begins)?;
    params.not_after = date(ends)?;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;
    Ok(Issued {
        authority: authority.pem(),
        pem: Pem {
            certificate: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
        },
    })
}

fn named(common_name: String) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// A time as rcgen has it: whole seconds.
fn date(at: Timestamp) -> anyhow::Result<OffsetDateTime> {
    Ok(OffsetDateTime::from_unix_timestamp(at.as_second())?)
}
