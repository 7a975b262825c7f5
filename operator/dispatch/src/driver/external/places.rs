//! Places of external gangs: sought, found, and given up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::{PodGroup, PodGroupSpec, Reason};
use trellis_gang::external::engine_gang::ExternalAttemptState;
use trellis_gang::external::external_request::ExternalRequest;
use trellis_gang::external::plan::planned_pods;
use trellis_gang::external::{ExternalGangRef, engine_gang, plan};
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::{GangExplanation, engine, external, quota};
use trellis_machine::clock;
use trellis_scheduler::NodeName;

use super::super::{Driver, EngineState};
use super::requests::NominatedRequest;
use crate::SchedulerEvent;
use crate::commit::{ExternalPlan, PolicyVersions};

/// Pause before another try of a place that an earlier leader has promised.
const PROMISED_PLACE_RETRY: Duration = Duration::from_millis(200);

impl Driver {
    /// Enqueues the pods in the engine.
    pub(super) fn enqueue_request(
        &mut self,
        unit: &Key,
        group: Option<&PodGroupSpec>,
        request: ExternalRequest,
        retry: Option<Timestamp>,
        near: BTreeMap<String, String>,
    ) {
        if self.keep_nomination(unit, &request, &near) {
            return;
        }
        let now = Instant::now();
        let fresh = self.external_pods.next_place_number();
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let before = std::mem::replace(&mut state.engine_state, EngineState::Waiting);
        if before == EngineState::Absent {
            state.place_number = fresh;
        }
        // The engine reports a reason once, so a gang that waits on keeps its delayed explanation.
        if before != EngineState::Waiting {
            state.conditions.drop_delayed();
        }
        if let Some(end) = state.avoided.next_end(now) {
            self.alarms.set(unit, end);
        }
        let ticket = ExternalAttemptState {
            not_before: retry,
            excluded_nodes: state.avoided.current(now).cloned().collect(),
            preempted: state.was_preempted,
            gang_domain_labels: near.clone(),
            place_number: state.place_number,
        };
        state.domain_labels = near;
        state.rechecks = 0;
        let gang = engine_gang::pending_gang(unit, group, &request, &ticket);
        let limits = request.limits.clone();
        state.set_request(request.into());
        if matches!(before, EngineState::Placed | EngineState::Nominated) {
            // The place was tentative and its plan was never written.
            self.engine.delete_gang(&gang.id);
            self.release_victims(unit);
        }
        self.engine.apply_gang(gang);
        self.track_gpu_hours(&limits);
    }

    /// Returns true if a single pod keeps its nominated place, because its request is the same.
    /// Then only its limits are updated. The nomination of a gang is in its journal.
    fn keep_nomination(
        &mut self,
        unit: &Key,
        request: &ExternalRequest,
        near: &BTreeMap<String, String>,
    ) -> bool {
        let alone = matches!(
            external::parse_gang_key(unit),
            Some(ExternalGangRef::Pod(_))
        );
        let state = self.external_pods.gangs.get_mut(unit).filter(|_| alone);
        let Some(state) = state.filter(|state| state.engine_state == EngineState::Nominated) else {
            return false;
        };
        let before = state.request.as_deref();
        let is_same = before.is_some_and(|before| before.is_same_demand(request));
        if !is_same || state.domain_labels != *near {
            return false;
        }
        let limits = request.limits.clone();
        state.set_request(request.clone().into());
        self.engine
            .apply_draws(&engine::gang_id(unit), limits.to_draws());
        self.track_gpu_hours(&limits);
        true
    }

