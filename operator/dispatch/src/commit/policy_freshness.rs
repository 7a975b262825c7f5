//! Makes sure, before a place is journaled, that its policies are at least as new as the request.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trellis_api::Reason;
use trellis_gang::key::Key;
use trellis_gang::{AuthorizedAttempt, GangExplanation};

use super::Committer;
use crate::task_outcome::TaskOutcome;

/// Time after which a gang whose place waits for policies reports that.
const EXPLAIN_LAG_AFTER: Duration = Duration::from_secs(1);

/// The policies that judged external pods.
#[derive(Clone, Debug)]
pub struct PolicyVersions {
    /// Time of the judgement.
    pub judged_at: Instant,
    /// Version of the policies.
    pub policies: String,
    /// Version of the QuotaPolicies.
    pub quotas: u64,
}

impl Committer {
    /// Waits until all policies that were stored when the job was read are loaded. Fails unless the
    /// current QuotaPolicies were used to find the job's place.
    pub(super) async fn await_current_policies(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        quotas: u64,
        stop: &CancellationToken,
    ) -> Result<(), TaskOutcome> {
        self.await_policies(job, run.read_at, stop).await?;
        self.check_allowed(job, run)?;
        self.check_quota_version(job, quotas)
    }

    /// Does the same checks for external pods.
    pub(super) async fn check_policy_versions(
        &self,
        unit: &Key,
        by: &PolicyVersions,
        stop: &CancellationToken,
    ) -> Result<(), TaskOutcome> {
        self.await_policies(unit, by.judged_at, stop).await?;
        let policies = self.context.cache.policies.active();
        let now = policies.map(|policies| policies.version(&unit.namespace));
        if now.as_ref() != Some(&by.policies) {
            return Err(policies_changed("policies"));
        }
        self.check_quota_version(unit, by.quotas)
    }

    fn check_quota_version(&self, unit: &Key, quotas: u64) -> Result<(), TaskOutcome> {
        if self.context.cache.quotas.version() == quotas {
            return Ok(());
        }
        self.context.work_queue.add(unit.clone());
        Err(policies_changed("quota policies"))
    }

    async fn await_policies(
        &self,
        unit: &Key,
        since: Instant,
        stop: &CancellationToken,
    ) -> Result<(), TaskOutcome> {
        let reached = async {
            self.context.cache.freshness.wait_until_fresh(since).await;
            self.context
                .cache
                .policies
                .wait_settled(&unit.namespace)
                .await;
        };
        let mut reached = std::pin::pin!(reached);
        let mut has_said = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return Err(TaskOutcome::Done),
                () = &mut reached => break,
                () = tokio::time::sleep(EXPLAIN_LAG_AFTER) => {
                    self.explain_policy_lag(unit);
                    has_said = true;
                }
            }
        }
        if has_said {
            self.context.explanations.write().remove(unit);
        }
        Ok(())
    }

    fn explain_policy_lag(&self, unit: &Key) {
        let lag = self.context.cache.freshness.lag();
        let message = format!("a place was found; {lag}");
        let explanation = GangExplanation::waiting(Reason::CacheNotReady, message);
        let mut certificates = self.context.explanations.write();
        let before = certificates.insert(unit.clone(), explanation.clone());
        drop(certificates);
        if before.as_ref() != Some(&explanation) {
            self.context.work_queue.add(unit.clone());
        }
    }
}

fn policies_changed(objects: &str) -> TaskOutcome {
    TaskOutcome::Retry(format!(
        "the {objects} have changed since it was decided that it may run"
    ))
}
