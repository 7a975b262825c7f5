//! Nominates a gang that gets its place once its victims have left. This module first makes all
//! possible checks, and then writes the nomination to the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use trellis_api::pod_group::NominatedVictim;
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::{AuthorizedAttempt, journal};
use trellis_machine::clock;

use super::plan_opening::plan_quota;
use super::{Committer, claim_binding};
use crate::task_outcome::TaskOutcome;

/// A place for a gang, and the victims that have to leave it first.
#[derive(Clone, Debug, Default)]
pub struct Nomination {
    /// Nodes that the gang is to get.
    pub place: GangPlacement,
    /// Gangs and pods that have to leave.
    pub victims: Vec<NominatedVictim>,
    /// The nomination in words.
    pub message: String,
}

impl Committer {
    /// Writes a nomination to the journal, unless admission, its claims, a ResourceQuota or a
    /// victim's disruption budget forbids it. The victims have not been asked to leave yet.
    pub async fn nominate(
        &self,
        job: Key,
        run: Arc<AuthorizedAttempt>,
        nomination: Nomination,
        planned: BTreeMap<String, AdmittedPod>,
        stop: CancellationToken,
    ) -> TaskOutcome {
        let tried = self.try_to_nominate(&job, &run, nomination, planned, &stop);
        tried.await.err().unwrap_or(TaskOutcome::Done)
    }

    async fn try_to_nominate(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        nomination: Nomination,
        planned: BTreeMap<String, AdmittedPod>,
        stop: &CancellationToken,
    ) -> Result<(), TaskOutcome> {
        let Nomination {
            place,
            victims,
            message,
        } = nomination;
        self.check_allowed(job, run)?;
        let plan = journal::build_plan(run, &place, clock::now());
        let actual = self.run_preflight(job, run, &plan, &planned).await?;
        if actual != planned {
            return Err(TaskOutcome::Replan(actual));
        }
        // No victim must leave for a place whose volumes the gang cannot get.
        let _promise = self.claim_promises.guard_for(job);
        self.check_bindable(job, &claim_binding::plan_mounts(run, &plan, &actual))?;
        let whole = plan_quota(run, &plan, &actual).total_demand();
        if let Some(message) = self.exceeded_quota(job, &whole) {
            return Err(TaskOutcome::OverQuota(whole, message));
        }
        if let Some(kept) = self.find_protected_victim(&victims).await? {
            return Err(TaskOutcome::VictimProtected(kept));
        }
        self.await_current_policies(job, run, place.quota_version, stop)
            .await?;
        if stop.is_cancelled() {
            return Err(TaskOutcome::Done);
        }
        self.check_allowed(job, run)?;
        self.write_journal(job, &run.uid, move |before| {
            journal::nominate(before, plan, victims, message)
        })
        .await
    }
}
