//! Applies events to the engine and to the driver's state.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::key::Key;
use trellis_gang::{DesiredGang, engine};
use trellis_scheduler::{FlavorName, NodeName, PodKey, QueueName, TopologyName};

use super::Driver;
use super::places::avoided_nodes::AvoidedNodes;
use super::steps::waits_for_lost_nodes;
use crate::{QueueReport, SchedulerEvent, TotalsReport};

impl Driver {
    pub(super) fn handle_event(&mut self, event: SchedulerEvent, to_advance: &mut BTreeSet<Key>) {
        match event {
            SchedulerEvent::Node(name) => {
                self.devices_changed = true;
                match self.committer.cache().engine_node(&name) {
                    Some(node) => self.engine.apply_node(node),
                    None => self.engine.delete_node(&NodeName::new(name)),
                };
            }
            SchedulerEvent::Pod {
                pod,
                uid,
                node,
                request,
                leaves,
            } => {
                if self.pods.get(&pod).is_some_and(|before| *before != uid) {
                    self.remove_pod(&pod);
                }
                let key = self.engine_name(&pod);
                self.engine
                    .apply_pod(key.clone(), NodeName::new(node), request);
                if let Some(by) = leaves {
                    self.engine
                        .mark_pod_leaving(&key, engine::to_engine_time(by));
                }
                self.pods.insert(pod, uid);
            }
            SchedulerEvent::PodGone(pod) => {
                if self.pods.remove(&pod).is_some() {
                    self.remove_pod(&pod);
                }
            }
            SchedulerEvent::PodSucceeded(pod) => {
                if self.pods.remove(&pod).is_some() {
                    let name = self.engine_name(&pod);
                    self.engine.delete_pod(&name);
                    self.external_pods.forget_pod_name(&pod);
                }
            }
            SchedulerEvent::Repulsion(repulsion) => {
                to_advance.extend(self.gangs_excluded_by(&repulsion));
                to_advance.extend(self.external_gangs_excluded_by(&repulsion));
            }
            SchedulerEvent::DeviceClass => self.devices_changed = true,
            SchedulerEvent::Queue(name) => {
                to_advance.extend(self.external_pods.waiting().cloned());
                match self.committer.cache().queues.get(&Key::new("", &name)) {
                    Some(queue) => self
                        .engine
                        .apply_queue(engine::to_engine_queue(&name, &queue.spec)),
                    None => {
                        let name = QueueName::new(name);
                        self.predictor.forget_queue(&name);
                        self.engine.delete_queue(&name)
                    }
                };
            }
            SchedulerEvent::Flavor(name) => self.apply_flavor(&name),
            SchedulerEvent::Topology(name) => {
                match self.committer.cache().topologies.get(&Key::new("", &name)) {
                    Some(topology) => self
                        .engine
                        .apply_topology(engine::to_engine_topology(&name, &topology.spec)),
                    None => self.engine.delete_topology(&TopologyName::new(name)),
                };
            }
            SchedulerEvent::NamespaceQuota(namespace) => {
                self.recheck_put_off_gangs(&namespace, to_advance)
            }
            SchedulerEvent::Recheck(job) => {
                to_advance.insert(job);
            }
            SchedulerEvent::Limits(job, limits) => self.set_limits(&job, limits, to_advance),
            SchedulerEvent::DesiredGang(job, Some(desired)) => {
                if self.set_desired_gang(&job, desired) {
                    to_advance.insert(job);
                }
            }
            SchedulerEvent::DesiredGang(job, None) => {
                self.clear_desired_gang(&job);
                self.close_plan(&job, to_advance);
                // Delete its remaining pods.
                self.delete_orphans(&job);
            }
            SchedulerEvent::RunCompleted(run) => self.learn_run(&run, to_advance),
            SchedulerEvent::Undecided(job) => {
                self.inheritance.adopt(&job);
            }
            SchedulerEvent::AskQueues(answer) => {
                // The caller may be gone.
                let _ = answer.send(self.report_queues());
            }
            SchedulerEvent::AskTotals(answer) => {
                let _ = answer.send(self.report_totals());
            }
            SchedulerEvent::AskLimits(answer) => {
                let _ = answer.send(self.report_limits());
            }
            SchedulerEvent::AskSnapshot(answer) => self.snapshot_requests.push(answer),
            SchedulerEvent::AskGangs(attempts, answer) => {
                let gangs = attempts.iter().map(|attempt| self.plan_gang(attempt));
                let _ = answer.send(gangs.collect());
            }
            SchedulerEvent::ConditionsWritten(unit, number, missed) => {
                self.handle_condition_results(&unit, number, &missed)
            }
            SchedulerEvent::TaskEnded(job, outcome) => {
                self.handle_task_result(&job, outcome);
                self.close_plan(&job, to_advance);
                to_advance.insert(job);
            }
        }
    }

    /// Returns the name of a pod in the engine.
    fn engine_name(&self, pod: &Key) -> PodKey {
        let external = self.external_pods.pod_name(pod).cloned();
        external.unwrap_or_else(|| engine::pod_key(pod))
    }

