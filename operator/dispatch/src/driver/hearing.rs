//! Applies events to the engine and to the driver's state.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::key::Key;
use trellis_gang::{Wish, engine};
use trellis_scheduler::{FlavorName, NodeName, PodKey, QueueName, TopologyName};

use super::Driver;
use super::avoided::Avoided;
use crate::{Feed, QueueReport, TotalsReport};

impl Driver {
    pub(super) fn hear(&mut self, feed: Feed, touched: &mut BTreeSet<Key>) {
        match feed {
            Feed::Node(name) => {
                self.devices_changed = true;
                match self.committer.cache().engine_node(&name) {
                    Some(node) => self.engine.apply_node(node),
                    None => self.engine.delete_node(&NodeName::new(name)),
                };
            }
            Feed::Pod {
                pod,
                uid,
                node,
                request,
                leaves,
            } => {
                if self.pods.get(&pod).is_some_and(|before| *before != uid) {
                    self.lose(&pod);
                }
                let key = self.name_of(&pod);
                self.engine
                    .apply_pod(key.clone(), NodeName::new(node), request);
                if let Some(by) = leaves {
                    self.engine.pod_leaves(&key, engine::time(by));
                }
                self.pods.insert(pod, uid);
            }
            Feed::PodGone(pod) => {
                if self.pods.remove(&pod).is_some() {
                    self.lose(&pod);
                }
            }
            Feed::PodDone(pod) => {
                if self.pods.remove(&pod).is_some() {
                    let name = self.name_of(&pod);
                    self.engine.delete_pod(&name);
                    self.external_pods.forget_name(&pod);
                }
            }
            Feed::Repulsion(repulsion) => {
                touched.extend(self.concerned_by(&repulsion));
                touched.extend(self.external_pods_concerned_by(&repulsion));
            }
            Feed::DeviceClass => self.devices_changed = true,
            Feed::Queue(name) => {
                touched.extend(self.external_pods.waiting().cloned());
                match self.committer.cache().queues.get(&Key::new("", &name)) {
                    Some(queue) => self.engine.apply_queue(engine::queue(&name, &queue.spec)),
                    None => {
                        let name = QueueName::new(name);
                        self.predictor.forget(&name);
                        self.engine.delete_queue(&name)
                    }
                };
            }
            Feed::Flavor(name) => self.flavor_changed(&name),
            Feed::Topology(name) => {
                match self.committer.cache().topologies.get(&Key::new("", &name)) {
                    Some(topology) => self
                        .engine
                        .apply_topology(engine::topology(&name, &topology.spec)),
                    None => self.engine.delete_topology(&TopologyName::new(name)),
                };
            }
            Feed::NamespaceQuota(namespace) => self.quota_changed(&namespace, touched),
            Feed::Look(job) => {
                touched.insert(job);
            }
            Feed::Limits(job, limits) => self.take_limits(&job, limits, touched),
            Feed::Wish(job, Some(wish)) => {
                let ends = matches!(wish, Wish::Finish { .. });
                let before = self.gangs.get(&job).and_then(|gang| gang.wish.as_ref());
                if ends && !matches!(before, Some(Wish::Finish { .. })) {
                    self.learn(&job, touched);
                }
                if self.take_wish(&job, wish) {
                    touched.insert(job);
                }
            }
            Feed::Wish(job, None) => {
                self.take_back_wish(&job);
                self.close_plan(&job, touched);
                // Delete its remaining pods.
                self.reap(&job);
            }
            Feed::Unsaid(job) => {
                self.unadopted.remove(&job);
            }
            Feed::AskQueues(answer) => {
                // The caller may be gone.
                let _ = answer.send(self.report_queues());
            }
            Feed::AskTotals(answer) => {
                let _ = answer.send(self.report_totals());
            }
            Feed::AskLimits(answer) => {
                let _ = answer.send(self.report_limits());
            }
            Feed::AskSnapshot(answer) => self.asked.push(answer),
            Feed::Told(unit, number, missed) => self.were_told(&unit, number, &missed),
            Feed::Ended(job, outcome) => {
                self.ended(&job, outcome);
                self.close_plan(&job, touched);
                touched.insert(job);
            }
        }
    }

