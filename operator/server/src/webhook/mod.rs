//! The admission webhook. Before an object is stored, it reports what the controller will decide on
//! a job, and the problems of a policy or a profile (docs/webhook.md).
//!
//! It gives early feedback only: the controller decides again, so a request passes if the webhook
//! cannot judge it in time. Every replica answers, not only the leader, from its own caches: a
//! review causes no further request.
//!
//! Where the API server has no policy for it, a second webhook writes the requester of each job into
//! an annotation (`stamp`).
//!
//! `review` parses and writes AdmissionReviews, `judge` decides, with `job`, `policy`, `quota` and
//! `profile` for one kind each; `server` limits size, time and concurrency; `caches` holds the
//! known state.

mod answer;
mod caches;
#[cfg(any(test, feature = "fixtures"))]
pub(crate) mod fixtures;
mod job;
mod judge;
mod judgement;
mod metrics;
mod policy;
mod profile;
mod quota;
mod review;
mod server;
mod stamp;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::info;
use trellis_compiler::Settings;
use trellis_policies::cedar::PolicyLoader;

use crate::serve::{
    CertificateKeeper, CertificateSource, Identity, ManagedCertificate, ReloadingCertificate,
    TrustObject,
};
use caches::WebhookCaches;
#[cfg(test)]
pub(crate) use metrics::sample_text;
use trellis_dispatch::clients::Clients;
use trellis_dispatch::context::Context;

use server::WebhookServer;

/// Name of the webhook's Service, Secret and configurations.
pub const NAME: &str = "trellis-webhook";

/// The webhook's certificate.
const CERTIFICATE: ManagedCertificate = ManagedCertificate {
    secret: NAME,
    purpose: "the webhook",
    chart_file: "webhook.yaml",
    trust_object: TrustObject::Webhook(NAME),
};

/// How long the webhook still answers after a stop signal. By then API servers know that it is not
/// ready.
const SHUTDOWN_DELAY: Duration = Duration::from_secs(3);

/// Where and as whom it listens.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "webhook_options")]
pub struct WebhookOptions {
    /// Address and port of the admission webhook (HTTPS). Without: none.
    #[arg(long = "webhook", id = "webhook", value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Folder with tls.crt and tls.key, such as cert-manager's, read again when they change.
    /// Without: a certificate that the operator makes, keeps in the Secret trellis-webhook,
    /// renews, and tells the API server of.
    #[arg(
        long = "webhook-tls",
        id = "webhook_tls",
        value_name = "FOLDER",
        requires = "webhook"
    )]
    pub tls: Option<PathBuf>,
    /// A further name or address that the operator's own certificate is for, beside that of its
    /// Service.
    #[arg(
        long = "webhook-host",
        id = "webhook_host",
        value_name = "NAME",
        requires = "webhook",
        conflicts_with = "webhook_tls"
    )]
    pub hosts: Vec<String>,
    /// Seconds that the operator's own certificate is good for. It is renewed when a third of
    /// them is left.
    #[arg(
        long = "webhook-certificate-seconds",
        id = "webhook_certificate_seconds",
        value_name = "SECONDS",
        requires = "webhook",
        conflicts_with = "webhook_tls",
        default_value_t = 90 * 24 * 3600,
        value_parser = clap::value_parser!(u32).range(30..=10 * 366 * 24 * 3600)
    )]
    pub lifetime: u32,
}

impl WebhookOptions {
    /// Returns the webhook's address and certificate, if it is enabled.
    ///
    /// # Errors
    /// If the given certificate cannot be used.
    pub fn config(&self, namespace: &str) -> anyhow::Result<Option<WebhookConfig>> {
        let Some(address) = self.listen else {
            return Ok(None);
        };
        let source = match &self.tls {
            Some(folder) => WebhookCertificate::Loaded(ReloadingCertificate::new(
                CertificateSource::Folder(folder.clone()),
            )?),
            None => {
                let service = format!("{NAME}.{namespace}.svc");
                let names = [&service].into_iter().chain(&self.hosts);
                WebhookCertificate::Managed {
                    identity: Identity::default(),
                    namespace: namespace.to_owned(),
                    names: names.map(|name| normalize_host(name)).collect(),
                    lifetime: Duration::from_secs(self.lifetime.into()),
                }
            }
        };
        Ok(Some(WebhookConfig { address, source }))
    }
}

