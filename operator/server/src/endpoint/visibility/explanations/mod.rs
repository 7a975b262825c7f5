//! `explanations`: the engine's full explanation of one job, with the state of each node for it.
//! `shortage` holds the numbers of each reason. `redaction` reduces the explanation to what the
//! caller may see.

mod bounded_search;
mod moves;
mod redaction;
mod request_changes;
mod shortage;
mod smallest_change;
#[cfg(test)]
mod tests;

pub(super) use redaction::{
    Priorities, VisibleScope, foreign_namespaces, hide_victims, named_jobs, priorities, redact,
};
pub(super) use request_changes::may_help;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use kube::api::{ObjectMeta, TypeMeta};
use serde_json::{Value, json};
use trellis_api::visibility::{
    Amount, Candidate, ExcludedNodes, Explanation, MovableJob, Preempted, Protected, RequestChange,
    ServedResource, TaskGroupNodes,
};
use trellis_api::{PodGroup, Reason, TrainingJob, shorten_message};
use trellis_gang::external::job_ref;
use trellis_gang::key::Key;
use trellis_gang::observed::{SlimDeviceClass, SlimNode};
use trellis_gang::requirements::device_allocation;
use trellis_gang::{GangExplanation, engine, external, node_order};
use trellis_plan::preempted;
use trellis_scheduler::{
    Decision, Engine, Forecast, Gang, GangId, GangSnapshot, GroupNodeReport, NodeName,
    NodeObstacle, PlacedStateSnapshot, ResourceName, Snapshot, Victim,
};

use self::bounded_search::BoundedSearch;
use super::age;
use super::jobs::{ExternalGang, NOMINATED_MESSAGE, to_timestamp};
use super::table::{Column, TableRow};

/// An engine restored from a snapshot, to explain why jobs wait.
pub(super) struct Explainer {
    pub(super) engine: Engine,
    /// Victims of each gang that would preempt now.
    victims: BTreeMap<GangId, Vec<Victim>>,
    /// Jobs with room on other nodes, for each gang that was explained.
    moves: BoundedSearch<MovableJob>,
    /// Changes of its request, for each gang that was explained.
    request_changes: BoundedSearch<RequestChange>,
}

/// Further input of an explanation.
pub(super) struct ExplanationSources<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) positions: &'a BTreeMap<GangId, u32>,
    pub(super) forecast: Option<&'a Forecast>,
    pub(super) job: Option<Arc<TrainingJob>>,
    pub(super) external_gang: Option<ExternalGang>,
    pub(super) pod_group: Option<Arc<PodGroup>>,
    /// The explanation that the scheduler has recorded for the status of the job.
    pub(super) recorded: Option<GangExplanation>,
    /// The autoscaler's message about the node order of the job.
    pub(super) order_delay: Option<String>,
    pub(super) classes: &'a [Arc<SlimDeviceClass>],
    pub(super) nodes: &'a dyn Fn() -> Vec<Arc<SlimNode>>,
}