    /// Handles a pod that is gone. Trellis creates no replacement of an external pod, so the engine
    /// forgets it.
    fn remove_pod(&mut self, pod: &Key) {
        match self.external_pods.forget_pod_name(pod) {
            Some(name) => self.engine.delete_pod(&name),
            None => self.engine.lose_pod(&engine::pod_key(pod)),
        }
    }

    fn apply_flavor(&mut self, name: &str) {
        let flavor = FlavorName::new(name);
        match self.committer.cache().flavors.get(&Key::new("", name)) {
            Some(now) => {
                let mut known = engine::to_engine_flavor(name, &now.spec);
                known.growth = self.growth_with_usual_time(&flavor, known.growth);
                self.engine.apply_flavor(known);
                self.flavors.apply(flavor, &now.spec);
            }
            None => {
                self.engine.delete_flavor(&flavor);
                self.flavors.delete(&flavor);
            }
        }
    }

    /// Closes a plan that is no longer carried out, or an order that has ended. This frees namespace
    /// quota, which may let other gangs start.
    fn close_plan(&self, job: &Key, to_advance: &mut BTreeSet<Key>) {
        if !self.has_pods_to_create(job) && self.committer.open_plans().remove(job) {
            self.recheck_put_off_gangs(&job.namespace, to_advance);
        }
    }

    /// Returns true if the gang has promised pods to create: now, after a pause, or once its new
    /// nodes have come.
    fn has_pods_to_create(&self, job: &Key) -> bool {
        let group = self.committer.cache().pod_groups.get(job);
        let phase = group.and_then(|g| g.status.as_ref()?.phase);
        let phases = [PodGroupPhase::Committing, PodGroupPhase::Provisioning];
        self.gangs.contains_key(job) && phase.is_some_and(|phase| phases.contains(&phase))
    }

    /// Wakes the gangs of the namespace that were put off, because its quota may have room now.
    fn recheck_put_off_gangs(&self, namespace: &str, to_advance: &mut BTreeSet<Key>) {
        let from = self.over_quota.range(Key::new(namespace, "")..);
        let here = from.take_while(|(job, _)| &*job.namespace == namespace);
        to_advance.extend(here.map(|(job, _)| job.clone()));
    }

    fn report_totals(&mut self) -> TotalsReport {
        TotalsReport {
            by_resource: self.engine.totals(),
            domains: self.engine.domain_totals(),
            wrong_limits: self.wrong_limit_count(),
        }
    }

    fn report_queues(&self) -> BTreeMap<QueueName, QueueReport> {
        let counts = self.engine.queue_counts();
        let queues = self.committer.cache().queues.all().into_iter();
        queues
            .filter_map(|queue| {
                let name = QueueName::new(queue.metadata.name.as_deref()?);
                let report = QueueReport {
                    counts: counts.get(&name).copied().unwrap_or_default(),
                    usage: self.engine.queue_usage_report(&name),
                    memory: self.engine.queue_memory(&name),
                };
                Some((name, report))
            })
            .collect()
    }

    /// Stores what the controller wants of the gang. Returns false if it is the same as before.
    fn set_desired_gang(&mut self, job: &Key, desired: DesiredGang) -> bool {
        let cached_job = self.committer.cache().jobs.get(job);
        let state = self.gangs.entry(job.clone()).or_default();
        if let Some(cached_job) = cached_job {
            let uid = cached_job.metadata.uid.clone();
            state.forcible_job = uid.filter(|_| !waits_for_lost_nodes(&cached_job.spec));
        }
        if state.desired.as_ref() == Some(&desired) {
            return false;
        }
        if let Some(run) = desired.attempt() {
            let compiled = run.job.compiled().hash();
            if state.compiled != compiled {
                state.admitted.clear();
                state.avoided = AvoidedNodes::default();
                state.replans = 0;
                compiled.clone_into(&mut state.compiled);
            }
        }
        // The desired gang has changed, so the last failure may not recur.
        state.pause.end();
        state.are_suspects_allowed = false;
        state.desired = Some(desired);
        true
    }

    /// Handles a job that is gone. Keeps its place until its task has ended, because a create in
    /// flight may still make a pod.
    fn clear_desired_gang(&mut self, job: &Key) {
        self.inheritance.adopt(job);
        self.committer.context().explanations.write().remove(job);
        self.record_orphans(job);
        if let Some(state) = self.gangs.get_mut(job)
            && let Some(task) = &state.task
        {
            task.stop.cancel();
            state.desired = None;
            return;
        }
        self.forget(job);
    }

    pub(super) fn forget(&mut self, job: &Key) {
        self.withdraw_surplus(job);
        self.gangs.remove(job);
        self.alarms.clear(job);
        self.over_quota.remove(job);
        self.inheritance.forget(job);
        self.learned_runs.remove(job);
        self.leaving.remove(job);
        self.retire_gang(job);
        self.release_victims(job);
    }
}
