//! Starts the tasks that the engine's decisions need, or records why a gang waits.

use std::time::Duration;

use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::requirements::{device_allocation, volumes};
use trellis_gang::{GangExplanation, engine, external, journal, node_order, quota};
use trellis_machine::clock;
use trellis_scheduler::{Decision, GangId, Placement, WaitExplanation as Refusal, WaitReason};

use super::{Driver, EngineState, TrackedGang};
use crate::{SchedulerEvent, span};

impl Driver {
    /// Lets the engine decide, and carries out its decisions.
    pub(super) fn decide(&mut self) {
        let devices_changed = std::mem::take(&mut self.devices_changed);
        let began = Instant::now();
        let cycle = span!("decide").entered();
        let decisions = self.engine.cycle(engine::to_engine_time(clock::now()));
        drop(cycle);
        let context = self.committer.context().clone();
        context.metrics.observe_cycle(began.elapsed());
        for decision in decisions {
            context.metrics.count_decision(decision.as_str());
            match decision {
                Decision::Place {
                    gang: id,
                    placement,
                    ..
                } => {
                    let place = self.build_place(&id, placement);
                    match engine::parse_gang_id(&id) {
                        (unit, None) if external::is_external(&unit) => {
                            self.place_external_pods(&unit, place)
                        }
                        (job, None) => self.place_gang(&job, place),
                        (job, Some(member)) => self.place_surplus(&job, &member, place),
                    }
                }
                Decision::Wait {
                    gang: id,
                    explanation: wait_explanation,
                } => {
                    let (job, member) = engine::parse_gang_id(&id);
                    if member.is_some() {
                        let explanation = self.explain_refusal(&id, &wait_explanation);
                        self.explain_waiting_surplus(&job, explanation);
                        continue;
                    }
                    self.lose_nomination(&job);
                    if self.allow_suspects(&job, &wait_explanation) {
                        continue;
                    }
                    let explanation = self.explain_refusal(&id, &wait_explanation);
                    self.record_explanation(&job, explanation);
                }
                Decision::Preempt {
                    gang: id,
                    placement,
                    victims,
                } => {
                    let place = self.build_place(&id, placement);
                    let job = engine::job_key(&id);
                    match external::is_external(&job) {
                        true => self.preempt_for_external_pods(&job, &place, &victims),
                        false => self.preempt(&job, place, &victims),
                    }
                }
                Decision::Drain { victim } => self.drain(&victim),
                Decision::Provision(request) => self.provision(&request),
                Decision::EndProvisioning {
                    gang: id,
                    provisioning,
                    is_late,
                } => self.end_provisioning(&engine::job_key(&id), &provisioning, is_late),
                Decision::Reserve { gang: id, .. } => {
                    if let Some(wait_explanation) = self.engine.explanation(&id) {
                        let explanation = self.explain_refusal(&id, wait_explanation);
                        self.record_explanation(&engine::job_key(&id), explanation);
                    }
                }
            }
        }
        self.record_nodes_on_order();
        self.retry_with_suspects();
        if devices_changed {
            self.renew_device_explanations();
        }
    }

    /// Converts the engine's refusal into the API's explanation.
    pub(super) fn explain_refusal(
        &self,
        id: &GangId,
        wait_explanation: &Refusal,
    ) -> GangExplanation {
        let context = self.committer.context();
        let classes = context.cache.device_classes.all();
        let nodes = || context.cache.nodes.all();
        let (reason, mut message) =
            device_allocation::explain_with_device_classes(wait_explanation, &classes, nodes);
        let run = self
            .gangs
            .get(&engine::job_key(id))
            .and_then(TrackedGang::run);
        let claim = run.and_then(|run| volumes::explain_one_node(&run.volumes, reason));
        message.extend(claim.into_iter().flat_map(|why| ["; ".to_owned(), why]));
        if reason == Reason::Provisioning
            && let Some(delay) = context.order_delay(&engine::job_key(id))
        {
            message = node_order::append_delay(&message, &delay);
        }
        GangExplanation {
            reason,
            message,
            refused: wait_explanation.detail.is_refusal(),
            only_numbers_changed: false,
        }
    }

    /// Retries gangs that wait only because they avoid suspected nodes. The engine reports a
    /// refusal only once. A gang that was enqueued again gets no second decision, so this reads its
    /// last refusal.
    fn retry_with_suspects(&mut self) {
        for job in std::mem::take(&mut self.avoiding_suspects) {
            if let Some(wait_explanation) = self.engine.explanation(&engine::gang_id(&job)).cloned()
            {
                self.allow_suspects(&job, &wait_explanation);
            }
        }
    }

