//! Places of one gang in the engine.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::job::{TrainingJobStatus, indexes};
use trellis_api::pod_group::{Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, Reason, names};
use trellis_cache::policy::Guard;
use trellis_gang::key::Key;
use trellis_gang::observed::PodPhase;
use trellis_gang::{Wish, engine, external, journal};
use trellis_scheduler::{Gang, NodeName, Placement};

use super::{Driver, Inside};

/// How long a gang that restarts keeps its nodes.
const KEPT_FOR: SignedDuration = SignedDuration::from_secs(120);

impl Driver {
    /// Enqueues the gang in the engine.
    pub(super) fn enqueue(&mut self, job: &Key, journal: &PodGroupStatus) {
        let Some(gang) = self.wanted(job, journal) else {
            return;
        };
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let before = std::mem::replace(&mut state.inside, Inside::Waiting);
        state.by_journal = false;
        if matches!(before, Inside::Placed | Inside::Nominated) {
            // The place was tentative and its plan was never written.
            self.engine.delete_gang(&gang.id);
            self.spare(job);
        }
        self.engine.apply_gang(gang);
    }

    /// Updates the request of a nominated gang: the engine judges that request when its victims
    /// have left.
    pub(super) fn renew(&mut self, job: &Key, journal: &PodGroupStatus) {
        if let Some(gang) = self.wanted(job, journal) {
            self.engine.apply_gang(gang);
        }
    }

    /// The gang as the engine is to know it.
    fn wanted(&mut self, job: &Key, journal: &PodGroupStatus) -> Option<Gang> {
        let retry = self.retry_time(job, journal);
        let kept_out = self.kept_out(job);
        let state = self.gangs.get_mut(job)?;
        let run = state.run().cloned()?;
        let now = Instant::now();
        if let Some(end) = state.avoided.next_end(now) {
            self.alarms.set(job, end);
        }
        let avoided = state.avoided.now(now).cloned();
        if !state.takes_suspects && !run.suspects.is_empty() {
            self.keep_away.insert(job.clone());
        }
        let ticket = engine::Ticket {
            submitted: run.submitted,
            not_before: run.not_before.max(retry),
            excluded: run
                .kept_away_from(!state.takes_suspects)
                .chain(avoided)
                .collect(),
            preempted: run.preempted,
            never_preempts: run.never_preempts,
            volumes: run.volumes.clone(),
            kept_out,
        };
        let mut gang = engine::gang(run.job.compiled(), &ticket, &state.actual);
        gang.draws = state.draws();
        Some(self.with_prediction(job, gang))
    }

    /// When the gang may be tried again. A gang that was put off before its first pod because a
    /// ResourceQuota had no room may be tried as soon as there is room. After a rollback it must
    /// wait, because its own deleted pods make room.
    fn retry_time(&self, job: &Key, journal: &PodGroupStatus) -> Option<Timestamp> {
        let retry = journal.retry_time.as_ref().map(|t| t.0);
        let has_room = journal.reason == Some(Reason::ResourceQuotaExceeded)
            && self
                .over_quota
                .get(job)
                .is_some_and(|ask| self.committer.over_quota(job, ask).is_none());
        retry.filter(|_| !has_room)
    }

    /// Takes the gang out of its place. A gang that restarts keeps those of its nodes that are
    /// healthy, for a limited time.
    pub(super) fn step_back(&mut self, job: &Key, journal: &PodGroupStatus) {
        let plan = journal.plan.as_ref();
        let is_undone = journal.phase == Some(PodGroupPhase::Unwinding)
            && journal.reason == Some(Reason::Restarting);
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let next = match &state.wish {
            Some(Wish::Run(run)) => Some(run.attempt),
            // Policies are judging the next attempt: the controller wishes for it in a moment.
            Some(Wish::Stop { reason, .. }) if *reason == Reason::Restarting => Some(i64::MAX),
            _ => None,
        };
        let (Some(next), Inside::Placed | Inside::Kept) = (next, state.inside) else {
            return self.withdraw(job);
        };
        if state.inside == Inside::Kept {
            return self.withdraw_surplus(job);
        }
        let Some(plan) = plan.filter(|plan| is_undone && plan.attempt < next) else {
            return self.withdraw(job);
        };
        // A gang that failed to start keeps nothing: a typing error would hold its GPUs.
        let written = self.committer.cache().jobs.get(job);
        let status = written.as_ref().and_then(|job| job.status.as_ref());
        // Nor does a gang whose stage is complete: the next stage is another gang.
        let is_over = |status: &TrainingJobStatus| {
            status.internal.failed_starts.unwrap_or(0) > 0
                || status.is_of_earlier_stage(plan.attempt)
        };
        if status.is_none_or(is_over) {
            return self.withdraw(job);
        }
        let excluded = state.run().map(|run| run.excluded.clone());
        let excluded = excluded.unwrap_or_default();
        let context = self.committer.context();
        let is_well = |node: &str| {
            // A node on which its ranks failed stays usable if no other node will do.
            let kept_away = excluded.iter().any(|n| n == node);
            let is_ill = context.cache.is_lost(node) || context.cache.why_unhealthy(node).is_some();
            !kept_away && !is_ill && context.cache.is_open(node)
        };
        let nodes: BTreeSet<&str> = plan.assignments.iter().map(|a| a.node.as_str()).collect();
        let left: Vec<NodeName> = nodes
            .into_iter()
            .filter(|node| !is_well(node))
            .map(NodeName::new)
            .collect();
        let until = Timestamp::now().saturating_add(KEPT_FOR);
        let until = engine::time(until.unwrap_or(Timestamp::MAX));
        if !self.engine.keep_gang(&engine::id(job), &left, until) {
            return self.withdraw(job);
        }
        if let Some(state) = self.gangs.get_mut(job) {
            state.inside = Inside::Kept;
        }
        self.withdraw_surplus(job);
        self.spare(job);
    }

