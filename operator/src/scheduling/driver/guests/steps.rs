//! What `guests::next` and `guests::single` say is done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tracing::debug;
use trellis_api::pod_group::{Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, Reason};

use super::super::victims::Leaving;
use super::super::{Driver, Inside};
use crate::key::Key;
use crate::scheduling::commit::{GuestPlan, Outcome};
use crate::scheduling::guests::asks;
use crate::scheduling::guests::next::{self, Step};
use crate::scheduling::guests::single::{self, Single};
use crate::scheduling::guests::{self, Unit, plan};
use crate::scheduling::journal;
use crate::scheduling::keeper::Doomed;
use crate::watch::Guests as Pods;
use crate::world::Certificate;

/// How soon a gang that waits for what is no news to it is looked at again: a queue, a policy, a
/// claim.
const LOOK: Duration = Duration::from_secs(5);

impl Driver {
    /// Does what is to be done about one guest gang.
    pub(in super::super) fn advance_guest(&mut self, unit: &Key) {
        let state = self.guests.gangs.get(unit);
        if let Some(task) = state.and_then(|state| state.task.as_ref()) {
            // It is for who asks for it now: a plan that is not carried out is not begun.
            if self.leaving.get(unit).is_some_and(|l| l.told().is_some()) {
                task.cancel();
            }
            return;
        }
        if let Some(end) = state.and_then(|state| state.pause.ends(Instant::now())) {
            self.alarms.set(unit, end);
            return;
        }
        match guests::unit(unit) {
            Some(Unit::Group(group)) => self.advance_group(unit, &group),
            Some(Unit::Pod(pod)) => self.advance_single(unit, &pod),
            None => {}
        }
    }

    fn advance_group(&mut self, unit: &Key, key: &Key) {
        let world = self.committer.world().clone();
        let pods = world.guests.of_group(key);
        let Some(group) = self.users_group(key) else {
            return self.without_group(unit, key, &pods);
        };
        let journal = group.status.clone().unwrap_or_default();
        if pods.is_empty() && journal.phase.unwrap_or_default() == PodGroupPhase::Pending {
            return self.forget_guest(unit);
        }
        if self
            .leaving
            .get(unit)
            .is_some_and(|l| !l.concerns(&journal))
        {
            self.leaving.remove(unit);
        }
        self.hold_group(unit, &group, &journal, &pods);
        let now = Instant::now();
        let inherited = self.inherited.get(unit).map(String::as_str);
        let ours = self.committer.commands().epoch().ok();
        let state = self.guests.gangs.entry(unit.clone()).or_default();
        let seen = next::Gang {
            min_member: group.spec.min_member,
            goes: group.metadata.deletion_timestamp.is_some(),
            journal: &journal,
            author: ours.map(|ours| journal::author(&journal, ours, inherited)),
            pods: &pods,
            told: self.leaving.get(unit).and_then(Leaving::told),
            deletions: &state.deletions,
            now: Timestamp::now(),
            clock: now,
        };
        let step = seen.next();
        if let Some(at) = state.deletions.next(now) {
            self.alarms.set(unit, at);
        }
        debug!(gang = %unit, ?step, "next");
        self.take_step(unit, &group, &journal, &pods, step);
    }

    fn take_step(
        &mut self,
        unit: &Key,
        group: &Arc<PodGroup>,
        journal: &PodGroupStatus,
        pods: &Pods,
        step: Step,
    ) {
        match step {
            Step::Wait { reason, message } => {
                self.withdraw(unit);
                self.say(unit, Certificate::waits(reason, message));
            }
            Step::Withdraw => self.withdraw(unit),
            Step::Enqueue(names) => {
                let retry = journal.retry_time.as_ref().map(|time| time.0);
                self.enqueue_guests(unit, Some(group), names, retry, None);
            }
            Step::TakeOver => self.write(unit, journal::taken_over),
            Step::Follow => self.follow_guests(unit, group, journal),
            Step::Void => self.void(unit),
            Step::Bind => self.go_on_with_guests(unit, group, journal, pods),
            Step::Adopt => self.adopt_guests(unit, group),
            Step::Hold(later) => {
                self.stay_unless_asked(unit);
                for name in later {
                    self.advance_guest(&guests::of_pod(&Key::new(&unit.namespace, &name)));
                }
            }
            Step::Undo {
                reason,
                message,
                failed,
            } => self.undo(unit, reason, message, failed),
            Step::Delete(doomed) => self.stop_guests(unit, doomed, false),
            Step::Evict(doomed) => self.stop_guests(unit, doomed, true),
            Step::AwaitPods => {
                let reason = Reason::PodsTerminating;
                let message = "pods of the gang's last place are still there".to_owned();
                self.say(unit, Certificate::waits(reason, message));
            }
            Step::Clear => self.clear_guests(unit, group, journal, pods),
        }
    }

