//! Places of one gang in the engine.

pub(super) mod anti_affinity;
pub(super) mod avoided_nodes;
mod engine_gang;

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::job::{TrainingJobStatus, parse_ranges};
use trellis_api::pod_group::{Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, Reason, names};
use trellis_cache::policy::Guard;
use trellis_gang::key::Key;
use trellis_gang::observed::PodPhase;
use trellis_gang::{DesiredGang, engine, external, journal};
use trellis_machine::clock;
use trellis_scheduler::{Gang, NodeName, Placement};

use super::{Driver, EngineState};

/// How long a gang that restarts keeps its nodes.
const RESTART_KEEP_TIME: SignedDuration = SignedDuration::from_secs(120);

impl Driver {
    /// Enqueues the gang in the engine.
    pub(super) fn enqueue(&mut self, job: &Key, journal: &PodGroupStatus) {
        let Some(gang) = self.build_engine_gang(job, journal) else {
            return;
        };
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        state.is_from_journal = false;
        if matches!(
            state.engine_state,
            EngineState::Placed | EngineState::Nominated
        ) {
            // The place was tentative and its plan was never written.
            self.give_back_place(job);
        }
        if let Some(state) = self.gangs.get_mut(job) {
            state.engine_state = EngineState::Waiting;
        }
        self.engine.apply_gang(gang);
    }

    /// Updates the request of a nominated gang: the engine judges that request when its victims
    /// have left.
    pub(super) fn update_nominated_request(&mut self, job: &Key, journal: &PodGroupStatus) {
        if let Some(gang) = self.build_engine_gang(job, journal) {
            self.engine.apply_gang(gang);
        }
    }

    /// Returns the gang in the engine's form.
    fn build_engine_gang(&mut self, job: &Key, journal: &PodGroupStatus) -> Option<Gang> {
        let retry = self.retry_time(job, journal);
        let state = self.gangs.get_mut(job)?;
        let run = state.run().cloned()?;
        let now = Instant::now();
        if let Some(end) = state.avoided.next_end(now) {
            self.alarms.set(job, end);
        }
        let avoided = state.avoided.current(now).cloned();
        if !state.are_suspects_allowed && !run.attempt.suspect_nodes.is_empty() {
            self.avoiding_suspects.insert(job.clone());
        }
        let excluded_nodes = run
            .avoided_nodes(!state.are_suspects_allowed)
            .chain(avoided)
            .collect();
        let state = self.gangs.get(job)?;
        let mut gang = self.engine_gang(job, &run, &state.admitted, retry, excluded_nodes);
        gang.draws = state.draws();
        Some(gang)
    }

    /// Returns when the gang may be tried again. A gang that was put off before its first pod
    /// because a ResourceQuota had no room may be tried as soon as there is room. After a rollback
    /// it must wait, because its own deleted pods free room.
    fn retry_time(&self, job: &Key, journal: &PodGroupStatus) -> Option<Timestamp> {
        let retry = journal.retry_time.as_ref().map(|t| t.0);
        let has_room = journal.reason == Some(Reason::ResourceQuotaExceeded)
            && self
                .over_quota
                .get(job)
                .is_some_and(|ask| self.committer.exceeded_quota(job, ask).is_none());
        retry.filter(|_| !has_room)
    }

