//! Carries out the steps that `trellis_gang::gang_step` decides for external gangs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, Reason};
use trellis_gang::external::{ExternalGangRef, gang_members};
use trellis_gang::gang_step::{ExternalMembers, ExternalStep, GangStep, ObservedGang, StepOf};
use trellis_gang::key::Key;
use trellis_gang::observed::ExternalPods as Pods;
use trellis_gang::{GangExplanation, external, journal};
use trellis_machine::clock;

use super::super::victims::LeavingGang;
use super::super::{Driver, EngineState};
use crate::external_request::PlacementRole;

/// Interval between checks whether nodes of terminating pods are lost.
const LOST_NODE_CHECK_INTERVAL: Duration = Duration::from_secs(30);

impl Driver {
    /// Takes the next step of one external gang.
    pub(in super::super) fn advance_external(&mut self, unit: &Key) {
        self.advance_unit(unit);
        self.committer.context().pass_turn(&unit.namespace);
    }

    fn advance_unit(&mut self, unit: &Key) {
        let state = self.external_pods.gangs.get(unit);
        if let Some(task) = state.and_then(|state| state.task.as_ref()) {
            // The task serves a gang that has to leave, so a plan that is not written yet must not
            // start.
            if self
                .leaving
                .get(unit)
                .is_some_and(|l| l.leave_request().is_some())
            {
                task.cancel();
            }
            return;
        }
        if let Some(end) = state.and_then(|state| state.pause.next_try(Instant::now())) {
            self.alarms.set(unit, end);
            return;
        }
        match external::parse_gang_key(unit) {
            Some(ExternalGangRef::Group(group)) => self.advance_group(unit, &group),
            Some(ExternalGangRef::Pod(pod)) => self.advance_single_pod(unit, &pod),
            None => {}
        }
        self.write_delayed_explanation(unit);
    }

    fn advance_group(&mut self, unit: &Key, key: &Key) {
        let context = self.committer.context().clone();
        let pods = context.cache.external_pods.pods_of_group(key);
        let Some(group) = self.users_pod_group(key) else {
            return self.handle_missing_group(unit, key, &pods);
        };
        let no_status = PodGroupStatus::default();
        let journal = group.status.as_ref().unwrap_or(&no_status);
        let state = self.external_pods.gangs.get(unit);
        if !journal.phase.is_some_and(holds_pods)
            && state.is_some_and(|s| !s.allocations.is_empty())
        {
            // This is another PodGroup with the same name, and it has no place.
            self.withdraw(unit);
        }
        self.advance_single_members(unit, Some(&group), journal, &pods);
        if self
            .leaving
            .get(unit)
            .is_some_and(|l| !l.applies_to(journal))
        {
            self.leaving.remove(unit);
        }
        self.charge_group(unit, &group, journal, &pods);
        self.update_group_total(unit, journal, &pods);
        let now = Instant::now();
        let inherited = self.inheritance.plan(unit);
        let epoch = self.committer.commands().epoch().ok();
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        state
            .deletions
            .retain_uids(pods.values().map(|pod| pod.uid.as_str()));
        let observed = ObservedGang {
            journal,
            author: epoch.map(|epoch| journal::plan_author(journal, epoch, inherited)),
            preemption_message: self.leaving.get(unit).and_then(LeavingGang::leave_request),
            deletions: &state.deletions,
            now: clock::now(),
            clock: now,
            members: ExternalMembers {
                min_member: group.spec.min_member,
                is_deleting: group.metadata.deletion_timestamp.is_some(),
                is_stopping: state.is_terminating,
                pods: &pods,
            },
        };
        let step = observed.next_step();
        if let Some(at) = state.deletions.next_retry(now) {
            self.alarms.set(unit, at);
        }
        debug!(gang = %unit, ?step, "next");
        self.carry_out_step(unit, &group, journal, &pods, step);
    }

