//! Address and certificate of the endpoint.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use trellis_api::visibility;

use crate::serve::{
    CertificateKeeper, CertificateSource, Identity, ManagedCertificate, ReloadingCertificate,
    TrustObject,
};

/// Service of the operator.
const SERVICE: &str = "trellis-operator";

/// The certificate that the API server trusts.
const CERTIFICATE: ManagedCertificate = ManagedCertificate {
    secret: "trellis-endpoint",
    purpose: "the read-only endpoint",
    chart_file: "visibility.yaml",
    trust_object: TrustObject::Group(visibility::API_SERVICE),
};

/// Lifetime of the certificate. The operator renews it when a third of this time is left.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

/// Where and as whom it listens.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct EndpointOptions {
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
pub struct EndpointConfig {
    pub(super) address: SocketAddr,
    pub(super) visibility: bool,
    source: EndpointCertificate,
}

#[derive(Debug)]
enum EndpointCertificate {
    /// A given certificate.
    Loaded(ReloadingCertificate),
    /// A certificate that the operator creates and keeps in this namespace.
    Managed(String, Identity),
}

impl EndpointOptions {
    /// Returns the endpoint's address and certificate, if it is enabled.
    ///
    /// # Errors
    /// If the given certificate cannot be used.
    pub fn config(&self, namespace: &str) -> anyhow::Result<Option<EndpointConfig>> {
        let Some(address) = self.listen else {
            return Ok(None);
        };
        let given = |certificate| {
            let identity = Identity::requesting_client_certificates();
            ReloadingCertificate::with_identity(certificate, identity)
                .map(EndpointCertificate::Loaded)
        };
        let source = match &self.tls {
            Some(folder) => given(CertificateSource::Folder(folder.clone()))?,
            None if self.visibility => EndpointCertificate::Managed(
                namespace.to_owned(),
                Identity::requesting_client_certificates(),
            ),
            None => {
                let service = format!("{SERVICE}.{namespace}.svc");
                given(CertificateSource::SelfSigned(vec![
                    service,
                    "localhost".to_owned(),
                ]))?
            }
        };
        Ok(Some(EndpointConfig {
            address,
            visibility: self.visibility,
            source,
        }))
    }
}

impl EndpointConfig {
    /// Returns the identity for connections, and the future that renews it.
    pub(super) fn into_identity(
        self,
        client: &Client,
    ) -> (Identity, impl Future<Output = ()> + Send + use<>) {
        let (identity, tls, keeper) = match self.source {
            EndpointCertificate::Loaded(tls) => (tls.identity(), Some(tls), None),
            EndpointCertificate::Managed(namespace, identity) => {
                let hosts = [visibility::SERVICE, SERVICE];
                let mut hosts: Vec<String> = hosts
                    .map(|service| format!("{service}.{namespace}.svc"))
                    .into();
                hosts.push("localhost".to_owned());
                let keeper = CertificateKeeper::new(
                    CERTIFICATE,
                    client,
                    &namespace,
                    hosts,
                    LIFETIME,
                    &identity,
                );
                (identity, None, Some(keeper))
            }
        };
        let renewed = async {
            match (tls, keeper) {
                (Some(tls), _) => tls.reload_forever().await,
                (None, Some(keeper)) => keeper.run().await,
                (None, None) => {}
            }
        };
        (identity, renewed)
    }
}
