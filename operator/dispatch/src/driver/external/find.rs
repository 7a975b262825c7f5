//! Finds out what external pods request when they are to be placed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use trellis_api::pod_group::PlannedPod;
use trellis_api::{PodGroup, PodGroupSpec};
use trellis_gang::external::asks::{AlikePods, ExternalRequest};
use trellis_gang::external::{Unit, next, plan};
use trellis_gang::key::Key;
use trellis_gang::observed::Unhealthy;
use trellis_gang::{Certificate, engine, external};
use trellis_scheduler::Node;

use super::super::{Driver, Inside};
use crate::find_asks;
use crate::find_asks::As;

/// First pause before a gang is looked at again that waits for an object whose changes do not wake
/// it: a class, a claim, a volume. Doubled each time, to 20 s. After a refusal, which is the
/// costliest to compute and wakes the gang when it changes, to 160 s, so that pods that are never
/// allowed do not keep the scheduler busy.
const LOOK: Duration = Duration::from_secs(5);
const MOST_LOOKS: u32 = 3;
const MOST_REFUSALS: u32 = 6;

/// Request of nominated external pods, for which victims have left.
pub(super) enum Nominated {
    /// The request, which policies allow.
    ExternalRequest(Arc<ExternalRequest>),
    /// Policies have not decided on it yet, and the place stays held.
    Undecided,
}

impl Nominated {
    pub(super) fn asks(self) -> Option<Arc<ExternalRequest>> {
        match self {
            Self::ExternalRequest(asks) => Some(asks),
            Self::Undecided => None,
        }
    }
}

impl Driver {
    /// Lets the engine find a place for pods with this request.
    pub(super) fn enqueue_found(
        &mut self,
        unit: &Key,
        group: Option<&PodGroupSpec>,
        found: Result<Option<ExternalRequest>, Certificate>,
        retry: Option<Timestamp>,
        near: BTreeMap<String, String>,
    ) {
        match found {
            // The gang is looked at again once policies have decided. It gets no place by its
            // earlier request.
            Ok(None) => {
                let state = self.external_pods.gangs.entry(unit.clone()).or_default();
                state.asks_anew = true;
            }
            Ok(Some(asks)) => self.enqueue_asks(unit, group, asks, retry, near),
            Err(why) => {
                self.withdraw(unit);
                let state = self.external_pods.gangs.entry(unit.clone()).or_default();
                let most = if why.refused {
                    MOST_REFUSALS
                } else {
                    MOST_LOOKS
                };
                state.looks = state.looks.saturating_add(1).min(most);
                let wait = LOOK.saturating_mul(1 << state.looks.saturating_sub(1));
                if let Some(at) = Instant::now().checked_add(wait) {
                    self.alarms.set(unit, at);
                }
                self.say(unit, why);
            }
        }
    }

    /// The request of a single pod. `gang`: the PodGroup whose gang is placed. If that gang holds
    /// no place in the engine, because another scheduler bound its pods, there is no gang to join:
    /// the pod is a gang of one, in the PodGroup's queue.
    pub(super) fn find_single(
        &self,
        key: &Key,
        gang: Option<&Arc<PodGroup>>,
    ) -> Result<Option<ExternalRequest>, Certificate> {
        let journal = gang.and_then(|gang| gang.status.as_ref());
        let plan = journal.and_then(|journal| journal.plan.as_ref());
        let of = gang.map(|gang| external::of_group(&Key::of(&gang.metadata)));
        let of = of.and_then(|of| self.external_pods.gangs.get(&of));
        let holds = of.filter(|of| of.inside == Inside::Placed && !of.held.is_empty());
        let place = match (gang, plan, holds) {
            (Some(group), Some(plan), Some(of)) => As::Joining {
                group,
                plan,
                there: &of.total,
            },
            (Some(group), ..) => As::Gang(group),
            (None, ..) => As::Alone,
        };
        self.find(&external::of_pod(key), place, [key.name.to_string()])
    }

    /// The request of these pods of the unit. None: policies have not decided on it yet, and the
    /// unit is looked at again once they have.
    pub(super) fn find(
        &self,
        unit: &Key,
        place: As<'_>,
        names: impl IntoIterator<Item = String>,
    ) -> Result<Option<ExternalRequest>, Certificate> {
        let context = self.committer.context();
        let pods = names.into_iter().filter_map(|name| {
            let pod = context
                .cache
                .external_pods
                .get(&Key::new(&unit.namespace, &name))?;
            Some((name, pod))
        });
        let pods: Vec<_> = pods.collect();
        let judge = |question| self.external_pods.judgements.of(context, unit, question);
        find_asks::find(&context.cache, &unit.namespace, place, &pods, judge)
    }

    /// The request of nominated pods, by the current policies. A gang's request keeps the groups of
    /// its plan. None: the pods may not have that place any more.
    pub(super) fn find_nominated(&mut self, unit: &Key) -> Option<Nominated> {
        let (asks, taken_in) = match external::unit(unit)? {
            Unit::Pod(pod) => {
                let there = self.committer.cache().external_pods.get(&pod)?;
                let group = there.group().map(|group| Key::new(&pod.namespace, group));
                let gang = group.and_then(|group| self.placed_group(&group));
                let Some(asks) = self.find_single(&pod, gang.as_ref()).ok()? else {
                    return Some(Nominated::Undecided);
                };
                let place = self.engine.placement(&engine::id(unit))?;
                let (_, _, node) = place.iter().next()?;
                let taken_in = self.is_taken_in(&asks, |_| Some(node.as_str()));
                (asks, taken_in)
            }
            Unit::Group(_) => {
                let (group, plan) = self.nominated_plan(unit)?;
                let names = next::planned(&plan).map(|(pod, _)| pod.name.clone());
                let Some(asks) = self.find(unit, As::Gang(&group), names).ok()? else {
                    return Some(Nominated::Undecided);
                };
                let planned = next::planned(&plan).map(|(pod, node)| (pod.name.as_str(), node));
                let nodes: BTreeMap<&str, &str> = planned.collect();
                let taken_in = self.is_taken_in(&asks, |pod| nodes.get(pod).copied());
                (plan::in_groups_of(&plan, asks)?, taken_in)
            }
        };
        if !taken_in {
            self.pause_external(unit);
            return None;
        }
        let asks = Arc::new(asks);
        self.external_pods.gangs.get_mut(unit)?.ask(asks.clone());
        // The engine has the place already. It charges the limits that apply now.
        self.engine
            .apply_draws(&engine::id(unit), asks.limits.draws());
        self.note_hours(&asks.limits);
        Some(Nominated::ExternalRequest(asks))
    }

    /// True if the nodes still admit the pods: pods that repel them may have come there, and node
    /// labels may have changed. Taints are left to the engine, which knows what flavors tolerate.
    fn is_taken_in<'n>(
        &self,
        asks: &ExternalRequest,
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
                ..engine::node(&node, &Unhealthy::default())
            };
            Some(alike.constraints.are_met_by(&node))
        };
        asks.groups.iter().all(|alike| {
            let mut pods = alike.pods.iter();
            pods.all(|pod| takes(alike, pod) == Some(true))
        })
    }
}
