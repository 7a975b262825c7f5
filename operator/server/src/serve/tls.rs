//! A server's certificate: a given one that is reloaded when it is renewed, or a self-signed one.
//! An unusable certificate is not taken, and the previous one stays in use.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::jiff::Timestamp;
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tracing::{info, warn};

use super::client::Whoever;

/// How often the files are read again. They are renewed days before they expire.
const LOOK: Duration = Duration::from_secs(30);

/// Source of the certificate.
#[derive(Clone, Debug)]
pub enum Certificate {
    /// tls.crt and tls.key in a folder, as a Secret of type kubernetes.io/tls is mounted.
    Folder(PathBuf),
    /// A self-signed certificate that is made now for these names.
    Own(Vec<String>),
}

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// The certificate, and its chain to an authority that clients know.
    pub certificate: Vec<u8>,
    /// Private key of the certificate.
    pub key: Vec<u8>,
}

/// The private key must not appear in logs.
impl std::fmt::Debug for Pem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pem").finish_non_exhaustive()
    }
}

/// Current certificate of a server. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Identity(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    shown: RwLock<Option<Shown>>,
    is_degraded: AtomicBool,
    /// Clients are asked for a certificate, but need none.
    asks_clients: bool,
}

#[derive(Debug)]
struct Shown {
    config: Arc<ServerConfig>,
    ends: Timestamp,
}

impl Identity {
    /// Identity of a server that asks its clients for a certificate, and accepts those without one.
    #[must_use]
    pub fn asking_clients() -> Self {
        Self(Arc::new(Shared {
            asks_clients: true,
            ..Shared::default()
        }))
    }

    /// Uses this certificate from now on.
    ///
    /// # Errors
    /// If the certificate cannot be used. Then the previous one stays.
    pub fn take(&self, pem: &Pem) -> anyhow::Result<()> {
        let chain = CertificateDer::pem_slice_iter(&pem.certificate);
        let chain = chain.collect::<Result<Vec<_>, _>>()?;
        let first = chain.first().context("it has no certificate in it")?;
        let ends = ends(first)?;
        let key = PrivateKeyDer::from_pem_slice(&pem.key)?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?;
        let builder = match self.0.asks_clients {
            true => builder.with_client_cert_verifier(Whoever::new()),
            false => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key)?;
        let config = Arc::new(config);
        *self.0.shown.write() = Some(Shown { config, ends });
        Ok(())
    }

    /// TLS configuration of new connections. None: there is no certificate yet.
    #[must_use]
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        self.0.shown.read().as_ref().map(|s| s.config.clone())
    }

    /// Expiry of the certificate.
    #[must_use]
    pub fn ends(&self) -> Option<Timestamp> {
        self.0.shown.read().as_ref().map(|s| s.ends)
    }

    /// Sets whether the renewal of the certificate fails.
    pub fn set_degraded(&self, is_degraded: bool) {
        self.0.is_degraded.store(is_degraded, Ordering::Relaxed);
    }

    /// True if the renewal of the certificate fails.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.0.is_degraded.load(Ordering::Relaxed)
    }
}

fn ends(certificate: &CertificateDer<'_>) -> anyhow::Result<Timestamp> {
    let (_, read) = x509_parser::parse_x509_certificate(certificate)?;
    let ends = read.validity().not_after.timestamp();
    Ok(Timestamp::from_second(ends)?)
}

/// A source of a certificate, with the identity that shows it.
#[derive(Debug)]
pub struct Tls {
    certificate: Certificate,
    pem: Pem,
    identity: Identity,
}

impl Tls {
    /// Loads the certificate.
    ///
    /// # Errors
    /// If it cannot be loaded or used.
    pub fn new(certificate: Certificate) -> anyhow::Result<Self> {
        Self::shown_by(certificate, Identity::default())
    }

