//! The rows of `queuestates`: the scheduler's report on each queue, and the queue's status.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use kube::api::{ObjectMeta, TypeMeta};
use serde_json::{Value, json};
use trellis_api::queue::DecayedUsage;
use trellis_api::visibility::{Amount, QueueResource, QueueState, ServedResource};
use trellis_api::{Quantity, Reason, TrainingQueue};
use trellis_dispatch::QueueReport;
use trellis_gang::engine;
use trellis_scheduler::{QueueName, QueueUsageLine, ResourceName, Snapshot};

use super::jobs::to_timestamp;
use super::table::{Column, TableRow};

/// Requests of the jobs that wait in a queue, in base units.
type PendingRequests<'s> = BTreeMap<&'s ResourceName, i128>;

/// Returns the row of each queue, by name.
pub(super) fn rows(
    queues: &[Arc<TrainingQueue>],
    reports: &BTreeMap<QueueName, QueueReport>,
    snapshot: &Snapshot,
) -> Vec<QueueState> {
    let mut pending: HashMap<&QueueName, PendingRequests<'_>> = HashMap::new();
    let waiting = snapshot.gangs.iter().filter(|g| g.place.is_none());
    for gang in waiting.filter(|gang| !gang.gang.surplus) {
        let sums = pending.entry(&gang.gang.queue).or_default();
        for group in &gang.gang.groups {
            for (resource, amount) in group.request.iter() {
                let all = i128::from(amount).saturating_mul(i128::from(group.count));
                let sum = sums.entry(resource).or_default();
                *sum = sum.saturating_add(all);
            }
        }
    }
    let mut rows: Vec<QueueState> = queues
        .iter()
        .map(|queue| {
            let name = QueueName::new(queue.metadata.name.as_deref().unwrap_or_default());
            row(queue, reports.get(&name), pending.get(&name))
        })
        .collect();
    rows.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    rows
}

fn row(
    queue: &TrainingQueue,
    report: Option<&QueueReport>,
    pending: Option<&PendingRequests<'_>>,
) -> QueueState {
    let status = queue.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice());
    let mut conditions = conditions.unwrap_or_default().iter();
    let active = conditions.find(|condition| condition.type_ == "Active");
    let standing = report.and_then(|report| report.usage.as_ref());
    let memory = report.and_then(|report| report.memory.as_ref());
    let count = |of: fn(&QueueReport) -> usize| i64::try_from(report.map_or(0, of)).unwrap_or(0);
    QueueState {
        types: TypeMeta::resource::<QueueState>(),
        metadata: ObjectMeta {
            name: queue.metadata.name.clone(),
            creation_timestamp: queue.metadata.creation_timestamp.clone(),
            ..ObjectMeta::default()
        },
        parent: queue.spec.parent_name.clone(),
        weight: (queue.spec.weight.clone()).unwrap_or_else(|| Quantity::from_units(1)),
        active: active.map(|condition| condition.status == "True"),
        reason: active.map(|condition| {
            let word = Value::String(condition.reason.clone());
            serde_json::from_value(word).unwrap_or(Reason::Unrecognized)
        }),
        message: active.map(|condition| condition.message.clone()),
        pending: count(|report| report.counts.pending),
        admitted: count(|report| report.counts.admitted),
        share: standing.map(|standing| trellis_controller::format_share(standing.share)),
        decayed_usage: memory.map_or_else(Vec::new, |memory| {
            let usage = memory.usage.iter();
            usage
                .map(|(resource, decayed)| DecayedUsage {
                    resource: resource.as_str().to_owned(),
                    amount: engine::decayed_quantity(resource.as_str(), *decayed),
                })
                .collect()
        }),
        decayed_time: memory
            .and_then(|memory| to_timestamp(memory.at))
            .map(MetaTime),
        resources: standing.map_or_else(Vec::new, |standing| {
            standing.lines.iter().map(to_queue_resource).collect()
        }),
        pending_resources: pending.into_iter().flatten().map(to_amount).collect(),
    }
}

