//! Certificates of several authorities, shown to one that knows one of them.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::pki_types::CertificateDer;
use serde_json::json;

use super::FrontProxy;
use crate::serve::Shown;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose, ends: i32) -> Shown {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        params.not_after = rcgen::date_time_ymd(ends, 1, 1);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.0).unwrap();
        Shown::new(Some(&[CertificateDer::from(signed.der().to_vec())]))
    }

    fn client(&self, name: &str) -> Shown {
        self.issue(name, ExtendedKeyUsagePurpose::ClientAuth, 4000)
    }

    /// What the ConfigMap of a cluster with this authority says.
    fn data(&self, allowed: &[&str]) -> BTreeMap<String, String> {
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

    fn proxy(&self, allowed: &[&str]) -> FrontProxy {
        FrontProxy::read(&self.data(allowed)).unwrap().unwrap()
    }
}

fn ann() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-remote-user", "ann".parse().unwrap());
    headers
}

#[test]
fn headers_are_believed_of_the_front_proxy_and_of_nobody_else() {
    let (own, other) = (Authority::new(), Authority::new());
    let proxy = own.proxy(&["front-proxy-client"]);
    let user = proxy.user(&own.client("front-proxy-client"), &ann());
    assert_eq!(user.unwrap().username.as_deref(), Some("ann"));
    let server = ExtendedKeyUsagePurpose::ServerAuth;
    let client = ExtendedKeyUsagePurpose::ClientAuth;
    for (shown, why) in [
        (Shown::default(), "no client certificate"),
        (own.client("kubelet"), "common name"),
        (own.client(""), "common name"),
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
        let error = proxy.user(&shown, &ann()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    let nobody = proxy.user(&own.client("front-proxy-client"), &HeaderMap::new());
    assert!(nobody.unwrap_err().contains("X-Remote-User"));
}

#[test]
fn no_names_are_all_names_that_the_authority_has_signed() {
    let (own, other) = (Authority::new(), Authority::new());
    let proxy = own.proxy(&[]);
    assert!(proxy.user(&own.client("any"), &ann()).is_ok());
    assert!(proxy.user(&other.client("any"), &ann()).is_err());
}

#[test]
fn what_cannot_be_used_names_its_key() {
    let own = Authority::new();
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
