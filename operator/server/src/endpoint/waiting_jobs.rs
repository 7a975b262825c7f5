//! All waiting jobs at one moment. Pure.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trellis_api::Reason;
use trellis_gang::observed::{SlimDeviceClass, SlimNode};
use trellis_gang::requirements::device_allocation;
use trellis_gang::{engine, external};
use trellis_scheduler::{Engine, Forecast, Gang, GangId, PlacedStateSnapshot, Snapshot, Time};

use super::visibility::NOMINATED_MESSAGE;

/// All waiting jobs, in the order of their queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingJobs {
    /// Time of the snapshot.
    pub time: Timestamp,
    /// Waiting jobs, by queue and position.
    pub waiting: Vec<WaitingJob>,
}

/// A job that waits for a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingJob {
    /// Namespace of the job.
    pub namespace: String,
    /// Name of the job.
    pub name: String,
    /// Queue of the job.
    pub queue: String,
    /// Position in the queue, from 1. Fairness between queues and backfill may start the job
    /// earlier. Absent: the job is nominated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// Priority: larger goes first.
    pub priority: i32,
    /// Time since when the job waits in its queue.
    pub submitted: Timestamp,
    /// Reason why the job waits, as in its status.
    pub reason: Reason,
    /// The reason in a sentence, with current numbers.
    pub message: String,
    /// Expected start, if no other job comes first and running jobs end as expected. Absent:
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Timestamp>,
}

impl WaitingJobs {
    /// Describes a snapshot in the terms of the API. A snapshot has no explanations and no
    /// reservations: `engine` has computed them in a cycle. A gang that would start at this moment
    /// is expected to start now.
    pub(super) fn from_engine<C: Borrow<SlimDeviceClass>, N: Borrow<SlimNode>>(
        engine: &mut Engine,
        snapshot: &Snapshot,
        positions: &BTreeMap<GangId, u32>,
        forecast: Option<&Forecast>,
        classes: &[C],
        nodes: impl Fn() -> Vec<N>,
    ) -> Self {
        let mut waiting: Vec<WaitingJob> = snapshot
            .gangs
            .iter()
            .filter_map(|report| {
                let gang = &report.gang;
                let (reason, message) = match &report.place {
                    None => {
                        // None: the gang does not wait any more.
                        let explanation = engine.explain_wait(&gang.id, snapshot.now)?;
                        device_allocation::explain_wait(
                            engine,
                            &gang.id,
                            &explanation,
                            classes,
                            &nodes,
                        )
                    }
                    // The gang's victims have to leave first.
                    Some(place) if place.standing == PlacedStateSnapshot::Nominated => {
                        (Reason::Preempting, NOMINATED_MESSAGE.to_owned())
                    }
                    Some(_) => return None,
                };
                let start = forecast.and_then(|forecast| forecast.starts.get(&gang.id));
                let position = positions.get(&gang.id);
                Some(WaitingJob {
                    position: position.and_then(|at| usize::try_from(*at).ok()),
                    reason,
                    message,
                    // An expected start in the past is unknown.
                    expected_start: start
                        .filter(|start| **start >= snapshot.now)
                        .and_then(|start| to_timestamp(*start)),
                    ..describe_gang(gang)
                })
            })
            .collect();
        waiting.sort_by(|a, b| {
            let place = |w: &WaitingJob| {
                let is_nominated = w.reason == Reason::Preempting;
                (!is_nominated, w.position.unwrap_or(usize::MAX))
            };
            (&a.queue, place(a), &a.namespace, &a.name).cmp(&(
                &b.queue,
                place(b),
                &b.namespace,
                &b.name,
            ))
        });
        Self {
            time: to_timestamp(snapshot.now).unwrap_or_default(),
            waiting,
        }
    }

    /// Returns the waiting jobs of one namespace.
    #[must_use]
    pub(crate) fn in_namespace(&self, namespace: &str) -> Self {
        let here = self.waiting.iter().filter(|w| w.namespace == namespace);
        Self {
            time: self.time,
            waiting: here.cloned().collect(),
        }
    }
}

/// Returns the fields that do not depend on the gang's state.
fn describe_gang(gang: &Gang) -> WaitingJob {
    let job = engine::job_key(&gang.id);
    WaitingJob {
        namespace: job.namespace.to_string(),
        name: external::gang_name(&job).object_name(),
        queue: gang.queue.as_str().to_owned(),
        position: None,
        priority: gang.priority,
        submitted: to_timestamp(gang.submitted).unwrap_or_default(),
        reason: Reason::NotApplicable,
        message: String::new(),
        expected_start: None,
    }
}

