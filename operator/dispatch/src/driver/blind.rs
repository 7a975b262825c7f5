//! While a watch stays broken, the scheduler decides nothing on its stale objects.

use std::collections::BTreeSet;
use std::time::Duration;

use tracing::{error, info};
use trellis_api::Reason;
use trellis_gang::key::Key;
use trellis_gang::{Certificate, engine, external};

use super::{Driver, Inside};

/// How often a broken watch is checked.
pub(super) const LOOK: Duration = Duration::from_secs(1);

impl Driver {
    /// True if the scheduler must not decide now. Each waiting gang is given the reason once.
    pub(super) fn is_blind(&mut self, touched: &BTreeSet<Key>) -> bool {
        let unseen = self.committer.cache().unseen();
        let changed = unseen != self.unseen;
        match (&self.unseen, &unseen) {
            (_, Some(kind)) if changed => {
                error!(
                    kind,
                    "its watch is broken, and what is known of it is old: nothing is placed"
                );
            }
            (Some(kind), None) => info!(kind, "its watch shows it again"),
            _ => {}
        }
        self.unseen = unseen;
        let waits = |job: &&Key| match external::is_external(job) {
            true => self.inside_of_external_pods(job) == Inside::Waiting,
            false => {
                let inside = self.gangs.get(*job).map(|state| state.inside);
                inside == Some(Inside::Waiting)
            }
        };
        let jobs: Vec<Key> = match &self.unseen {
            _ if changed => {
                let all = self.gangs.keys().chain(self.external_pods.units());
                all.filter(waits).cloned().collect()
            }
            Some(_) => touched.iter().filter(waits).cloned().collect(),
            None => return false,
        };
        for job in jobs {
            self.say_what_is_seen(&job);
        }
        self.unseen.is_some()
    }

    fn say_what_is_seen(&mut self, job: &Key) {
        if let Some(kind) = &self.unseen {
            let message = format!(
                "the watch of {kind} has been broken for minutes: nothing is placed on what may be so no more"
            );
            return self.say(job, Certificate::waits(Reason::CacheNotReady, message));
        }
        let id = engine::id(job);
        match self.engine.certificate(&id) {
            Some(certificate) => {
                let told = self.told(&id, certificate);
                self.say(job, told);
            }
            // The engine has not explained this gang yet.
            None if external::is_external(job) => {}
            None => {
                let context = self.committer.context();
                context.certificates.write().remove(job);
                context.work.add(job.clone());
            }
        }
    }
}