impl Explainer {
    /// Restores the engine and runs a cycle, because a snapshot has no explanations and no
    /// reservations.
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let mut engine = Engine::from_snapshot(snapshot);
        let decisions = engine.cycle(snapshot.now);
        let preempts = decisions.into_iter().filter_map(|decision| match decision {
            Decision::Preempt { gang, victims, .. } => Some((gang, victims)),
            _ => None,
        });
        Self {
            victims: preempts.collect(),
            ..Self::after_cycle(engine)
        }
    }

    /// Explains the jobs of an engine that has run a cycle already.
    pub(super) fn after_cycle(engine: Engine) -> Self {
        Self {
            victims: BTreeMap::new(),
            moves: BoundedSearch::new(moves::MAX_MOVE_SEARCHES),
            request_changes: BoundedSearch::new(request_changes::MAX_CHANGE_SEARCHES),
            engine,
        }
    }

    /// Returns why a job waits. None: it does not wait.
    pub(super) fn explain(
        &mut self,
        job: &Key,
        sources: &ExplanationSources<'_>,
    ) -> Option<Explanation> {
        let id = engine::gang_id(job);
        let snapshot = sources.snapshot;
        let gang = snapshot.gangs.iter().find(|gang| gang.gang.id == id)?;
        let is_nominated = gang
            .place
            .as_ref()
            .is_some_and(|place| place.standing == PlacedStateSnapshot::Nominated);
        let waits = gang.place.is_none() && !gang.idle;
        if !waits && !is_nominated {
            return None;
        }
        let mut explanation = self.new_explanation(job, gang, sources);
        if is_nominated {
            explanation.preempts = leaving_victims(sources.pod_group.as_deref());
            return Some(explanation);
        }
        explanation.position = sources.positions.get(&id).copied();
        explanation.preempts = self.victims(&id);
        explanation.protected = self.protected_victims(&id);
        if let Some(reserved) = self.engine.reservation(&id) {
            let nodes: std::collections::BTreeSet<&NodeName> =
                reserved.placement.iter().map(|(_, _, node)| node).collect();
            explanation.reserved_nodes = node_names(nodes);
        }
        if let Some(groups) = self.engine.report_nodes(&id) {
            let gang = snapshot.gangs.iter().find(|gang| gang.gang.id == id)?;
            explanation.task_groups = groups
                .iter()
                .map(|g| describe_task_group(&gang.gang, g))
                .collect();
        }
        // None: the gang starts now, or its victims begin to leave now.
        if let Some(wait) = self.engine.explain_wait(&id, snapshot.now) {
            let (reason, message) = device_allocation::explain_wait(
                &self.engine,
                &id,
                &wait,
                sources.classes,
                sources.nodes,
            );
            explanation.reason = Some(reason);
            explanation.message = message;
            if reason == Reason::Provisioning {
                add_order_report(&mut explanation, sources);
            }
            explanation.shortage = shortage::from_detail(&wait.detail);
            let change = wait.change.as_deref();
            explanation.smallest_change = change.map(|of| smallest_change::describe(of, snapshot));
            if request_changes::may_help(reason) {
                explanation.request_changes = self.request_changes(job, snapshot);
            }
            if matches!(reason, Reason::Fragmented | Reason::TopologyFragmented) {
                explanation.moves = self.moves(&id, snapshot);
            }
        }
        Some(explanation)
    }

    fn new_explanation(
        &self,
        job: &Key,
        snapshot_gang: &GangSnapshot,
        sources: &ExplanationSources<'_>,
    ) -> Explanation {
        let now = to_timestamp(sources.snapshot.now).unwrap_or_default();
        let status = sources.job.as_ref().and_then(|job| job.status.as_ref());
        let starts = sources
            .forecast
            .and_then(|f| f.starts.get(&snapshot_gang.gang.id));
        let starts = starts.filter(|start| **start >= sources.snapshot.now);
        let created = match (&sources.job, &sources.external_gang) {
            (Some(job), _) => job.metadata.creation_timestamp.clone(),
            (None, gang) => gang.as_ref().and_then(ExternalGang::creation_time),
        };
        let external = sources.external_gang.as_ref();
        let external = external.and_then(|gang| gang.reason(snapshot_gang.place.is_some()));
        let reason = status.and_then(|status| status.reason);
        let reason = reason.or(external.map(|(reason, _)| reason));
        Explanation {
            types: TypeMeta::resource::<Explanation>(),
            metadata: ObjectMeta {
                name: Some(external::gang_name(job).object_name()),
                namespace: Some(job.namespace.to_string()),
                creation_timestamp: created,
                ..ObjectMeta::default()
            },
            time: MetaTime(now),
            queue: snapshot_gang.gang.queue.as_str().to_owned(),
            priority: snapshot_gang.gang.priority,
            position: None,
            reason: reason.filter(|_| snapshot_gang.place.is_some()),
            message: match snapshot_gang.place {
                Some(_) => NOMINATED_MESSAGE.to_owned(),
                None => {
                    "nothing stands in its way: it starts when the scheduler next looks".to_owned()
                }
            },
            shortage: None,
            task_groups: Vec::new(),
            preempts: Vec::new(),
            preempts_others: Vec::new(),
            protected: Vec::new(),
            reserved_nodes: Vec::new(),
            expected_start: starts.and_then(|start| to_timestamp(*start)).map(MetaTime),
            smallest_change: None,
            request_changes: Vec::new(),
            moves: Vec::new(),
        }
    }

    /// Returns the victims that are protected now and may be preempted later.
    fn protected_victims(&mut self, id: &GangId) -> Vec<Protected> {
        let all = self.engine.protected_victims(id).into_iter();
        let first = all.filter_map(|(gang, until)| {
            Some(Protected {
                job: Some(job_ref(&engine::job_key(&gang))),
                until: MetaTime(to_timestamp(until)?),
            })
        });
        first.take(Explanation::MAX_LISTED).collect()
    }

    /// Returns the victims that the gang would preempt now.
    fn victims(&self, id: &GangId) -> Vec<Preempted> {
        let victims = self.victims.get(id).map(Vec::as_slice);
        victims.unwrap_or_default().iter().map(preempted).collect()
    }
}

/// Replaces the message of an order by a failure to create its objects, or appends the message of the
/// autoscaler. The engine knows neither.
fn add_order_report(explanation: &mut Explanation, sources: &ExplanationSources<'_>) {
    if let Some(failure) = &sources.recorded
        && failure.reason == Reason::BackingOff
    {
        explanation.reason = Some(failure.reason);
        explanation.message.clone_from(&failure.message);
    } else if let Some(delay) = &sources.order_delay {
        explanation.message = node_order::append_delay(&explanation.message, delay);
    }
}

