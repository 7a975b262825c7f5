//! The rows of `jobstates`: the resources that each job holds in the engine, and its status.

mod external_gang;
mod quota_holds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use trellis_api::visibility::{JobState, ServedResource};
use trellis_api::{Reason, TrainingJob, TrainingQueue, shorten_message};
use trellis_scheduler::{
    Forecast, Gang, GangId, GangSnapshot, NodeName, PlacedStateSnapshot, Placement, Queue,
    Snapshot, Time,
};

use quota_holds::{HeldQuota, format_holds};

pub(super) use external_gang::ExternalGang;
pub(in crate::endpoint) use external_gang::NOMINATED_MESSAGE;

use trellis_gang::key::Key;
use trellis_gang::{engine, external};

use super::age;
use super::table::{Column, TableRow};

/// Sources of the rows.
pub(super) struct JobRowSources<'a, J, G, Q> {
    /// Snapshot of the engine.
    pub(super) snapshot: &'a Snapshot,
    /// Positions of waiting gangs in their queues.
    pub(super) positions: &'a BTreeMap<GangId, u32>,
    /// Expected starts and ends.
    pub(super) forecast: Option<&'a Forecast>,
    /// Finds a job by name.
    pub(super) job: J,
    /// Finds an external gang by name.
    pub(super) external_gang: G,
    /// Finds a queue by name.
    pub(super) queue: Q,
}

impl<J, G, Q> JobRowSources<'_, J, G, Q>
where
    J: Fn(&Key) -> Option<Arc<TrainingJob>>,
    G: Fn(&Key) -> Option<ExternalGang>,
    Q: Fn(&Key) -> Option<Arc<TrainingQueue>>,
{
    /// Returns all jobs that wait or hold a place, by queue: placed jobs first, then waiting jobs
    /// in the order of the queue.
    pub(super) fn rows(&self) -> Vec<JobState> {
        let mut shares: BTreeMap<&str, Option<String>> = BTreeMap::new();
        let mut rows = Vec::with_capacity(self.snapshot.gangs.len());
        let mut held = Vec::with_capacity(rows.capacity());
        let gangs = self.snapshot.gangs.iter();
        for gang_snapshot in gangs
            .clone()
            .filter(|gang_snapshot| !gang_snapshot.gang.surplus)
        {
            let position = self.positions.get(&gang_snapshot.gang.id).copied();
            if gang_snapshot.place.is_none() && position.is_none() {
                continue;
            }
            let queue = gang_snapshot.gang.queue.as_str();
            let share = shares.entry(queue).or_insert_with(|| {
                let queue = (self.queue)(&Key::new("", queue))?;
                queue.status.as_ref()?.share.clone()
            });
            let mut quota = HeldQuota::default();
            if let Some(place) = &gang_snapshot.place {
                quota.add(place);
            }
            held.push(quota);
            rows.push(JobState {
                position: position.filter(|_| gang_snapshot.place.is_none()),
                queue_share: share.clone(),
                ..self.row(gang_snapshot)
            });
        }
        let mut by_job: BTreeMap<Key, usize> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            by_job.insert(Key::from_meta(&row.metadata), at);
        }
        // Surplus pods count for their job.
        for gang_snapshot in gangs.filter(|gang_snapshot| gang_snapshot.gang.surplus) {
            let Some(place) = &gang_snapshot.place else {
                continue;
            };
            let row = by_job.get(&engine::job_key(&gang_snapshot.gang.id));
            let both = row.and_then(|at| Some((rows.get_mut(*at)?, held.get_mut(*at)?)));
            if let Some((row, quota)) = both {
                let (gpus, pods) = gang_size(&place.gang);
                row.gpus = row.gpus.saturating_add(gpus);
                row.pods = row.pods.saturating_add(pods);
                quota.add(place);
            }
        }
        let queues = self.snapshot.queues.iter();
        let queues: BTreeMap<&str, &Queue> =
            queues.map(|queue| (queue.name.as_str(), queue)).collect();
        for (row, quota) in rows.iter_mut().zip(&held) {
            row.holds = quota.to_holds(queues.get(row.queue.as_str()).copied());
        }
        rows.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        rows
    }

    fn row(&self, gang_snapshot: &GangSnapshot) -> JobState {
        let place = gang_snapshot.place.as_ref();
        // The gang waits for its victims to leave.
        let is_nominated = place.is_some_and(|of| of.standing == PlacedStateSnapshot::Nominated);
        let holds = place.filter(|_| !is_nominated);
        let gang = place.map_or(&gang_snapshot.gang, |place| &place.gang);
        let key = engine::job_key(&gang.id);
        let name = external::gang_name(&key).object_name();
        let mut row = JobState::new(&key.namespace, &name, gang.queue.as_str());
        let job = (self.job)(&key);
        let status = job.as_ref().and_then(|job| job.status.as_ref());
        if let Some(job) = &job {
            row.metadata.creation_timestamp = job.metadata.creation_timestamp.clone();
        }
        if let Some(status) = status {
            // The user comes from the status, because the stamp may be forged.
            let policy = status.policy.as_ref();
            row.user = policy.and_then(|policy| policy.requester.clone());
            row.phase = status.phase;
            row.attempt = status.attempt;
            row.reason = status.reason;
            row.message = status.message.as_deref().map(shorten_message);
        }
        if let Some(external) = (self.external_gang)(&key) {
            row.metadata.creation_timestamp = external.creation_time();
            row.phase = Some(external.phase(holds.is_some()));
            // A placed gang has no reason to wait.
            let reason = external.reason(is_nominated).filter(|_| holds.is_none());
            (row.reason, row.message) = reason.unzip();
            row.message = row.message.as_deref().map(shorten_message);
        }
        row.priority = gang.priority;
        (row.gpus, row.pods) = gang_size(gang);
        let submitted = to_timestamp(gang.submitted).unwrap_or_default();
        // The engine of a new leader does not know when a running job was submitted; its status
        // does.
        let queued = status.and_then(|s| s.queued_time.as_ref());
        row.submitted = MetaTime(queued.map_or(submitted, |queued| queued.0));
        let waits = status.and_then(trellis_api::job::TrainingJobStatus::pending_since);
        let since = holds.map(|place| to_timestamp(place.since).unwrap_or_default());
        row.since = MetaTime(since.or(waits).unwrap_or(submitted));
        if let Some(place) = place {
            let nodes = placement_nodes(&place.placement);
            row.node_count = u32::try_from(nodes.len()).ok();
            let first = nodes.into_iter().take(JobState::MAX_NODES);
            row.nodes = first.map(|node| node.as_str().to_owned()).collect();
        }
        if let Some(forecast) = self.forecast {
            let future = |time: Option<&Time>| {
                let time = time.filter(|time| **time >= self.snapshot.now)?;
                to_timestamp(*time).map(MetaTime)
            };
            row.expected_end = future(forecast.ends.get(&gang.id));
            if place.is_none() || is_nominated {
                row.expected_start = future(forecast.starts.get(&gang.id));
                // Without an expected start there is no expected end.
                row.expected_end = row.expected_end.filter(|_| row.expected_start.is_some());
            }
        }
        row
    }
}

