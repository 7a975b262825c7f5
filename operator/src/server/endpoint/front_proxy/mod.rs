//! Who asks through the API server. It connects with a client certificate of its own, its
//! *front proxy*'s, and names the user in headers that it has authenticated. These headers are
//! believed of who shows such a certificate and of nobody else. Whose certificates these are,
//! and what the headers are called, the API server says in a ConfigMap.
//!
//! `follow` keeps up with the ConfigMap, `headers` reads the user. Anybody can show certificates
//! and write headers: nothing is verified before a user is named, and then once a connection.

mod follow;
mod headers;
#[cfg(test)]
pub(super) mod tests;

pub(super) use follow::{Known, follow};

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

use crate::server::serve::{Found, Shown};
use headers::Names;

/// Namespace and name of the ConfigMap.
pub(super) const CONFIG_MAP: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// The API server's front proxies: whom headers are believed of.
#[derive(Debug)]
pub(super) struct FrontProxy {
    /// Another for each that is read: what is found by one is not believed by the next.
    id: u64,
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
            // One that nobody can use takes nothing from the others.
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
        // Before anything is verified: most who ask name nobody.
        if !self.names.name_somebody(headers) {
            return Err(self.names.nobody());
        }
        self.verify(shown, UnixTime::now())?;
        self.names.user(headers)
    }

    /// Whether it is the front proxy that shows this.
    pub(super) fn shows(&self, shown: &Shown) -> bool {
        self.verify(shown, UnixTime::now()).is_ok()
    }

    fn verify(&self, shown: &Shown, now: UnixTime) -> Result<(), String> {
        let found = shown.found(self.id, now, |own, others| Found {
            by: self.id,
            from: now,
            until: end(own, others, now),
            verdict: self.look(own, others, now),
        });
        found.unwrap_or_else(|| Err("no client certificate is shown".to_owned()))
    }

    fn look(
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

/// When the first of these ends that has not ended. What has is not what led to an authority.
fn end(own: &CertificateDer<'_>, others: &[CertificateDer<'_>], now: UnixTime) -> UnixTime {
    let ends = std::iter::once(own).chain(others).filter_map(|shown| {
        let (_, read) = x509_parser::parse_x509_certificate(shown).ok()?;
        u64::try_from(read.validity().not_after.timestamp()).ok()
    });
    let now = now.as_secs();
    let end = ends.filter(|end| *end >= now).min().unwrap_or(now);
    UnixTime::since_unix_epoch(Duration::from_secs(end))
}

/// None: it has none, or several, of which it is not known which counts.
fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, read) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let mut names = read.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    names.next().is_none().then(|| name.to_owned())
}