/// Returns the victims in the journal that are leaving for the gang.
fn leaving_victims(pod_group: Option<&PodGroup>) -> Vec<Preempted> {
    let status = pod_group.and_then(|group| group.status.as_ref());
    let victims = status.map(|status| status.victims.as_slice());
    let preempted = |victim: &trellis_api::pod_group::NominatedVictim| Preempted {
        job: job_ref(&Key::new(&victim.namespace, &victim.name)),
        pod: victim.pod.clone(),
        because: None,
        lost_device_seconds: None,
    };
    victims.unwrap_or_default().iter().map(preempted).collect()
}

fn node_names<'n>(nodes: impl IntoIterator<Item = &'n NodeName>) -> Vec<String> {
    let first = nodes.into_iter().take(Explanation::MAX_LISTED);
    first.map(|node| node.as_str().to_owned()).collect()
}

fn to_amounts<'a>(of: impl IntoIterator<Item = (&'a ResourceName, i128)>) -> Vec<Amount> {
    of.into_iter()
        .map(|(resource, amount)| Amount {
            resource: resource.as_str().to_owned(),
            amount: engine::to_quantity(resource.as_str(), amount),
        })
        .collect()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn describe_task_group(gang: &Gang, report: &GroupNodeReport) -> TaskGroupNodes {
    let group = gang.groups.iter().find(|group| group.name == report.group);
    let requests = group.into_iter().flat_map(|group| group.request.iter());
    let off = report.excluded.iter().map(|(_, nodes)| nodes.len());
    let off = off.fold(0, usize::saturating_add);
    let room = report.matching.iter().map(|node| i64::from(node.room));
    TaskGroupNodes {
        name: report.group.as_str().to_owned(),
        pods: i64::from(report.pods),
        requests: to_amounts(requests.map(|(name, amount)| (name, i128::from(amount)))),
        flavors: report
            .flavors
            .iter()
            .map(|f| f.as_str().to_owned())
            .collect(),
        nodes: count(report.matching.len().saturating_add(off)),
        matching: count(report.matching.len()),
        room: room.fold(0, i64::saturating_add),
        excluded: report
            .excluded
            .iter()
            .map(|(obstacle, nodes)| {
                let (constraint, detail) = describe_obstacle(obstacle);
                ExcludedNodes {
                    constraint: constraint.to_owned(),
                    detail,
                    count: count(nodes.len()),
                    nodes: node_names(nodes),
                }
            })
            .collect(),
        candidates: report
            .matching
            .iter()
            .take(Explanation::MAX_LISTED)
            .map(|node| Candidate {
                node: node.node.as_str().to_owned(),
                room: i64::from(node.room),
                free: to_amounts(
                    node.free
                        .iter()
                        .map(|(name, free)| (name, i128::from(*free))),
                ),
            })
            .collect(),
    }
}

fn describe_obstacle(obstacle: &NodeObstacle) -> (&'static str, Option<String>) {
    match obstacle {
        NodeObstacle::NotReady => ("NotReady", None),
        NodeObstacle::Unhealthy(why) => ("Unhealthy", Some(why.clone())),
        NodeObstacle::Unschedulable => ("SchedulingDisabled", None),
        NodeObstacle::Excluded => ("Avoided", None),
        NodeObstacle::Label(key, value) => ("NodeSelector", Some(format!("{key}={value}"))),
        NodeObstacle::Affinity => ("NodeAffinity", None),
        NodeObstacle::Taint(taint) => ("Taint", Some(taint.clone())),
        NodeObstacle::Volumes => ("Volume", None),
        NodeObstacle::AntiAffinity => ("PodAntiAffinity", None),
        NodeObstacle::MissingResource(resource) => ("Resource", Some(resource.as_str().to_owned())),
    }
}

impl TableRow for Explanation {
    const SERVED: &'static ServedResource = &Self::SERVED;
    const ABSENT: &'static str = "it does not wait for a place; its own status says what it does";
    const COLUMNS: &'static [Column] = &[
        Column::text(
            "Name",
            "Name of the TrainingJob; of pods that others have made podgroup.NAME or pod.NAME.",
        ),
        Column::text("Queue", "Queue that it waits in."),
        Column::text("Position", "Its place in the order of its queue, from 1."),
        Column::text("Reason", "Why it waits."),
        Column::text("Starts-In", "When it is expected to start."),
        Column::text("Message", "The reason in words, with numbers."),
    ];

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let start = self.expected_start.as_ref();
        vec![
            json!(self.metadata.name),
            json!(self.queue),
            json!(
                self.position
                    .map(|position| position.to_string())
                    .unwrap_or_default()
            ),
            json!(self.reason.map(Reason::as_str).unwrap_or_default()),
            json!(
                start
                    .map(|start| age::until(start.0, now))
                    .unwrap_or_default()
            ),
            json!(shorten_message(&self.message)),
        ]
    }
}