    /// Removes the gang from the engine, except for the quota of pods that still stop.
    pub(super) fn withdraw(&mut self, job: &Key) {
        if external::is_external(job) {
            return self.withdraw_external_pods(job);
        }
        if let Some(state) = self.gangs.get_mut(job)
            && state.inside != Inside::No
        {
            state.inside = Inside::No;
            self.engine.retire_gang(&engine::id(job));
        }
        self.withdraw_surplus(job);
        self.spare(job);
    }

    /// Restores in the engine the place that the journal names, whatever the controller wants: the
    /// gang holds it.
    pub(super) fn adopt(&mut self, job: &Key, group: &PodGroup, plan: &Plan) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let place = engine::placement(plan);
        let known = self.engine.placement(&engine::id(job));
        let is_known =
            state.inside == Inside::Placed && known.is_some_and(|known| is_same(&known, &place));
        let run = state.run().cloned();
        // The journal does not say how long the gang waited or runs; its job does.
        if is_known && !(state.by_journal && run.is_some()) {
            return;
        }
        state.inside = Inside::Placed;
        state.by_journal = run.is_none();
        let limits = state.limits.clone();
        let mut gang = match run {
            Some(run) => {
                let ticket = engine::Ticket {
                    submitted: run.submitted,
                    ..engine::Ticket::default()
                };
                let gang = engine::gang(run.job.compiled(), &ticket, &state.actual);
                self.with_prediction(job, gang)
            }
            None => self.of_pod_group(job, group),
        };
        gang.draws = match limits {
            Some(limits) => limits.draws(),
            None => self.planned_draws(plan),
        };
        let since = journal::made_at(plan).unwrap_or_else(Timestamp::now);
        let flavors = engine::flavors(plan);
        self.engine
            .restore_gang_in(gang, place, &flavors, engine::time(since));
        // A pod that has succeeded holds nothing, even if the plan names it.
        let pods = self.committer.cache().pods.of(job);
        for (name, pod) in pods.iter() {
            if pod.phase == PodPhase::Succeeded {
                let pod = Key::new(&job.namespace, name);
                self.engine.drop_assumed(&engine::pod_key(&pod));
            }
        }
    }

    /// A gang as its PodGroup describes it. If users can write PodGroups, the gang stays
    /// preemptible whatever its PodGroup says.
    fn of_pod_group(&self, job: &Key, group: &PodGroup) -> Gang {
        let mut gang = engine::of_pod_group(job, group);
        if !self.committer.cache().guards.is_in_force(Guard::PodGroups) {
            gang.preemptible = true;
            gang.min_runtime = Duration::ZERO;
        }
        gang
    }

    /// Releases the resources of pods that have ended for good according to the job's status.
    pub(super) fn give_up_finished(&mut self, job: &Key, plan: &Plan) {
        let Some(written) = self.committer.cache().jobs.get(job) else {
            return;
        };
        let status = written.status.as_ref();
        let finished = status.and_then(|status| status.internal.finished_pods.as_ref());
        let finished = finished.filter(|finished| finished.attempt == plan.attempt);
        for group in finished.iter().flat_map(|finished| &finished.groups) {
            let ended = [&group.completed_indexes, &group.failed_indexes];
            for index in ended.into_iter().flat_map(|ranges| indexes(ranges)) {
                let name = names::pod(&job.name, &group.name, index);
                let pod = engine::pod_key(&Key::new(&job.namespace, &name));
                self.engine.drop_assumed(&pod);
            }
        }
    }
}

impl Driver {
    /// Restores a nomination from the journal in the engine, with those victims that still have a
    /// place.
    pub(super) fn adopt_nomination(&mut self, job: &Key, group: &PodGroup, plan: &Plan) {
        let journal = group.status.clone().unwrap_or_default();
        let mut victims = Vec::new();
        for victim in &journal.victims {
            // A victim that has been asked to leave stops already. A surplus pod counts as any
            // other pod until its job has been looked at.
            if self.note(job, group, victim, false) && victim.pod.is_none() {
                let who = Key::new(&victim.namespace, &victim.name);
                victims.push(engine::id(&who));
            }
        }
        self.gangs.entry(job.clone()).or_default().inside = Inside::Nominated;
        let mut gang = self.of_pod_group(job, group);
        gang.draws = self.planned_draws(plan);
        self.engine.restore_nomination_in(
            gang,
            engine::placement(plan),
            &engine::flavors(plan),
            &victims,
        );
    }
}

/// True if both put the same pods on the same nodes.
fn is_same(one: &Placement, other: &Placement) -> bool {
    one.groups().len() == other.groups().len()
        && one
            .groups()
            .iter()
            .all(|g| other.runs(&g.group) == Some(g.runs.as_slice()))
}

#[cfg(test)]
mod tests {
    use trellis_scheduler::{GroupName, NodeName};

    use super::*;

    #[test]
    fn a_place_is_the_same_by_its_groups_and_their_runs() {
        let place = |groups: &[(&str, &str, u32)]| -> Placement {
            let group = |(group, node, pods): &(&str, &str, u32)| {
                (GroupName::new(*group), vec![(NodeName::new(*node), *pods)])
            };
            groups.iter().map(group).collect()
        };
        let one = place(&[("a", "x", 1), ("b", "y", 2)]);
        assert!(is_same(&one, &place(&[("b", "y", 2), ("a", "x", 1)])));
        assert!(!is_same(&one, &place(&[("b", "y", 2), ("a", "z", 1)])));
        assert!(!is_same(&one, &place(&[("a", "x", 1)])));
    }
}
