//! The state that a new leader inherits: places of gangs, and plans and pods of earlier leaders.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use trellis_gang::key::Key;

/// Longest time that the scheduler waits for the controller to look at the placed jobs.
const MAX_ADOPTION_WAIT: Duration = Duration::from_secs(30);
/// Longest sleep of the scheduler during this wait.
pub(in crate::driver) const ADOPTION_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The inherited jobs, plans and pods.
#[derive(Debug, Default)]
pub(in crate::driver) struct Inheritance {
    /// Placed jobs that the controller has not looked at since this replica leads. Until then, no
    /// gang is placed. A failed reconciliation counts, too, because the job holds its place in any
    /// case.
    unadopted: HashSet<Key>,
    /// When the wait for these jobs ends.
    deadline: Option<Instant>,
    /// Hash of the plan that each gang had before this replica led: this replica takes those plans
    /// over. Any other plan of an earlier epoch comes from a stale leader.
    plans: HashMap<Key, String>,
    /// Uids of surplus pods that existed before this replica led.
    surplus_pods: HashSet<String>,
}

impl Inheritance {
    /// Begins the wait for the inherited jobs.
    pub(in crate::driver) fn start_adoption(&mut self, now: Instant) {
        self.deadline = now.checked_add(MAX_ADOPTION_WAIT);
    }

    /// Adds a placed job that the controller has yet to look at.
    pub(in crate::driver) fn add_job(&mut self, job: Key) {
        self.unadopted.insert(job);
    }

    /// Removes a job that the controller has looked at, or that is gone.
    pub(in crate::driver) fn adopt(&mut self, job: &Key) {
        self.unadopted.remove(job);
    }

    /// Returns true while some jobs are not adopted yet.
    pub(in crate::driver) fn awaits_adoption(&self) -> bool {
        !self.unadopted.is_empty()
    }

    /// Returns true if no gang may be placed yet. `is_expected` tells whether the controller will
    /// still look at a job.
    pub(in crate::driver) fn blocks_decisions(
        &mut self,
        now: Instant,
        is_expected: impl Fn(&Key) -> bool,
    ) -> bool {
        self.unadopted.retain(is_expected);
        if self.unadopted.is_empty() || self.deadline.is_some_and(|at| at > now) {
            return !self.unadopted.is_empty();
        }
        warn!(
            jobs = self.unadopted.len(),
            "the controller has not looked at all placed jobs; scheduling begins without them"
        );
        self.unadopted.clear();
        false
    }

    /// Adds a plan that a gang had before this replica led.
    pub(in crate::driver) fn add_plan(&mut self, gang: Key, hash: String) {
        self.plans.insert(gang, hash);
    }

    /// Returns the hash of the inherited plan of a gang.
    pub(in crate::driver) fn plan(&self, gang: &Key) -> Option<&str> {
        self.plans.get(gang).map(String::as_str)
    }

    /// Forgets a gang that is gone.
    pub(in crate::driver) fn forget(&mut self, gang: &Key) {
        self.plans.remove(gang);
    }

    /// Adds surplus pods that existed before this replica led.
    pub(in crate::driver) fn add_surplus_pods(&mut self, uids: impl IntoIterator<Item = String>) {
        self.surplus_pods.extend(uids);
    }

    /// Returns true for a surplus pod that existed before this replica led.
    pub(in crate::driver) fn has_surplus_pod(&self, uid: &str) -> bool {
        self.surplus_pods.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn scheduling_begins_when_all_jobs_are_adopted_or_after_the_longest_wait() {
        let job = |name: &str| Key::new("team-a", name);
        let mut inheritance = Inheritance::default();
        let start = Instant::now();
        inheritance.start_adoption(start);
        assert!(!inheritance.blocks_decisions(start, |_| true));
        for name in ["adopted", "deleted", "late"] {
            inheritance.add_job(job(name));
        }
        inheritance.adopt(&job("adopted"));
        let expected = |job: &Key| &*job.name == "late";
        assert!(inheritance.blocks_decisions(start, expected));
        assert!(inheritance.awaits_adoption());
        let end = start.checked_add(MAX_ADOPTION_WAIT).unwrap();
        assert!(!inheritance.blocks_decisions(end, expected));
        assert!(!inheritance.awaits_adoption());
    }
}
