//! While a watch is broken, the scheduler makes no decisions, because its objects are stale.

use std::collections::BTreeSet;
use std::time::Duration;

use tracing::{error, info};
use trellis_api::Reason;
use trellis_gang::key::Key;
use trellis_gang::{GangExplanation, engine, external};

use super::{Driver, EngineState};

/// How often a broken watch is checked.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Driver {
    /// Returns true if the scheduler must not decide now. Reports the reason once for each waiting
    /// gang.
    pub(super) fn is_watch_broken(&mut self, to_advance: &BTreeSet<Key>) -> bool {
        let unseen = self.committer.cache().stale_watch();
        let changed = unseen != self.broken_watch;
        match (&self.broken_watch, &unseen) {
            (_, Some(kind)) if changed => {
                error!(
                    kind,
                    "its watch is broken, and what is known of it is old: nothing is placed"
                );
            }
            (Some(kind), None) => info!(kind, "its watch shows it again"),
            _ => {}
        }
        self.broken_watch = unseen;
        let waits = |job: &&Key| match external::is_external(job) {
            true => self.external_engine_state(job) == EngineState::Waiting,
            false => {
                let inside = self.gangs.get(*job).map(|state| state.engine_state);
                inside == Some(EngineState::Waiting)
            }
        };
        let jobs: Vec<Key> = match &self.broken_watch {
            _ if changed => {
                let all = self.gangs.keys().chain(self.external_pods.units());
                all.filter(waits).cloned().collect()
            }
            Some(_) => to_advance.iter().filter(waits).cloned().collect(),
            None => return false,
        };
        for job in jobs {
            self.explain_watch_state(&job);
        }
        self.broken_watch.is_some()
    }

    fn explain_watch_state(&mut self, job: &Key) {
        if let Some(kind) = &self.broken_watch {
            let message = format!(
                "the watch of {kind} has been broken for minutes: nothing is placed on what may be so no more"
            );
            return self.record_explanation(
                job,
                GangExplanation::waiting(Reason::CacheNotReady, message),
            );
        }
        let id = engine::gang_id(job);
        match self.engine.explanation(&id) {
            Some(wait_explanation) => {
                let explanation = self.explain_refusal(&id, wait_explanation);
                self.record_explanation(job, explanation);
            }
            // The engine has not explained this gang yet.
            None if external::is_external(job) => {}
            None => {
                let context = self.committer.context();
                context.explanations.write().remove(job);
                context.work_queue.add(job.clone());
            }
        }
    }
}
