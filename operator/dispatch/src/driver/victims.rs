//! Victims of preemption and drain: the preemptor of each, whether it has been asked to leave, and
//! whether it stays after all.
//!
//! The engine counts a victim as leaving from its decision on. The victim is asked to leave once
//! the nomination is in the preemptor's journal. Then its own journal says so, and a new leader
//! asks the victims that have not been asked yet.

use std::collections::BTreeSet;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::pod_group::{
    MAX_VICTIMS, NominatedVictim, PodGroupPhase, PodGroupStatus, VictimReason,
};
use trellis_api::{PodGroup, Reason};
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::{engine, external, journal};
use trellis_machine::clock;
use trellis_scheduler::Victim;

use super::{Driver, EngineState};
use crate::commit::Nomination;

/// How long a gang cannot be a victim again after its disruption budget or the state of the caches
/// forbade it.
pub(super) const PROTECTED_FOR: SignedDuration = SignedDuration::from_secs(60);
/// Most jobs that a message names.
const MAX_NAMED_JOBS: usize = 5;

/// A gang that the engine counts as leaving.
#[derive(Clone, Debug)]
pub(super) struct LeavingGang {
    /// The preemptor. None: the gang's queue is drained.
    preemptor: Option<Key>,
    /// Hash of the plan whose place the gang has to leave.
    plan: String,
    /// True if the gang may be asked to leave, because the nomination is in the journal.
    is_journaled: bool,
    /// When the gang was chosen as a victim.
    pub(super) since: Instant,
    message: String,
}

impl LeavingGang {
    /// Returns why the gang has to leave, if it may be asked to leave.
    pub(super) fn leave_request(&self) -> Option<&str> {
        self.is_journaled.then_some(self.message.as_str())
    }

    /// Returns true if the journal holds the place that the gang has to leave.
    pub(super) fn applies_to(&self, journal: &PodGroupStatus) -> bool {
        holds_place(journal) && journal.plan.as_ref().is_some_and(|p| p.hash == self.plan)
    }
}

/// Returns true if the gang holds the plan's place, even if some of its pods do not exist yet.
pub(super) fn holds_place(journal: &PodGroupStatus) -> bool {
    matches!(
        journal.phase,
        Some(PodGroupPhase::Committing | PodGroupPhase::Placed)
    )
}

