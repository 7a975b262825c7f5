//! Binds external pods. For a gang: write its plan to the journal, bind its claims, bind its pods,
//! close the plan. A single pod needs no plan, because one write either binds it or does not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use trellis_api::Reason;
use trellis_api::pod_group::{NominatedVictim, Plan, PlannedPod};
use trellis_gang::binding::Mounts;
use trellis_gang::external::Unit;
use trellis_gang::external::next::planned;
use trellis_gang::external::plan::flavors_of;
use trellis_gang::key::Key;
use trellis_gang::observed::{BoundBy, ExternalPod, Flavors, JudgedSpec, SlimPod};
use trellis_gang::{external, journal};

use super::fresh::JudgedBy;
use super::{Committer, Outcome};
use crate::Feed;
use crate::commands::WriteError;

/// Bindings of one gang in flight at once.
const BINDINGS: usize = 32;
/// Tries for one pod before it is left to the plan's deadline.
const TRIES: u32 = 6;

/// Pause between failed reads, and the longest such pause.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// External pods to bind, and where.
#[derive(Clone, Debug)]
pub struct ExternalPlan {
    /// Uid of the PodGroup, or of the pod if it is single.
    pub uid: String,
    /// Nodes of the pods.
    pub plan: Plan,
    /// Name of the PodGroup whose gang the pods are, or join.
    pub group: Option<String>,
    /// Claims that the pods mount.
    pub mounts: Mounts,
    /// Time since when the pods have waited. None: an earlier leader wrote the plan.
    pub since: Option<Timestamp>,
    /// Policy decision that allows the pods. None: the plan is in the journal already.
    pub judged: Option<JudgedBy>,
    /// Specs that policies have judged, by pod name. Empty: an earlier leader wrote the plan.
    pub specs: BTreeMap<String, JudgedSpec>,
}

/// Place for external pods, with the victims that leave it first.
#[derive(Clone, Debug)]
pub struct ExternalNomination {
    /// As in [`ExternalPlan`].
    pub uid: String,
    /// Nodes that the pods are to get.
    pub plan: Plan,
    /// Claims that the pods mount.
    pub mounts: Mounts,
    /// Policy decision that allows the pods.
    pub judged: JudgedBy,
    /// Gangs and pods that leave.
    pub victims: Vec<NominatedVictim>,
    /// The nomination in words.
    pub message: String,
}

impl Committer {
    /// Writes a nomination to the journal, unless its claims or a victim's disruption budget
    /// forbids it. The victims have not been asked to leave yet. A single pod has no journal: its
    /// victims are returned.
    pub async fn nominate_external_pods(
        &self,
        unit: Key,
        nomination: ExternalNomination,
        stop: CancellationToken,
    ) -> Outcome {
        let ExternalNomination {
            uid,
            plan,
            mounts,
            judged,
            victims,
            message,
        } = nomination;
        let _promise = self.promises.of(&unit);
        if let Err(outcome) = self.can_bind(&unit, &mounts) {
            return outcome;
        }
        match self.kept(&victims).await {
            Ok(Some(kept)) => return Outcome::Kept(kept),
            Ok(None) => {}
            Err(error) => return error.into(),
        }
        if let Err(outcome) = self.policies_are_those(&unit, &judged, &stop).await {
            return outcome;
        }
        if stop.is_cancelled() {
            return Outcome::Done;
        }
        if let Some(Unit::Pod(_)) = external::unit(&unit) {
            return Outcome::Nominated(victims);
        }
        let written = self.journal(&unit, &uid, move |before| {
            journal::nominated(before, plan, victims, message)
        });
        written.await.err().unwrap_or(Outcome::Done)
    }

    /// Writes the plan of a gang to the journal, and carries it out.
    pub async fn commit_external_pods(
        &self,
        unit: Key,
        wanted: ExternalPlan,
        stop: CancellationToken,
    ) -> Outcome {
        let _promise = self.promises.of(&unit);
        if let Err(outcome) = self.can_bind(&unit, &wanted.mounts) {
            return outcome;
        }
        if let Err(outcome) = self.policies_allow(&unit, &wanted, &stop).await {
            return outcome;
        }
        if stop.is_cancelled() {
            return Outcome::Done;
        }
        let opened = wanted.plan.clone();
        let opened = self.journal(&unit, &wanted.uid, move |before| {
            journal::opened(before, opened)
        });
        match opened.await {
            Ok(()) => self.bind_external_pods(&unit, &wanted, &stop).await,
            Err(outcome) => outcome,
        }
    }