    /// Takes the gang out of its place. A restarting gang keeps its healthy nodes for a limited
    /// time.
    pub(super) fn vacate_place(&mut self, job: &Key, journal: &PodGroupStatus) {
        let plan = journal.plan.as_ref();
        let is_undone = journal.phase == Some(PodGroupPhase::Unwinding)
            && journal.reason == Some(Reason::Restarting);
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let next = match &state.desired {
            Some(DesiredGang::Run(run)) => Some(run.attempt.number),
            // Policies are judging the next attempt. The controller will soon send its wish.
            Some(DesiredGang::Stop { reason, .. }) if *reason == Reason::Restarting => {
                Some(i64::MAX)
            }
            _ => None,
        };
        let (Some(next), EngineState::Placed | EngineState::Restarting) =
            (next, state.engine_state)
        else {
            return self.withdraw(job);
        };
        if state.engine_state == EngineState::Restarting {
            return self.withdraw_surplus(job);
        }
        let Some(plan) = plan.filter(|plan| is_undone && plan.attempt < next) else {
            return self.withdraw(job);
        };
        // A gang that failed to start keeps no node, because otherwise a typing error would hold
        // GPUs.
        let written = self.committer.cache().jobs.get(job);
        let status = written.as_ref().and_then(|job| job.status.as_ref());
        // A gang whose stage is complete keeps no node either, because the next stage is another
        // gang.
        let is_over = |status: &TrainingJobStatus| {
            status.internal.failed_starts.unwrap_or(0) > 0
                || status.is_of_earlier_stage(plan.attempt)
        };
        if status.is_none_or(is_over) {
            return self.withdraw(job);
        }
        let excluded = state.run().map(|run| run.attempt.excluded_nodes.clone());
        let excluded = excluded.unwrap_or_default();
        let context = self.committer.context();
        let is_well = |node: &str| {
            // A node on which its ranks failed stays usable if no other node fits.
            let kept_away = excluded.iter().any(|n| n == node);
            let is_ill =
                context.cache.is_lost(node) || context.cache.unhealthy_reason(node).is_some();
            !kept_away && !is_ill && context.cache.is_open(node)
        };
        let nodes: BTreeSet<&str> = plan.assignments.iter().map(|a| a.node.as_str()).collect();
        let left_nodes: Vec<NodeName> = nodes
            .into_iter()
            .filter(|node| !is_well(node))
            .map(NodeName::new)
            .collect();
        let until = clock::now().saturating_add(RESTART_KEEP_TIME);
        if !self.keep_place(job, &left_nodes, until.unwrap_or(Timestamp::MAX)) {
            self.withdraw(job);
        }
    }

    /// Takes a gang out of a place that has no plan in the journal. A restarting gang keeps the
    /// place for the rest of its time: otherwise it could lose its nodes because a queue or its
    /// PodGroup changed just before it started.
    pub(super) fn give_back_place(&mut self, job: &Key) {
        let state = self.gangs.get(job);
        let until = state.and_then(|state| state.kept_until);
        if !until.is_some_and(|until| until > clock::now() && self.keep_place(job, &[], until)) {
            self.withdraw(job);
        }
    }

    /// Keeps the place of a gang that restarts. Returns false if the gang has no place to keep.
    fn keep_place(&mut self, job: &Key, left_nodes: &[NodeName], until: Timestamp) -> bool {
        let (id, end) = (engine::gang_id(job), engine::to_engine_time(until));
        if !self.engine.keep_place(&id, left_nodes, end) {
            return false;
        }
        if let Some(state) = self.gangs.get_mut(job) {
            state.engine_state = EngineState::Restarting;
            state.kept_until = Some(until);
        }
        self.withdraw_surplus(job);
        self.release_victims(job);
        true
    }

    /// Removes the gang from the engine, except for the quota of stopping pods.
    pub(super) fn withdraw(&mut self, job: &Key) {
        if external::is_external(job) {
            return self.withdraw_external_pods(job);
        }
        if let Some(state) = self.gangs.get_mut(job)
            && state.engine_state != EngineState::Absent
        {
            state.engine_state = EngineState::Absent;
            state.kept_until = None;
            self.retire_gang(job);
        }
        self.withdraw_surplus(job);
        self.release_victims(job);
    }