    /// Pods that name a PodGroup which is not there: what runs is held, and nothing more is placed.
    fn without_group(&mut self, unit: &Key, key: &Key, pods: &Pods) {
        if pods.is_empty() {
            return self.forget_guest(unit);
        }
        self.hold_without_group(unit, pods);
        let of_job = self.committer.world().pod_groups.get(key).is_some();
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
        self.say(unit, Certificate::waits(Reason::PodGroupNotFound, message));
    }

    fn advance_single(&mut self, unit: &Key, key: &Key) {
        let world = self.committer.world().clone();
        let pod = world.guests.get(key);
        let group = pod.as_ref().and_then(|pod| pod.group());
        let group = group.map(|group| Key::new(&key.namespace, group));
        let gang = group.as_ref().map(|group| {
            let gang = self.users_group(group)?;
            let journal = gang.status.as_ref();
            let holds = journal.and_then(|j| j.phase) == Some(PodGroupPhase::Placed);
            holds.then_some(gang)
        });
        let told = self.leaving.get(unit).is_some_and(|l| l.told().is_some());
        let now = Instant::now();
        let state = self.guests.gangs.entry(unit.clone()).or_default();
        let retry = state.retry;
        let step = Single {
            name: &key.name,
            pod: pod.as_deref(),
            gang_holds: gang.as_ref().map(Option::is_some),
            told,
            deletions: &state.deletions,
            clock: now,
        }
        .next();
        if let Some(at) = state.deletions.next(now) {
            self.alarms.set(unit, at);
        }
        debug!(pod = %unit, ?step, "next");
        match step {
            single::Step::Forget => self.forget_guest(unit),
            single::Step::Hold => self.hold_single(unit, key),
            single::Step::Evict(doomed) => {
                self.hold_single(unit, key);
                self.stop_guests(unit, vec![doomed], true);
            }
            single::Step::Enqueue => {
                let gang = gang.flatten();
                let near = gang.as_ref().and_then(|gang| self.guests_near(gang));
                let names = vec![key.name.to_string()];
                self.enqueue_guests(unit, gang.as_ref(), names, retry, near);
            }
        }
    }

    /// Finds out what pods ask for, and lets the engine find a place for them.
    fn enqueue_guests(
        &mut self,
        unit: &Key,
        group: Option<&Arc<PodGroup>>,
        names: Vec<String>,
        retry: Option<Timestamp>,
        near: Option<(String, String)>,
    ) {
        let world = self.committer.world().clone();
        let pods = names.into_iter().filter_map(|name| {
            let pod = world.guests.get(&Key::new(&unit.namespace, &name))?;
            Some((name, pod))
        });
        let pods: Vec<_> = pods.collect();
        let found = asks::find(&world, &unit.namespace, group.map(AsRef::as_ref), &pods);
        match found {
            Ok(asks) => self.enqueue_asks(unit, group.map(|g| &g.spec), asks, retry, near),
            Err(why) => {
                self.withdraw(unit);
                if let Some(at) = Instant::now().checked_add(LOOK) {
                    self.alarms.set(unit, at);
                }
                self.say(unit, why);
            }
        }
    }

