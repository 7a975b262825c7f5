//! Who asks through the API server. It connects with a client certificate of its own, its
//! *front proxy*'s, and names the user in headers that it has authenticated. These headers are
//! believed of who shows such a certificate and of nobody else. Whose certificates these are,
//! and what the headers are called, the API server says in a ConfigMap.
//!
//! `follow` keeps up with the ConfigMap, `headers` reads the user.

mod follow;
mod headers;
#[cfg(test)]
mod tests;

pub(super) use follow::{Known, follow};

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use axum::http::HeaderMap;
use k8s_openapi::api::authentication::v1::UserInfo;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::serve::Shown;
use headers::Names;

/// Namespace and name of the ConfigMap.
pub(super) const CONFIG_MAP: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// The API server's front proxies: whom headers are believed of.
#[derive(Debug)]
pub(super) struct FrontProxy {
    authority: Arc<dyn ClientCertVerifier>,
    /// Common names of certificates. Empty: all that the authority has signed, as the API
    /// server has it.
    allowed: Vec<String>,
    names: Names,
}

impl FrontProxy {
    /// What the ConfigMap says. None: this cluster has no front proxy.
    pub(super) fn read(data: &BTreeMap<String, String>) -> anyhow::Result<Option<Self>> {
        const AUTHORITY: &str = "requestheader-client-ca-file";
        let Some(pem) = data.get(AUTHORITY).filter(|pem| !pem.trim().is_empty()) else {
            return Ok(None);
        };
        let list = |key: &str| -> anyhow::Result<Vec<String>> {
            let text = data.get(key).map_or("[]", String::as_str);
            serde_json::from_str(text).with_context(|| format!("{key} must be a list of strings"))
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.with_context(|| format!("{AUTHORITY} must be PEM"))?;
            let added = roots.add(certificate);
            added.with_context(|| format!("{AUTHORITY} has a certificate of no authority"))?;
        }
        ensure!(
            !roots.is_empty(),
            "{AUTHORITY} must have a certificate in it"
        );
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        Ok(Some(Self {
            authority: verifier.build()?,
            allowed: list("requestheader-allowed-names")?,
            names: Names {
                user: list("requestheader-username-headers")?,
                uid: list("requestheader-uid-headers")?,
                groups: list("requestheader-group-headers")?,
                extra: list("requestheader-extra-headers-prefix")?,
            },
        }))
    }

    /// The user that a request is made for.
    ///
    /// # Errors
    /// Why its headers are not believed, or say nothing.
    pub(super) fn user(&self, shown: &Shown, headers: &HeaderMap) -> Result<UserInfo, String> {
        let Some((own, others)) = shown.split() else {
            return Err("no client certificate is shown".to_owned());
        };
        let verified = self
            .authority
            .verify_client_cert(own, others, UnixTime::now());
        verified
            .map_err(|error| format!("the client certificate is not the front proxy's: {error}"))?;
        let name = common_name(own);
        if !self.allowed.is_empty() {
            let is_allowed = |name: &String| self.allowed.contains(name);
            name.filter(is_allowed).ok_or_else(|| {
                "the common name of the client certificate is none of requestheader-allowed-names"
                    .to_owned()
            })?;
        }
        self.names.user(headers)
    }
}

fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, read) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let mut names = read.subject().iter_common_name();
    names.next()?.as_str().ok().map(str::to_owned)
}
