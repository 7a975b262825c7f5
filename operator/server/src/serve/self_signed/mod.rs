//! The operator's own certificate. All replicas share it in a Secret, and its authority is written
//! to the object in which API servers read it. A renewal first makes API servers trust the next
//! authority, and then shows the next certificate. So the operator never shows an untrusted
//! certificate.
//!
//! Each replica takes the next step of the renewal. If two write at once, the `resourceVersion` of
//! the Secret makes one fail, and this replica reads the Secret again. Standby replicas write only
//! these objects, the Lease and the label of their own pod.

mod issue;
mod secret;
mod trust_bundle;

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
use trellis_machine::clock;

use crate::serve::{Identity, Pem};
use secret::{CertificateSecret, RenewalStep};
use trust_bundle::TrustBundle;

/// Checks of the Secret per lifetime of a certificate, and the bounds of the pause between two
/// checks.
const CHECKS_PER_LIFETIME: u32 = 60;
const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Pause after a write.
const PAUSE_AFTER_WRITE: Duration = Duration::from_millis(100);

/// A certificate of the operator that is kept in the cluster.
#[derive(Clone, Copy, Debug)]
pub struct ManagedCertificate {
    /// Name of its Secret.
    pub secret: &'static str,
    /// Purpose of the certificate, in words.
    pub purpose: &'static str,
    /// File of the chart with the Secret and the object that names the authority.
    pub chart_file: &'static str,
    /// Object that names the authority.
    pub trust_object: TrustObject,
}

/// The object by which API servers find the operator.
#[derive(Clone, Copy, Debug)]
pub enum TrustObject {
    /// The ValidatingWebhookConfiguration with this name.
    Webhook(&'static str),
    /// The APIService with this name.
    Group(&'static str),
}

/// Keeps and renews a certificate.
pub struct CertificateKeeper {
    certificate: ManagedCertificate,
    secrets: Api<Secret>,
    trust_bundle: TrustBundle,
    hosts: Vec<String>,
    lifetime: Duration,
    identity: Identity,
    /// The certificate that the server shows.
    served: Option<Pem>,
    /// The authorities that the object named when it was last read, and since when.
    trusted: Option<(String, Instant)>,
    /// The last error that was logged.
    last_error: Option<String>,
}

/// When to check again.
enum NextCheck {
    /// Soon, after a write.
    Soon,
    Later,
}

impl CertificateKeeper {
    /// Creates a keeper of the certificate of `identity` for these hosts, in a namespace.
    #[must_use]
    pub fn new(
        what: ManagedCertificate,
        client: &Client,
        namespace: &str,
        hosts: Vec<String>,
        lifetime: Duration,
        identity: &Identity,
    ) -> Self {
        Self {
            certificate: what,
            secrets: Api::namespaced(client.clone(), namespace),
            trust_bundle: match what.trust_object {
                TrustObject::Webhook(name) => TrustBundle::webhook(client, name),
                TrustObject::Group(name) => TrustBundle::group(client, name),
            },
            hosts,
            lifetime,
            identity: identity.clone(),
            served: None,
            trusted: None,
            last_error: None,
        }
    }

    /// Keeps the certificate. Never returns.
    pub async fn run(mut self) {
        let pause = self
            .lifetime
            .checked_div(CHECKS_PER_LIFETIME)
            .unwrap_or_default();
        let pause = pause.clamp(MIN_PAUSE, MAX_PAUSE);
        loop {
            let checked = self.check().await;
            self.identity.set_degraded(checked.is_err());
            match checked {
                Ok(next) => {
                    if self.last_error.take().is_some() {
                        info!(
                            "the certificate of {} is maintained again",
                            self.certificate.purpose
                        );
                    }
                    if matches!(next, NextCheck::Soon) {
                        tokio::time::sleep(PAUSE_AFTER_WRITE).await;
                        continue;
                    }
                }
                Err(error) => self.log_error_once(format!("{error:#}")),
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Logs an error once.
    fn log_error_once(&mut self, error: String) {
        if self.last_error.as_ref() != Some(&error) {
            warn!(%error, "the certificate of {} cannot be maintained: the present one serves until it expires", self.certificate.purpose);
            self.last_error = Some(error);
        }
    }

    async fn check(&mut self) -> anyhow::Result<NextCheck> {
        let ManagedCertificate {
            secret: name,
            purpose: words,
            chart_file: file,
            ..
        } = self.certificate;
        let what = || format!("the Secret {name:?}: apply {file} of the chart");
        let secret = self.secrets.get(name).await.map_err(WriteError::from);
        let secret = secret.with_context(what)?;
        let data = secret.data.clone().unwrap_or_default();
        let mut state = CertificateSecret::read(&data);
        self.serve_current(&state)?;
        // The server has a certificate even if the authority cannot be written.
        let trusted = self.publish_authorities(&state).await;
        let trusted_for = trusted.as_ref().ok().copied().flatten();
        let now = clock::now();
        match state.next_step(&self.hosts, now, trusted_for) {
            RenewalStep::Nothing => return trusted.map(|_| NextCheck::Later),
            RenewalStep::Begin => {
                info!(hosts = ?self.hosts, "a certificate is made for {words}");
                state.start(self.issue_certificate(now)?, now);
            }
            RenewalStep::Prepare => {
                info!(
                    "the certificate of {words} is being renewed: its authority is published first"
                );
                state.prepare(self.issue_certificate(now)?, now);
            }
            RenewalStep::Swap => {
                info!("{words} serves its next certificate");
                state.swap(now);
            }
        }
        self.write_secret(secret, &state).await?;
        Ok(NextCheck::Soon)
    }

    fn issue_certificate(&self, now: Timestamp) -> anyhow::Result<issue::IssuedCertificate> {
        issue::issue(self.certificate.secret, &self.hosts, now, self.lifetime)
    }

    /// Shows the certificate of the Secret.
    fn serve_current(&mut self, state: &CertificateSecret) -> anyhow::Result<()> {
        let Some(current) = state.current() else {
            return Ok(());
        };
        if self.served.as_ref() != Some(&current.pem) {
            self.identity.use_certificate(&current.pem)?;
            self.served = Some(current.pem.clone());
        }
        Ok(())
    }

    /// Writes the Secret, if it has not changed since it was read.
    async fn write_secret(
        &self,
        mut secret: Secret,
        state: &CertificateSecret,
    ) -> anyhow::Result<()> {
        state.write(secret.data.get_or_insert_default());
        let params = PostParams {
            field_manager: Some(names::MANAGER.to_owned()),
            ..PostParams::default()
        };
        let written = self
            .secrets
            .replace(self.certificate.secret, &params, &secret)
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

    /// Makes API servers trust the authorities. Returns how long ago they were first found to trust
    /// them.
    async fn publish_authorities(
        &mut self,
        state: &CertificateSecret,
    ) -> anyhow::Result<Option<Duration>> {
        let bundle = state.trust_bundle();
        if bundle.is_empty() {
            return Ok(None);
        }
        if !self
            .trust_bundle
            .publish(&bundle, self.certificate.chart_file)
            .await?
        {
            self.trusted = None;
            return Ok(None);
        }
        let since = match self.trusted.take() {
            Some((trusted, since)) if trusted == bundle => since,
            _ => Instant::now(),
        };
        self.trusted = Some((bundle, since));
        Ok(Some(since.elapsed()))
    }
}
