//! Authenticates requests that come through the API server. The API server connects with the client
//! certificate of its *front proxy*, and names in headers the user that it has authenticated. The
//! endpoint trusts these headers only with this certificate. A ConfigMap of the API server names
//! the certificate authority and the headers.
//!
//! `config_watch` watches the ConfigMap, `headers` reads the user. Any client can send certificates
//! and headers. So the endpoint verifies a certificate only if headers name a user, and then once
//! per connection.

mod config_watch;
mod headers;
#[cfg(test)]
pub(super) mod tests;

pub(super) use config_watch::TrustedProxy;
pub(crate) use config_watch::follow_config;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::http::HeaderMap;
use k8s_openapi::api::authentication::v1::UserInfo;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tracing::warn;

use crate::serve::{ClientCertificates, Verification};
use headers::HeaderNames;

/// Namespace and name of the ConfigMap.
pub(super) const CONFIG_MAP: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// The API server's front proxies, whose headers are trusted.
#[derive(Debug)]
pub(crate) struct FrontProxy {
    /// A new number for each read of the ConfigMap, so that a verification by one `FrontProxy` does
    /// not count for the next.
    id: u64,
    authority: Arc<dyn ClientCertVerifier>,
    /// Allowed common names of certificates. Empty: all certificates that the authority has signed,
    /// as in the API server.
    allowed: Vec<String>,
    header_names: HeaderNames,
}

/// Returns the user that these headers name, if the names of the headers are the usual ones.
#[cfg(feature = "fixtures")]
pub(crate) fn user_in_usual_headers(headers: &HeaderMap) -> Result<UserInfo, String> {
    let names = |name: &str| vec![name.to_owned()];
    let header_names = HeaderNames {
        user: names("X-Remote-User"),
        uid: names("X-Remote-Uid"),
        groups: names("X-Remote-Group"),
        extra: names("X-Remote-Extra-"),
    };
    header_names.user(headers)
}

impl FrontProxy {
    /// Reads the ConfigMap. None: this cluster has no front proxy.
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
            // An unusable certificate does not affect the other certificates.
            let added = match certificate {
                Ok(certificate) => roots.add(certificate).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = added {
                warn!(%error, "a certificate of {AUTHORITY} cannot be used, and is left out");
            }
        }
        ensure!(
            !roots.is_empty(),
            "{AUTHORITY} must have the PEM of an authority's certificate in it"
        );
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        Ok(Some(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            authority: verifier.build()?,
            allowed: list("requestheader-allowed-names")?,
            header_names: HeaderNames {
                user: list("requestheader-username-headers")?,
                uid: list("requestheader-uid-headers")?,
                groups: list("requestheader-group-headers")?,
                extra: list("requestheader-extra-headers-prefix")?,
            },
        }))
    }

    /// Returns the user for whom a request is made.
    ///
    /// # Errors
    /// Why the headers are not trusted, or name no user.
    pub(super) fn user(
        &self,
        certificates: &ClientCertificates,
        headers: &HeaderMap,
    ) -> Result<UserInfo, String> {
        // This check comes before the certificate, because most direct requests name no user.
        if !self.header_names.are_present_in(headers) {
            return Err(self.header_names.missing_user_message());
        }
        self.verify(certificates, UnixTime::now())?;
        self.header_names.user(headers)
    }

    /// Returns true if these certificates are the front proxy's.
    pub(crate) fn is_presented_in(&self, certificates: &ClientCertificates) -> bool {
        self.verify(certificates, UnixTime::now()).is_ok()
    }

    fn verify(&self, certificates: &ClientCertificates, now: UnixTime) -> Result<(), String> {
        let verified = certificates.verify_once(self.id, now, |own, others| Verification {
            verifier_id: self.id,
            valid_from: now,
            valid_until: earliest_expiry(own, others, now),
            verdict: self.verify_chain(own, others, now),
        });
        verified.unwrap_or_else(|| Err("no client certificate is shown".to_owned()))
    }

    fn verify_chain(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), String> {
        let verified = self.authority.verify_client_cert(own, others, now);
        verified
            .map_err(|error| format!("the client certificate is not the front proxy's: {error}"))?;
        if self.allowed.is_empty() {
            return Ok(());
        }
        let is_allowed = |name: &String| self.allowed.contains(name);
        match common_name(own).filter(is_allowed) {
            Some(_) => Ok(()),
            None => Err("the client certificate must have one common name, and that must be one of requestheader-allowed-names".to_owned()),
        }
    }
}

/// Returns the earliest expiry of these certificates. Expired certificates are not part of the
/// verified chain, so this ignores them.
fn earliest_expiry(
    own: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    now: UnixTime,
) -> UnixTime {
    let ends = std::iter::once(own)
        .chain(others)
        .filter_map(|certificate| {
            let (_, read) = x509_parser::parse_x509_certificate(certificate).ok()?;
            u64::try_from(read.validity().not_after.timestamp()).ok()
        });
    let now = now.as_secs();
    let end = ends.filter(|end| *end >= now).min().unwrap_or(now);
    UnixTime::since_unix_epoch(Duration::from_secs(end))
}

/// Returns the common name. None: the certificate has no common name, or several, which are
/// ambiguous.
fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, read) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let mut names = read.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    names.next().is_none().then(|| name.to_owned())
}