    /// Carries out a plan that is in the journal.
    pub async fn resume_external_pods(
        &self,
        unit: Key,
        wanted: ExternalPlan,
        stop: CancellationToken,
    ) -> Outcome {
        let _promise = self.promises.of(&unit);
        self.bind_external_pods(&unit, &wanted, &stop).await
    }

    async fn bind_external_pods(
        &self,
        unit: &Key,
        wanted: &ExternalPlan,
        stop: &CancellationToken,
    ) -> Outcome {
        if let Err(outcome) = self.bind_all(unit, wanted, stop).await {
            return outcome;
        }
        if stop.is_cancelled() {
            return Outcome::Done;
        }
        let hash = wanted.plan.hash.clone();
        let closed = self
            .after_others(stop)
            .journal(unit, &wanted.uid, move |before| {
                journal::closed(before, &hash)
            })
            .await;
        match closed {
            Ok(()) => {
                let pods = planned(&wanted.plan).count();
                info!(gang = %unit, pods, reason = %Reason::Placed, "bound");
                self.count_bound(unit, wanted);
                Outcome::Done
            }
            Err(outcome) => outcome,
        }
    }

    /// Binds a single pod.
    pub async fn bind_external(
        &self,
        unit: Key,
        wanted: ExternalPlan,
        stop: CancellationToken,
    ) -> Outcome {
        let _promise = self.promises.of(&unit);
        if let Err(outcome) = self.can_bind(&unit, &wanted.mounts) {
            return outcome;
        }
        if let Err(outcome) = self.policies_allow(&unit, &wanted, &stop).await {
            return outcome;
        }
        match self.bind_all(&unit, &wanted, &stop).await {
            Ok(()) if stop.is_cancelled() => Outcome::Done,
            Ok(()) => {
                info!(pod = %unit, reason = %Reason::Placed, "bound");
                self.count_bound(&unit, &wanted);
                Outcome::Done
            }
            Err(outcome) => {
                // A single pod has no journal that says what to roll back.
                let claims = wanted.mounts.into_keys().collect();
                let unbound = self
                    .unbind_external_pods(&unit, &claims, &wanted.plan.hash)
                    .await;
                unbound.err().unwrap_or(outcome)
            }
        }
    }

    async fn policies_allow(
        &self,
        unit: &Key,
        wanted: &ExternalPlan,
        stop: &CancellationToken,
    ) -> Result<(), Outcome> {
        match &wanted.judged {
            Some(judged) => self.policies_are_those(unit, judged, stop).await,
            None => Ok(()),
        }
    }

    fn count_bound(&self, unit: &Key, wanted: &ExternalPlan) {
        if let (Some(since), Some(queue)) = (wanted.since, &wanted.plan.queue) {
            let waited = Timestamp::now().duration_since(since);
            let waited = Duration::try_from(waited).unwrap_or_default();
            self.context.counts.placed(unit, queue, waited);
        }
    }

