//! Certificates with which the API server forwards requests to other servers on behalf of a user.

use std::path::Path;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::folder::write_secret;

/// The common name of the client that may name users.
pub const FRONT_PROXY: &str = "front-proxy-client";
/// The common name of another client of the same authority, which may not name users.
pub const NOT_THE_FRONT_PROXY: &str = "not-the-front-proxy";

/// Writes the certificate of the authority, `front-proxy-ca.crt`, and for both clients `<common
/// name>.crt` and `.key`.
pub(super) fn write_certificates(pki: &Path) -> Result<()> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "front-proxy-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    write_secret(&pki.join("front-proxy-ca.crt"), &authority.pem())?;
    for name in [FRONT_PROXY, NOT_THE_FRONT_PROXY] {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority)?;
        write_secret(&pki.join(format!("{name}.crt")), &certificate.pem())?;
        write_secret(&pki.join(format!("{name}.key")), &key.serialize_pem())?;
    }
    Ok(())
}

/// Returns the API server's flags for these certificates.
pub(super) fn api_server_flags(file: impl Fn(&str) -> String) -> Vec<String> {
    let path = |name: &str| file(name);
    [
        ("requestheader-client-ca-file", path("front-proxy-ca.crt")),
        ("requestheader-allowed-names", FRONT_PROXY.to_owned()),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        (
            "requestheader-extra-headers-prefix",
            "X-Remote-Extra-".to_owned(),
        ),
        (
            "proxy-client-cert-file",
            path(&format!("{FRONT_PROXY}.crt")),
        ),
        ("proxy-client-key-file", path(&format!("{FRONT_PROXY}.key"))),
    ]
    .map(|(flag, value)| format!("--{flag}={value}"))
    .to_vec()
}