/// Returns a name or an address in the form of a certificate.
fn normalize_host(name: &str) -> String {
    match name.parse::<std::net::IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

/// Address of the webhook, and the source of its certificate.
#[derive(Debug)]
pub struct WebhookConfig {
    address: SocketAddr,
    source: WebhookCertificate,
}

#[derive(Debug)]
enum WebhookCertificate {
    /// A given certificate. Another tool renews it and publishes its authority to the API server.
    Loaded(ReloadingCertificate),
    /// A certificate that the operator makes and renews.
    Managed {
        identity: Identity,
        namespace: String,
        names: Vec<String>,
        lifetime: Duration,
    },
}

impl WebhookConfig {
    /// TLS identity of the webhook.
    fn identity(&self) -> Identity {
        match &self.source {
            WebhookCertificate::Loaded(tls) => tls.identity(),
            WebhookCertificate::Managed { identity, .. } => identity.clone(),
        }
    }
}

/// The webhook of this process.
#[derive(Debug)]
pub struct Webhook {
    caches: WebhookCaches,
    identity: Identity,
    is_shutting_down: CancellationToken,
    stop: CancellationToken,
    done: CancellationToken,
}

impl Webhook {
    /// Returns a webhook and its future. The caller must poll the future as long as the process
    /// lives.
    pub fn new(
        config: WebhookConfig,
        clients: &Clients,
        loader: PolicyLoader,
        settings: Arc<Settings>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let webhook = Self {
            caches: WebhookCaches::default(),
            identity: config.identity(),
            is_shutting_down: CancellationToken::new(),
            stop: CancellationToken::new(),
            done: CancellationToken::new(),
        };
        let (watch, command) = (clients.watch.clone(), clients.command.clone());
        let watches = webhook.caches.clone().watch_cluster(watch, loader.clone());
        let (stop, done) = (webhook.stop.clone(), webhook.done.clone());
        let (caches, is_leaving) = (webhook.caches.clone(), webhook.is_shutting_down.clone());
        let answers = async move {
            let identity = config.identity();
            let renewal = match config.source {
                WebhookCertificate::Loaded(tls) => renew_loaded(tls),
                WebhookCertificate::Managed {
                    identity,
                    namespace,
                    names,
                    lifetime,
                } => renew_managed(CertificateKeeper::new(
                    CERTIFICATE,
                    &command,
                    &namespace,
                    names,
                    lifetime,
                    &identity,
                )),
            };
            let server =
                WebhookServer::new(caches, loader, settings, identity, command, is_leaving);
            tokio::select! {
                () = watches => {}
                () = renewal => {}
                () = server.serve(config.address, stop) => done.cancel(),
            }
        };
        (webhook, answers)
    }

    /// Readiness of the webhook.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        Readiness {
            identity: self.identity.clone(),
            caches: self.caches.clone(),
        }
    }

    /// Uses the leader's caches once they are complete, so that the process watches no kind twice.
    pub fn use_leader(&self, context: Arc<Context>) {
        self.caches.use_leader(context);
    }

    /// Shuts down without failing a request: reports "not ready", answers until API servers know
    /// that, then accepts no more connections and finishes the last requests.
    pub async fn drain(self) {
        info!("the admission webhook is no longer ready");
        self.is_shutting_down.cancel();
        tokio::time::sleep(SHUTDOWN_DELAY).await;
        self.stop.cancel();
        self.done.cancelled().await;
    }
}

/// Readiness of the webhook for reviews: it has a certificate and knows the cluster.
#[derive(Clone, Debug)]
pub struct Readiness {
    identity: Identity,
    caches: WebhookCaches,
}

impl Readiness {
    /// Readiness with this context.
    #[cfg(test)]
    pub(crate) fn for_context(identity: Identity, context: Arc<Context>) -> Self {
        let caches = WebhookCaches::fixed(context);
        Self { identity, caches }
    }

    /// TLS identity of the webhook.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns true if the caches hold everything that an answer needs. A replica has its own
    /// watches until it leads and the leader's caches are complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.caches.is_complete()
    }

    /// Returns the kind whose watch is stalled. While one is, the webhook judges no job.
    #[must_use]
    pub fn stalled_watch(&self) -> Option<String> {
        self.caches.context().cache.stale_watch()
    }

    /// Returns the time since each watch last showed that it works.
    #[must_use]
    pub fn watch_ages(&self) -> BTreeMap<String, Duration> {
        self.caches.context().cache.watch_ages()
    }
}

type RenewalFuture = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn renew_loaded(tls: ReloadingCertificate) -> RenewalFuture {
    Box::pin(tls.reload_forever())
}

fn renew_managed(keeper: CertificateKeeper) -> RenewalFuture {
    Box::pin(keeper.run())
}
