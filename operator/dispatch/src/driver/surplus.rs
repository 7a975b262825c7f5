//! Surplus pods of placed gangs. The engine seeks a place for each by itself, after all gangs, and
//! preemptors take their places first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::job::FinishedPods;
use trellis_api::pod_group::{Plan, PodGroupStatus};
use trellis_gang::engine::Member;
use trellis_gang::flavors::Place;
use trellis_gang::keeper::{Dismissed, Vacancy};
use trellis_gang::key::Key;
use trellis_gang::observed::{PodPhase, PodView};
use trellis_gang::surplus::{AT_ONCE, GROWS_EVERY, Seat};
use trellis_gang::{Certificate, Run, engine, surplus};
use trellis_scheduler::{Draw, GangId, NodeName, Placement};

use super::{Driver, Gang};

/// How long no place is sought for a pod that could not be created.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// How long a disruption budget may delay an eviction. Then the pod is deleted.
const PATIENCE: Duration = Duration::from_secs(120);

/// State of a surplus pod in the engine.
#[derive(Debug)]
enum Inside {
    /// The engine seeks a place for it.
    Waiting,
    /// The engine has found this place, and the pod has to be created.
    Given(Box<Place>),
    /// The pod exists in its place.
    Placed,
}

/// Surplus pods of one job.
#[derive(Debug, Default)]
pub(super) struct Surplus {
    inside: BTreeMap<Member, Inside>,
    /// When surplus pods were last created.
    grown: Option<Instant>,
    /// Pods that could not be created, and until when no place is sought for them.
    refused: BTreeMap<Member, Instant>,
    /// Why the engine finds no place for those that wait.
    lack: Option<Certificate>,
}

impl Surplus {
    /// All surplus pods.
    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.inside.keys()
    }

    /// Surplus pods that hold a place, or are about to.
    pub(super) fn placed(&self) -> impl Iterator<Item = &Member> {
        let inside = self.inside.iter();
        let placed = inside.filter(|(_, inside)| !matches!(inside, Inside::Waiting));
        placed.map(|(member, _)| member)
    }
}

impl Gang {
    /// Limits that the gang's surplus pods draw on.
    pub(super) fn surplus_draws(&self) -> Vec<Draw> {
        let limits = self.limits.as_deref();
        limits
            .map(|limits| limits.joining().draws())
            .unwrap_or_default()
    }
}

/// Why pods are missing though there may be room.
fn paused() -> String {
    let every = GROWS_EVERY.as_secs();
    format!("it grows at most once in {every} s, since all begin again when others join")
}

/// Task groups that need no more surplus pods, because some of their pods have done their work.
fn ending<'a>(
    plan: &Plan,
    pods: &'a BTreeMap<String, PodView>,
    finished: Option<&'a FinishedPods>,
) -> BTreeSet<&'a str> {
    let done = |p: &&PodView| p.plan == plan.hash && p.phase == PodPhase::Succeeded;
    let seen = pods.values().filter(done).map(|pod| pod.group.as_str());
    let finished = finished.filter(|f| f.attempt == plan.attempt);
    let told = finished.into_iter().flat_map(|f| &f.groups);
    let told = told.filter(|group| !group.completed_indexes.is_empty());
    seen.chain(told.map(|group| group.name.as_str())).collect()
}

impl Driver {
    /// Updates the surplus pods of a placed gang. Returns those to create.
    pub(super) fn tend_surplus(&mut self, job: &Key, journal: &PodGroupStatus) -> Vec<Vacancy> {
        let run = self.gangs.get(job).and_then(Gang::run).cloned();
        let context = self.committer.context().clone();
        let pods = context.cache.pods.of(job);
        // While the job may not run as it is, existing pods stay, and none are added.
        let (Some(run), Some(plan)) = (run, &journal.plan) else {
            self.give_up_gone(job, &pods);
            return Vec::new();
        };
        let written = context.cache.jobs.get(job);
        let status = written.as_ref().and_then(|job| job.status.as_ref());
        let finished = status.and_then(|status| status.internal.finished_pods.as_ref());
        let seats = surplus::seats(&run, plan, &pods, finished);
        let state = self.gangs.entry(job.clone()).or_default();
        if seats.is_empty() && state.surplus.inside.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        let known: Vec<Member> = state.surplus.inside.keys().cloned().collect();
        for member in known {
            if !seats.contains_key(&member) {
                self.give_up(job, &member);
            }
        }
        let ending = ending(plan, &pods, finished);
        let grows_at = self.gangs.get(job).and_then(|s| s.surplus.grown);
        let grows_at = grows_at.and_then(|grown| grown.checked_add(GROWS_EVERY));
        let grows_at = grows_at.filter(|at| *at > now);
        let mut vacancies = Vec::new();
        let mut joins = false;
        let mut is_paused = false;
        for (member, seat) in seats {
            let group = run.job.compiled().job().spec().group(&member.group);
            let is_elastic = group.is_some_and(trellis_api::job::TaskGroup::is_in_gang);
            let ends = ending.contains(member.group.as_str());
            match seat {
                Seat::Taken(node) => self.seat(job, &run, plan, &member, &node),
                Seat::Closed => self.give_up(job, &member),
                // The replacement of a failed pod does not wait: the others have restarted anyway.
                Seat::Free { round, .. }
                    if is_elastic && (ends || (round == 0 && grows_at.is_some())) =>
                {
                    is_paused |= !ends;
                    self.give_up(job, &member);
                }
                Seat::Free { round, not_before } => {
                    let vacancy = self.seek(job, &run, plan, (&member, round), not_before);
                    joins |= vacancy.is_some() && is_elastic;
                    vacancies.extend(vacancy);
                }
            }
        }
        if let Some(at) = grows_at {
            self.alarms.set(job, at);
        }
        if let Some(state) = self.gangs.get_mut(job) {
            // A running task creates none of them: they are returned again later.
            if joins && state.task.is_none() {
                state.surplus.grown = Some(now);
            }
            if state
                .surplus
                .inside
                .values()
                .all(|i| !matches!(i, Inside::Waiting))
            {
                state.surplus.lack =
                    is_paused.then(|| Certificate::waits(Reason::Running, paused()));
            }
        }
        vacancies
    }

