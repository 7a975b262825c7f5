//! Makes sure, before a place is journaled, that its policies are at least as new as the request.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trellis_api::Reason;
use trellis_gang::key::Key;
use trellis_gang::{Certificate, Run};

use super::{Committer, Outcome};

/// Wait after which a place that waits for policies says so.
const PATIENCE: Duration = Duration::from_secs(1);

/// Policies by which external pods were judged.
#[derive(Clone, Debug)]
pub struct JudgedBy {
    /// Time of the judgement.
    pub at: Instant,
    /// Version of the policies.
    pub policies: String,
    /// Version of the QuotaPolicies.
    pub quotas: u64,
}

impl Committer {
    /// Waits until the policies that were stored when the job was read are loaded. Fails unless the
    /// job's place was found by the current QuotaPolicies.
    pub(super) async fn policies_are_as_new(
        &self,
        job: &Key,
        run: &Run,
        quotas: u64,
        stop: &CancellationToken,
    ) -> Result<(), Outcome> {
        self.await_policies(job, run.read_at, stop).await?;
        self.is_allowed(job, run)?;
        self.quotas_are(job, quotas)
    }

    /// The same for external pods.
    pub(super) async fn policies_are_those(
        &self,
        unit: &Key,
        by: &JudgedBy,
        stop: &CancellationToken,
    ) -> Result<(), Outcome> {
        self.await_policies(unit, by.at, stop).await?;
        let policies = self.context.cache.policies.active();
        let now = policies.map(|policies| policies.version(&unit.namespace));
        if now.as_ref() != Some(&by.policies) {
            return Err(changed("policies"));
        }
        self.quotas_are(unit, by.quotas)
    }

    fn quotas_are(&self, unit: &Key, quotas: u64) -> Result<(), Outcome> {
        if self.context.cache.quotas.version() == quotas {
            return Ok(());
        }
        self.context.work.add(unit.clone());
        Err(changed("quota policies"))
    }

    async fn await_policies(
        &self,
        unit: &Key,
        since: Instant,
        stop: &CancellationToken,
    ) -> Result<(), Outcome> {
        let reached = async {
            self.context.cache.freshness.reached(since).await;
            self.context.cache.policies.settled(&unit.namespace).await;
        };
        let mut reached = std::pin::pin!(reached);
        let mut has_said = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return Err(Outcome::Done),
                () = &mut reached => break,
                () = tokio::time::sleep(PATIENCE) => {
                    self.say_that_policies_lag(unit);
                    has_said = true;
                }
            }
        }
        if has_said {
            self.context.certificates.write().remove(unit);
        }
        Ok(())
    }

    fn say_that_policies_lag(&self, unit: &Key) {
        let lag = self.context.cache.freshness.lag();
        let message = format!("a place was found; {lag}");
        let told = Certificate::waits(Reason::CacheNotReady, message);
        let mut certificates = self.context.certificates.write();
        let before = certificates.insert(unit.clone(), told.clone());
        drop(certificates);
        if before.as_ref() != Some(&told) {
            self.context.work.add(unit.clone());
        }
    }
}

fn changed(what: &str) -> Outcome {
    Outcome::Again(format!(
        "the {what} have changed since it was decided that it may run"
    ))
}
