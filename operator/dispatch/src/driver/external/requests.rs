//! Determines the requests of external pods that need a place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::pod_group::PlannedPod;
use trellis_api::{PodGroup, PodGroupSpec};
use trellis_gang::external::external_request::{AlikePods, ExternalRequest};
use trellis_gang::external::{ExternalGangRef, plan};
use trellis_gang::key::Key;
use trellis_gang::observed::UnhealthyRules;
use trellis_gang::{GangExplanation, engine, external};
use trellis_scheduler::Node;

use super::super::{Driver, EngineState};
use crate::external_request;
use crate::external_request::PlacementRole;

/// First pause before the scheduler looks again at a gang that waits for an object whose changes do
/// not wake it: a class, a claim, a volume. It doubles each time, up to 20 s. After a refusal it
/// doubles up to 160 s, so that pods that are never allowed do not keep the scheduler busy. A
/// refusal costs the most to compute, and its change wakes the gang.
const FIRST_RECHECK: Duration = Duration::from_secs(5);
const MAX_RECHECKS: u32 = 3;
const MAX_REFUSAL_RECHECKS: u32 = 6;

/// Request of nominated external pods, for which victims have left.
pub(super) enum NominatedRequest {
    /// The request, which policies allow.
    Allowed(Arc<ExternalRequest>),
    /// Policies have not decided on it yet. The pods keep their place.
    Undecided,
}

impl NominatedRequest {
    pub(super) fn into_request(self) -> Option<Arc<ExternalRequest>> {
        match self {
            Self::Allowed(request) => Some(request),
            Self::Undecided => None,
        }
    }
}

impl Driver {
    /// Lets the engine find a place for pods with this request.
    pub(super) fn enqueue_request_result(
        &mut self,
        unit: &Key,
        group: Option<&PodGroupSpec>,
        found: Result<Option<ExternalRequest>, GangExplanation>,
        retry: Option<Timestamp>,
        near: BTreeMap<String, String>,
    ) {
        match found {
            // The scheduler looks at the gang again once policies have decided. The gang gets no
            // place for its earlier request.
            Ok(None) => {
                let state = self.external_pods.gangs.entry(unit.clone()).or_default();
                state.has_new_request = true;
            }
            Ok(Some(request)) => self.enqueue_request(unit, group, request, retry, near),
            Err(why) => {
                self.withdraw(unit);
                let state = self.external_pods.gangs.entry(unit.clone()).or_default();
                let most = if why.refused {
                    MAX_REFUSAL_RECHECKS
                } else {
                    MAX_RECHECKS
                };
                state.rechecks = state.rechecks.saturating_add(1).min(most);
                let wait = FIRST_RECHECK.saturating_mul(1 << state.rechecks.saturating_sub(1));
                if let Some(at) = Instant::now().checked_add(wait) {
                    self.alarms.set(unit, at);
                }
                self.record_explanation(unit, why);
            }
        }
    }

    /// Returns the request of a single pod. `gang`: the PodGroup whose gang is placed. If that gang
    /// holds no place in the engine, because another scheduler bound its pods, there is no gang to
    /// join. Then the pod is a gang of one, in the PodGroup's queue.
    pub(super) fn find_single_request(
        &self,
        key: &Key,
        gang: Option<&Arc<PodGroup>>,
    ) -> Result<Option<ExternalRequest>, GangExplanation> {
        let journal = gang.and_then(|gang| gang.status.as_ref());
        let plan = journal.and_then(|journal| journal.plan.as_ref());
        let group_gang =
            gang.map(|gang| external::pod_group_gang_key(&Key::from_meta(&gang.metadata)));
        let group_gang =
            group_gang.and_then(|group_gang| self.external_pods.gangs.get(&group_gang));
        let placed_gang = group_gang.filter(|group_gang| {
            group_gang.engine_state == EngineState::Placed && !group_gang.allocations.is_empty()
        });
        let role = match (gang, plan, placed_gang) {
            (Some(group), Some(plan), Some(group_gang)) => PlacementRole::Joining {
                group,
                plan,
                present_total: &group_gang.total,
            },
            (Some(group), ..) => PlacementRole::Gang(group),
            (None, ..) => PlacementRole::Alone,
        };
        self.find_request(&external::pod_gang_key(key), role, [key.name.to_string()])
    }