    /// Restores in the engine the place that the journal names. The gang holds it, regardless of
    /// the controller's wish.
    pub(super) fn restore_place(&mut self, job: &Key, group: &PodGroup, plan: &Plan) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        state.kept_until = None;
        let place = engine::placement_from_plan(plan);
        let known = self.engine.placement(&engine::gang_id(job));
        let is_known = state.engine_state == EngineState::Placed
            && state.elastic_groups == plan.elastic
            && known.is_some_and(|known| is_same_placement(&known, &place));
        let run = state.run().cloned();
        // The journal does not say how long the gang waited or runs; its job does.
        if is_known && !(state.is_from_journal && run.is_some()) {
            return;
        }
        let was_placed = state.engine_state == EngineState::Placed;
        state.engine_state = EngineState::Placed;
        state.is_from_journal = run.is_none();
        let before = std::mem::replace(&mut state.elastic_groups, plan.elastic.clone());
        let limits = state.limits.clone();
        let mut gang = match run {
            Some(run) => {
                let ticket = engine::AttemptState {
                    submitted: run.attempt.submitted,
                    ..engine::AttemptState::default()
                };
                let gang = engine::gang_from_job(run.job.compiled(), &ticket, &state.admitted);
                self.with_prediction(job, gang)
            }
            None => self.gang_from_pod_group(job, group),
        };
        gang.draws = match limits {
            Some(limits) => limits.to_draws(),
            None => self.planned_draws(plan),
        };
        engine::number_pods(&mut gang, plan);
        let since = journal::plan_start(plan).unwrap_or_else(clock::now);
        let flavors = engine::flavors_from_groups(&plan.groups);
        self.engine
            .restore_gang_with_flavors(gang, place, &flavors, engine::to_engine_time(since));
        // A pod that has succeeded holds no resources, even if the plan names it.
        let pods = self.committer.cache().pods.pods_of_job(job);
        for (name, pod) in pods.iter() {
            if pod.phase == PodPhase::Succeeded {
                let pod = Key::new(&job.namespace, name);
                self.engine.drop_assumed(&engine::pod_key(&pod));
            }
        }
        if was_placed && before != plan.elastic {
            self.retire_replaced_slices(job, plan, &before);
        }
    }

    /// Returns a gang as its PodGroup describes it. If users can write PodGroups, the gang stays
    /// preemptible, even if its PodGroup says otherwise.
    fn gang_from_pod_group(&self, job: &Key, group: &PodGroup) -> Gang {
        let mut gang = engine::gang_from_pod_group(job, group);
        if !self.committer.cache().guards.is_in_force(Guard::PodGroups) {
            gang.preemptible = true;
            gang.min_runtime = Duration::ZERO;
        }
        gang
    }

    /// Releases the resources of pods that have ended for good according to the job's status.
    pub(super) fn release_finished_pods(&mut self, job: &Key, plan: &Plan) {
        let Some(written) = self.committer.cache().jobs.get(job) else {
            return;
        };
        let status = written.status.as_ref();
        let finished = status.and_then(|status| status.internal.finished_pods.as_ref());
        let finished = finished.filter(|finished| finished.attempt == plan.attempt);
        for group in finished.iter().flat_map(|finished| &finished.groups) {
            let ended = [&group.completed_indexes, &group.failed_indexes];
            for index in ended.into_iter().flat_map(|ranges| parse_ranges(ranges)) {
                let name = names::pod_name(&job.name, &group.name, index);
                let pod = engine::pod_key(&Key::new(&job.namespace, &name));
                self.engine.drop_assumed(&pod);
            }
        }
    }
}

impl Driver {
    /// Restores a nomination from the journal in the engine, with those victims that still have a
    /// place.
    pub(super) fn restore_nomination(&mut self, job: &Key, group: &PodGroup, plan: &Plan) {
        let journal = group.status.clone().unwrap_or_default();
        let mut victims = Vec::new();
        for victim in &journal.victims {
            // A victim that has been asked to leave stops already. A surplus pod counts as any
            // other pod until its job has been looked at.
            if self.record_victim(job, group, victim, false) && victim.pod.is_none() {
                let victim_key = Key::new(&victim.namespace, &victim.name);
                victims.push(engine::gang_id(&victim_key));
            }
        }
        self.gangs.entry(job.clone()).or_default().engine_state = EngineState::Nominated;
        let mut gang = self.gang_from_pod_group(job, group);
        gang.draws = self.planned_draws(plan);
        self.engine.restore_nomination_with_flavors(
            gang,
            engine::placement_from_plan(plan),
            &engine::flavors_from_groups(&plan.groups),
            &victims,
        );
    }
}

/// Returns true if both put the same pods on the same nodes.
fn is_same_placement(one: &Placement, other: &Placement) -> bool {
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
    fn placements_are_equal_when_their_groups_and_runs_are() {
        let place = |groups: &[(&str, &str, u32)]| -> Placement {
            let group = |(group, node, pods): &(&str, &str, u32)| {
                (GroupName::new(*group), vec![(NodeName::new(*node), *pods)])
            };
            groups.iter().map(group).collect()
        };
        let placement = place(&[("a", "x", 1), ("b", "y", 2)]);
        assert!(is_same_placement(
            &placement,
            &place(&[("b", "y", 2), ("a", "x", 1)])
        ));
        assert!(!is_same_placement(
            &placement,
            &place(&[("b", "y", 2), ("a", "z", 1)])
        ));
        assert!(!is_same_placement(&placement, &place(&[("a", "x", 1)])));
    }
}