    /// Why a placed job has fewer pods than it asks for.
    pub(super) fn lack(&self, job: &Key) -> Option<&Certificate> {
        self.gangs.get(job)?.surplus.lack.as_ref()
    }

    /// A surplus pod exists on this node.
    fn seat(&mut self, job: &Key, run: &Run, plan: &Plan, member: &Member, node: &str) {
        let key = engine::surplus_key(job, member);
        let state = self.gangs.entry(job.clone()).or_default();
        if matches!(state.surplus.inside.get(member), Some(Inside::Placed)) {
            if !self.leaving.contains_key(&key) {
                self.stay(&key, SignedDuration::ZERO);
            }
            return;
        }
        let id = engine::surplus_id(job, member);
        let is_given = matches!(state.surplus.inside.get(member), Some(Inside::Given(_)));
        let known = self.engine.placement(&id);
        let here = known.is_some_and(|p| p.iter().all(|(_, _, on)| on.as_str() == node));
        if !(is_given && here) {
            let Some(gang) = self.surplus_gang(job, run, plan, member) else {
                return;
            };
            let group = gang.groups.iter().map(|g| g.name.clone());
            let placement: Placement = group
                .map(|name| (name, vec![(NodeName::new(node), 1)]))
                .collect();
            let mut flavors = engine::flavors(plan);
            flavors.retain(|given| given.group.as_str() == member.group);
            let now = engine::time(Timestamp::now());
            self.engine.restore_gang_in(gang, placement, &flavors, now);
        }
        if let Some(state) = self.gangs.get_mut(job) {
            state.surplus.inside.insert(member.clone(), Inside::Placed);
        }
    }

    /// Seeks a place for a surplus pod. Returns the pod once there is a place.
    fn seek(
        &mut self,
        job: &Key,
        run: &Run,
        plan: &Plan,
        (member, round): (&Member, i64),
        not_before: Option<Timestamp>,
    ) -> Option<Vacancy> {
        let state = self.gangs.get_mut(job)?;
        let now = Instant::now();
        let is_told = self.leaving.contains_key(&engine::surplus_key(job, member));
        if is_told && matches!(state.surplus.inside.get(member), Some(Inside::Given(_))) {
            self.give_up(job, member);
            return None;
        }
        state.surplus.refused.retain(|_, until| *until > now);
        let later = not_before.filter(|at| *at > Timestamp::now());
        let later = later.map(|at| super::steps::from_now(now, at));
        let later = later.max(state.surplus.refused.get(member).copied());
        match state.surplus.inside.get(member) {
            Some(Inside::Given(place)) => {
                let (_, _, node) = place.placement.iter().next()?;
                let brought = trellis_gang::flavors::tolerations(&place.groups, &member.group);
                return Some(Vacancy {
                    group: member.group.clone(),
                    index: member.index,
                    node: node.as_str().to_owned(),
                    round,
                    brought: Some(brought.to_vec()),
                });
            }
            Some(Inside::Placed) => {
                // The pod existed, and is gone.
                self.give_up(job, member);
            }
            Some(Inside::Waiting) | None => {}
        }
        if let Some(at) = later {
            self.give_up(job, member);
            self.alarms.set(job, at);
            return None;
        }
        let state = self.gangs.get(job)?;
        let waiting = state.surplus.inside.values();
        let waiting = waiting.filter(|inside| matches!(inside, Inside::Waiting));
        if !state.surplus.inside.contains_key(member) && waiting.count() >= AT_ONCE {
            return None;
        }
        let near = self.domain_labels(run, plan, &member.group)?;
        let mut gang = self.surplus_gang(job, run, plan, member)?;
        for group in &mut gang.groups {
            group.constraints.narrow_to(&near);
        }
        self.engine.apply_gang(gang);
        let state = self.gangs.get_mut(job)?;
        state.surplus.inside.insert(member.clone(), Inside::Waiting);
        None
    }