    /// Retries the gang with its suspected nodes if it waits only because it avoids them. Returns
    /// true if the gang is tried again.
    fn allow_suspects(&mut self, job: &Key, wait_explanation: &Refusal) -> bool {
        let Some(state) = self.gangs.get_mut(job) else {
            return false;
        };
        let has_suspects = state
            .run()
            .is_some_and(|run| !run.attempt.suspect_nodes.is_empty());
        let waits_for_them = wait_explanation.reason == WaitReason::NodesAvoided && has_suspects;
        if !waits_for_them || state.are_suspects_allowed {
            return false;
        }
        state.are_suspects_allowed = true;
        self.committer
            .context()
            .send_event(SchedulerEvent::Recheck(job.clone()));
        true
    }

    /// Returns a place with the additions of its flavors.
    pub(super) fn build_place(&self, id: &GangId, placement: Placement) -> GangPlacement {
        let flavors = self.engine.flavors(id).unwrap_or_default();
        let mut groups = self.flavors.plan_groups(&flavors);
        let job = engine::job_key(id);
        self.add_request_annotations(&job, &mut groups);
        let limits = self.gangs.get(&job);
        let limits = limits.and_then(|state| state.limits.as_deref());
        let limits = limits.or_else(|| self.external_limits(&job));
        GangPlacement {
            placement,
            groups,
            limits: limits.map(quota::to_planned_limits).unwrap_or_default(),
            requester: limits.and_then(|limits| limits.requester.clone()),
            quota_version: limits.map_or(0, |limits| limits.version),
        }
    }

    fn is_nominated(&self, job: &Key) -> bool {
        let group = self.committer.cache().pod_groups.get(job);
        let phase = group.and_then(|g| g.status.as_ref()?.phase);
        phase == Some(PodGroupPhase::Nominated)
    }

    /// Handles a nominated gang that has lost its place.
    fn lose_nomination(&mut self, job: &Key) {
        if external::is_external(job) {
            return self.lose_external_nomination(job);
        }
        let nominated = EngineState::Nominated;
        if let Some(state) = self
            .gangs
            .get_mut(job)
            .filter(|s| s.engine_state == nominated)
        {
            state.engine_state = EngineState::Waiting;
            match &state.task {
                Some(task) => task.stop.cancel(),
                None => self.write_journal(job, journal::cancel_nomination),
            }
            self.release_victims(job);
        }
    }

    pub(super) fn place_gang(&mut self, job: &Key, place: GangPlacement) {
        self.release_victims(job);
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        state.engine_state = EngineState::Placed;
        let run = state.run().cloned();
        let busy = state.task.is_some();
        if self.is_nominated(job) {
            if busy && run.is_some() {
                // The nomination is in the journal, and continues once the task has ended.
                return;
            }
            if self.awaits_judgement(job) {
                return self.put_off_start(job);
            }
        }
        if !self.is_judged(job) {
            return self.give_back_place(job);
        }
        // The gang's old pods are being deleted, or its journal is being written. The gang is
        // queued again after that.
        let (Some(state), Some(run), false) = (self.gangs.get(job), run, busy) else {
            return self.give_back_place(job);
        };
        let planned = state.admitted_pods(&run);
        self.record_used_order(job);
        self.over_quota.remove(job);
        let committer = self.committer.clone();
        let key = job.clone();
        self.start_task(job, Some(run.clone()), |stop| async move {
            committer.commit(key, run, place, planned, stop).await
        });
    }

    /// Returns true if the controller has not looked at the job since this replica leads, or if a
    /// policy has changed since the gang was judged. Both will soon judge it.
    fn awaits_judgement(&self, job: &Key) -> bool {
        let state = self.gangs.get(job);
        match state.and_then(|state| state.desired.as_ref()) {
            None => self.committer.cache().jobs.get(job).is_some(),
            Some(desired) => desired.attempt().is_some() && !self.is_judged(job),
        }
    }

    /// Keeps the place of a gang for which victims have left. If it were queued again, its victims
    /// could take the place back, and would have to leave a second time.
    fn put_off_start(&mut self, job: &Key) {
        if let Some(state) = self.gangs.get_mut(job) {
            state.engine_state = EngineState::Nominated;
            self.engine.put_off_start(&engine::gang_id(job));
        }
    }

    /// Records why a gang waits. The controller writes it to status if the reason is new, at a
    /// limited rate.
    pub(super) fn record_explanation(&mut self, job: &Key, explanation: GangExplanation) {
        if external::is_external(job) {
            return self.explain_to_external_pods(job, explanation);
        }
        if self.names_unwritten_order(job, &explanation) {
            return;
        }
        let context = self.committer.context();
        let mut explanations = context.explanations.write();
        let before = explanations.get(job);
        let is_news = before.is_none_or(|before| !before.has_same_reason(&explanation));
        explanations.insert(job.clone(), explanation);
        drop(explanations);
        if !is_news {
            return;
        }
        let delay = match self.gangs.get_mut(job) {
            Some(state) => state.reason_pace.delay(Instant::now()),
            None => Some(Duration::ZERO),
        };
        if let Some(delay) = delay {
            context.work_queue.add_after(job.clone(), delay);
        }
    }
}