impl Driver {
    /// Nominates the gang for a place that these victims have to leave.
    pub(super) fn preempt(&mut self, job: &Key, place: GangPlacement, victims: &[Victim]) {
        self.release_victims(job);
        let context = self.committer.context().clone();
        // No gang leaves for a gang that a new policy has not judged yet.
        let is_judged = self.is_judged(job);
        let state = self.gangs.get_mut(job).filter(|_| is_judged);
        let (Some(state), Some(group)) = (state, context.cache.pod_groups.get(job)) else {
            self.withdraw(job);
            for victim in victims {
                self.keep_in_place(&victim_key(victim), SignedDuration::ZERO);
            }
            return;
        };
        state.engine_state = EngineState::Nominated;
        let named = self.name_victims(job, &group, victims);
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            self.withdraw(job);
            context.touch(job.clone());
            return;
        };
        let busy = self.gangs.get(job).is_some_and(|s| s.task.is_some());
        if busy {
            // The gang is queued again once its task has ended.
            self.withdraw(job);
            return;
        }
        if let Some(message) = too_many_victims_message(&named) {
            self.put_off(job, Reason::InsufficientCapacity, message);
            return;
        }
        let message = self.nomination_message(&place, &named);
        self.nominate(
            job,
            Nomination {
                place,
                victims: named,
                message,
            },
        );
    }

    /// Names the victims whose place is in a journal. None: a victim's job does not decode,
    /// so its place cannot be rolled back.
    pub(super) fn name_victims(
        &mut self,
        job: &Key,
        group: &PodGroup,
        victims: &[Victim],
    ) -> Option<Vec<NominatedVictim>> {
        let mut named = Vec::new();
        let mut unreadable = BTreeSet::new();
        for victim in victims {
            let (victim_job, member) = engine::parse_gang_id(&victim.gang);
            let victim_key = victim_key(victim);
            let Some(because) = engine::to_preemption_reason(victim.reason) else {
                continue;
            };
            let Some(uid) = self.job_uid(&victim_job) else {
                unreadable.insert(victim_key);
                continue;
            };
            let Some(plan) = self.place_hash(&victim_job) else {
                self.cancel_unwritten_plan(&victim_job);
                continue;
            };
            let pods = member
                .as_ref()
                .map(|unit| self.unit_indexes(&victim_job, unit).len());
            let pods = pods.filter(|pods| *pods > 1);
            let nominated = NominatedVictim {
                namespace: victim_job.namespace.to_string(),
                name: victim_job.name.to_string(),
                uid,
                plan,
                pod: member.map(|member| member.pod_name(&victim_job.name)),
                pods: pods.and_then(|pods| i64::try_from(pods).ok()),
                because,
            };
            self.record_victim(job, group, &nominated, false);
            named.push(nominated);
        }
        for victim_key in &unreadable {
            self.keep_in_place(victim_key, PROTECTED_FOR);
        }
        unreadable.is_empty().then_some(named)
    }

    fn nominate(&mut self, job: &Key, nomination: Nomination) {
        let state = self.gangs.get(job);
        let (Some(state), Some(run)) = (state, state.and_then(|s| s.run().cloned())) else {
            self.withdraw(job);
            return;
        };
        let planned = state.admitted_pods(&run);
        let committer = self.committer.clone();
        let key = job.clone();
        self.start_task(job, Some(run.clone()), |stop| async move {
            committer
                .nominate(key, run, nomination, planned, stop)
                .await
        });
    }

    /// Makes a gang leave because its queue is drained.
    pub(super) fn drain(&mut self, victim: &Victim) {
        let (victim_job, victim_key) = (engine::job_key(&victim.gang), victim_key(victim));
        let Some(plan) = self.place_hash(&victim_job) else {
            self.cancel_unwritten_plan(&victim_job);
            return;
        };
        let queue = self.queue_of(&victim_job);
        let leaving = LeavingGang {
            preemptor: None,
            plan,
            is_journaled: true,
            since: Instant::now(),
            message: format!("queue {queue:?} is being drained"),
        };
        self.leaving.insert(victim_key, leaving);
        self.advance(&victim_job);
    }

    /// Returns the name of the queue in which a gang counts.
    fn queue_of(&self, gang: &Key) -> String {
        if external::is_external(gang) {
            return self.external_queue(gang);
        }
        let group = self.committer.cache().pod_groups.get(gang);
        group.map(|g| g.spec.queue_name.clone()).unwrap_or_default()
    }

    /// Asks the victims of a journaled nomination to leave, unless they have been asked.
    pub(super) fn ask_victims_to_leave(
        &mut self,
        job: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
    ) {
        for victim in &journal.victims {
            if self.record_victim(job, group, victim, true) {
                self.advance(&Key::new(&victim.namespace, &victim.name));
            }
        }
    }

    /// Records a victim if it still holds the place that it has to leave.
    pub(super) fn record_victim(
        &mut self,
        by: &Key,
        group: &PodGroup,
        victim: &NominatedVictim,
        is_journaled: bool,
    ) -> bool {
        let victim_job = Key::new(&victim.namespace, &victim.name);
        let is_other_job = self
            .job_uid(&victim_job)
            .is_some_and(|uid| uid != victim.uid);
        if is_other_job || self.place_hash(&victim_job).as_ref() != Some(&victim.plan) {
            return false;
        }
        let Some(victim_key) = engine::victim_key(victim) else {
            return false;
        };
        let before = self.leaving.get(&victim_key);
        let since = before.map_or_else(Instant::now, |before| before.since);
        let leaving = LeavingGang {
            preemptor: Some(by.clone()),
            plan: victim.plan.clone(),
            is_journaled,
            since,
            message: leave_message(by, group, victim.because),
        };
        self.leaving.insert(victim_key, leaving);
        true
    }

    /// Releases the victims of this preemptor. Those that have not begun to leave stay.
    pub(super) fn release_victims(&mut self, job: &Key) {
        let is_for_job = |leaving: &LeavingGang| leaving.preemptor.as_ref() == Some(job);
        let released: Vec<Key> = self
            .leaving
            .extract_if(.., |_, leaving| is_for_job(leaving))
            .map(|(victim_key, _)| victim_key)
            .collect();
        for victim_key in released {
            self.keep_in_place(&victim_key, SignedDuration::ZERO);
        }
    }

    /// Reports to the engine that a victim stays, and cannot be a victim again for this long.
    pub(super) fn keep_in_place(&mut self, job: &Key, safe: SignedDuration) {
        let until = clock::now().saturating_add(safe);
        let until = engine::to_engine_time(until.unwrap_or(Timestamp::MAX));
        self.engine.cancel_departure(&engine::gang_id(job), until);
    }

    /// Handles a victim that a disruption budget protects. The preemptor waits, and tries other
    /// victims first.
    pub(super) fn handle_protected_victim(&mut self, job: &Key, victim: &Key, message: String) {
        self.keep_in_place(victim, PROTECTED_FOR);
        self.put_off(job, Reason::ProtectedByBudget, message);
    }

    /// Cancels the task of a victim whose plan is not written: it holds no place yet, and waits
    /// again. If the plan is written after all, the victim stays, and the preemptor finds no room.
    fn cancel_unwritten_plan(&mut self, job: &Key) {
        if external::is_external(job) {
            return self.cancel_external_commit(job);
        }
        if let Some(task) = self.gangs.get(job).and_then(|state| state.task.as_ref()) {
            task.stop.cancel();
        }
    }

    /// Returns the hash of the plan whose place the gang holds.
    fn place_hash(&self, job: &Key) -> Option<String> {
        if external::is_external(job) {
            return self.external_place_id(job);
        }
        let group = self.committer.cache().pod_groups.get(job)?;
        let journal = group
            .status
            .as_ref()
            .filter(|journal| holds_place(journal))?;
        journal.plan.as_ref().map(|plan| plan.hash.clone())
    }

    pub(super) fn nomination_message(
        &self,
        place: &GangPlacement,
        victims: &[NominatedVictim],
    ) -> String {
        let nodes: BTreeSet<_> = place.placement.iter().map(|(_, _, node)| node).collect();
        let mut all: Vec<String> = victims.iter().map(victim_name).collect();
        all.dedup();
        let more = all.len().saturating_sub(MAX_NAMED_JOBS);
        let mut names: Vec<String> = all.iter().take(MAX_NAMED_JOBS).cloned().collect();
        if more > 0 {
            names.push(format!("{more} more"));
        }
        let (jobs, nodes) = (all.len(), nodes.len());
        let groups = &self.committer.cache().pod_groups;
        let grace = |victim: &NominatedVictim| {
            let group = groups.get(&Key::new(&victim.namespace, &victim.name))?;
            Some(group.spec.grace_period_seconds())
        };
        let longest = victims.iter().filter_map(grace).max();
        format!(
            "{jobs} {} leaving: {}; room on {nodes} {}; they have up to {} s to stop",
            match (jobs, victims.iter().any(|v| v.pod.is_some())) {
                (1, false) => "job is",
                (_, false) => "jobs are",
                (1, true) => "pod is",
                (_, true) => "jobs and pods are",
            },
            names.join(", "),
            if nodes == 1 { "node" } else { "nodes" },
            longest.unwrap_or(30),
        )
    }

    /// Gives up a nominated place.
    pub(super) fn cancel_nomination(&mut self, job: &Key) {
        self.withdraw(job);
        self.write_journal(job, journal::cancel_nomination);
    }
}

