//! Nominates a gang that gets its place once its victims have left. Everything that can be checked
//! before is checked first. Then the nomination is written to the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use trellis_api::pod_group::NominatedVictim;
use trellis_gang::admitted::Admitted;
use trellis_gang::flavors::Place;
use trellis_gang::key::Key;
use trellis_gang::{Run, journal};

use super::open::open_plan;
use super::{Committer, Outcome, bind};

/// Place for a gang, with the victims that leave it first.
#[derive(Clone, Debug, Default)]
pub struct Nomination {
    /// Nodes that the gang is to get.
    pub place: Place,
    /// Gangs and pods that leave.
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
        run: Arc<Run>,
        nomination: Nomination,
        planned: BTreeMap<String, Admitted>,
        stop: CancellationToken,
    ) -> Outcome {
        let tried = self.try_to_nominate(&job, &run, nomination, planned, &stop);
        tried.await.err().unwrap_or(Outcome::Done)
    }

    async fn try_to_nominate(
        &self,
        job: &Key,
        run: &Run,
        nomination: Nomination,
        planned: BTreeMap<String, Admitted>,
        stop: &CancellationToken,
    ) -> Result<(), Outcome> {
        let Nomination {
            place,
            victims,
            message,
        } = nomination;
        self.is_allowed(job, run)?;
        let plan = journal::plan(run, &place, Timestamp::now());
        let actual = self.preflight(job, run, &plan, &planned).await?;
        if actual != planned {
            return Err(Outcome::Replan(actual));
        }
        // No victim leaves for a place whose volumes the gang cannot have.
        let _promise = self.promises.of(job);
        self.can_bind(job, &bind::of_plan(run, &plan, &actual))?;
        let whole = open_plan(run, &plan, &actual).whole();
        if let Some(message) = self.over_quota(job, &whole) {
            return Err(Outcome::OverQuota(whole, message));
        }
        if let Some(kept) = self.kept(&victims).await? {
            return Err(Outcome::Kept(kept));
        }
        self.policies_are_as_new(job, run, place.quotas, stop)
            .await?;
        if stop.is_cancelled() {
            return Err(Outcome::Done);
        }
        self.is_allowed(job, run)?;
        self.journal(job, &run.uid, move |before| {
            journal::nominated(before, plan, victims, message)
        })
        .await
    }
}
