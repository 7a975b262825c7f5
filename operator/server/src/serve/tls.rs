//! A server's certificate: a given one that is reloaded when it is renewed, or a self-signed one.
//! The server ignores an unusable certificate and keeps the previous one.

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

use super::client_certificates::AnyClientVerifier;

/// Interval between reads of the files. Tools renew certificates days before they expire.
const RELOAD_INTERVAL: Duration = Duration::from_secs(30);

/// Source of the certificate.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// tls.crt and tls.key in a folder, such as a mounted Secret of type kubernetes.io/tls.
    Folder(PathBuf),
    /// A self-signed certificate, made at the start for these names.
    SelfSigned(Vec<String>),
}

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// The certificate, and its chain to an authority that clients know.
    pub certificate: Vec<u8>,
    /// Private key of the certificate.
    pub key: Vec<u8>,
}

/// Omits the private key, which must not appear in logs.
impl std::fmt::Debug for Pem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pem").finish_non_exhaustive()
    }
}

/// Current certificate of a server. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Identity(Arc<IdentityState>);

#[derive(Debug, Default)]
struct IdentityState {
    served: RwLock<Option<ServedCertificate>>,
    is_degraded: AtomicBool,
    /// True if the server requests a certificate from clients. A client may connect without one.
    requests_client_certificates: bool,
}

#[derive(Debug)]
struct ServedCertificate {
    config: Arc<ServerConfig>,
    expiry: Timestamp,
}

impl Identity {
    /// Creates the identity of a server that requests a certificate from clients, and accepts
    /// clients without one.
    #[must_use]
    pub(crate) fn requesting_client_certificates() -> Self {
        Self(Arc::new(IdentityState {
            requests_client_certificates: true,
            ..IdentityState::default()
        }))
    }

    /// Uses this certificate from now on.
    ///
    /// # Errors
    /// If the certificate cannot be used. The previous one stays.
    pub(crate) fn use_certificate(&self, pem: &Pem) -> anyhow::Result<()> {
        let chain = CertificateDer::pem_slice_iter(&pem.certificate);
        let chain = chain.collect::<Result<Vec<_>, _>>()?;
        let first = chain.first().context("it has no certificate in it")?;
        let ends = read_expiry(first)?;
        let key = PrivateKeyDer::from_pem_slice(&pem.key)?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?;
        let builder = match self.0.requests_client_certificates {
            true => builder.with_client_cert_verifier(AnyClientVerifier::new()),
            false => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key)?;
        let config = Arc::new(config);
        *self.0.served.write() = Some(ServedCertificate {
            config,
            expiry: ends,
        });
        Ok(())
    }

    /// TLS configuration of new connections. None: there is no certificate yet.
    #[must_use]
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        self.0.served.read().as_ref().map(|s| s.config.clone())
    }

    /// Expiry of the certificate.
    #[must_use]
    pub fn expiry(&self) -> Option<Timestamp> {
        self.0.served.read().as_ref().map(|s| s.expiry)
    }

    /// Records whether the renewal of the certificate fails.
    pub(crate) fn set_degraded(&self, is_degraded: bool) {
        self.0.is_degraded.store(is_degraded, Ordering::Relaxed);
    }

    /// Returns true if the renewal of the certificate fails.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.0.is_degraded.load(Ordering::Relaxed)
    }
}

fn read_expiry(certificate: &CertificateDer<'_>) -> anyhow::Result<Timestamp> {
    let (_, read) = x509_parser::parse_x509_certificate(certificate)?;
    let ends = read.validity().not_after.timestamp();
    Ok(Timestamp::from_second(ends)?)
}

/// A source of a certificate, and the identity that shows it.
#[derive(Debug)]
pub struct ReloadingCertificate {
    source: CertificateSource,
    pem: Pem,
    identity: Identity,
}

impl ReloadingCertificate {
    /// Loads the certificate.
    ///
    /// # Errors
    /// If it cannot be loaded or used.
    pub fn new(certificate: CertificateSource) -> anyhow::Result<Self> {
        Self::with_identity(certificate, Identity::default())
    }

