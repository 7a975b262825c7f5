//! What the keeper says about one gang is done.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};
use trellis_api::pod_group::{Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, Reason};

use super::{Driver, Inside};
use crate::key::Key;
use crate::scheduling::commit::Outcome;
use crate::scheduling::keeper::{self, Step};
use crate::scheduling::{Feed, Run, gang, journal};
use crate::watch::{GIVEN_UP_AFTER, PodView};

impl Driver {
    /// Does what the keeper says about one gang.
    pub(super) fn advance(&mut self, job: &Key) {
        let world = self.committer.world.clone();
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        if let Some((stop, attempt)) = &state.task {
            let wanted = state.wish.run().is_some_and(|r| r.attempt == *attempt);
            if !wanted {
                stop.cancel();
            }
            return;
        }
        if state.pause.is_some_and(|until| until > Instant::now()) {
            return;
        }
        state.pause = None;
        let (Some(group), Some(tj)) = (world.pod_groups.get(job), world.jobs.get(job)) else {
            return;
        };
        let uid = tj.metadata.uid.clone().unwrap_or_default();
        if !owned(&group, &uid) {
            return;
        }
        self.unadopted.remove(job);
        let journal = group.status.clone().unwrap_or_default();
        let pods = world.pods.of(job);
        let lost = lost_nodes(&pods, |node| world.health.is_lost(node, GIVEN_UP_AFTER));
        let step = keeper::Gang {
            uid: &uid,
            wish: &state.wish,
            journal: &journal,
            pods: &pods,
            lost: &lost,
            now: Timestamp::now(),
        }
        .next();
        debug!(%job, ?step, "next");
        match step {
            Step::AwaitPods => {
                self.withdraw(job);
                self.say(
                    job,
                    Reason::PodsTerminating,
                    "pods of this name are still there".to_owned(),
                );
            }
            Step::Enqueue => self.enqueue(job, journal.retry_time.map(|t| t.0)),
            Step::Withdraw => {
                self.withdraw(job);
                world.certificates.write().remove(job);
            }
            Step::Commit => {
                let Some(plan) = journal.plan else { return };
                let Some(run) = state.wish.run().cloned() else {
                    return;
                };
                self.adopt(job, &run, &plan);
                let epoch = self.committer.commands.epoch().ok().map(|e| e.0);
                if epoch.is_some() && journal.epoch != epoch {
                    if self.inherited.remove(job) {
                        // Ours from here on: whoever wrote it cannot write it again.
                        self.write(job, Clone::clone);
                    } else {
                        let message = "the plan was written by a process that no longer leads";
                        self.undo(job, Reason::Restarting, message.to_owned(), false);
                    }
                    return;
                }
                let committer = self.committer.clone();
                let key = job.clone();
                self.start(job, run.attempt, |stop| async move {
                    committer.create(&key, &run, &plan, &stop).await
                });
            }
            Step::Hold => {
                if let (Some(run), Some(plan)) = (state.wish.run().cloned(), &journal.plan) {
                    self.adopt(job, &run, plan);
                }
                world.certificates.write().remove(job);
            }
            Step::Undo { reason, message } => {
                let expired = journal
                    .plan
                    .as_ref()
                    .is_some_and(|p| p.deadline.as_ref().is_some_and(|d| d.0 <= Timestamp::now()));
                let failed = expired && journal.phase == Some(PodGroupPhase::Committing);
                self.undo(job, reason, message, failed);
            }
            Step::Delete(pods) => {
                let committer = self.committer.clone();
                let key = job.clone();
                self.start(
                    job,
                    0,
                    |_| async move { committer.delete(&key, pods).await },
                );
            }
            Step::Clear => {
                self.withdraw(job);
                self.write(job, journal::cleared);
            }
            Step::Finish => {
                self.withdraw(job);
                self.write(job, journal::finished);
            }
        }
    }

