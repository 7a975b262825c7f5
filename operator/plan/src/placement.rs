//! Places all planned jobs together. The engine decides as in the operator.

use std::borrow::Borrow;

use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;
use trellis_gang::observed::SlimNode;
use trellis_gang::placement_levels::placement_levels;
use trellis_gang::requirements::flavors::{FlavorTolerations, GangPlacement};
use trellis_gang::requirements::volumes;
use trellis_gang::{JobHold, engine};
use trellis_scheduler::{
    Decision, Engine, GangId, Placement, ProvisioningObstacle, Topology, WaitDetail,
    WaitExplanation, WaitReason, describe_new_nodes,
};

use super::{NamespaceQuotas, PlannedJob};

/// Facts of the cluster beside the engine.
pub struct PlacementFacts<'a> {
    /// Tolerations of the flavors.
    pub flavors: &'a FlavorTolerations,
    /// Returns an explanation of the engine in the words of the API.
    pub explain: &'a dyn Fn(&Engine, &GangId, &WaitExplanation) -> (Reason, String),
    /// The time of the decisions.
    pub now: Timestamp,
}

/// Decides on the jobs whose gangs the engine has. A gang that may not start releases its nodes, and
/// the engine tries other gangs there.
pub fn place_jobs(
    engine: &mut Engine,
    facts: &PlacementFacts<'_>,
    quotas: &mut NamespaceQuotas,
    planned: &mut [PlannedJob],
) {
    while decide_once(engine, facts, quotas, planned) {}
}

/// Runs one scheduling cycle. Returns true if a gang was placed and has released its nodes again.
fn decide_once(
    engine: &mut Engine,
    facts: &PlacementFacts<'_>,
    quotas: &mut NamespaceQuotas,
    planned: &mut [PlannedJob],
) -> bool {
    let mut has_released = false;
    for decision in engine.cycle(engine::to_engine_time(facts.now)) {
        let mut preempted = Vec::new();
        let (id, place) = match decision {
            Decision::Place {
                gang, placement, ..
            } => {
                let place = gang_placement(engine, facts.flavors, &gang, placement);
                (gang, Ok(place))
            }
            Decision::Preempt {
                gang,
                placement,
                victims,
            } => {
                preempted = victims;
                let place = gang_placement(engine, facts.flavors, &gang, placement);
                (gang, Ok(place))
            }
            Decision::Wait {
                gang: id,
                explanation,
            } => {
                let job = planned.iter().find(|p| p.key == engine::job_key(&id));
                let hold = hold(engine, facts, quotas, job, &id, &explanation);
                (id, Err(hold))
            }
            // These decisions do not concern planned jobs, or the job is pending with its own
            // reason.
            Decision::Drain { .. }
            | Decision::Reserve { .. }
            | Decision::Provision(_)
            | Decision::EndProvisioning { .. } => continue,
        };
        let key = engine::job_key(&id);
        let Some(job) = planned.iter_mut().find(|p| p.key == key) else {
            continue;
        };
        let starts = match (&place, &job.compiled) {
            (Ok(_), Some(compiled)) => quotas.start_gang(&key, compiled),
            _ => Ok(()),
        };
        if starts.is_err() {
            engine.delete_gang(&id);
            has_released = true;
        }
        job.place = starts.and(place);
        job.victims = preempted;
    }
    has_released
}

/// Returns why a gang waits or is refused.
fn hold(
    engine: &Engine,
    facts: &PlacementFacts<'_>,
    quotas: &NamespaceQuotas,
    job: Option<&PlannedJob>,
    id: &GangId,
    explanation: &WaitExplanation,
) -> JobHold {
    let (mut reason, mut message) = (facts.explain)(engine, id, explanation);
    if let WaitDetail::Provisioning { nodes, .. } = explanation.detail.as_ref() {
        // The plan orders nothing: the queue has no delay before an order.
        message = format!("the job would start with {}", describe_new_nodes(nodes));
    }
    if let Some(job) = job {
        let claim = volumes::explain_one_node(&job.volumes, reason);
        message.extend(claim.map(|cause| format!("; {cause}")));
        if would_order_nodes(explanation)
            && let Some(compiled) = &job.compiled
            && let Err(hold) = quotas.check_gang(&job.key, compiled)
        {
            (reason, message) = (hold.reason, hold.message);
        }
    }
    match explanation.detail.is_refusal() {
        true => JobHold::refused(reason, message),
        false => JobHold::waiting(reason, message),
    }
}

/// Returns true if nodes are ordered for the gang, or will be.
fn would_order_nodes(explanation: &WaitExplanation) -> bool {
    explanation.reason == WaitReason::Provisioning
        || matches!(
            explanation.provisioning_obstacle.as_deref(),
            Some(ProvisioningObstacle::Delay { .. })
        )
}

/// Converts the engine's placement, and adds the tolerations of its flavors.
fn gang_placement(
    engine: &Engine,
    flavors: &FlavorTolerations,
    gang: &GangId,
    placement: Placement,
) -> GangPlacement {
    GangPlacement {
        placement,
        groups: flavors.plan_groups(&engine.flavors(gang).unwrap_or_default()),
        // Only the journal needs these fields, and a plan writes none.
        limits: Vec::new(),
        requester: None,
        quota_version: 0,
    }
}

/// Measures how the ranks of each placed job follow the topology.
pub fn measure_levels<N: Borrow<SlimNode>>(
    planned: &mut [PlannedJob],
    topologies: &[Topology],
    find_node: impl Fn(&str) -> Option<N>,
) {
    for job in planned {
        if let (Ok(place), Some(compiled)) = (&job.place, &job.compiled) {
            let spec = compiled.job().spec();
            job.levels = placement_levels(spec, &place.placement, topologies, &find_node);
        }
    }
}
