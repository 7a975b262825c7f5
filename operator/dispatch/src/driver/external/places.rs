//! Places of external gangs: sought, found, and given up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::{PodGroup, PodGroupSpec, Reason};
use trellis_gang::external::asks::ExternalRequest;
use trellis_gang::external::form::Ticket;
use trellis_gang::external::next::planned;
use trellis_gang::external::{Unit, form, plan};
use trellis_gang::flavors::Place;
use trellis_gang::key::Key;
use trellis_gang::{Certificate, engine, external, quota};
use trellis_scheduler::NodeName;

use super::super::{Driver, Inside};
use super::find::Nominated;
use crate::Feed;
use crate::commit::{ExternalPlan, JudgedBy};

/// Pause before a place is tried again that an earlier leader has promised.
const SOON: Duration = Duration::from_millis(200);

impl Driver {
    /// Enqueues the pods in the engine.
    pub(super) fn enqueue_asks(
        &mut self,
        unit: &Key,
        group: Option<&PodGroupSpec>,
        asks: ExternalRequest,
        retry: Option<Timestamp>,
        near: BTreeMap<String, String>,
    ) {
        if self.keeps_nomination(unit, &asks, &near) {
            return;
        }
        let now = Instant::now();
        let fresh = self.external_pods.next_place();
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
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
            near: near.clone(),
            place: state.place,
        };
        state.near = near;
        state.looks = 0;
        state.telling.forget();
        let gang = form::waiting(unit, group, &asks, &ticket);
        let limits = asks.limits.clone();
        state.ask(asks.into());
        if matches!(before, Inside::Placed | Inside::Nominated) {
            // The place was tentative and its plan was never written.
            self.engine.delete_gang(&gang.id);
            self.spare(unit);
        }
        self.engine.apply_gang(gang);
        self.note_hours(&limits);
    }

    /// True if a single pod keeps its nominated place, because its request is the same: only its
    /// limits are updated. The nomination of a gang is in its journal.
    fn keeps_nomination(
        &mut self,
        unit: &Key,
        asks: &ExternalRequest,
        near: &BTreeMap<String, String>,
    ) -> bool {
        let alone = matches!(external::unit(unit), Some(Unit::Pod(_)));
        let state = self.external_pods.gangs.get_mut(unit).filter(|_| alone);
        let Some(state) = state.filter(|state| state.inside == Inside::Nominated) else {
            return false;
        };
        let before = state.asks.as_deref();
        let is_same = before.is_some_and(|before| before.is_same_demand(asks));
        if !is_same || state.near != *near {
            return false;
        }
        let limits = asks.limits.clone();
        state.ask(asks.clone().into());
        self.engine.apply_draws(&engine::id(unit), limits.draws());
        self.note_hours(&limits);
        true
    }

    /// Binds waiting pods to the place that the engine has found.
    pub(in super::super) fn place_external_pods(&mut self, unit: &Key, place: Place) {
        self.spare(unit);
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return self.engine.retire_gang(&engine::id(unit));
        };
        let before = std::mem::replace(&mut state.inside, Inside::Placed);
        state.held.clear();
        let busy = state.task.is_some();
        let is_nominated = self.nominated_plan(unit).is_some();
        if is_nominated && busy {
            // The nomination is in the journal: it is continued once the task has ended.
            return;
        }
        let found = self.asks_for_place(unit, is_nominated || before == Inside::Nominated);
        let context = self.committer.context();
        let policies = context.cache.policies.active();
        let is_loaded = policies.is_some_and(|policies| policies.is_loaded(&unit.namespace));
        let is_undecided = matches!(found, Some(Nominated::Undecided));
        if is_undecided || (is_nominated && found.is_none() && !is_loaded) {
            // Policies have not decided yet, or not since this replica leads: the place stays held.
            if let Some(at) = Instant::now().checked_add(SOON) {
                self.alarms.set(unit, at);
            }
            return;
        }
        let asks = found.and_then(Nominated::asks);
        let fit = asks.filter(|asks| !busy && self.is_as_asked(unit, asks, &place));
        let (Some(asks), Some(uid)) = (fit, self.external_uid(unit)) else {
            self.withdraw(unit);
            return self.committer.context().tell(Feed::Look(unit.clone()));
        };
        self.bind_external_pods(unit, uid, &asks, place);
    }

    /// The request of pods that have a place. `for_it`: victims have left for the place, so the
    /// request is computed anew at once, before the place could go to another gang. None: the
    /// request has to be found anew, or is unknown.
    fn asks_for_place(&mut self, unit: &Key, for_it: bool) -> Option<Nominated> {
        let state = self.external_pods.gangs.get(unit)?;
        let (before, asks_anew) = (state.asks.clone(), state.asks_anew);
        let plan = self.nominated_plan(unit).map(|(_, plan)| plan);
        let counts_in = plan.and_then(|plan| plan.queue);
        let counts_in = counts_in.or_else(|| before.as_ref().map(|asks| asks.queue.clone()));
        // Pods may have joined the gang since, or the pod may name another queue.
        let anew = for_it || before.as_ref().is_some_and(|asks| asks.joins);
        let asks = match anew {
            true => self.find_nominated(unit),
            false => before
                .filter(|_| !asks_anew)
                .map(Nominated::ExternalRequest),
        };
        // The place counts against the quota of that queue. In another queue a place is sought
        // anew.
        let is_its_queue = |queue: &str| counts_in.as_deref().is_none_or(|own| own == queue);
        asks.filter(|found| match found {
            Nominated::ExternalRequest(asks) => is_its_queue(&asks.queue),
            Nominated::Undecided => true,
        })
    }

    /// True if the policies and quotas that allowed the request are the current ones.
    fn is_of_now(&self, unit: &Key, asks: &ExternalRequest) -> bool {
        let context = self.committer.context();
        let policies = context.cache.policies.active();
        let version = policies.map(|policies| policies.version(&unit.namespace));
        version.as_deref() == Some(asks.allowed.version())
            && asks.limits.version == context.cache.quotas.version()
    }

    /// True if the pods of the request still wait and its policies are current. If not, the pods
    /// are judged again and go back to the queue.
    fn is_as_asked(&self, unit: &Key, asks: &ExternalRequest, place: &Place) -> bool {
        let context = self.committer.context();
        let is_there = |pod: &trellis_api::pod_group::PlannedPod| {
            let there = context
                .cache
                .external_pods
                .get(&Key::new(&unit.namespace, &pod.name));
            there.is_some_and(|there| there.uid == pod.uid && there.waits())
        };
        asks.pods().all(is_there) && self.is_of_now(unit, asks) && form::fits(asks, place)
    }

    fn bind_external_pods(
        &mut self,
        unit: &Key,
        uid: String,
        asks: &ExternalRequest,
        place: Place,
    ) {
        self.external_pods.judgements.forget(unit);
        let context = self.committer.context().clone();
        let number = self
            .external_pods
            .gangs
            .get(unit)
            .map_or(0, |state| state.place);
        let generation = match external::unit(unit) {
            Some(Unit::Group(group)) => context.cache.pod_groups.get(&group),
            _ => None,
        };
        let generation = generation.and_then(|group| group.metadata.generation);
        // The place was found by the earlier limits, so the plan records the current ones.
        let place = Place {
            limits: quota::planned(&asks.limits),
            ..place
        };
        let plan = plan::plan(
            &uid,
            generation.unwrap_or(0),
            asks,
            &place,
            Timestamp::now(),
        );
        for (pod, name) in plan::names(unit, number, &plan) {
            self.external_pods.names.insert(pod, name);
        }
        let nodes = planned(&plan).map(|(pod, node)| (pod.name.as_str(), node));
        let mounts = asks.mounts(nodes);
        let group = self.gang_of(unit, asks.joins);
        let wanted = ExternalPlan {
            uid,
            plan,
            group: group.as_ref().map(|group| group.name.to_string()),
            mounts,
            since: Some(asks.submitted),
            judged: Some(judged_by(asks)),
            specs: asks.judged.clone(),
        };
        if let (Some(Unit::Pod(pod)), Some(group)) = (external::unit(unit), &group) {
            // The next pod that joins is judged with this one counted.
            let state = self.external_pods.gangs.get_mut(&external::of_group(group));
            if let Some((state, pod)) = state.zip(context.cache.external_pods.get(&pod)) {
                state.total.add(&pod);
            }
        }
        let (committer, key) = (self.committer.clone(), unit.clone());
        let alone = matches!(external::unit(unit), Some(Unit::Pod(_)));
        self.start(unit, None, |stop| async move {
            match alone {
                true => committer.bind_external(key, wanted, stop).await,
                false => committer.commit_external_pods(key, wanted, stop).await,
            }
        });
    }

    /// PodGroup of the gang that a unit is, or joins.
    pub(super) fn gang_of(&self, unit: &Key, joins: bool) -> Option<Key> {
        match external::unit(unit)? {
            Unit::Group(group) => Some(group),
            Unit::Pod(pod) => {
                let there = self.committer.cache().external_pods.get(&pod)?;
                let group = there.group().filter(|_| joins)?;
                Some(Key::new(&pod.namespace, group))
            }
        }
    }

    /// Removes the gang from the engine, except for the quota of pods that still stop.
    pub(in super::super) fn withdraw_external_pods(&mut self, unit: &Key) {
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        let mut promised: BTreeSet<Key> = state.held.drain(..).map(|held| held.pod).collect();
        let asked = state.asks.iter().flat_map(|asks| asks.pods());
        promised.extend(asked.map(|pod| Key::new(&unit.namespace, &pod.name)));
        if std::mem::take(&mut state.inside) != Inside::No {
            self.engine.retire_gang(&engine::id(unit));
        }
        // Pods that are not bound, or do not exist, lose what was promised to them.
        promised.extend(self.external_pods(unit).into_iter().map(|(pod, _)| pod));
        for pod in promised {
            let name = self.external_pods.names.get(&pod);
            let is_its = name.is_some_and(|name| form::is_name_of(unit, name));
            if is_its && !self.pods.contains_key(&pod) {
                self.external_pods.names.remove(&pod);
            }
        }
        self.spare(unit);
    }

    /// Labels of the domain in which a pod must be that comes after its gang. Empty: it may be
    /// anywhere.
    ///
    /// # Errors
    /// If no node of its gang is in a domain: the pod waits, and is not placed elsewhere.
    pub(super) fn external_pods_near(
        &self,
        group: &PodGroup,
    ) -> Result<BTreeMap<String, String>, Certificate> {
        let asked = group.spec.topology.as_ref();
        let Some(level) = asked.and_then(|asked| asked.required.as_deref()) else {
            return Ok(BTreeMap::new());
        };
        let unit = external::of_group(&Key::of(&group.metadata));
        let state = self.external_pods.gangs.get(&unit);
        let there = state.map(|state| state.held.as_slice()).unwrap_or_default();
        if there.is_empty() {
            // The gang has no place that the pod could join.
            return Ok(BTreeMap::new());
        }
        let domain = there.iter().find_map(|held| {
            let node = NodeName::new(held.node.as_str());
            self.engine.domain_labels(level, &node)
        });
        domain.ok_or_else(|| {
            let message = format!(
                "the gang must stay in one domain of level {level:?}; none of its nodes has the \
                 labels of that level: label the nodes"
            );
            Certificate::waits(Reason::TopologyNotFound, message)
        })
    }
}

/// Versions of the policies and quotas that allow the pods, current as of now.
pub(super) fn judged_by(asks: &ExternalRequest) -> JudgedBy {
    JudgedBy {
        at: Instant::now(),
        policies: asks.allowed.version().to_owned(),
        quotas: asks.limits.version,
    }
}