    /// Binds the claims of a plan's pods, then the pods that are not bound yet.
    async fn bind_all(
        &self,
        unit: &Key,
        wanted: &ExternalPlan,
        stop: &CancellationToken,
    ) -> Result<(), Outcome> {
        let plan = &wanted.plan;
        let until = plan.deadline.as_ref().map_or(Timestamp::MIN, |d| d.0);
        self.bind(unit, plan, &wanted.mounts, until, stop).await?;
        let is_bound = |pod: &PlannedPod, node: &str| {
            let there = self
                .context
                .cache
                .external_pods
                .get(&Key::new(&unit.namespace, &pod.name));
            there.is_some_and(|there| {
                there.uid == pod.uid
                    && there.node.as_deref() == Some(node)
                    && there.plan.as_ref() == Some(&plan.hash)
            })
        };
        let none = Flavors::new();
        let mut futures = Vec::new();
        for run in &plan.assignments {
            let by = BoundBy {
                plan: &plan.hash,
                queue: plan.queue.as_deref().unwrap_or_default(),
                with: wanted.group.as_deref(),
                flavors: flavors_of(plan, &run.group).unwrap_or(&none),
            };
            let node = run.node.as_str();
            for pod in run.pods.iter().filter(|pod| !is_bound(pod, node)) {
                let judged = wanted.specs.get(&pod.name);
                futures.push(self.bind_one(unit, (pod, judged), node, by, stop));
            }
        }
        let mut bindings = stream::iter(futures).buffer_unordered(BINDINGS);
        let mut failure: Option<Outcome> = None;
        while let Some(result) = bindings.next().await {
            if let Err(failed) = result {
                // Wait for the bindings in flight: no pod may be bound after the rollback.
                stop.cancel();
                let worse = matches!(failed, Outcome::Undo(..));
                if worse || failure.is_none() {
                    failure = Some(failed);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn bind_one(
        &self,
        unit: &Key,
        (pod, judged): (&PlannedPod, Option<&JudgedSpec>),
        node: &str,
        by: BoundBy<'_>,
        stop: &CancellationToken,
    ) -> Result<(), Outcome> {
        let key = Key::new(&unit.namespace, &pod.name);
        let refused = |why: String| was_refused(pod, &why);
        // Users may change a pod until it is bound, but policies judged the earlier spec.
        let mut version = match judged {
            None => None,
            Some(judged) => Some(self.version_as_judged(&key, pod, judged)?),
        };
        let mut tries: u32 = 0;
        loop {
            if stop.is_cancelled() {
                return Ok(());
            }
            let incarnation = (pod.uid.as_str(), version.as_deref());
            let bound = self
                .commands
                .bind(&key.namespace, &key.name, incarnation, node, by)
                .await;
            let last = match bound {
                Ok(()) => {
                    self.seen_bound(unit, &key, pod, node, by);
                    return Ok(());
                }
                // The pod may be bound by an earlier try whose answer was lost, bound by another
                // scheduler, or changed. If no answer came at all, the node may only be released
                // once it is certain that the pod is not bound to it.
                Err(
                    error @ (WriteError::Conflict(_)
                    | WriteError::AlreadyExists(_)
                    | WriteError::Unanswered(_)
                    | WriteError::Transient(_)),
                ) => match self.standing(&key, pod, node, by.plan).await? {
                    Bound::AsPlanned => {
                        self.seen_bound(unit, &key, pod, node, by);
                        return Ok(());
                    }
                    Bound::NotYet => error.to_string(),
                    Bound::Never => return Err(refused(error.to_string())),
                },
                Err(WriteError::NotFound(message)) => return Err(refused(message)),
                Err(WriteError::Refused { message, .. }) => return Err(refused(message)),
                Err(error @ (WriteError::NotLeading(_) | WriteError::NotWanted)) => {
                    return Err(error.into());
                }
                Err(error) => error.to_string(),
            };
            tries = tries.saturating_add(1);
            if tries >= TRIES {
                return Err(Outcome::Again(last));
            }
            let pause = Duration::from_millis(50 << tries.min(6));
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
            if let Some(judged) = judged {
                version = self.read_as_judged(&key, pod, judged).await?.or(version);
            }
        }
    }

    /// The `resourceVersion` at which the watch last showed the pod.
    ///
    /// # Errors
    /// If the pod is gone, or its spec is not the one that policies judged.
    fn version_as_judged(
        &self,
        key: &Key,
        pod: &PlannedPod,
        judged: &JudgedSpec,
    ) -> Result<String, Outcome> {
        let version = self
            .context
            .cache
            .external_pods
            .version_with(key, &pod.uid, judged);
        version.ok_or_else(|| {
            let there = self.context.cache.external_pods.get(key);
            match there.is_some_and(|there| there.uid == pod.uid) {
                true => has_changed(pod),
                false => was_refused(pod, "it is gone"),
            }
        })
    }

    /// The `resourceVersion` of the pod as the API server has it now. None: the read failed.
    ///
    /// # Errors
    /// As for [`Self::version_as_judged`].
    async fn read_as_judged(
        &self,
        key: &Key,
        pod: &PlannedPod,
        judged: &JudgedSpec,
    ) -> Result<Option<String>, Outcome> {
        let there: Result<Option<SlimPod>, _> = self.commands.get(&key.namespace, &key.name).await;
        match there {
            Ok(Some(there)) if there.metadata.uid.as_ref() == Some(&pod.uid) => {
                match JudgedSpec::of(&there.spec).is_like(judged) {
                    true => Ok(there.metadata.resource_version),
                    false => Err(has_changed(pod)),
                }
            }
            Ok(_) => Err(was_refused(pod, "it is gone")),
            Err(error) => {
                warn!(pod = %key, %error, "the pod was not read");
                Ok(None)
            }
        }
    }

    /// Reads from the API server whether the pod is bound. Repeats the read until it succeeds.
    async fn standing(
        &self,
        key: &Key,
        pod: &PlannedPod,
        node: &str,
        plan: &str,
    ) -> Result<Bound, Outcome> {
        let mut pause = FIRST_PAUSE;
        let there: Option<SlimPod> = loop {
            // A replica that has lost the lease must not decide on what it reads.
            self.commands.epoch().map_err(WriteError::from)?;
            match self.commands.get(&key.namespace, &key.name).await {
                Ok(there) => break there,
                Err(error) => warn!(pod = %key, %error, "the pod was not read"),
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        };
        let Some(there) = there.filter(|there| there.metadata.uid.as_ref() == Some(&pod.uid))
        else {
            return Ok(Bound::Never);
        };
        let annotations = there.metadata.annotations.as_ref();
        let by = annotations.and_then(|a| a.get(trellis_api::names::PLAN));
        let gated = there
            .spec
            .to_be_placed
            .as_ref()
            .is_some_and(|raw| raw.get().contains("\"schedulingGates\""));
        Ok(match there.spec.node_name.as_deref() {
            Some(there) if there == node && by.is_some_and(|by| by == plan) => Bound::AsPlanned,
            Some(_) => Bound::Never,
            None if there.metadata.deletion_timestamp.is_some() || gated => Bound::Never,
            None => Bound::NotYet,
        })
    }

    /// Takes note of a bound pod, whether or not the watch has shown it yet.
    ///
    /// The engine learns of the binding at once: if the gang is rolled back before the watch shows
    /// the pod, the node must not count as free.
    pub(crate) fn seen_bound(
        &self,
        unit: &Key,
        key: &Key,
        pod: &PlannedPod,
        node: &str,
        by: BoundBy<'_>,
    ) {
        let tell = |bound: &ExternalPod| {
            self.context.tell(Feed::Pod {
                pod: key.clone(),
                uid: pod.uid.as_str().into(),
                node: node.into(),
                request: bound.request.clone(),
                leaves: None,
            });
        };
        self.context
            .cache
            .external_pods
            .bound(key, &pod.uid, node, by, tell);
        self.context.tell(Feed::Look(unit.clone()));
    }

    /// Takes back from the claims of an external gang the volumes that a plan gave them.
    pub async fn unbind_external_pods(
        &self,
        unit: &Key,
        claims: &BTreeSet<String>,
        plan: &str,
    ) -> Result<(), Outcome> {
        self.unbind_claims(&unit.namespace, claims, plan).await
    }
}

/// A pod of the plan cannot be bound, so the plan is undone.
fn was_refused(pod: &PlannedPod, why: &str) -> Outcome {
    let message = format!("pod {:?} was not bound: {why}", pod.name);
    Outcome::Undo(Reason::PodRefused, message)
}

fn has_changed(pod: &PlannedPod) -> Outcome {
    was_refused(pod, "its spec has changed since policies judged it")
}

/// State of a pod after a failed binding.
enum Bound {
    /// Bound by this plan.
    AsPlanned,
    /// Not bound, but it may still be.
    NotYet,
    /// Another scheduler has bound it, or it is gone, terminating or gated.
    Never,
}
