//! What the engine knows of guest gangs: that they wait, and what they hold.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::pod_group::{Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::topology::TopologyMode;
use trellis_api::{PodGroup, PodGroupSpec};

use super::super::{Driver, Inside};
use crate::key::Key;
use crate::quota::JobLimits;
use crate::scheduling::commit::GuestPlan;
use crate::scheduling::flavors::Place;
use crate::scheduling::guests::asks::Asks;
use crate::scheduling::guests::form::{self, Held, Ticket};
use crate::scheduling::guests::limits::{Accounts, held_limits};
use crate::scheduling::guests::next::{is_of_place, planned};
use crate::scheduling::guests::{self, Unit, plan};
use crate::scheduling::{Feed, gang, journal};
use crate::watch::{GuestPod, Guests as Pods};

/// How soon a place is tried again that an earlier leader has promised.
const SOON: Duration = Duration::from_millis(200);

impl Driver {
    /// The pods wait for a place.
    pub(super) fn enqueue_asks(
        &mut self,
        unit: &Key,
        group: Option<&PodGroupSpec>,
        asks: Asks,
        retry: Option<Timestamp>,
        near: Option<(String, String)>,
    ) {
        let now = Instant::now();
        let fresh = self.guests.next_place();
        let state = self.guests.gangs.entry(unit.clone()).or_default();
        let before = std::mem::replace(&mut state.inside, Inside::Waiting);
        if before == Inside::No {
            state.place = fresh;
        }
        if let Some(end) = state.avoided.next_end(now) {
            self.alarms.set(unit, end);
        }
        let ticket = Ticket {
            not_before: retry,
            excluded: state.avoided.now(now).cloned().collect(),
            preempted: state.preempted,
            near,
            place: state.place,
        };
        state.looks = 0;
        let gang = form::waiting(unit, group, &asks, &ticket);
        let limits = asks.limits.clone();
        state.accounts.clone_from(&asks.accounts);
        state.asks = Some(asks.into());
        state.limits = Some(limits.clone());
        if matches!(before, Inside::Placed | Inside::Nominated) {
            // The place was tentative and its plan was never written.
            self.engine.delete_gang(&gang.id);
            self.spare(unit);
        }
        self.engine.apply_gang(gang);
        self.note_hours(&limits);
    }

    /// The engine has a place for pods that wait: they are bound to it.
    pub(in super::super) fn place_guests(&mut self, unit: &Key, place: Place) {
        self.spare(unit);
        let world = self.committer.world().clone();
        let Some(state) = self.guests.gangs.get_mut(unit) else {
            return self.engine.retire_gang(&gang::id(unit));
        };
        state.inside = Inside::Placed;
        state.held.clear();
        let (busy, number) = (state.task.is_some(), state.place);
        let asks = state.asks.clone();
        let is_nominated = self.nominated_plan(unit).is_some();
        if is_nominated && busy {
            // The place stands in the journal: it is gone on with once the task has ended.
            return;
        }
        let of_now = |asks: &Asks| {
            let policies = world.policies.active();
            let version = policies.map(|policies| policies.version(&unit.namespace));
            version.as_deref() == Some(asks.allowed.version())
                && asks.limits.version == world.quotas.version()
        };
        // Others have left for it: it is asked at once, and not after somebody else has the place.
        let asks = match asks.filter(|asks| !is_nominated || of_now(asks)) {
            None if is_nominated => self.asks_of_nominated(unit),
            asks => asks,
        };
        if is_nominated && asks.is_none() && world.policies.active().is_none() {
            // Nothing has been asked yet since we lead: the place is held for it.
            if let Some(at) = Instant::now().checked_add(SOON) {
                self.alarms.set(unit, at);
            }
            return;
        }
        let is_there = |pod: &trellis_api::pod_group::PlannedPod| {
            let there = world.guests.get(&Key::new(&unit.namespace, &pod.name));
            there.is_some_and(|there| there.uid == pod.uid && there.waits())
        };
        // Of a policy that has changed since it is asked anew, and then the pods wait again.
        let fits = |asks: &Asks| {
            let mut groups = asks.groups.iter().enumerate();
            groups.all(|(number, alike)| {
                let name = form::group_name(number);
                let mut placed = place.placement.groups().iter();
                let runs = placed.find(|g| g.group.as_str() == name).map(|g| &g.runs);
                let pods = runs
                    .into_iter()
                    .flatten()
                    .map(|(_, pods)| usize::try_from(*pods));
                pods.flatten().sum::<usize>() == alike.pods.len()
            })
        };
        let uid = self.guest_uid(unit);
        let fit =
            asks.filter(|asks| !busy && asks.pods().all(is_there) && of_now(asks) && fits(asks));
        let (Some(asks), Some(uid)) = (fit, uid) else {
            self.withdraw(unit);
            return world.tell(Feed::Look(unit.clone()));
        };
        let generation = match guests::unit(unit) {
            Some(Unit::Group(group)) => world.pod_groups.get(&group),
            _ => None,
        };
        let generation = generation.and_then(|group| group.metadata.generation);
        let plan = plan::plan(
            &uid,
            generation.unwrap_or(0),
            &asks,
            &place,
            Timestamp::now(),
        );
        for (pod, name) in plan::names(unit, number, &plan) {
            self.guests.names.insert(pod, name);
        }
        let nodes = planned(&plan).map(|(pod, node)| (pod.name.as_str(), node));
        let mounts = asks.mounts(nodes);
        let wanted = GuestPlan {
            uid,
            plan,
            mounts,
            since: Some(asks.submitted),
        };
        let (committer, key) = (self.committer.clone(), unit.clone());
        let alone = matches!(guests::unit(unit), Some(Unit::Pod(_)));
        self.start(unit, None, |stop| async move {
            match alone {
                true => committer.bind_guest(key, wanted, stop).await,
                false => committer.commit_guests(key, wanted, stop).await,
            }
        });
    }

