//! The operator's own certificate. All replicas share it in a Secret, and its authority is written
//! to the object in which API servers read it. A renewal never shows a certificate that is not
//! trusted: the next authority is trusted first, and then the next certificate is shown.
//!
//! Each replica does what it finds to do. If two write at once, the version of the Secret makes one
//! fail, and it looks again. Only these objects, the Lease and the label of the own pod are written
//! by standby replicas, too.

mod issue;
mod state;
mod told;

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::{debug, info, warn};
use trellis_api::names;
use trellis_dispatch::commands::WriteError;

use crate::serve::{Identity, Pem};
use state::{Kept, Step};
use told::Told;

/// Checks of the Secret per lifetime of a certificate, and the bounds of the pause between two.
const LOOKS: u32 = 60;
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(10);

/// Pause after a write.
const SOON: Duration = Duration::from_millis(100);

/// A certificate of the operator that is kept in the cluster.
#[derive(Clone, Copy, Debug)]
pub struct What {
    /// Name of its Secret.
    pub secret: &'static str,
    /// Purpose of the certificate, in words.
    pub words: &'static str,
    /// File of the chart with the Secret and the object that names the authority.
    pub file: &'static str,
    /// Object that names the authority.
    pub told: Whom,
}

/// The object by which API servers find the operator.
#[derive(Clone, Copy, Debug)]
pub enum Whom {
    /// The ValidatingWebhookConfiguration of that name.
    Webhook(&'static str),
    /// The APIService of that name.
    Group(&'static str),
}

/// Keeps and renews a certificate.
pub struct Keeper {
    what: What,
    secrets: Api<Secret>,
    told_by: Told,
    hosts: Vec<String>,
    lifetime: Duration,
    identity: Identity,
    /// The certificate that is shown.
    shows: Option<Pem>,
    /// The authorities that API servers were found to trust, and since when.
    trusted: Option<(String, Instant)>,
    /// The last error that was logged.
    told: Option<String>,
}

/// When to check again.
enum Next {
    /// Soon, after a write.
    Soon,
    Later,
}

impl Keeper {
    /// Keeps the certificate of `identity`, for these hosts, in a namespace.
    #[must_use]
    pub fn new(
        what: What,
        client: &Client,
        namespace: &str,
        hosts: Vec<String>,
        lifetime: Duration,
        identity: &Identity,
    ) -> Self {
        Self {
            what,
            secrets: Api::namespaced(client.clone(), namespace),
            told_by: match what.told {
                Whom::Webhook(name) => Told::webhook(client, name),
                Whom::Group(name) => Told::group(client, name),
            },
            hosts,
            lifetime,
            identity: identity.clone(),
            shows: None,
            trusted: None,
            told: None,
        }
    }

    /// Keeps the certificate. Never returns.
    pub async fn keep(mut self) {
        let pause = self.lifetime.checked_div(LOOKS).unwrap_or_default();
        let pause = pause.clamp(SHORTEST, LONGEST);
        loop {
            let looked = self.look().await;
            self.identity.set_degraded(looked.is_err());
            match looked {
                Ok(next) => {
                    if self.told.take().is_some() {
                        info!("the certificate of {} is kept again", self.what.words);
                    }
                    if matches!(next, Next::Soon) {
                        tokio::time::sleep(SOON).await;
                        continue;
                    }
                }
                Err(error) => self.tell(format!("{error:#}")),
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Logs an error once.
    fn tell(&mut self, error: String) {
        if self.told.as_ref() != Some(&error) {
            warn!(%error, "the certificate of {} is not kept: what is shown goes on until it ends", self.what.words);
            self.told = Some(error);
        }
    }

    async fn look(&mut self) -> anyhow::Result<Next> {
        let What {
            secret: name,
            words,
            file,
            ..
        } = self.what;
        let what = || format!("the Secret {name:?}: apply {file} of the chart");
        let secret = self.secrets.get(name).await.map_err(WriteError::from);
        let secret = secret.with_context(what)?;
        let data = secret.data.clone().unwrap_or_default();
        let mut kept = Kept::read(&data);
        self.show(&kept)?;
        // Even if the authority cannot be written, there is a certificate.
        let trusted = self.have_trusted(&kept).await;
        let trusted_for = trusted.as_ref().ok().copied().flatten();
        let now = Timestamp::now();
        match kept.step(&self.hosts, now, trusted_for) {
            Step::Nothing => return trusted.map(|_| Next::Later),
            Step::Begin => {
                info!(hosts = ?self.hosts, "a certificate is made for {words}");
                kept.begin(self.issue(now)?, now);
            }
            Step::Prepare => {
                info!("the certificate of {words} is renewed: who knows the next is trusted first");
                kept.prepare(self.issue(now)?, now);
            }
            Step::Swap => {
                info!("{words} shows its next certificate");
                kept.swap(now);
            }
        }
        self.write(secret, &kept).await?;
        Ok(Next::Soon)
    }

    fn issue(&self, now: Timestamp) -> anyhow::Result<issue::Issued> {
        issue::issue(self.what.secret, &self.hosts, now, self.lifetime)
    }

    /// Shows the certificate of the Secret.
    fn show(&mut self, kept: &Kept) -> anyhow::Result<()> {
        let Some(shown) = kept.shown() else {
            return Ok(());
        };
        if self.shows.as_ref() != Some(&shown.pem) {
            self.identity.take(&shown.pem)?;
            self.shows = Some(shown.pem.clone());
        }
        Ok(())
    }

    /// Writes the Secret, if it has not changed since it was read.
    async fn write(&self, mut secret: Secret, kept: &Kept) -> anyhow::Result<()> {
        kept.write(secret.data.get_or_insert_default());
        let params = PostParams {
            field_manager: Some(names::MANAGER.to_owned()),
            ..PostParams::default()
        };
        let written = self
            .secrets
            .replace(self.what.secret, &params, &secret)
            .await;
        match written.map_err(WriteError::from) {
            Ok(_) => Ok(()),
            Err(WriteError::Conflict(why)) => {
                debug!(why, "another was faster");
                Ok(())
            }
            Err(error) => Err(error).context("the Secret is not written"),
        }
    }

    /// Has API servers trust the authorities. Returns for how long they were found to trust them.
    async fn have_trusted(&mut self, kept: &Kept) -> anyhow::Result<Option<Duration>> {
        let wanted = kept.trusted();
        if wanted.is_empty() {
            return Ok(None);
        }
        if !self.told_by.tell(&wanted, self.what.file).await? {
            self.trusted = None;
            return Ok(None);
        }
        let since = match self.trusted.take() {
            Some((trusted, since)) if trusted == wanted => since,
            _ => Instant::now(),
        };
        self.trusted = Some((wanted, since));
        Ok(Some(since.elapsed()))
    }
}