    fn carry_out_step(
        &mut self,
        unit: &Key,
        group: &Arc<PodGroup>,
        journal: &PodGroupStatus,
        pods: &Pods,
        step: StepOf<ExternalMembers<'_>>,
    ) {
        match step {
            GangStep::Special(ExternalStep::Wait { reason, message }) => {
                self.withdraw(unit);
                self.record_explanation(unit, GangExplanation::waiting(reason, message));
            }
            GangStep::Withdraw => self.withdraw(unit),
            GangStep::Enqueue(names) => {
                let retry = journal.retry_time.as_ref().map(|time| time.0);
                let request = self.find_request(unit, PlacementRole::Gang(group), names);
                self.enqueue_request_result(
                    unit,
                    Some(&group.spec),
                    request,
                    retry,
                    BTreeMap::new(),
                );
            }
            GangStep::TakeOver => self.write_journal(unit, journal::take_over),
            GangStep::RemoveVictims => self.continue_external_nomination(unit, group, journal),
            GangStep::CancelNomination => self.cancel_nomination(unit),
            GangStep::EndProvisioning => self.write_journal(unit, journal::end_provisioning),
            GangStep::Commit => self.resume_external_plan(unit, group, journal, pods),
            GangStep::Special(ExternalStep::Adopt) => self.adopt_external_pods(unit, group, pods),
            GangStep::KeepPlace(joining) => {
                self.keep_unless_leaving(unit);
                let state = self.external_pods.gangs.get_mut(unit);
                let has_shrunk = state.is_some_and(|state| std::mem::take(&mut state.has_shrunk));
                // Known pods are checked when they or the PodGroup change. Refused pods are checked
                // again after other pods have left.
                let single_key = |name| external::pod_gang_key(&Key::new(&unit.namespace, name));
                for pod in joining.iter().map(|name| single_key(name)) {
                    let state = self.external_pods.gangs.get(&pod);
                    if state.is_none_or(|state| has_shrunk && state.rechecks > 0) {
                        self.advance_external(&pod);
                    }
                }
            }
            GangStep::RollBack {
                reason,
                message,
                failed,
            } => self.roll_back(unit, reason, message, failed),
            GangStep::Delete(pods_to_delete) => {
                self.stop_external_pods(unit, pods_to_delete, false)
            }
            GangStep::Evict(pods_to_delete) => self.stop_external_pods(unit, pods_to_delete, true),
            GangStep::AwaitPods => {
                let reason = Reason::PodsTerminating;
                let message = "pods of the gang's last place are still there".to_owned();
                // If no kubelet is left to stop the pods, no event comes, so a timer checks again.
                if let Some(at) = Instant::now().checked_add(LOST_NODE_CHECK_INTERVAL) {
                    self.alarms.set(unit, at);
                }
                self.record_explanation(unit, GangExplanation::waiting(reason, message));
            }
            GangStep::ClearPlan => self.finish_external_rollback(unit, group, journal, pods),
            GangStep::StandBy => {}
        }
    }

    /// Handles pods whose PodGroup does not exist. No waiting pod gets a place. Running pods no
    /// longer form a gang. Each keeps its own place, and may be preempted alone.
    fn handle_missing_group(&mut self, unit: &Key, key: &Key, pods: &Pods) {
        if !self.is_absent_from_engine(unit) {
            self.withdraw(unit);
        }
        self.leaving.remove(unit);
        self.advance_single_members(unit, None, &PodGroupStatus::default(), pods);
        if pods.is_empty() {
            return self.forget_external(unit);
        }
        let of_job = self.committer.cache().pod_groups.get(key).is_some();
        let message = match of_job {
            true => format!(
                "label {}: PodGroup {:?} is a TrainingJob's: name one of your own",
                trellis_api::names::POD_GROUP,
                &*key.name
            ),
            false => format!(
                "label {}: PodGroup {:?} does not exist in namespace {:?}: create it or name another",
                trellis_api::names::POD_GROUP,
                &*key.name,
                &*key.namespace
            ),
        };
        self.record_explanation(
            unit,
            GangExplanation::waiting(Reason::PodGroupNotFound, message),
        );
    }

    /// Advances pods of a PodGroup that are handled singly. These are pods that hold resources
    /// outside the gang's place. They are also pods that came later, once the gang has lost its
    /// place or its PodGroup has changed.
    fn advance_single_members(
        &mut self,
        unit: &Key,
        group: Option<&PodGroup>,
        journal: &PodGroupStatus,
        pods: &Pods,
    ) {
        let generation = group.and_then(|group| group.metadata.generation);
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let is_another = std::mem::replace(&mut state.generation, generation) != generation;
        let context = self.committer.context();
        let ends =
            gang_members::is_stopping(journal, pods, |node| context.cache.is_abandoned(node));
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let has_ended = std::mem::replace(&mut state.is_terminating, ends) != ends;
        let all = is_another || has_ended || journal.phase != Some(PodGroupPhase::Placed);
        for (name, pod) in pods {
            let alone = external::pod_gang_key(&Key::new(&unit.namespace, name));
            let is_known = self.external_pods.gangs.contains_key(&alone);
            let holds = pod.charged_queue().is_some() && !gang_members::is_in_place(journal, pod);
            if (holds && !is_known) || (all && is_known) {
                self.advance_external(&alone);
            }
        }
    }

    /// Forgets a gang that is gone, unless a task is under way.
    pub(super) fn forget_external(&mut self, unit: &Key) {
        if self
            .external_pods
            .gangs
            .get(unit)
            .is_some_and(|state| state.task.is_some())
        {
            return;
        }
        self.withdraw(unit);
        self.external_pods.gangs.remove(unit);
        self.external_pods.judgements.forget(unit);
        self.alarms.clear(unit);
        self.inheritance.forget(unit);
        self.leaving.remove(unit);
    }

    /// Returns true if the engine does not have the gang.
    pub(super) fn is_absent_from_engine(&self, unit: &Key) -> bool {
        let inside = self
            .external_pods
            .gangs
            .get(unit)
            .map(|state| state.engine_state);
        inside.unwrap_or_default() == EngineState::Absent
    }
}

/// Returns true if the engine has the pods that hold a node in this phase of the journal.
const fn holds_pods(phase: PodGroupPhase) -> bool {
    matches!(
        phase,
        PodGroupPhase::Committing | PodGroupPhase::Placed | PodGroupPhase::Unwinding
    )
}