    /// Binds waiting pods to the place that the engine has found.
    pub(in super::super) fn place_external_pods(&mut self, unit: &Key, place: GangPlacement) {
        self.release_victims(unit);
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return self.engine.retire_gang(&engine::gang_id(unit));
        };
        let before = std::mem::replace(&mut state.engine_state, EngineState::Placed);
        state.allocations.clear();
        state.conditions.drop_delayed();
        let busy = state.task.is_some();
        let is_nominated = self.nominated_plan(unit).is_some();
        if is_nominated && busy {
            // The nomination is in the journal, and continues once the task has ended.
            return;
        }
        let found = self.request_for_place(unit, is_nominated || before == EngineState::Nominated);
        let context = self.committer.context();
        let policies = context.cache.policies.active();
        let is_loaded = policies.is_some_and(|policies| policies.is_loaded(&unit.namespace));
        let is_undecided = matches!(found, Some(NominatedRequest::Undecided));
        if is_undecided || (is_nominated && found.is_none() && !is_loaded) {
            // Policies have not decided yet, or not since this replica leads. The gang keeps the
            // place.
            if let Some(at) = Instant::now().checked_add(PROMISED_PLACE_RETRY) {
                self.alarms.set(unit, at);
            }
            return;
        }
        let request = found.and_then(NominatedRequest::into_request);
        let fit =
            request.filter(|request| !busy && self.is_request_still_valid(unit, request, &place));
        let (Some(request), Some(uid)) = (fit, self.external_uid(unit)) else {
            self.withdraw(unit);
            return self
                .committer
                .context()
                .send_event(SchedulerEvent::Recheck(unit.clone()));
        };
        self.bind_external_pods(unit, uid, &request, place);
    }

    /// Returns the request of pods that have a place. If `victims_left`, victims have left for the
    /// place, so the request is computed again at once, before another gang could take the place.
    /// None: the request is outdated or unknown.
    fn request_for_place(&mut self, unit: &Key, victims_left: bool) -> Option<NominatedRequest> {
        let state = self.external_pods.gangs.get(unit)?;
        let (before, has_new_request) = (state.request.clone(), state.has_new_request);
        let plan = self.nominated_plan(unit).map(|(_, plan)| plan);
        let counts_in = plan.and_then(|plan| plan.queue);
        let counts_in = counts_in.or_else(|| before.as_ref().map(|request| request.queue.clone()));
        // Pods may have joined the gang since, or the pod may name another queue.
        let is_recomputed =
            victims_left || before.as_ref().is_some_and(|request| request.joins_gang);
        let request = match is_recomputed {
            true => self.find_nominated_request(unit),
            false => before
                .filter(|_| !has_new_request)
                .map(NominatedRequest::Allowed),
        };
        // The place counts against the quota of that queue. In another queue, the gang needs a new
        // place.
        let is_its_queue = |queue: &str| counts_in.as_deref().is_none_or(|own| own == queue);
        request.filter(|found| match found {
            NominatedRequest::Allowed(request) => is_its_queue(&request.queue),
            NominatedRequest::Undecided => true,
        })
    }

    /// Returns true if the policies and quotas that allowed the request are the current ones.
    fn is_current_request(&self, unit: &Key, request: &ExternalRequest) -> bool {
        let context = self.committer.context();
        let policies = context.cache.policies.active();
        let version = policies.map(|policies| policies.version(&unit.namespace));
        version.as_deref() == Some(request.authorization.version())
            && request.limits.version == context.cache.quotas.version()
    }

    /// Returns true if the pods of the request still wait and its policies are current. If not,
    /// policies judge the pods again, and the pods go back to the queue.
    fn is_request_still_valid(
        &self,
        unit: &Key,
        request: &ExternalRequest,
        place: &GangPlacement,
    ) -> bool {
        let context = self.committer.context();
        let is_there = |pod: &trellis_api::pod_group::PlannedPod| {
            let there = context
                .cache
                .external_pods
                .get(&Key::new(&unit.namespace, &pod.name));
            there.is_some_and(|there| there.uid == pod.uid && there.is_waiting())
        };
        request.pods().all(is_there)
            && self.is_current_request(unit, request)
            && engine_gang::placement_fits(request, place)
    }

    fn bind_external_pods(
        &mut self,
        unit: &Key,
        uid: String,
        request: &ExternalRequest,
        place: GangPlacement,
    ) {
        self.external_pods.judgements.forget(unit);
        let context = self.committer.context().clone();
        let number = self
            .external_pods
            .gangs
            .get(unit)
            .map_or(0, |state| state.place_number);
        let generation = match external::parse_gang_key(unit) {
            Some(ExternalGangRef::Group(group)) => context.cache.pod_groups.get(&group),
            _ => None,
        };
        let generation = generation.and_then(|group| group.metadata.generation);
        // The engine found the place with the earlier limits, so the plan records the current ones.
        let place = GangPlacement {
            limits: quota::to_planned_limits(&request.limits),
            ..place
        };
        let plan = plan::build_plan(&uid, generation.unwrap_or(0), request, &place, clock::now());
        for (pod, name) in plan::engine_pod_names(unit, number, &plan) {
            self.external_pods.pod_names.insert(pod, name);
        }
        let nodes = planned_pods(&plan).map(|(pod, node)| (pod.name.as_str(), node));
        let mounts = request.claim_mounts(nodes);
        let group = self.pod_group_of(unit, request.joins_gang);
        let wanted = ExternalPlan {
            uid,
            plan,
            group: group.as_ref().map(|group| group.name.to_string()),
            mounts,
            since: Some(request.submitted),
            judged: Some(policy_versions(request)),
            specs: request.judged_specs.clone(),
        };
        if let (Some(ExternalGangRef::Pod(pod)), Some(group)) =
            (external::parse_gang_key(unit), &group)
        {
            // The judgement of the next joining pod includes this pod.
            let state = self
                .external_pods
                .gangs
                .get_mut(&external::pod_group_gang_key(group));
            if let Some((state, pod)) = state.zip(context.cache.external_pods.get(&pod)) {
                state.total.add(&pod);
            }
        }
        let (committer, key) = (self.committer.clone(), unit.clone());
        let alone = matches!(
            external::parse_gang_key(unit),
            Some(ExternalGangRef::Pod(_))
        );
        self.start_task(unit, None, |stop| async move {
            match alone {
                true => committer.bind_single_pod(key, wanted, stop).await,
                false => committer.commit_external_pods(key, wanted, stop).await,
            }
        });
    }

    /// Returns the PodGroup of the gang that a unit forms or joins.
    pub(super) fn pod_group_of(&self, unit: &Key, joins: bool) -> Option<Key> {
        match external::parse_gang_key(unit)? {
            ExternalGangRef::Group(group) => Some(group),
            ExternalGangRef::Pod(pod) => {
                let there = self.committer.cache().external_pods.get(&pod)?;
                let group = there.group().filter(|_| joins)?;
                Some(Key::new(&pod.namespace, group))
            }
        }
    }

    /// Removes the gang from the engine, except for the quota of stopping pods.
    pub(in super::super) fn withdraw_external_pods(&mut self, unit: &Key) {
        let Some(state) = self.external_pods.gangs.get_mut(unit) else {
            return;
        };
        let mut promised: BTreeSet<Key> = state
            .allocations
            .drain(..)
            .map(|placed| placed.pod)
            .collect();
        let requested = state.request.iter().flat_map(|request| request.pods());
        promised.extend(requested.map(|pod| Key::new(&unit.namespace, &pod.name)));
        if std::mem::take(&mut state.engine_state) != EngineState::Absent {
            self.engine.retire_gang(&engine::gang_id(unit));
        }
        // Pods that are not bound, or do not exist, lose their promised resources.
        promised.extend(self.pods_of_unit(unit).into_iter().map(|(pod, _)| pod));
        for pod in promised {
            let name = self.external_pods.pod_names.get(&pod);
            let is_own = name.is_some_and(|name| engine_gang::is_pod_of_gang(unit, name));
            if is_own && !self.pods.contains_key(&pod) {
                self.external_pods.pod_names.remove(&pod);
            }
        }
        self.release_victims(unit);
    }

    /// Returns the labels of the domain in which a pod that comes after its gang must be. Empty: it
    /// may be anywhere.
    ///
    /// # Errors
    /// If no node of its gang is in a domain. The pod then waits, and is not placed elsewhere.
    pub(super) fn joining_domain_labels(
        &self,
        group: &PodGroup,
    ) -> Result<BTreeMap<String, String>, GangExplanation> {
        let topology = group.spec.topology.as_ref();
        let Some(level) = topology.and_then(|topology| topology.required.as_deref()) else {
            return Ok(BTreeMap::new());
        };
        let unit = external::pod_group_gang_key(&Key::from_meta(&group.metadata));
        let state = self.external_pods.gangs.get(&unit);
        let allocations = state
            .map(|state| state.allocations.as_slice())
            .unwrap_or_default();
        if allocations.is_empty() {
            // The gang has no place that the pod could join.
            return Ok(BTreeMap::new());
        }
        let domain = allocations.iter().find_map(|placed| {
            let node = NodeName::new(placed.node.as_str());
            self.engine.domain_labels(level, &node)
        });
        domain.ok_or_else(|| {
            let message = format!(
                "the gang must stay in one domain of level {level:?}; none of its nodes has the \
                 labels of that level: label the nodes"
            );
            GangExplanation::waiting(Reason::TopologyNotFound, message)
        })
    }
}

/// Returns the versions of the policies and quotas that allow the pods, current as of now.
pub(super) fn policy_versions(request: &ExternalRequest) -> PolicyVersions {
    PolicyVersions {
        judged_at: Instant::now(),
        policies: request.authorization.version().to_owned(),
        quotas: request.limits.version,
    }
}