    /// Carries out the plan of the journal.
    fn go_on_with_guests(
        &mut self,
        unit: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
        pods: &Pods,
    ) {
        let (Some(plan), Some(uid)) = (journal.plan.clone(), group.metadata.uid.clone()) else {
            return;
        };
        self.stay_unless_asked(unit);
        let mut claims = BTreeMap::new();
        for (name, pod) in pods {
            // Of those that are bound, the claims were.
            if let Some(Ok(spec)) = &pod.spec {
                claims.insert(name.clone(), asks::claims(name, spec));
            }
        }
        let mut mounts = crate::scheduling::binding::Mounts::new();
        for (pod, node) in next::planned(&plan) {
            for claim in claims.get(&pod.name).into_iter().flatten() {
                let mount = mounts.entry(claim.clone()).or_default();
                mount.nodes.insert(node.to_owned());
                mount.pods = mount.pods.saturating_add(1);
            }
        }
        let wanted = GuestPlan { uid, plan, mounts };
        let (committer, key) = (self.committer.clone(), unit.clone());
        self.start(unit, None, |stop| async move {
            committer.resume_guests(key, wanted, stop).await
        });
    }

    /// The pods are bound, and no journal says so: it does from now on.
    fn adopt_guests(&mut self, unit: &Key, group: &PodGroup) {
        let (queue, priority) = self.counts_as(unit, Some(group));
        let adopted = Plan {
            hash: trellis_compiler::hash_of(&(
                &group.metadata.uid,
                Timestamp::now().as_nanosecond().to_string(),
            )),
            attempt: 1,
            generation: group.metadata.generation.unwrap_or(0),
            queue: Some(queue),
            priority: Some(priority),
            ..Plan::default()
        };
        self.write(unit, move |before| plan::adopted(before, adopted));
    }

    fn stop_guests(&mut self, unit: &Key, doomed: Vec<Doomed>, evict: bool) {
        let now = Instant::now();
        if let Some(state) = self.guests.gangs.get_mut(unit) {
            for pod in &doomed {
                state.deletions.ask(&pod.uid, pod.force, now);
            }
        }
        let (committer, key) = (self.committer.clone(), unit.clone());
        self.start(unit, None, |_| async move {
            match evict {
                true => committer.evict(&key, doomed).await,
                false => committer.delete(&key, doomed).await,
            }
        });
    }

    /// Nothing is left of a plan: what its claims were to be bound with is free again.
    fn clear_guests(
        &mut self,
        unit: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
        pods: &Pods,
    ) {
        let Some(uid) = group.metadata.uid.clone() else {
            return;
        };
        let preempted = journal.reason == Some(Reason::Preempted);
        if let Some(state) = self.guests.gangs.get_mut(unit) {
            state.preempted = preempted;
        }
        self.withdraw(unit);
        let specs = pods.iter().filter_map(|(name, pod)| match &pod.spec {
            Some(Ok(spec)) => Some(asks::claims(name, spec)),
            _ => None,
        });
        let claims = specs.flatten().collect();
        let hash = journal.plan.as_ref().map(|plan| plan.hash.clone());
        let (committer, key) = (self.committer.clone(), unit.clone());
        self.start(unit, None, |_| async move {
            let hash = hash.unwrap_or_default();
            let cleared = async {
                committer.unbind_guests(&key, &claims, &hash).await?;
                committer.journal(&key, &uid, plan::emptied).await
            };
            cleared.await.err().unwrap_or(Outcome::Done)
        });
    }

    /// The gang is not there any more.
    pub(super) fn forget_guest(&mut self, unit: &Key) {
        if self
            .guests
            .gangs
            .get(unit)
            .is_some_and(|state| state.task.is_some())
        {
            return;
        }
        self.withdraw(unit);
        self.guests.gangs.remove(unit);
        self.alarms.clear(unit);
        self.inherited.remove(unit);
        self.leaving.remove(unit);
    }

    /// True if nothing stands in the engine for it.
    pub(super) fn is_outside(&self, unit: &Key) -> bool {
        let inside = self.guests.gangs.get(unit).map(|state| state.inside);
        inside.unwrap_or_default() == Inside::No
    }
}