/// Converts the engine's time. None: it is outside the range of timestamps.
fn to_timestamp(time: Time) -> Option<Timestamp> {
    Timestamp::from_millisecond(time.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::ToSpan as _;
    use trellis_scheduler::{
        BorrowWithinPolicy, GroupName, Node, NodeName, PreemptionPolicy, Queue, QueueName,
        ReclaimPolicy, Resources, TaskGroup, WithinQueuePolicy,
    };

    use super::*;

    const START: i64 = 1_800_000_000_000;

    fn gang(name: &str, gpus: i64, at: i64, minutes: Option<u64>) -> Gang {
        let request = Resources::new().with("nvidia.com/gpu", gpus);
        let group = TaskGroup::new(GroupName::new("worker"), 1, request, format!("{name}-w"));
        Gang {
            submitted: Time::from_millis(at),
            runtime: minutes.map(Duration::from_mins),
            ..Gang::new(GangId::new(name), QueueName::new("default"), vec![group])
        }
    }

    /// A nominated job waits until its victims have left its place.
    #[test]
    fn nominated_job_is_listed_first() {
        let mut engine = Engine::new();
        let offers = Resources::new().with("nvidia.com/gpu", 8).with("pods", 110);
        engine.apply_node(Node::new(NodeName::new("gpu-0"), offers));
        engine.apply_queue(Queue {
            preemption: PreemptionPolicy {
                within_queue: WithinQueuePolicy::LowerPriority,
                reclaim: ReclaimPolicy::Never,
                borrow_within: BorrowWithinPolicy::Never,
            },
            ..Queue::new(QueueName::new("default"))
        });
        engine.apply_gang(gang("a/runs", 8, START, None));
        engine.cycle(Time::from_millis(START));
        engine.apply_gang(gang("a/waits", 8, START, None));
        engine.apply_gang(Gang {
            priority: 1,
            ..gang("a/urgent", 8, START, None)
        });
        engine.cycle(Time::from_millis(START + 1_000));
        let none: [SlimDeviceClass; 0] = [];
        let snapshot = engine.snapshot();
        let positions = snapshot.positions();
        let report = WaitingJobs::from_engine(
            &mut engine,
            &snapshot,
            &positions,
            None,
            &none,
            Vec::<SlimNode>::new,
        );
        let lines = report.waiting.iter().map(|w| (w.name.as_str(), w.reason));
        let lines: Vec<_> = lines.collect();
        let waits = ("waits", Reason::InsufficientCapacity);
        assert_eq!(lines, [("urgent", Reason::Preempting), waits]);
    }

    /// One job runs and three wait: one for the running job, one behind that job, and one forever.
    #[test]
    fn waiting_jobs_are_listed_in_order_with_expected_starts() {
        let mut engine = Engine::new();
        let offers = Resources::new().with("nvidia.com/gpu", 8).with("pods", 110);
        engine.apply_node(Node::new(NodeName::new("gpu-0"), offers));
        engine.apply_queue(Queue::new(QueueName::new("default")));
        for (at, (name, gpus, minutes)) in (START..).zip([
            ("a/runs", 8, Some(10)),
            ("b/next", 8, Some(5)),
            ("a/after", 8, None),
            ("a/large", 9, Some(1)),
        ]) {
            engine.apply_gang(gang(name, gpus, at, minutes));
        }
        engine.cycle(Time::from_millis(START));
        let none: [SlimDeviceClass; 0] = [];
        let snapshot = engine.snapshot();
        let (positions, forecast) = (
            snapshot.positions(),
            Forecast::from_snapshot(&snapshot, |_| true),
        );
        let report = WaitingJobs::from_engine(
            &mut engine,
            &snapshot,
            &positions,
            Some(&forecast),
            &none,
            Vec::<SlimNode>::new,
        );
        let at = Timestamp::from_millisecond(START).unwrap();
        let start = |minutes: i64| Some(at.saturating_add(minutes.minutes()).unwrap());
        let lines: Vec<_> = report
            .waiting
            .iter()
            .map(|w| (w.name.as_str(), w.position, w.reason, w.expected_start))
            .collect();
        assert_eq!(
            lines,
            [
                ("next", Some(1), Reason::InsufficientCapacity, start(10)),
                ("after", Some(2), Reason::InsufficientCapacity, start(15)),
                ("large", Some(3), Reason::ExceedsCluster, None),
            ]
        );
        let next = report.waiting.first().unwrap();
        assert!(next.message.contains("starts at"), "{}", next.message);
        assert_eq!(report.in_namespace("b").waiting, std::slice::from_ref(next));
        assert!(report.in_namespace("nobody").waiting.is_empty());
        // A client can parse the answer.
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<WaitingJobs>(&text).unwrap(), report);
    }
}