    /// The engine learns of what a gang holds: the place of its open plan, or that of its pods.
    pub(super) fn hold_group(
        &mut self,
        unit: &Key,
        group: &PodGroup,
        journal: &PodGroupStatus,
        pods: &Pods,
    ) {
        let phase = journal.phase.unwrap_or_default();
        let Some(plan) = &journal.plan else { return };
        let held = match phase {
            PodGroupPhase::Committing => of_plan(unit, plan, pods),
            PodGroupPhase::Placed => of_place(unit, journal, pods),
            // What still stops holds its quota until it has, also where a new leader finds it.
            PodGroupPhase::Unwinding => {
                let mut held = of_place(unit, journal, pods);
                held.retain(|pod| !self.guests.names.contains_key(&pod.pod));
                if !self.is_outside(unit) || held.is_empty() {
                    return self.withdraw(unit);
                }
                held
            }
            _ => return,
        };
        let counts = (
            plan.queue.clone().unwrap_or_default(),
            plan.priority.unwrap_or(0),
        );
        let since = journal::made_at(plan).unwrap_or_else(Timestamp::now);
        self.hold_pods(unit, Some(&group.spec), &counts, since, held);
        if phase == PodGroupPhase::Unwinding {
            self.withdraw(unit);
        }
    }

    /// The same of a pod alone: it counts where it was bound, whatever its labels say by now.
    pub(super) fn hold_single(&mut self, unit: &Key, key: &Key) {
        let Some(pod) = self.committer.world().guests.get(key) else {
            return;
        };
        let held = held(key.clone(), &pod).into_iter().collect();
        let counts = (pod.queue.clone().unwrap_or_default(), pod.priority);
        let since = pod.created.unwrap_or_else(Timestamp::now);
        self.hold_pods(unit, None, &counts, since, held);
        self.stay_unless_asked(unit);
    }

    fn hold_pods(
        &mut self,
        unit: &Key,
        group: Option<&PodGroupSpec>,
        (queue, priority): &(String, i32),
        since: Timestamp,
        held: Vec<Held>,
    ) {
        if held.is_empty() {
            return self.withdraw(unit);
        }
        let limits = self.judge_guests(unit, queue, &held);
        let fresh = self.guests.next_place();
        let state = self.guests.gangs.entry(unit.clone()).or_default();
        let is_placed = state.inside == Inside::Placed;
        // The engine takes a gang that leaves for what it was when it was told to.
        if is_placed && (form::is_same(&state.held, &held) || self.leaving.contains_key(unit)) {
            return;
        }
        let tentative = is_placed && state.held.is_empty();
        let is_promised = |held: &Held| {
            let name = self.guests.names.get(&held.pod);
            name.is_some_and(|name| form::is_name_of(unit, name))
        };
        if tentative && held.iter().all(is_promised) {
            // The place is the very one that the engine has just found.
            state.held = held;
            return;
        }
        state.inside = Inside::Placed;
        state.place = fresh;
        state.held.clone_from(&held);
        let grace = held.iter().map(|pod| pod.grace).max().unwrap_or(0);
        let mut standing = form::standing(unit, fresh, group, (queue, *priority), grace, &held);
        standing.gang.draws = limits.draws();
        // Pods that came one by one are the gang's from now on.
        for pod in &held {
            let alone = guests::of_pod(&pod.pod);
            if alone != *unit && self.guests.gangs.remove(&alone).is_some() {
                self.engine.delete_gang(&gang::id(&alone));
                self.alarms.clear(&alone);
                self.leaving.remove(&alone);
            }
        }
        for (pod, name) in standing.names {
            let before = self.guests.names.insert(pod.clone(), name);
            if self.pods.contains_key(&pod) {
                self.engine
                    .delete_pod(&before.unwrap_or_else(|| gang::pod_key(&pod)));
            }
        }
        self.engine
            .restore_gang_in(standing.gang, standing.placement, &[], gang::time(since));
        for pod in held.iter().filter(|held| held.bound) {
            if let Some(name) = self.guests.names.get(&pod.pod) {
                let node = trellis_scheduler::NodeName::new(pod.node.as_str());
                self.engine
                    .apply_pod(name.clone(), node, pod.request.clone());
                self.pods.insert(pod.pod.clone(), pod.uid.as_str().into());
            }
        }
    }