/// Converts the engine's time. None: it is outside the range of timestamps.
pub(super) fn to_timestamp(time: Time) -> Option<Timestamp> {
    Timestamp::from_millisecond(time.as_millis()).ok()
}

fn sort_key(row: &JobState) -> impl Ord + use<'_> {
    let place = row.position.unwrap_or(0);
    let held_since = row.position.is_none().then_some(row.since.0);
    let meta = &row.metadata;
    (&row.queue, place, held_since, &meta.namespace, &meta.name)
}

/// Returns the number of devices and pods of a gang.
fn gang_size(gang: &Gang) -> (i64, i64) {
    let pods = i64::try_from(gang.pod_count()).unwrap_or(i64::MAX);
    (gang.device_count(), pods)
}

fn placement_nodes(placement: &Placement) -> BTreeSet<&NodeName> {
    placement.iter().map(|(_, _, node)| node).collect()
}

impl TableRow for JobState {
    const SERVED: &'static ServedResource = &Self::SERVED;
    const ABSENT: &'static str =
        "it neither waits for a place nor holds one; its own status says what it does";
    const COLUMNS: &'static [Column] = &[
        Column::text(
            "Name",
            "Name of the TrainingJob; of pods that others have made podgroup.NAME or pod.NAME.",
        ),
        Column::text("Queue", "Queue that it is in."),
        Column::text(
            "Position",
            "Its place in the order of its queue, from 1; none if it holds its place, or others are leaving for it.",
        ),
        Column::text("Phase", "One word for its state."),
        Column::text("Reason", "The one current reason."),
        Column::number("GPUs", "Devices that it asks for or holds."),
        Column::number("Pods", "Pods that it asks for or holds."),
        Column::text("Since", "For how long it has waited, or held its place."),
        Column::text("Starts-In", "When it is expected to start."),
        Column::text("Ends-In", "When it is expected to end."),
        Column::number("Priority", "The higher goes first.").wide(),
        Column::text("User", "Who asked for it.").wide(),
        Column::text("Nodes", "Nodes that it is placed on.").wide(),
        Column::text(
            "Holds",
            "Amounts of its queue's quota that it holds, by flavor.",
        )
        .wide(),
        Column::text("Message", "The reason in words.").wide(),
    ];

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let until = |time: &Option<MetaTime>| time.as_ref().map(|time| age::until(time.0, now));
        let text_cell = |text: Option<String>| json!(text.unwrap_or_default());
        let more = self.node_count.and_then(|all| {
            let listed = u32::try_from(self.nodes.len()).ok()?;
            all.checked_sub(listed).filter(|more| *more > 0)
        });
        let mut nodes = self.nodes.join(",");
        if let Some(more) = more {
            nodes = format!("{nodes},+{more}");
        }
        vec![
            text_cell(self.metadata.name.clone()),
            json!(self.queue),
            text_cell(self.position.map(|position| position.to_string())),
            text_cell(self.phase.map(|phase| phase.as_str().to_owned())),
            text_cell(self.reason.map(Reason::as_str).map(str::to_owned)),
            json!(self.gpus),
            json!(self.pods),
            json!(age::ago(self.since.0, now)),
            text_cell(until(&self.expected_start)),
            text_cell(until(&self.expected_end)),
            json!(self.priority),
            text_cell(self.user.clone()),
            json!(nodes),
            json!(format_holds(&self.holds)),
            text_cell(self.message.clone()),
        ]
    }
}

#[cfg(test)]
mod tests;
