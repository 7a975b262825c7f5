//! The endpoint's certificate: one that is given, and read again when it is
//! renewed, or one of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tracing::{info, warn};

/// How often the files are read again: they are renewed days before they end.
const LOOK: Duration = Duration::from_secs(30);

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum Certificate {
    /// tls.crt and tls.key in a folder, as a Secret of type kubernetes.io/tls is mounted.
    Folder(PathBuf),
    /// One that is made now, for these names, and signed by nobody.
    Own(Vec<String>),
}

/// A certificate and its key, as PEM.
type Pem = (Vec<u8>, Vec<u8>);

/// What a server says who it is with: what it was given, and what that is now.
#[derive(Debug)]
pub struct Tls {
    certificate: Certificate,
    pem: Pem,
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

impl Tls {
    /// The certificate that is there now.
    ///
    /// # Errors
    /// If there is none that can be used.
    pub fn new(certificate: Certificate) -> anyhow::Result<Self> {
        let pem = match &certificate {
            Certificate::Folder(folder) => read(folder)?,
            Certificate::Own(names) => own(names)?,
        };
        let config = config(&pem).with_context(|| match &certificate {
            Certificate::Folder(folder) => {
                format!("tls.crt and tls.key in {folder:?} are of no use")
            }
            Certificate::Own(_) => "no certificate can be made".to_owned(),
        })?;
        Ok(Self {
            certificate,
            pem,
            config: Arc::new(RwLock::new(config)),
        })
    }

    /// What is valid now, whenever that is asked.
    pub(super) fn current(&self) -> impl Fn() -> Arc<ServerConfig> + use<> {
        let config = self.config.clone();
        move || config.read().clone()
    }

    /// Takes up what is renewed. Never ends.
    pub(super) async fn follow(mut self) {
        let Certificate::Folder(folder) = &self.certificate else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(LOOK).await;
            let now = match read(folder) {
                Ok(now) if now == self.pem => continue,
                Ok(now) => now,
                Err(error) => {
                    warn!(error = %format!("{error:#}"), "the certificate is not read again");
                    continue;
                }
            };
            // Half of a renewal is refused here, and the one before goes on.
            match config(&now) {
                Ok(config) => {
                    *self.config.write() = config;
                    self.pem = now;
                    info!("the certificate is renewed");
                }
                Err(error) => {
                    warn!(error = %format!("{error:#}"), "the new certificate is of no use");
                }
            }
        }
    }
}

fn config((certificate, key): &Pem) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = builder
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config))
}

fn read(folder: &std::path::Path) -> anyhow::Result<Pem> {
    let file = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {path:?}"))
    };
    Ok((file("tls.crt")?, file("tls.key")?))
}

fn own(names: &[String]) -> anyhow::Result<Pem> {
    let made = rcgen::generate_simple_self_signed(names)?;
    let key = made.signing_key.serialize_pem();
    Ok((made.cert.pem().into_bytes(), key.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_ones_own_serves_and_a_folder_without_one_does_not() {
        let own = Certificate::Own(vec!["localhost".to_owned()]);
        assert!(Tls::new(own).is_ok());
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
        let (certificate, key) = own(&names).unwrap();
        write("tls.crt", &certificate);
        write("tls.key", &key);
        let tls = Tls::new(Certificate::Folder(folder.path().to_owned())).unwrap();
        let current = tls.current();
        let first = current();
        let later = async {
            let is_first = || Arc::ptr_eq(&first, &current());
            tokio::time::sleep(LOOK.saturating_mul(2)).await;
            assert!(is_first(), "nothing has changed");
            let (certificate, key) = own(&names).unwrap();
            write("tls.crt", &certificate);
            tokio::time::sleep(LOOK.saturating_mul(2)).await;
            assert!(is_first(), "its key is another's");
            write("tls.key", &key);
            tokio::time::sleep(LOOK.saturating_mul(2)).await;
            assert!(!is_first());
        };
        tokio::select! {
            () = tls.follow() => panic!("it follows for ever"),
            () = later => {}
        }
    }
}