    /// The limits that pods draw on which have their place, by the policies of now.
    fn judge_guests(&mut self, unit: &Key, queue: &str, held: &[Held]) -> Arc<JobLimits> {
        let world = self.committer.world().clone();
        let version = world.quotas.version();
        let pods = held.iter().filter_map(|held| world.guests.get(&held.pod));
        let accounts: Accounts = pods.map(|pod| pod.service_account.clone()).collect();
        let state = self.guests.gangs.entry(unit.clone()).or_default();
        let known = state.limits.as_ref();
        let known = known.filter(|limits| limits.version == version);
        if let Some(limits) = known.filter(|_| state.accounts == accounts) {
            return limits.clone();
        }
        let limits = Arc::new(held_limits(&world, &unit.namespace, queue, &accounts));
        state.limits = Some(limits.clone());
        state.accounts = accounts;
        self.engine.apply_draws(&gang::id(unit), limits.draws());
        self.note_hours(&limits);
        limits
    }

    /// The engine forgets the gang, but for the quota of what still stops.
    pub(in super::super) fn withdraw_guests(&mut self, unit: &Key) {
        let Some(state) = self.guests.gangs.get_mut(unit) else {
            return;
        };
        let mut promised: BTreeSet<Key> = state.held.drain(..).map(|held| held.pod).collect();
        let asked = state.asks.iter().flat_map(|asks| asks.pods());
        promised.extend(asked.map(|pod| Key::new(&unit.namespace, &pod.name)));
        if std::mem::take(&mut state.inside) != Inside::No {
            self.engine.retire_gang(&gang::id(unit));
        }
        // What was promised to pods that are not bound, or not there, is not theirs any more.
        promised.extend(self.guest_pods(unit).into_iter().map(|(pod, _)| pod));
        for pod in promised {
            let name = self.guests.names.get(&pod);
            let is_its = name.is_some_and(|name| form::is_name_of(unit, name));
            if is_its && !self.pods.contains_key(&pod) {
                self.guests.names.remove(&pod);
            }
        }
        self.spare(unit);
    }

    /// Where a pod must be that comes after its gang, by the label of the level.
    pub(super) fn guests_near(&self, group: &PodGroup) -> Option<(String, String)> {
        let asked = group.spec.topology.as_ref()?;
        if asked.mode() != TopologyMode::Required {
            return None;
        }
        let world = self.committer.world();
        let pods = world.guests.of_group(&Key::of(&group.metadata));
        let node = pods
            .values()
            .find_map(|pod| pod.node.clone().filter(|_| pod.is_bound()))?;
        let node = world.nodes.get(&Key::new("", &node))?;
        let value = node.metadata.labels.as_ref()?.get(&asked.level)?.clone();
        Some((asked.level.clone(), value))
    }
}

fn held(key: Key, pod: &GuestPod) -> Option<Held> {
    let node = pod.node.clone().filter(|_| pod.is_bound())?;
    Some(Held {
        pod: key,
        uid: pod.uid.clone(),
        node,
        request: pod.request.clone(),
        grace: pod.grace,
        bound: true,
    })
}

fn of_place(unit: &Key, journal: &PodGroupStatus, pods: &Pods) -> Vec<Held> {
    let all = pods.iter().filter(|(_, pod)| is_of_place(journal, pod));
    all.filter_map(|(name, pod)| held(Key::new(&unit.namespace, name), pod))
        .collect()
}

/// The pods of an open plan, where it puts them. One that is bound elsewhere undoes it.
pub(super) fn of_plan(unit: &Key, plan: &Plan, pods: &Pods) -> Vec<Held> {
    let there = planned(plan).filter_map(|(planned, node)| {
        let pod = pods
            .get(&planned.name)
            .filter(|pod| pod.uid == planned.uid)?;
        Some(Held {
            pod: Key::new(&unit.namespace, &planned.name),
            uid: planned.uid.clone(),
            node: pod.node.clone().unwrap_or_else(|| node.to_owned()),
            request: pod.request.clone(),
            grace: pod.grace,
            bound: pod.is_bound(),
        })
    });
    let mut held: Vec<Held> = there.collect();
    held.sort_by(|a, b| a.pod.cmp(&b.pod));
    held
}