    /// The same for an existing identity.
    ///
    /// # Errors
    /// If it cannot be loaded or used.
    pub fn shown_by(certificate: Certificate, identity: Identity) -> anyhow::Result<Self> {
        let pem = match &certificate {
            Certificate::Folder(folder) => read(folder)?,
            Certificate::Own(names) => own(names)?,
        };
        identity.take(&pem).with_context(|| match &certificate {
            Certificate::Folder(folder) => {
                format!("tls.crt and tls.key in {folder:?} are of no use")
            }
            Certificate::Own(_) => "no certificate can be made".to_owned(),
        })?;
        Ok(Self {
            certificate,
            pem,
            identity,
        })
    }

    /// The identity, which always shows the current certificate.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity.clone()
    }

    /// Reloads renewed certificates. Never returns.
    pub async fn follow(mut self) {
        let Certificate::Folder(folder) = self.certificate.clone() else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(LOOK).await;
            let renewed = self.look(&folder);
            self.identity.set_degraded(renewed.is_err());
            match renewed {
                Ok(false) => {}
                Ok(true) => info!("the certificate is renewed"),
                // Also after a half-finished renewal: the previous certificate stays.
                Err(error) => {
                    warn!(error = %format!("{error:#}"), "the certificate is not renewed");
                }
            }
        }
    }

    /// True if the certificate has changed.
    fn look(&mut self, folder: &std::path::Path) -> anyhow::Result<bool> {
        let now = read(folder)?;
        if now == self.pem {
            return Ok(false);
        }
        let unused = || format!("tls.crt and tls.key in {folder:?} are of no use");
        self.identity.take(&now).with_context(unused)?;
        self.pem = now;
        Ok(true)
    }
}

fn read(folder: &std::path::Path) -> anyhow::Result<Pem> {
    let file = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {path:?}"))
    };
    Ok(Pem {
        certificate: file("tls.crt")?,
        key: file("tls.key")?,
    })
}

fn own(names: &[String]) -> anyhow::Result<Pem> {
    let made = rcgen::generate_simple_self_signed(names)?;
    Ok(Pem {
        certificate: made.cert.pem().into_bytes(),
        key: made.signing_key.serialize_pem().into_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_ones_own_serves_and_a_folder_without_one_does_not() {
        let own = Certificate::Own(vec!["localhost".to_owned()]);
        let identity = Tls::new(own).unwrap().identity();
        assert!(identity.config().is_some());
        assert!(identity.ends().unwrap() > Timestamp::now());
        let folder = tempfile::tempdir().unwrap();
        let missing = || {
            let given = Certificate::Folder(folder.path().to_owned());
            format!("{:#}", Tls::new(given).unwrap_err())
        };
        assert!(missing().contains("tls.crt"), "{}", missing());
        for name in ["tls.crt", "tls.key"] {
            std::fs::write(folder.path().join(name), "no").unwrap();
        }
        assert!(missing().contains("of no use"), "{}", missing());
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_certificate_is_taken_up_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, pem: &[u8]| std::fs::write(folder.path().join(name), pem).unwrap();
        let names = ["localhost".to_owned()];
        let first = own(&names).unwrap();
        write("tls.crt", &first.certificate);
        write("tls.key", &first.key);
        let tls = Tls::new(Certificate::Folder(folder.path().to_owned())).unwrap();
        let identity = tls.identity();
        let first = identity.config().unwrap();
        let later = async {
            let is_first = || Arc::ptr_eq(&first, &identity.config().unwrap());
            tokio::time::sleep(LOOK.saturating_mul(2)).await;
            assert!(is_first(), "nothing has changed");
            let next = own(&names).unwrap();
            write("tls.crt", &next.certificate);
            tokio::time::sleep(LOOK.saturating_mul(2)).await;
            assert!(is_first(), "its key is another's");
            assert!(identity.is_degraded());
            write("tls.key", &next.key);
            tokio::time::sleep(LOOK.saturating_mul(2)).await;
            assert!(!is_first());
            assert!(!identity.is_degraded());
        };
        tokio::select! {
            () = tls.follow() => panic!("it follows for ever"),
            () = later => {}
        }
    }
}
