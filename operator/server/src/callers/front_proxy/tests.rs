//! Certificates of several authorities, shown to a front proxy that trusts one of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::HeaderMap;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use serde_json::json;

use super::FrontProxy;
use crate::serve::ClientCertificates;

pub(crate) struct TestAuthority(CertifiedIssuer<'static, KeyPair>);

impl TestAuthority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose, ends: i32) -> ClientCertificates {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (at, name) in name.split('+').enumerate() {
            // rcgen keeps one value per type. It treats the same type, given by its number, as a
            // different type.
            let common_name = match at {
                0 => DnType::CommonName,
                _ => DnType::CustomDnType(vec![2, 5, 4, 3]),
            };
            params.distinguished_name.push(common_name, name);
        }
        params.extended_key_usages = vec![usage];
        params.not_after = rcgen::date_time_ymd(ends, 1, 1);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.0).unwrap();
        ClientCertificates::new(Some(&[CertificateDer::from(signed.der().to_vec())]))
    }

    pub(crate) fn client(&self, name: &str) -> ClientCertificates {
        self.issue(name, ExtendedKeyUsagePurpose::ClientAuth, 4000)
    }

    /// Data of the ConfigMap in a cluster with this authority.
    pub(crate) fn data(&self, allowed: &[&str]) -> BTreeMap<String, String> {
        [
            ("requestheader-client-ca-file", self.0.pem()),
            ("requestheader-allowed-names", json!(allowed).to_string()),
            (
                "requestheader-username-headers",
                json!(["X-Remote-User"]).to_string(),
            ),
            (
                "requestheader-group-headers",
                json!(["X-Remote-Group"]).to_string(),
            ),
            (
                "requestheader-extra-headers-prefix",
                json!(["X-Remote-Extra-"]).to_string(),
            ),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    pub(crate) fn proxy(&self, allowed: &[&str]) -> FrontProxy {
        FrontProxy::read(&self.data(allowed)).unwrap().unwrap()
    }
}

pub(crate) fn headers_of_ann() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-remote-user", "ann".parse().unwrap());
    headers
}

#[test]
fn headers_are_trusted_only_from_the_front_proxy() {
    let (own, other) = (TestAuthority::new(), TestAuthority::new());
    let proxy = own.proxy(&["front-proxy-client"]);
    let user = proxy.user(&own.client("front-proxy-client"), &headers_of_ann());
    assert_eq!(user.unwrap().username.as_deref(), Some("ann"));
    let server = ExtendedKeyUsagePurpose::ServerAuth;
    let client = ExtendedKeyUsagePurpose::ClientAuth;
    for (certificates, why) in [
        (ClientCertificates::default(), "no client certificate"),
        (own.client("kubelet"), "common name"),
        (own.client(""), "common name"),
        // Two common names are ambiguous.
        (own.client("front-proxy-client+kubelet"), "common name"),
        (own.client("kubelet+front-proxy-client"), "common name"),
        (other.client("front-proxy-client"), "not the front proxy's"),
        (
            own.issue("front-proxy-client", server, 4000),
            "not the front proxy's",
        ),
        (
            own.issue("front-proxy-client", client, 2001),
            "not the front proxy's",
        ),
    ] {
        let error = proxy.user(&certificates, &headers_of_ann()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    let nobody = proxy.user(&own.client("front-proxy-client"), &HeaderMap::new());
    assert!(nobody.unwrap_err().contains("X-Remote-User"));
}

#[test]
fn empty_name_list_allows_every_signed_certificate() {
    let (own, other) = (TestAuthority::new(), TestAuthority::new());
    let proxy = own.proxy(&[]);
    assert!(proxy.user(&own.client("any"), &headers_of_ann()).is_ok());
    assert!(proxy.user(&other.client("any"), &headers_of_ann()).is_err());
}

#[test]
fn invalid_config_error_names_its_key() {
    let own = TestAuthority::new();
    assert!(FrontProxy::read(&BTreeMap::new()).unwrap().is_none());
    for (key, value) in [
        ("requestheader-client-ca-file", "no PEM"),
        ("requestheader-allowed-names", "front-proxy-client"),
        ("requestheader-username-headers", "{}"),
    ] {
        let mut data = own.data(&[]);
        data.insert(key.to_owned(), value.to_owned());
        let error = format!("{:#}", FrontProxy::read(&data).unwrap_err());
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn unreadable_authority_does_not_affect_the_rest() {
    let own = TestAuthority::new();
    let key = "requestheader-client-ca-file";
    let of =
        |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
    for bad in [of("!!!"), of("AAAA"), of("")] {
        let mut data = own.data(&[]);
        data.insert(key.to_owned(), format!("{bad}{}{bad}", own.0.pem()));
        let proxy = FrontProxy::read(&data).unwrap().unwrap();
        assert!(
            proxy.user(&own.client("any"), &headers_of_ann()).is_ok(),
            "{bad}"
        );
        data.insert(key.to_owned(), bad);
        assert!(FrontProxy::read(&data).is_err(), "nobody is left");
    }
}

/// Counts its calls.
#[derive(Debug)]
struct CountingVerifier(Arc<dyn ClientCertVerifier>, Arc<AtomicUsize>);

impl ClientCertVerifier for CountingVerifier {
    fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.verify_client_cert(own, others, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[test]
fn certificate_is_verified_once_per_connection_naming_a_user() {
    let (own, other) = (TestAuthority::new(), TestAuthority::new());
    let mut proxy = own.proxy(&[]);
    let count = Arc::new(AtomicUsize::new(0));
    proxy.authority = Arc::new(CountingVerifier(proxy.authority.clone(), count.clone()));
    let verifications = || count.swap(0, Ordering::SeqCst);
    for certificates in [own.client("any"), other.client("any")] {
        assert!(proxy.user(&certificates, &HeaderMap::new()).is_err());
        assert_eq!(verifications(), 0, "the headers name no user");
        for _ in 0..3 {
            let _ = proxy.user(&certificates, &headers_of_ann());
        }
        assert_eq!(verifications(), 1);
    }
}

#[test]
fn cached_verification_ends_with_the_certificate() {
    let own = TestAuthority::new();
    let proxy = own.proxy(&[]);
    let at = |years: u64| UnixTime::since_unix_epoch(Duration::from_secs(years * 365 * 24 * 3600));
    let certificates = own.issue("any", ExtendedKeyUsagePurpose::ClientAuth, 2100);
    assert!(proxy.verify(&certificates, at(60)).is_ok());
    assert!(proxy.verify(&certificates, at(140)).is_err());
    assert!(proxy.verify(&certificates, at(60)).is_ok());
}
