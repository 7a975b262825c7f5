//! A job whose pods are being created.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::Reason;
use trellis_api::job::JobPhase;

use super::{Evaluation, EvaluationResult, ExpiredObjects, add_seconds};
use crate::{GangExplanation, plan_start};

/// Time after which a gang that is still being committed shows in the status. When many gangs are
/// committed at once, the writes that close their journals wait for the pods of other gangs
/// (`trellis_dispatch::commands`). This is no news for the user.
const COMMIT_SHOWN_AFTER: SignedDuration = SignedDuration::from_secs(20);

impl Evaluation<'_> {
    pub(super) fn evaluate_committing(mut self) -> EvaluationResult {
        let desired = self.desired_run();
        let plan = self.observed.journal.plan.as_ref();
        let started = plan.and_then(plan_start).unwrap_or(Timestamp::MIN);
        let shown = started
            .saturating_add(COMMIT_SHOWN_AFTER)
            .unwrap_or(Timestamp::MAX);
        if shown > self.observed.now {
            return EvaluationResult {
                status: None,
                desired,
                next_check: Some(shown),
                expired: ExpiredObjects::Nothing,
            };
        }
        self.schedule_check(add_seconds(self.observed.now, 5));
        let tried = self.observed.explanation;
        let tried = tried.filter(|explanation| explanation.reason == Reason::BackingOff);
        let mut message = "the pods are being created".to_owned();
        if let Some(GangExplanation { message: why, .. }) = tried {
            message.push_str(&format!("; the last try: {why}"));
        }
        self.report(JobPhase::Starting, Reason::Committing, message, desired)
    }
}