    /// Name of a pod in the engine.
    fn name_of(&self, pod: &Key) -> PodKey {
        let external = self.external_pods.name(pod).cloned();
        external.unwrap_or_else(|| engine::pod_key(pod))
    }

    /// A pod is gone. No pod of that name replaces an external pod, so the engine forgets it.
    fn lose(&mut self, pod: &Key) {
        match self.external_pods.forget_name(pod) {
            Some(name) => self.engine.delete_pod(&name),
            None => self.engine.lose_pod(&engine::pod_key(pod)),
        }
    }

    fn flavor_changed(&mut self, name: &str) {
        let flavor = FlavorName::new(name);
        match self.committer.cache().flavors.get(&Key::new("", name)) {
            Some(now) => {
                self.engine.apply_flavor(engine::flavor(name, &now.spec));
                self.flavors.apply(flavor, &now.spec);
            }
            None => {
                self.engine.delete_flavor(&flavor);
                self.flavors.delete(&flavor);
            }
        }
    }

    /// Closes a plan that is no longer carried out. It frees namespace quota, which may let other
    /// gangs start.
    fn close_plan(&self, job: &Key, touched: &mut BTreeSet<Key>) {
        if !self.is_committing(job) && self.committer.open_plans().leave(job) {
            self.quota_changed(&job.namespace, touched);
        }
    }

    /// True if the gang still has pods to create, now or after a pause.
    fn is_committing(&self, job: &Key) -> bool {
        let group = self.committer.cache().pod_groups.get(job);
        let phase = group.and_then(|g| g.status.as_ref()?.phase);
        self.gangs.contains_key(job) && phase == Some(PodGroupPhase::Committing)
    }

    /// Looks at the gangs of the namespace that were put off, because its quota may have room now.
    fn quota_changed(&self, namespace: &str, touched: &mut BTreeSet<Key>) {
        let from = self.over_quota.range(Key::new(namespace, "")..);
        let here = from.take_while(|(job, _)| &*job.namespace == namespace);
        touched.extend(here.map(|(job, _)| job.clone()));
    }

    fn report_totals(&self) -> TotalsReport {
        TotalsReport {
            by_resource: self.engine.totals(),
            wrong_limits: self.limits_wrong_for_long(),
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
                    standing: self.engine.queue_standing(&name),
                    memory: self.engine.queue_memory(&name),
                };
                Some((name, report))
            })
            .collect()
    }

    /// Stores a wish. False: it is the same as before.
    fn take_wish(&mut self, job: &Key, wish: Wish) -> bool {
        let state = self.gangs.entry(job.clone()).or_default();
        if state.wish.as_ref() == Some(&wish) {
            return false;
        }
        if let Some(run) = wish.run() {
            let compiled = run.job.compiled().hash();
            if state.compiled != compiled {
                state.actual.clear();
                state.avoided = Avoided::default();
                state.replans = 0;
                compiled.clone_into(&mut state.compiled);
            }
        }
        // The wish has changed, so the last failure may not recur.
        state.pause.end();
        state.takes_suspects = false;
        state.wish = Some(wish);
        true
    }

    /// Handles a job that is gone. Its place is kept until its task has ended, because a create in
    /// flight still makes a pod.
    fn take_back_wish(&mut self, job: &Key) {
        self.unadopted.remove(job);
        self.committer.context().certificates.write().remove(job);
        self.leaves_orphans(job);
        if let Some(state) = self.gangs.get_mut(job)
            && let Some(task) = &state.task
        {
            task.stop.cancel();
            state.wish = None;
            return;
        }
        self.forget(job);
    }

    pub(super) fn forget(&mut self, job: &Key) {
        self.withdraw_surplus(job);
        self.gangs.remove(job);
        self.alarms.clear(job);
        self.over_quota.remove(job);
        self.inherited.remove(job);
        self.leaving.remove(job);
        self.engine.retire_gang(&engine::id(job));
        self.spare(job);
    }
}