fn to_amount((resource, amount): (&&ResourceName, &i128)) -> Amount {
    let resource = resource.as_str();
    Amount {
        resource: resource.to_owned(),
        amount: engine::to_quantity(resource, *amount),
    }
}

fn to_queue_resource(line: &QueueUsageLine) -> QueueResource {
    let name = line.resource.as_str();
    let quantity = |amount| engine::to_quantity(name, amount);
    QueueResource {
        flavor: line.flavor.as_str().to_owned(),
        resource: name.to_owned(),
        nominal_quota: quantity(line.nominal),
        used: quantity(line.usage),
        borrowed: quantity(line.borrowed),
        lendable: quantity(line.lendable),
        available: line.available.map(quantity),
    }
}

impl TableRow for QueueState {
    const SERVED: &'static ServedResource = &Self::SERVED;
    const ABSENT: &'static str = "there is no TrainingQueue of that name";
    const COLUMNS: &'static [Column] = &[
        Column::text("Name", "Name of the TrainingQueue."),
        Column::text("Parent", "The queue that it is below."),
        Column::number("Pending", "Jobs that wait."),
        Column::number("Admitted", "Jobs that hold a place."),
        Column::text(
            "Share",
            "What it has had for its weight: the smallest has the next turn.",
        ),
        Column::text("Used", "Devices that count against its quota."),
        Column::text("Nominal", "Devices of its own quota."),
        Column::text("Borrowed", "Devices that it holds beyond its quota."),
        Column::text("Active", "Whether it starts jobs."),
        Column::text(
            "Weight",
            "Its share of turns, relative to the other queues.",
        )
        .wide(),
        Column::text("Reason", "Why it starts jobs or does not.").wide(),
    ];

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<Value> {
        // The table has little room, so it shows only devices, which queues exist for.
        let devices = |of: fn(&QueueResource) -> &trellis_api::Quantity| {
            let lines = self.resources.iter();
            let lines = lines.filter(|line| ResourceName::new(line.resource.as_str()).is_device());
            let sum = lines.filter_map(|line| of(line).amount().ok()?.ceil_units());
            sum.fold(0_i64, i64::saturating_add).to_string()
        };
        vec![
            json!(self.metadata.name),
            json!(self.parent.as_deref().unwrap_or_default()),
            json!(self.pending),
            json!(self.admitted),
            json!(self.share.as_deref().unwrap_or_default()),
            json!(devices(|line| &line.used)),
            json!(devices(|line| &line.nominal_quota)),
            json!(devices(|line| &line.borrowed)),
            json!(
                self.active
                    .map_or("Unknown", |active| if active { "True" } else { "False" })
            ),
            json!(self.weight.to_string()),
            json!(self.reason.map(Reason::as_str).unwrap_or_default()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use trellis_scheduler::{
        Engine, Gang, GangId, GroupName, Node, NodeName, Queue as EngineQueue, Quota, Resources,
        TaskGroup, Time,
    };

    use super::*;

    const GPU: &str = "nvidia.com/gpu";

    fn queue(name: &str, active: &str) -> Arc<TrainingQueue> {
        let queue = json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": name},
            "spec": {"parentName": "all", "weight": 2},
            "status": {"conditions": [{"type": "Active", "status": active, "reason": "QueueStopped",
                "message": "stopped", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        Arc::new(serde_json::from_value(queue).unwrap())
    }

    /// Two queues of 8 GPUs below one; `a` holds 12 of them and waits for 4 more.
    fn engine() -> Engine {
        let mut engine = Engine::new();
        let offers = Resources::new().with(GPU, 16).with("pods", 110);
        engine.apply_node(Node::new(NodeName::new("n"), offers));
        engine.apply_queue(EngineQueue::new(QueueName::new("all")));
        for name in ["a", "b"] {
            let quota = Quota {
                nominal: 8,
                borrowing_limit: Some(6),
                lending_limit: Some(5),
            };
            let below = EngineQueue {
                parent: Some(QueueName::new("all")),
                ..EngineQueue::new(QueueName::new(name))
            };
            engine.apply_queue(below.with_quotas([(ResourceName::new(GPU), quota)]));
        }
        for (name, gpus) in [("ns/holds", 12), ("ns/waits", 4)] {
            let request = Resources::new().with(GPU, gpus);
            let group = TaskGroup::new(GroupName::new("w"), 1, request, format!("{name}-w"));
            engine.apply_gang(Gang::new(
                GangId::new(name),
                QueueName::new("a"),
                vec![group],
            ));
        }
        engine.cycle(Time::from_millis(0));
        engine
    }

    #[test]
    fn queue_row_shows_used_borrowed_lendable_and_pending_amounts() {
        let engine = engine();
        let report = |name: &str| {
            let name = QueueName::new(name);
            let report = QueueReport {
                counts: engine
                    .queue_counts()
                    .get(&name)
                    .copied()
                    .unwrap_or_default(),
                usage: engine.queue_usage_report(&name),
                memory: engine.queue_memory(&name),
            };
            (name, report)
        };
        let reports = ["a", "b"].map(report).into();
        let queues = [queue("b", "True"), queue("a", "False")];
        let rows = rows(&queues, &reports, &engine.snapshot());
        let [a, b] = rows.as_slice() else {
            panic!("{rows:?}")
        };
        assert_eq!((a.pending, a.admitted), (1, 1));
        assert_eq!((b.pending, b.admitted), (0, 0));
        let line = |row: &QueueState| {
            let line = row.resources.iter().find(|line| line.resource == GPU);
            let line = line.unwrap();
            let available = line.available.as_ref().map(|a| a.as_str().to_owned());
            let all = [
                &line.nominal_quota,
                &line.used,
                &line.borrowed,
                &line.lendable,
            ];
            (all.map(|q| q.as_str().to_owned()).join(" "), available)
        };
        // `a` may borrow 5 of the 8 devices of `b`, and has borrowed 4.
        assert_eq!(line(a), ("8 12 4 5".to_owned(), Some("1".to_owned())));
        assert_eq!(line(b), ("8 0 0 5".to_owned(), Some("4".to_owned())));
        let pending: Vec<_> = a
            .pending_resources
            .iter()
            .map(|a| (a.resource.as_str(), a.amount.as_str()))
            .collect();
        assert_eq!(pending, [(GPU, "4")]);
        assert!(b.pending_resources.is_empty());
        assert_eq!(
            (a.active, a.reason),
            (Some(false), Some(Reason::QueueStopped))
        );
        assert_eq!(a.parent.as_deref(), Some("all"));
        assert!(a.share.is_some());
        for row in &rows {
            let cells = row.cells(Timestamp::UNIX_EPOCH);
            assert_eq!(cells.len(), QueueState::COLUMNS.len());
            for (cell, column) in cells.iter().zip(QueueState::COLUMNS) {
                assert_eq!(
                    cell.is_number(),
                    column.kind == "integer",
                    "{}",
                    column.name
                );
            }
        }
        assert_eq!(a.cells(Timestamp::UNIX_EPOCH)[5], "12");
        // A client can parse the answer.
        let written = serde_json::to_value(a).unwrap();
        assert_eq!(serde_json::from_value::<QueueState>(written).unwrap(), *a);
    }

    #[test]
    fn queue_unknown_to_the_scheduler_has_a_row() {
        let rows = rows(
            &[queue("new", "True")],
            &BTreeMap::new(),
            &Engine::new().snapshot(),
        );
        assert_eq!(rows[0].metadata.name.as_deref(), Some("new"));
        assert_eq!(
            (rows[0].share.as_deref(), rows[0].resources.len()),
            (None, 0)
        );
    }
}
