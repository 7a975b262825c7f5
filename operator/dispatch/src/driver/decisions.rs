//! Starts the tasks that the engine's decisions need, or records why a gang waits.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::pod_group::PodGroupPhase;
use trellis_gang::flavors::Place;
use trellis_gang::key::Key;
use trellis_gang::{Certificate, allocation, engine, external, journal, quota, volumes};
use trellis_scheduler::{Certificate as Refusal, Decision, GangId, Placement, WaitReason};

use super::{Driver, Gang, Inside};
use crate::{Feed, span};

impl Driver {
    /// Lets the engine decide, and starts what it decided.
    pub(super) fn decide(&mut self) {
        let devices_changed = std::mem::take(&mut self.devices_changed);
        let began = Instant::now();
        let cycle = span!("decide").entered();
        let decisions = self.engine.cycle(engine::time(Timestamp::now()));
        drop(cycle);
        let context = self.committer.context().clone();
        context.counts.cycled(began.elapsed());
        for decision in decisions {
            context.counts.decided(decision.word());
            match decision {
                Decision::Place {
                    gang: id,
                    placement,
                    ..
                } => {
                    let place = self.place_of(&id, placement);
                    match engine::whose(&id) {
                        (unit, None) if external::is_external(&unit) => {
                            self.place_external_pods(&unit, place)
                        }
                        (job, None) => self.place(&job, place),
                        (job, Some(member)) => self.place_surplus(&job, &member, place),
                    }
                }
                Decision::Wait {
                    gang: id,
                    certificate,
                } => {
                    let (job, member) = engine::whose(&id);
                    if member.is_some() {
                        let told = self.told(&id, &certificate);
                        self.surplus_waits(&job, told);
                        continue;
                    }
                    self.waits(&job);
                    if self.must_take_suspects(&job, &certificate) {
                        continue;
                    }
                    let told = self.told(&id, &certificate);
                    self.say(&job, told);
                }
                Decision::Preempt {
                    gang: id,
                    placement,
                    victims,
                } => {
                    let place = self.place_of(&id, placement);
                    let job = engine::job_of(&id);
                    match external::is_external(&job) {
                        true => self.preempt_for_external_pods(&job, &place, &victims),
                        false => self.preempt(&job, place, &victims),
                    }
                }
                Decision::Drain { victim } => self.drain(&victim),
                Decision::Reserve { gang: id, .. } => {
                    if let Some(certificate) = self.engine.certificate(&id) {
                        let told = self.told(&id, certificate);
                        self.say(&engine::job_of(&id), told);
                    }
                }
            }
        }
        self.take_suspects_where_needed();
        if devices_changed {
            self.tell_of_devices();
        }
    }

    /// Converts the engine's refusal into the API's explanation.
    pub(super) fn told(&self, id: &GangId, certificate: &Refusal) -> Certificate {
        let context = self.committer.context();
        let classes = context.cache.device_classes.all();
        let nodes = || context.cache.nodes.all();
        let (reason, mut message) = allocation::words(certificate, &classes, nodes);
        let run = self.gangs.get(&engine::job_of(id)).and_then(Gang::run);
        let claim = run.and_then(|run| volumes::one_node(&run.volumes, reason));
        message.extend(claim.into_iter().flat_map(|why| ["; ".to_owned(), why]));
        Certificate {
            reason,
            message,
            refused: certificate.detail.is_refusal(),
            is_renewed: false,
        }
    }

    /// Retries gangs that wait only because their suspects are avoided. The engine reports a
    /// refusal once, so a gang that was enqueued anew gets no second decision, and its last refusal
    /// is read instead.
    fn take_suspects_where_needed(&mut self) {
        for job in std::mem::take(&mut self.keep_away) {
            if let Some(certificate) = self.engine.certificate(&engine::id(&job)).cloned() {
                self.must_take_suspects(&job, &certificate);
            }
        }
    }

    /// Avoiding nodes on which ranks have failed is no reason to wait. True if the gang is tried
    /// again with its suspects.
    fn must_take_suspects(&mut self, job: &Key, certificate: &Refusal) -> bool {
        let Some(state) = self.gangs.get_mut(job) else {
            return false;
        };
        let has_suspects = state.run().is_some_and(|run| !run.suspects.is_empty());
        let waits_for_them = certificate.reason == WaitReason::NodesAvoided && has_suspects;
        if !waits_for_them || state.takes_suspects {
            return false;
        }
        state.takes_suspects = true;
        self.committer.context().tell(Feed::Look(job.clone()));
        true
    }

    /// A place, with what its flavors add.
    pub(super) fn place_of(&self, id: &GangId, placement: Placement) -> Place {
        let flavors = self.engine.flavors(id).unwrap_or_default();
        let groups = self.flavors.planned(&flavors);
        let job = engine::job_of(id);
        let limits = self.gangs.get(&job);
        let limits = limits.and_then(|state| state.limits.as_deref());
        let limits = limits.or_else(|| self.limits_of_external_pods(&job));
        Place {
            placement,
            groups,
            limits: limits.map(quota::planned).unwrap_or_default(),
            requester: limits.and_then(|limits| limits.requester.clone()),
            quotas: limits.map_or(0, |limits| limits.version),
        }
    }

    fn is_nominated(&self, job: &Key) -> bool {
        let group = self.committer.cache().pod_groups.get(job);
        let phase = group.and_then(|g| g.status.as_ref()?.phase);
        phase == Some(PodGroupPhase::Nominated)
    }

    /// A nominated gang cannot have its place any more.
    fn waits(&mut self, job: &Key) {
        if external::is_external(job) {
            return self.external_pods_wait(job);
        }
        let nominated = Inside::Nominated;
        if let Some(state) = self.gangs.get_mut(job).filter(|s| s.inside == nominated) {
            state.inside = Inside::Waiting;
            match &state.task {
                Some(task) => task.stop.cancel(),
                None => self.write(job, journal::voided),
            }
            self.spare(job);
        }
    }

    pub(super) fn place(&mut self, job: &Key, place: Place) {
        self.spare(job);
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        state.inside = Inside::Placed;
        let run = state.run().cloned();
        let busy = state.task.is_some();
        if busy && run.is_some() && self.is_nominated(job) {
            // The nomination is in the journal: it is continued once the task has ended.
            return;
        }
        // A policy has changed since the gang was judged. The gang is queued again once it has been
        // judged by the new one.
        if !self.is_judged(job) {
            self.withdraw(job);
            return;
        }
        // Its old pods are being deleted, or the journal is being written: the gang is queued again
        // once that is done.
        let (Some(state), Some(run), false) = (self.gangs.get(job), run, busy) else {
            self.withdraw(job);
            return;
        };
        let planned = state.planned(&run);
        self.over_quota.remove(job);
        let committer = self.committer.clone();
        let key = job.clone();
        self.start(job, Some(run.clone()), |stop| async move {
            committer.commit(key, run, place, planned, stop).await
        });
    }

    /// Records why a gang waits. The controller writes it to status if the reason is new.
    pub(super) fn say(&mut self, job: &Key, certificate: Certificate) {
        if external::is_external(job) {
            return self.say_to_external_pods(job, certificate);
        }
        let context = self.committer.context();
        let mut certificates = context.certificates.write();
        let before = certificates.get(job);
        let is_news = before.is_none_or(|before| !before.has_reason_of(&certificate));
        certificates.insert(job.clone(), certificate);
        drop(certificates);
        if is_news {
            context.work.add(job.clone());
        }
    }
}