    /// Loads the certificate into an existing identity.
    ///
    /// # Errors
    /// If it cannot be loaded or used.
    pub(crate) fn with_identity(
        certificate: CertificateSource,
        identity: Identity,
    ) -> anyhow::Result<Self> {
        let pem = match &certificate {
            CertificateSource::Folder(folder) => read_pem(folder)?,
            CertificateSource::SelfSigned(names) => self_signed_pem(names)?,
        };
        identity
            .use_certificate(&pem)
            .with_context(|| match &certificate {
                CertificateSource::Folder(folder) => {
                    format!("tls.crt and tls.key in {folder:?} are of no use")
                }
                CertificateSource::SelfSigned(_) => "no certificate can be made".to_owned(),
            })?;
        Ok(Self {
            source: certificate,
            pem,
            identity,
        })
    }

    /// Returns the identity, which always shows the current certificate.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity.clone()
    }

    /// Reloads renewed certificates. Never returns.
    pub(crate) async fn reload_forever(mut self) {
        let CertificateSource::Folder(folder) = self.source.clone() else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            let renewed = self.reload(&folder);
            self.identity.set_degraded(renewed.is_err());
            match renewed {
                Ok(false) => {}
                Ok(true) => info!("the certificate is renewed"),
                // The previous certificate stays, also after a half-finished renewal.
                Err(error) => {
                    warn!(error = %format!("{error:#}"), "the certificate is not renewed");
                }
            }
        }
    }

    /// True if the certificate has changed.
    fn reload(&mut self, folder: &std::path::Path) -> anyhow::Result<bool> {
        let now = read_pem(folder)?;
        if now == self.pem {
            return Ok(false);
        }
        let unused = || format!("tls.crt and tls.key in {folder:?} are of no use");
        self.identity.use_certificate(&now).with_context(unused)?;
        self.pem = now;
        Ok(true)
    }
}

fn read_pem(folder: &std::path::Path) -> anyhow::Result<Pem> {
    let file = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {path:?}"))
    };
    Ok(Pem {
        certificate: file("tls.crt")?,
        key: file("tls.key")?,
    })
}

fn self_signed_pem(names: &[String]) -> anyhow::Result<Pem> {
    let certified = rcgen::generate_simple_self_signed(names)?;
    Ok(Pem {
        certificate: certified.cert.pem().into_bytes(),
        key: certified.signing_key.serialize_pem().into_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use trellis_machine::clock;

    use super::*;

    #[test]
    fn self_signed_certificate_loads_and_an_empty_folder_fails() {
        let own = CertificateSource::SelfSigned(vec!["localhost".to_owned()]);
        let identity = ReloadingCertificate::new(own).unwrap().identity();
        assert!(identity.config().is_some());
        assert!(identity.expiry().unwrap() > clock::now());
        let folder = tempfile::tempdir().unwrap();
        let missing = || {
            let source = CertificateSource::Folder(folder.path().to_owned());
            format!("{:#}", ReloadingCertificate::new(source).unwrap_err())
        };
        assert!(missing().contains("tls.crt"), "{}", missing());
        for name in ["tls.crt", "tls.key"] {
            std::fs::write(folder.path().join(name), "no").unwrap();
        }
        assert!(missing().contains("of no use"), "{}", missing());
    }

    #[tokio::test(start_paused = true)]
    async fn renewed_certificate_is_used_once_its_key_matches() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, pem: &[u8]| std::fs::write(folder.path().join(name), pem).unwrap();
        let names = ["localhost".to_owned()];
        let first = self_signed_pem(&names).unwrap();
        write("tls.crt", &first.certificate);
        write("tls.key", &first.key);
        let tls =
            ReloadingCertificate::new(CertificateSource::Folder(folder.path().to_owned())).unwrap();
        let identity = tls.identity();
        let first = identity.config().unwrap();
        let later = async {
            let is_first = || Arc::ptr_eq(&first, &identity.config().unwrap());
            tokio::time::sleep(RELOAD_INTERVAL.saturating_mul(2)).await;
            assert!(is_first(), "nothing has changed");
            let next = self_signed_pem(&names).unwrap();
            write("tls.crt", &next.certificate);
            tokio::time::sleep(RELOAD_INTERVAL.saturating_mul(2)).await;
            assert!(is_first(), "its key is another's");
            assert!(identity.is_degraded());
            write("tls.key", &next.key);
            tokio::time::sleep(RELOAD_INTERVAL.saturating_mul(2)).await;
            assert!(!is_first());
            assert!(!identity.is_degraded());
        };
        tokio::select! {
            () = tls.reload_forever() => panic!("it follows for ever"),
            () = later => {}
        }
    }
}
