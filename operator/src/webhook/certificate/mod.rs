//! Who we say we are: a certificate of our own in a Secret, which all of us share, and
//! the API server told whom to trust. Renewed so that at no moment a certificate is shown
//! that is not trusted: first who knows the next one is trusted, then it is shown.
//!
//! Whoever finds something to be done does it. Of two at a time one is refused by the
//! version of the Secret, and looks again. This and the Lease alone are written by who does
//! not lead.

mod issue;
mod kept;

use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;
use tracing::{debug, info, warn};
use trellis_api::names;

use super::NAME;
use crate::commands::WriteError;
use crate::serve::{Identity, Pem};
use kept::{Kept, Step};

/// Looks at the Secret in the time that a certificate is good for, and the bounds of the time
/// between two.
const LOOKS: u32 = 60;
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(10);

/// After something was written.
const SOON: Duration = Duration::from_millis(100);

/// Keeps our certificate.
pub(super) struct Keeper {
    secrets: Api<Secret>,
    configurations: Api<ValidatingWebhookConfiguration>,
    names: Vec<String>,
    lifetime: Duration,
    identity: Identity,
    /// What we show.
    shows: Option<Pem>,
    /// Whom API servers were found to trust, and since when.
    trusted: Option<(String, Instant)>,
    /// What was said last that is wrong.
    told: Option<String>,
}

/// When to look again.
enum Next {
    /// Something was written.
    Soon,
    Later,
}

impl Keeper {
    /// Keeps the certificate of `identity`.
    pub(super) fn new(
        client: &Client,
        namespace: &str,
        names: Vec<String>,
        lifetime: Duration,
        identity: &Identity,
    ) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), namespace),
            configurations: Api::all(client.clone()),
            names,
            lifetime,
            identity: identity.clone(),
            shows: None,
            trusted: None,
            told: None,
        }
    }

    /// Never ends.
    pub(super) async fn keep(mut self) {
        let pause = self.lifetime.checked_div(LOOKS).unwrap_or_default();
        let pause = pause.clamp(SHORTEST, LONGEST);
        loop {
            let looked = self.look().await;
            self.identity.set_degraded(looked.is_err());
            match looked {
                Ok(next) => {
                    if self.told.take().is_some() {
                        info!("the webhook's certificate is kept again");
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

    /// Says what is wrong, once.
    fn tell(&mut self, error: String) {
        if self.told.as_ref() != Some(&error) {
            warn!(%error, "the webhook's certificate is not kept: what is shown goes on until it ends");
            self.told = Some(error);
        }
    }

    async fn look(&mut self) -> anyhow::Result<Next> {
        let what = || format!("the Secret {NAME:?}: apply webhook.yaml of the chart");
        let secret = self.secrets.get(NAME).await.map_err(WriteError::from);
        let secret = secret.with_context(what)?;
        let data = secret.data.clone().unwrap_or_default();
        let mut kept = Kept::read(&data);
        self.show(&kept)?;
        // Even if nobody can be told whom to trust, there is a certificate.
        let trusted = self.have_trusted(&kept).await;
        let trusted_for = trusted.as_ref().ok().copied().flatten();
        let now = Timestamp::now();
        match kept.step(&self.names, now, trusted_for) {
            Step::Nothing => return trusted.map(|_| Next::Later),
            Step::Begin => {
                info!(names = ?self.names, "a certificate is made for the webhook");
                kept.begin(issue::issue(&self.names, now, self.lifetime)?, now);
            }
            Step::Prepare => {
                info!("the webhook's certificate is renewed: who knows the next is trusted first");
                kept.prepare(issue::issue(&self.names, now, self.lifetime)?, now);
            }
            Step::Swap => {
                info!("the webhook shows its next certificate");
                kept.swap(now);
            }
        }
        self.write(secret, &kept).await?;
        Ok(Next::Soon)
    }

    /// Shows what is kept.
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

    /// Writes the Secret, if it is what we have read.
    async fn write(&self, mut secret: Secret, kept: &Kept) -> anyhow::Result<()> {
        kept.write(secret.data.get_or_insert_default());
        let params = PostParams {
            field_manager: Some(names::MANAGER.to_owned()),
            ..PostParams::default()
        };
        let written = self.secrets.replace(NAME, &params, &secret).await;
        match written.map_err(WriteError::from) {
            Ok(_) => Ok(()),
            Err(WriteError::Conflict(why)) => {
                debug!(why, "another was faster");
                Ok(())
            }
            Err(error) => Err(error).context("the Secret is not written"),
        }
    }

    /// Has API servers trust who is to be. Gives for how long they were found to.
    async fn have_trusted(&mut self, kept: &Kept) -> anyhow::Result<Option<Duration>> {
        let wanted = kept.trusted();
        if wanted.is_empty() {
            return Ok(None);
        }
        let what = || {
            format!("the ValidatingWebhookConfiguration {NAME:?}: apply webhook.yaml of the chart")
        };
        let found = self.configurations.get(NAME).await;
        let found = found.map_err(WriteError::from).with_context(what)?;
        let bytes = ByteString(wanted.clone().into_bytes());
        let hooks = found.webhooks.unwrap_or_default();
        let is_told = |bundle: &Option<ByteString>| bundle.as_ref() == Some(&bytes);
        if hooks.is_empty() {
            bail!("{} has no webhooks in it", what());
        }
        if hooks.iter().all(|h| is_told(&h.client_config.ca_bundle)) {
            let since = match self.trusted.take() {
                Some((trusted, since)) if trusted == wanted => since,
                _ => Instant::now(),
            };
            self.trusted = Some((wanted, since));
            return Ok(Some(since.elapsed()));
        }
        self.trusted = None;
        let named = hooks
            .iter()
            .map(|hook| json!({"name": hook.name, "clientConfig": {"caBundle": bytes}}));
        let patch = json!({
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "webhooks": named.collect::<Vec<_>>(),
        });
        let params = PatchParams {
            field_manager: Some(names::MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Strategic(patch);
        let written = self.configurations.patch(NAME, &params, &patch).await;
        match written.map_err(WriteError::from) {
            Ok(_) => info!("API servers are told whom to trust for the webhook"),
            // Another has told them.
            Err(WriteError::Conflict(_)) => {}
            Err(error) => return Err(error).with_context(what),
        }
        Ok(None)
    }
}