    /// Gives up the places of pods that are gone, for a job that may not run as it is.
    fn give_up_gone(&mut self, job: &Key, pods: &BTreeMap<String, PodView>) {
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let is_there = |member: &&Member| {
            let pod = pods.get(&member.pod_name(&job.name));
            pod.is_some_and(|pod| !pod.phase.is_over())
        };
        let gone = state.surplus.inside.keys().filter(|m| !is_there(m));
        let gone: Vec<Member> = gone.cloned().collect();
        for member in gone {
            self.give_up(job, &member);
        }
    }

    /// Removes a surplus pod from the engine, except for its quota until it has stopped.
    fn give_up(&mut self, job: &Key, member: &Member) {
        self.leaving.remove(&engine::surplus_key(job, member));
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        if state.surplus.inside.remove(member).is_some() {
            self.engine.retire_gang(&engine::surplus_id(job, member));
        }
    }

    /// The same for all surplus pods, because the gang has lost its place.
    pub(super) fn withdraw_surplus(&mut self, job: &Key) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let members: Vec<Member> = state.surplus.members().cloned().collect();
        for member in members {
            self.give_up(job, &member);
        }
        if let Some(state) = self.gangs.get_mut(job) {
            state.surplus = Surplus::default();
        }
    }

    /// Gives up, for a while, the places of pods that could not be created.
    pub(super) fn refuse_surplus(&mut self, job: &Key) {
        let pods = self.committer.cache().pods.of(job);
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let given = state.surplus.inside.iter();
        let given = given.filter(|(_, inside)| matches!(inside, Inside::Given(_)));
        let absent = given.filter(|(member, _)| !pods.contains_key(&member.pod_name(&job.name)));
        let given: Vec<Member> = absent.map(|(member, _)| member.clone()).collect();
        let until = Instant::now().checked_add(REFUSED_FOR);
        for member in given {
            self.give_up(job, &member);
            if let (Some(state), Some(until)) = (self.gangs.get_mut(job), until) {
                state.surplus.refused.insert(member, until);
            }
        }
    }

    /// The engine has found a place for a surplus pod.
    pub(super) fn place_surplus(&mut self, job: &Key, member: &Member, place: Place) {
        let is_judged = self.is_judged(job);
        let state = self.gangs.get_mut(job);
        let waits =
            |state: &&mut Gang| matches!(state.surplus.inside.get(member), Some(Inside::Waiting));
        let Some(state) = state.filter(waits) else {
            self.engine.delete_gang(&engine::surplus_id(job, member));
            return;
        };
        // The policies have changed: the controller judges the job again first.
        if !is_judged {
            self.give_up(job, member);
            return;
        }
        let given = Inside::Given(Box::new(place));
        state.surplus.inside.insert(member.clone(), given);
        let context = self.committer.context();
        context.tell(crate::Feed::Look(job.clone()));
    }

    /// The engine finds no place for this reason.
    pub(super) fn surplus_waits(&mut self, job: &Key, certificate: Certificate) {
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let message = format!(
            "the others come when there is room: {}",
            certificate.message
        );
        state.surplus.lack = Some(Certificate {
            message,
            ..certificate
        });
        let context = self.committer.context();
        context.tell(crate::Feed::Look(job.clone()));
    }

    /// Surplus pods that have to go: those of a stale leader, and those that are preempted.
    pub(super) fn dismissed(&self, job: &Key, pods: &BTreeMap<String, PodView>) -> Dismissed {
        let Ok(ours) = self.committer.commands().epoch() else {
            return Dismissed::default();
        };
        // Most waiting gangs have no pods.
        if pods.is_empty() {
            return Dismissed::default();
        }
        // A leader that had lost the lease created them, and no one counted them.
        let is_stale = |pod: &&PodView| {
            let earlier = pod.epoch.is_some_and(|epoch| epoch != ours.0);
            earlier && !self.inherited_pods.contains(&pod.uid)
        };
        let stale: BTreeSet<String> = pods
            .values()
            .filter(is_stale)
            .map(|p| p.uid.clone())
            .collect();
        let now = Instant::now();
        let mut leaving = BTreeMap::new();
        let from = Key::new(&job.namespace, &format!("{}/", job.name));
        for (key, told) in self.leaving.range(from..) {
            let (of, Some(member)) = engine::whose(&GangId::new(key.to_string())) else {
                break;
            };
            if of != *job {
                break;
            }
            let pod = pods.get(&member.pod_name(&job.name));
            if let Some(pod) = pod.filter(|_| told.told().is_some()) {
                let patient = now.saturating_duration_since(told.since) < PATIENCE;
                leaving.insert(pod.uid.clone(), patient);
            }
        }
        Dismissed { stale, leaving }
    }
}
