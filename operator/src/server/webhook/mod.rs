//! The admission webhook: what the controller will say of a job, and what is wrong
//! with a policy or a profile, said before it is stored (docs/webhook.md).
//!
//! It is early feedback and no authority: the controller decides again, so that whatever this
//! cannot answer in time passes. Every operator answers, not only who leads, from what it
//! knows of the cluster: a request costs no other.
//!
//! Where to look: `review` is an AdmissionReview in and out, `judge` decides, `job`, `policy`,
//! `quota` and `profile` for one kind each; `server` bounds body, time and concurrency; `caches` is what is
//! known.

mod answer;
mod caches;
#[cfg(test)]
mod fixtures;
mod job;
mod judge;
mod metrics;
mod policy;
mod profile;
mod quota;
mod review;
mod server;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::info;
use trellis_compiler::Settings;
use trellis_policies::cedar::Loader;

use crate::dispatch::clients::Clients;
use crate::dispatch::context::Context;
use crate::server::serve::{Certificate, Identity, Keeper, Tls, What, Whom};
use caches::Caches;
#[cfg(test)]
pub(crate) use metrics::told;
use server::Server;

/// Its Service, its Secret and its ValidatingWebhookConfiguration.
pub const NAME: &str = "trellis-webhook";

/// Its certificate.
const CERTIFICATE: What = What {
    secret: NAME,
    words: "the webhook",
    file: "webhook.yaml",
    told: Whom::Webhook(NAME),
};

/// After the operator was told to stop it answers for so long as before: until then API
/// servers have heard that it is not ready.
const LINGER: Duration = Duration::from_secs(3);

/// Where and as whom it listens.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "webhook_options")]
pub struct Options {
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

impl Options {
    /// What it is to be, if it is to be.
    ///
    /// # Errors
    /// If the certificate that is given is of no use.
    pub fn given(&self, namespace: &str) -> anyhow::Result<Option<Given>> {
        let Some(address) = self.listen else {
            return Ok(None);
        };
        let source = match &self.tls {
            Some(folder) => Source::Given(Tls::new(Certificate::Folder(folder.clone()))?),
            None => {
                let service = format!("{NAME}.{namespace}.svc");
                let names = [&service].into_iter().chain(&self.hosts);
                Source::Own {
                    identity: Identity::default(),
                    namespace: namespace.to_owned(),
                    names: names.map(|name| plain(name)).collect(),
                    lifetime: Duration::from_secs(self.lifetime.into()),
                }
            }
        };
        Ok(Some(Given { address, source }))
    }
}

/// A name or an address as a certificate bears it.
fn plain(name: &str) -> String {
    match name.parse::<std::net::IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

/// Where it listens, and where its certificate comes from.
#[derive(Debug)]
pub struct Given {
    address: SocketAddr,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Somebody else renews it, and tells the API server of it.
    Given(Tls),
    /// We do.
    Own {
        identity: Identity,
        namespace: String,
        names: Vec<String>,
        lifetime: Duration,
    },
}

impl Given {
    /// As whom it answers.
    fn identity(&self) -> Identity {
        match &self.source {
            Source::Given(tls) => tls.identity(),
            Source::Own { identity, .. } => identity.clone(),
        }
    }
}

/// The webhook of this process.
#[derive(Debug)]
pub struct Webhook {
    caches: Caches,
    identity: Identity,
    is_leaving: CancellationToken,
    stop: CancellationToken,
    done: CancellationToken,
}

impl Webhook {
    /// A webhook, and what it does: to be polled for as long as the process lives.
    pub fn new(
        given: Given,
        clients: &Clients,
        loader: Loader,
        settings: Arc<Settings>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let webhook = Self {
            caches: Caches::default(),
            identity: given.identity(),
            is_leaving: CancellationToken::new(),
            stop: CancellationToken::new(),
            done: CancellationToken::new(),
        };
        let (watch, command) = (clients.watch.clone(), clients.command.clone());
        let known = webhook.caches.clone().keep(watch, loader.clone());
        let (stop, done) = (webhook.stop.clone(), webhook.done.clone());
        let (caches, is_leaving) = (webhook.caches.clone(), webhook.is_leaving.clone());
        let answers = async move {
            let identity = given.identity();
            let renewed = match given.source {
                Source::Given(tls) => renew_given(tls),
                Source::Own {
                    identity,
                    namespace,
                    names,
                    lifetime,
                } => renew_own(Keeper::new(
                    CERTIFICATE,
                    &command,
                    &namespace,
                    names,
                    lifetime,
                    &identity,
                )),
            };
            let server = Server::new(caches, loader, settings, identity, command, is_leaving);
            tokio::select! {
                () = known => {}
                () = renewed => {}
                () = server.serve(given.address, stop) => done.cancel(),
            }
        };
        (webhook, answers)
    }

    /// Whether it could answer now.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        Readiness {
            identity: self.identity.clone(),
            caches: self.caches.clone(),
        }
    }

    /// From now on, once all is known there, it answers from what the leader knows: nothing is
    /// watched twice.
    pub fn look_at(&self, context: Arc<Context>) {
        self.caches.lead(context);
    }

    /// Ends it so that no request fails: it says that it is not ready, answers on until that is
    /// known, takes no more, and answers the last.
    pub async fn drain(self) {
        info!("the admission webhook is no longer ready");
        self.is_leaving.cancel();
        tokio::time::sleep(LINGER).await;
        self.stop.cancel();
        self.done.cancelled().await;
    }
}

/// What API servers need of it before they ask: a certificate, and that it knows the cluster.
#[derive(Clone, Debug)]
pub struct Readiness {
    identity: Identity,
    caches: Caches,
}

impl Readiness {
    /// Of one that knows this.
    #[cfg(test)]
    pub(crate) fn of(identity: Identity, context: Arc<Context>) -> Self {
        let caches = Caches::of(context);
        Self { identity, caches }
    }

    /// As whom it answers.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether all is known that an answer hangs on. Every replica watches that for itself, until
    /// it leads and all is known there.
    #[must_use]
    pub fn knows_all(&self) -> bool {
        self.caches.is_complete()
    }

    /// The kind of which nothing has been heard for so long that no job is judged by what is known.
    #[must_use]
    pub fn unseen(&self) -> Option<String> {
        self.caches.context().cache.unseen()
    }

    /// How long ago each of its watches last showed that it lives.
    #[must_use]
    pub fn watch_ages(&self) -> BTreeMap<String, Duration> {
        self.caches.context().cache.watch_ages()
    }
}

type Renews = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn renew_given(tls: Tls) -> Renews {
    Box::pin(tls.follow())
}

fn renew_own(keeper: Keeper) -> Renews {
    Box::pin(keeper.keep())
}
