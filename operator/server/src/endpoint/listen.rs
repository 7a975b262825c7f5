//! Address and certificate of the endpoint.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use trellis_api::visibility;

use crate::serve::{Certificate, Identity, Keeper, Tls, What, Whom};

/// Service of the operator.
const SERVICE: &str = "trellis-operator";

/// The certificate that the API server trusts.
const CERTIFICATE: What = What {
    secret: "trellis-endpoint",
    words: "the read-only endpoint",
    file: "visibility.yaml",
    told: Whom::Group(visibility::API_SERVICE),
};

/// Lifetime of the certificate. It is renewed when a third of that is left.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

/// Where and as whom it listens.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Listen {
    /// Address and port of the read-only endpoint (HTTPS). Without: none.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Folder with tls.crt and tls.key, read again when they change. Without: a
    /// certificate of its own, made at every start, that no client can know; with
    /// --visibility one that is kept in the Secret trellis-endpoint, renewed, and
    /// told to the API server.
    #[arg(long, value_name = "FOLDER", requires = "listen")]
    pub tls: Option<PathBuf>,
    /// Serve the API group visibility.trellis.dev there, for the API server to ask in the
    /// name of whoever asks it.
    #[arg(long, requires = "listen")]
    pub visibility: bool,
}

/// Address of the endpoint, and the source of its certificate.
#[derive(Debug)]
pub struct Given {
    pub(super) address: SocketAddr,
    pub(super) visibility: bool,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// A given certificate.
    There(Tls),
    /// A certificate that the operator creates and keeps in this namespace.
    Kept(String, Identity),
}

impl Listen {
    /// The endpoint's address and certificate, if it is enabled.
    ///
    /// # Errors
    /// If the given certificate cannot be used.
    pub fn given(&self, namespace: &str) -> anyhow::Result<Option<Given>> {
        let Some(address) = self.listen else {
            return Ok(None);
        };
        let there = |certificate| {
            let identity = Identity::asking_clients();
            Tls::shown_by(certificate, identity).map(Source::There)
        };
        let source = match &self.tls {
            Some(folder) => there(Certificate::Folder(folder.clone()))?,
            None if self.visibility => {
                Source::Kept(namespace.to_owned(), Identity::asking_clients())
            }
            None => {
                let service = format!("{SERVICE}.{namespace}.svc");
                there(Certificate::Own(vec![service, "localhost".to_owned()]))?
            }
        };
        Ok(Some(Given {
            address,
            visibility: self.visibility,
            source,
        }))
    }
}

impl Given {
    /// The identity for connections, and the future that renews it.
    pub(super) fn identity(
        self,
        client: &Client,
    ) -> (Identity, impl Future<Output = ()> + Send + use<>) {
        let (identity, tls, keeper) = match self.source {
            Source::There(tls) => (tls.identity(), Some(tls), None),
            Source::Kept(namespace, identity) => {
                let hosts = [visibility::SERVICE, SERVICE];
                let mut hosts: Vec<String> = hosts
                    .map(|service| format!("{service}.{namespace}.svc"))
                    .into();
                hosts.push("localhost".to_owned());
                let keeper =
                    Keeper::new(CERTIFICATE, client, &namespace, hosts, LIFETIME, &identity);
                (identity, None, Some(keeper))
            }
        };
        let renewed = async {
            match (tls, keeper) {
                (Some(tls), _) => tls.follow().await,
                (None, Some(keeper)) => keeper.keep().await,
                (None, None) => {}
            }
        };
        (identity, renewed)
    }
}