/// Returns the gang, or the surplus unit, that has to leave.
fn victim_key(victim: &Victim) -> Key {
    match engine::parse_gang_id(&victim.gang) {
        (job, None) => job,
        (job, Some(member)) => engine::surplus_unit_key(&job, &member),
    }
}

/// Returns the message that refuses too many victims, because one object must name all of them.
pub(super) fn too_many_victims_message(named: &[NominatedVictim]) -> Option<String> {
    (named.len() > MAX_VICTIMS).then(|| {
        format!(
            "{} jobs would have to make room, and {MAX_VICTIMS} is the most for one",
            named.len()
        )
    })
}

/// Returns the job, the surplus pod, or the slice by its first pod.
fn victim_name(victim: &NominatedVictim) -> String {
    match (&victim.pod, victim.pods) {
        (None, _) => format!("\"{}/{}\"", victim.namespace, victim.name),
        (Some(pod), None) => format!("pod \"{}/{pod}\"", victim.namespace),
        (Some(pod), Some(pods)) => {
            let first = format!("\"{}/{pod}\"", victim.namespace);
            format!("slice of {pods} pods with first pod {first}")
        }
    }
}

fn leave_message(by: &Key, group: &PodGroup, because: VictimReason) -> String {
    let why = match because {
        VictimReason::LaterInQueue => "both are in that queue, which puts the other first",
        VictimReason::Borrows => {
            "its own queue holds more than its quota, and that queue asks for its own"
        }
        VictimReason::LowerPriority => "both queues borrow, and its priority is lower",
        VictimReason::FairShare => "its own queue has the larger share of borrowed quota",
        VictimReason::Surplus => "its job can do without it",
    };
    format!(
        "makes room for job \"{by}\" of queue {:?} with priority {}: {why}",
        group.spec.queue_name,
        group.spec.priority()
    )
}

#[cfg(test)]
mod tests;