    pub(super) fn enqueue(&mut self, job: &Key, retry: Option<Timestamp>) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let Some(run) = state.wish.run().cloned() else {
            return;
        };
        let retry = retry.filter(|_| !state.forgiven);
        state.forgiven = false;
        let turn = gang::Turn {
            submitted: run.submitted,
            not_before: run.not_before.max(retry),
            excluded: run.excluded.clone(),
        };
        let gang = gang::gang(run.job.compiled(), &turn, &state.actual);
        if state.inside == Inside::Placed {
            // The place was tentative and its plan was never written.
            self.engine.delete_gang(&gang.id);
        }
        state.inside = Inside::Waiting;
        self.engine.apply_gang(gang);
    }

    pub(super) fn withdraw(&mut self, job: &Key) {
        if let Some(state) = self.gangs.get_mut(job)
            && state.inside != Inside::No
        {
            state.inside = Inside::No;
            self.engine.delete_gang(&gang::id(job));
        }
    }

    /// The engine learns of a place that the journal names.
    pub(super) fn adopt(&mut self, job: &Key, run: &Run, plan: &Plan) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        if state.inside == Inside::Placed {
            return;
        }
        state.inside = Inside::Placed;
        let turn = gang::Turn {
            submitted: run.submitted,
            ..gang::Turn::default()
        };
        let gang = gang::gang(run.job.compiled(), &turn, &state.actual);
        // A pod that has ended holds nothing, though the plan names it.
        let over: Vec<_> = self
            .committer
            .world
            .pods
            .of(job)
            .iter()
            .filter(|(_, pod)| pod.phase.is_over())
            .map(|(name, _)| gang::pod_key(&Key::new(&job.namespace, name)))
            .collect();
        self.engine.restore_gang(gang, gang::placement(plan));
        for pod in over {
            self.engine.drop_assumed(&pod);
        }
    }

    pub(super) fn undo(&mut self, job: &Key, reason: Reason, message: String, failed: bool) {
        info!(%job, %reason, %message, "undone");
        self.withdraw(job);
        self.write(job, move |before| {
            journal::undone(before, reason, message, failed, Timestamp::now())
        });
    }

    /// Writes the journal.
    pub(super) fn write<F>(&mut self, job: &Key, change: F)
    where
        F: FnOnce(&PodGroupStatus) -> PodGroupStatus + Send + 'static,
    {
        let committer = self.committer.clone();
        let key = job.clone();
        self.start(job, 0, |_| async move {
            match committer.journal(&key, change).await {
                Ok(()) => Outcome::Done,
                Err(outcome) => outcome,
            }
        });
    }

    /// Starts the one task of a gang.
    pub(super) fn start<F>(
        &mut self,
        job: &Key,
        attempt: i64,
        task: impl FnOnce(CancellationToken) -> F,
    ) where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let stop = CancellationToken::new();
        state.task = Some((stop.clone(), attempt));
        let world = self.committer.world.clone();
        let task = task(stop);
        let job = job.clone();
        tokio::spawn(async move {
            let outcome = task.await;
            world.tell(Feed::Ended(job, outcome));
        });
    }

    /// A place whose plan was not written is given back at once.
    pub(super) fn release(&mut self, job: &Key) {
        let group = self.committer.world.pod_groups.get(job);
        let phase = group.and_then(|g| g.status.as_ref().and_then(|s| s.phase));
        if phase.unwrap_or_default() == PodGroupPhase::Pending {
            self.withdraw(job);
        }
    }
}

fn owned(group: &PodGroup, uid: &str) -> bool {
    group
        .metadata
        .owner_references
        .iter()
        .flatten()
        .any(|o| o.controller == Some(true) && o.uid == uid)
}

fn lost_nodes(
    pods: &BTreeMap<String, PodView>,
    is_lost: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    pods.values()
        .filter_map(|p| p.node.as_deref())
        .filter(|n| is_lost(n))
        .map(str::to_owned)
        .collect()
}
