//! The endpoint's certificate: one that is given, and read again when it is
//! renewed, or one of its own.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use axum_server::tls_rustls::RustlsConfig;
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

impl Certificate {
    /// The certificate that is there now.
    ///
    /// # Errors
    /// If there is none that can be used.
    pub(super) async fn config(&self) -> anyhow::Result<RustlsConfig> {
        let (certificate, key) = match self {
            Self::Folder(folder) => read(folder)?,
            Self::Own(names) => own(names)?,
        };
        let config = RustlsConfig::from_pem(certificate, key).await;
        config.with_context(|| match self {
            Self::Folder(folder) => format!("tls.crt and tls.key in {folder:?} are of no use"),
            Self::Own(_) => "no certificate can be made".to_owned(),
        })
    }

    /// Takes up what is renewed. Never ends.
    pub(super) async fn follow(&self, config: &RustlsConfig) {
        let Self::Folder(folder) = self else {
            return std::future::pending().await;
        };
        let mut before = read(folder).ok();
        loop {
            tokio::time::sleep(LOOK).await;
            let now = match read(folder) {
                Ok(now) => now,
                Err(error) => {
                    warn!(error = %format!("{error:#}"), "the certificate is not read again");
                    continue;
                }
            };
            if before.as_ref() == Some(&now) {
                continue;
            }
            // Half of a renewal is refused here, and the one before goes on.
            match config.reload_from_pem(now.0.clone(), now.1.clone()).await {
                Ok(()) => {
                    info!("the certificate is renewed");
                    before = Some(now);
                }
                Err(error) => warn!(%error, "the new certificate is of no use"),
            }
        }
    }
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

    #[tokio::test]
    async fn a_certificate_of_ones_own_serves_and_a_folder_without_one_does_not() {
        let own = Certificate::Own(vec!["localhost".to_owned()]);
        assert!(own.config().await.is_ok());
        let folder = tempfile::tempdir().unwrap();
        let missing = Certificate::Folder(folder.path().to_owned());
        let error = format!("{:#}", missing.config().await.unwrap_err());
        assert!(error.contains("tls.crt"), "{error}");
        for name in ["tls.crt", "tls.key"] {
            std::fs::write(folder.path().join(name), "no").unwrap();
        }
        let error = format!("{:#}", missing.config().await.unwrap_err());
        assert!(error.contains("of no use"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_certificate_is_taken_up_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, pem: &[u8]| std::fs::write(folder.path().join(name), pem).unwrap();
        let names = ["localhost".to_owned()];
        let (certificate, key) = own(&names).unwrap();
        write("tls.crt", &certificate);
        write("tls.key", &key);
        let given = Certificate::Folder(folder.path().to_owned());
        let config = given.config().await.unwrap();
        let first = config.get_inner();
        let later = async {
            let is_first = || std::sync::Arc::ptr_eq(&first, &config.get_inner());
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
            () = given.follow(&config) => panic!("it follows for ever"),
            () = later => {}
        }
    }
}
