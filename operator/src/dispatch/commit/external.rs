//! Pods that others have made are bound: the plan of a gang is written down, its claims are bound,
//! then its pods, and then it is closed. A pod alone needs no plan: one write binds it or does not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use trellis_api::Reason;
use trellis_api::pod_group::{NominatedVictim, Plan, PlannedPod};

use super::fresh::JudgedBy;
use super::{Committer, Outcome};
use crate::dispatch::Feed;
use crate::dispatch::commands::WriteError;
use crate::gang::binding::Mounts;
use crate::gang::external;
use crate::gang::external::Unit;
use crate::gang::external::next::planned;
use crate::gang::external::plan::flavors_of;
use crate::gang::journal;
use crate::gang::key::Key;
use crate::gang::observed::{BoundBy, ExternalPod, Flavors, JudgedSpec, SlimPod};

/// Bindings of one gang that are under way at once.
const BINDINGS: usize = 32;
/// Tries of one pod before it is left to the plan's deadline.
const TRIES: u32 = 6;

/// Pause between reads that have failed, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// What is to be bound.
#[derive(Clone, Debug)]
pub struct ExternalPlan {
    /// Uid of the PodGroup; of the pod, where it is alone.
    pub uid: String,
    /// Where its pods go.
    pub plan: Plan,
    /// Name of the PodGroup whose gang they are, or join.
    pub group: Option<String>,
    /// The claims that they mount.
    pub mounts: Mounts,
    /// Since when they have waited. None: an earlier leader knew.
    pub since: Option<Timestamp>,
    /// By what it was decided that they may. None: the plan is written down already.
    pub judged: Option<JudgedBy>,
    /// The specs that policies have judged, by the names of the pods. Empty: an earlier leader
    /// knew.
    pub specs: BTreeMap<String, JudgedSpec>,
}

/// A place, and who leaves it first.
#[derive(Clone, Debug)]
pub struct ExternalNomination {
    /// As of [`ExternalPlan`].
    pub uid: String,
    /// Where its pods are to go.
    pub plan: Plan,
    /// The claims that they mount.
    pub mounts: Mounts,
    /// By what it was decided that they may.
    pub judged: JudgedBy,
    /// Who leaves.
    pub victims: Vec<NominatedVictim>,
    /// The same in words.
    pub message: String,
}

impl Committer {
    /// Writes a nomination down, unless its claims or a budget of the victims speaks against it.
    /// Nobody has been told to leave before. That of a pod alone is not written anywhere.
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

    /// Writes the plan of a gang down, and carries it out.
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

    /// Carries out a plan that is written down.
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

    /// Binds a pod that is alone.
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
                // It has no journal that says what is to be taken back.
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

    /// Binds the claims of a plan's pods, then those of the pods that are not bound yet.
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
                // What is under way is waited for: nothing may be bound after the undoing.
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
        // Users may change a pod until it is bound, and policies have judged it as it was.
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
                // Ours, by a try whose answer was lost? Somebody else's? Or it changed meanwhile.
                // Where no answer came at all: whoever lets go of the node must know that the pod
                // does not have it.
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

    /// The version at which the watch has shown the pod last.
    ///
    /// # Errors
    /// The pod is gone, or its spec is not the one that policies have judged.
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

    /// The version of the pod as the API server has it now, whatever the watch has shown. None: it
    /// was not read.
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

    /// How the pod stands, read from the API server, however long that takes.
    async fn standing(
        &self,
        key: &Key,
        pod: &PlannedPod,
        node: &str,
        plan: &str,
    ) -> Result<Bound, Outcome> {
        let mut pause = FIRST_PAUSE;
        let there: Option<SlimPod> = loop {
            // Who leads no more decides nothing on what he reads.
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

    /// A pod is bound, whether or not the watch has shown it yet.
    ///
    /// The engine learns of it at once: should its gang be undone before the watch has shown it,
    /// its node is not free.
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

    /// The claims that pods of an external gang mount are given back what a plan has given them.
    pub async fn unbind_external_pods(
        &self,
        unit: &Key,
        claims: &BTreeSet<String>,
        plan: &str,
    ) -> Result<(), Outcome> {
        self.unbind_claims(&unit.namespace, claims, plan).await
    }
}

/// A pod of the plan cannot be bound: the plan is undone.
fn was_refused(pod: &PlannedPod, why: &str) -> Outcome {
    let message = format!("pod {:?} was not bound: {why}", pod.name);
    Outcome::Undo(Reason::PodRefused, message)
}

fn has_changed(pod: &PlannedPod) -> Outcome {
    was_refused(pod, "its spec has changed since policies judged it")
}

/// How a pod is bound that could not be.
enum Bound {
    /// By this very plan.
    AsPlanned,
    /// Not bound, and it may still be.
    NotYet,
    /// Somebody else has bound it, or it is gone, goes, or is not to be bound.
    Never,
}