    /// Returns the request of these pods of the unit. None: policies have not decided on it yet.
    /// The unit is looked at again after their decision.
    pub(super) fn find_request(
        &self,
        unit: &Key,
        place: PlacementRole<'_>,
        names: impl IntoIterator<Item = String>,
    ) -> Result<Option<ExternalRequest>, GangExplanation> {
        let context = self.committer.context();
        let pods = names.into_iter().filter_map(|name| {
            let pod = context
                .cache
                .external_pods
                .get(&Key::new(&unit.namespace, &name))?;
            Some((name, pod))
        });
        let pods: Vec<_> = pods.collect();
        let judge = |question| self.external_pods.judgements.judge(context, unit, question);
        external_request::find_request(&context.cache, &unit.namespace, place, &pods, judge)
    }

    /// Returns the request of nominated pods, by the current policies. A gang's request keeps the
    /// groups of its plan. None: the pods may no longer have that place.
    pub(super) fn find_nominated_request(&mut self, unit: &Key) -> Option<NominatedRequest> {
        let (request, is_admitted) = match external::parse_gang_key(unit)? {
            ExternalGangRef::Pod(pod) => {
                let there = self.committer.cache().external_pods.get(&pod)?;
                let group = there.group().map(|group| Key::new(&pod.namespace, group));
                let gang = group.and_then(|group| self.placed_pod_group(&group));
                let Some(request) = self.find_single_request(&pod, gang.as_ref()).ok()? else {
                    return Some(NominatedRequest::Undecided);
                };
                let place = self.engine.placement(&engine::gang_id(unit))?;
                let (_, _, node) = place.iter().next()?;
                let is_admitted = self.is_admitted_by_nodes(&request, |_| Some(node.as_str()));
                (request, is_admitted)
            }
            ExternalGangRef::Group(_) => {
                let (group, plan) = self.nominated_plan(unit)?;
                let names = plan::planned_pods(&plan).map(|(pod, _)| pod.name.clone());
                let Some(request) = self
                    .find_request(unit, PlacementRole::Gang(&group), names)
                    .ok()?
                else {
                    return Some(NominatedRequest::Undecided);
                };
                let planned =
                    plan::planned_pods(&plan).map(|(pod, node)| (pod.name.as_str(), node));
                let nodes: BTreeMap<&str, &str> = planned.collect();
                let is_admitted =
                    self.is_admitted_by_nodes(&request, |pod| nodes.get(pod).copied());
                (plan::regroup_like_plan(&plan, request)?, is_admitted)
            }
        };
        if !is_admitted {
            self.pause_external(unit);
            return None;
        }
        let request = Arc::new(request);
        self.external_pods
            .gangs
            .get_mut(unit)?
            .set_request(request.clone());
        // The engine has the place already. It charges the limits that apply now.
        self.engine
            .apply_draws(&engine::gang_id(unit), request.limits.to_draws());
        self.track_gpu_hours(&request.limits);
        Some(NominatedRequest::Allowed(request))
    }

    /// Returns true if the nodes still admit the pods: pods that repel them may have come, and node
    /// labels may have changed. The engine checks taints, because it knows the tolerations of
    /// flavors.
    fn is_admitted_by_nodes<'n>(
        &self,
        request: &ExternalRequest,
        node_of: impl Fn(&str) -> Option<&'n str>,
    ) -> bool {
        let context = self.committer.context();
        let takes = |alike: &AlikePods, pod: &PlannedPod| {
            let node = context
                .cache
                .nodes
                .get(&Key::new("", node_of(&pod.name)?))?;
            let node = Node {
                taints: Vec::new(),
                ..engine::to_engine_node(&node, &UnhealthyRules::default())
            };
            Some(alike.constraints.are_met_by(&node))
        };
        request.groups.iter().all(|alike| {
            let mut pods = alike.pods.iter();
            pods.all(|pod| takes(alike, pod) == Some(true))
        })
    }
}
