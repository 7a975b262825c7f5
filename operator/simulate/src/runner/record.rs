//! Records of events, one line each.

use std::cmp::Ordering;

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use trellis_scheduler::{
    Decision, FlavorName, Gang, GangId, NodeName, NodeRequest, Placement, PreemptionReason, Time,
    Victim, WaitExplanation,
};

/// An event of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobEvent {
    /// The job is placed and starts.
    Placed,
    /// The job is pending, and its reason has changed.
    Waiting,
    /// The job has a reservation. Other jobs may start if they do not delay it.
    Reserved,
    /// The job will be placed once its victims are gone.
    Nominated,
    /// The job is evicted for another job, or because its queue is drained.
    Preempted,
    /// New nodes are ordered for the job.
    Ordered,
    /// The order of new nodes ends, although the job does not start.
    OrderEnded,
    /// The gang restarts, because one of its nodes or pods has failed or is gone.
    Restarted,
    /// Some pods have failed or left and restart alone. The other pods keep running.
    Recovering,
    /// A pod has ended and released its resources. The other pods keep running.
    PodEnded,
    /// A surplus pod has joined.
    Grown,
    /// A surplus pod stops, because other pods need its node, or because it failed or left.
    Shrunk,
    /// The job has completed.
    Finished,
    /// The job failed or was stopped before it completed.
    Failed,
    /// The job is Refused: it must change, or a limit must have room.
    Refused,
    /// The job is deleted.
    Deleted,
}

impl JobEvent {
    /// Returns the word for the output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Waiting => "waiting",
            Self::Reserved => "reserved",
            Self::Nominated => "nominated",
            Self::Preempted => "preempted",
            Self::Ordered => "ordered",
            Self::OrderEnded => "orderended",
            Self::Restarted => "restarted",
            Self::Recovering => "recovering",
            Self::PodEnded => "podended",
            Self::Grown => "grown",
            Self::Shrunk => "shrunk",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Deleted => "deleted",
        }
    }
}

/// An event of a job, with its time. As JSON: `t`, `event`, `job`, `pods`, `reason`.
#[derive(Clone, Debug)]
pub struct JobEventRecord<'a> {
    /// Time of the event.
    pub t: Time,
    /// The event.
    pub event: JobEvent,
    /// The job.
    pub job: &'a GangId,
    /// The placement, if the job is placed or has a reservation.
    pub placement: Option<(&'a Gang, &'a Placement)>,
    /// The reason. Empty if the event explains itself.
    pub reason: String,
}

/// An event of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeEvent {
    /// Nodes that were ordered are ready.
    Arrived,
    /// The autoscaler removes idle nodes.
    Removed,
}

impl NodeEvent {
    /// Returns the word for the output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Arrived => "arrived",
            Self::Removed => "removed",
        }
    }
}

/// An event of nodes of one flavor, with its time.
#[derive(Clone, Debug)]
pub struct NodeEventRecord<'a> {
    /// Time of the event.
    pub t: Time,
    /// The event.
    pub event: NodeEvent,
    /// The flavor.
    pub flavor: &'a FlavorName,
    /// The nodes, by name.
    pub nodes: &'a [NodeName],
}

impl Serialize for NodeEventRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_struct("Record", 4)?;
        line.serialize_field("t", &to_seconds(self.t))?;
        line.serialize_field("event", self.event.as_str())?;
        line.serialize_field("flavor", self.flavor.as_str())?;
        let nodes: Vec<&str> = self.nodes.iter().map(NodeName::as_str).collect();
        line.serialize_field("nodes", &nodes)?;
        line.end()
    }
}

/// An event of a simulation.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum SimulationRecord<'a> {
    /// An event of a job.
    Job(JobEventRecord<'a>),
    /// An event of nodes.
    Nodes(NodeEventRecord<'a>),
}

/// The pods with their nodes, in the order of the ranks.
struct PlacedPods<'a>(Option<(&'a Gang, &'a Placement)>);

impl Serialize for PlacedPods<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some((gang, placement)) = self.0 {
            for (name, index, node) in placement.iter() {
                if let Some((group, pods)) = gang.member(name) {
                    let (prefix, number) = group.pod_name(pods.start.saturating_add(index));
                    map.serialize_entry(&format!("{prefix}-{number}"), node.as_str())?;
                }
            }
        }
        map.end()
    }
}

impl Serialize for JobEventRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_struct("Record", 5)?;
        line.serialize_field("t", &to_seconds(self.t))?;
        line.serialize_field("event", self.event.as_str())?;
        line.serialize_field("job", self.job.as_str())?;
        line.serialize_field("pods", &PlacedPods(self.placement))?;
        line.serialize_field("reason", &self.reason)?;
        line.end()
    }
}

/// The clock of an engine.
#[derive(Clone, Copy, Debug)]
pub enum RecordClock {
    /// Simulated time, which starts at zero.
    Simulated,
    /// The time of day.
    Wall,
}

impl<'a> JobEventRecord<'a> {
    /// Returns the records of a decision, one for each job. `gang` returns the gang of a placed
    /// job.
    #[must_use]
    pub fn from_decision(
        (t, clock): (Time, RecordClock),
        decision: &'a Decision,
        gang: impl Fn(&GangId) -> Option<&'a Gang>,
    ) -> Vec<Self> {
        let record = |event, job, place, reason| Self {
            t,
            event,
            job,
            placement: place,
            reason,
        };
        let victim_record = |victim: &'a Victim, preemptor: Option<&GangId>| {
            let priority = |id: &GangId| Some(gang(id)?.priority);
            let priorities =
                preemptor.and_then(|preemptor| priority(&victim.gang).zip(priority(preemptor)));
            let order = priorities.map(|(own, other)| own.cmp(&other));
            record(
                JobEvent::Preempted,
                &victim.gang,
                None,
                format_victim_reason(victim, preemptor, order),
            )
        };
        match decision {
            Decision::Place {
                gang: id,
                placement,
                ..
            } => {
                let place = gang(id).map(|gang| (gang, placement));
                vec![record(JobEvent::Placed, id, place, String::new())]
            }
            Decision::Preempt {
                gang: id,
                placement,
                victims,
            } => {
                let place = gang(id).map(|gang| (gang, placement));
                let reason = match victims.len() {
                    1 => "once 1 victim is gone".to_owned(),
                    many => format!("once {many} victims are gone"),
                };
                let nominated = record(JobEvent::Nominated, id, place, reason);
                let victims = victims.iter().map(|victim| victim_record(victim, Some(id)));
                std::iter::once(nominated).chain(victims).collect()
            }
            Decision::Reserve {
                gang: id,
                start,
                placement,
            } => {
                let place = gang(id).map(|gang| (gang, placement));
                let reason = match start {
                    Some(start) => format!("from {} s on", to_seconds(*start)),
                    None => "no start is known".to_owned(),
                };
                vec![record(JobEvent::Reserved, id, place, reason)]
            }
            Decision::Drain { victim } => vec![victim_record(victim, None)],
            Decision::Provision(request) => {
                let reason = format_request(request);
                vec![record(JobEvent::Ordered, &request.gang, None, reason)]
            }
            Decision::EndProvisioning {
                gang: id,
                provisioning,
                is_late,
            } => {
                let reason = match is_late {
                    true => provisioning.lateness_text(),
                    false => {
                        "other jobs have its quota or room, or it may no longer have new nodes"
                            .to_owned()
                    }
                };
                vec![record(JobEvent::OrderEnded, id, None, reason)]
            }
            Decision::Wait {
                gang: id,
                explanation,
            } => {
                let event = if explanation.detail.is_refusal() {
                    JobEvent::Refused
                } else {
                    JobEvent::Waiting
                };
                vec![record(
                    event,
                    id,
                    None,
                    format_explanation(explanation, clock),
                )]
            }
        }
    }
}

/// Formats the nodes of an order, such as `4 of flavor "h100"`.
fn format_request(request: &NodeRequest) -> String {
    let nodes = request.nodes.iter();
    let nodes = nodes.map(|(flavor, count)| format!("{count} of flavor {:?}", flavor.as_str()));
    let nodes: Vec<String> = nodes.collect();
    format!("new nodes: {}", nodes.join(" and "))
}

/// Returns the seconds since the start of the simulation.
#[must_use]
pub fn to_seconds(time: Time) -> f64 {
    time.as_millis() as f64 / 1000.0
}

/// Formats why a gang waits: the reason and the message, with times of this clock.
#[must_use]
pub fn format_explanation(explanation: &WaitExplanation, clock: RecordClock) -> String {
    match clock {
        RecordClock::Simulated => format!("{}: {explanation:#}", explanation.reason),
        RecordClock::Wall => format!("{}: {explanation}", explanation.reason),
    }
}

/// Formats the reason of a preemption. `preemptor` gets the nodes. `order`: the victim's priority
/// compared with the priority of `preemptor`, if both are known.
#[must_use]
pub(super) fn format_victim_reason(
    victim: &Victim,
    preemptor: Option<&GangId>,
    order: Option<Ordering>,
) -> String {
    let because = match victim.reason {
        PreemptionReason::LaterInQueue => match order {
            Some(Ordering::Less) => "its priority is lower in the same queue",
            Some(Ordering::Equal) => "it is later in the same queue at the same priority",
            Some(Ordering::Greater) | None => "it comes after the other in the same queue",
        },
        PreemptionReason::Borrows => "its queue holds more than its quota",
        PreemptionReason::LowerPriority => "its priority is lower",
        PreemptionReason::FairShare => "its queue has the larger share of borrowed quota",
        PreemptionReason::Drained => "its queue is drained",
        PreemptionReason::Surplus => "it is surplus",
    };
    let lost = victim.lost_device_seconds;
    match preemptor {
        Some(preemptor) => {
            format!("for {preemptor}: {because}; {lost} device-seconds of work are lost")
        }
        None => format!("{because}; {lost} device-seconds of work are lost"),
    }
}

#[cfg(test)]
mod tests {
    use trellis_scheduler::{QueueName, WaitDetail};

    use super::*;

    fn gang(name: &str, priority: i32) -> Gang {
        Gang {
            priority,
            ..Gang::new(GangId::new(name), QueueName::new("q"), vec![])
        }
    }

    /// Returns the reason why gang `by` preempts victim `v`.
    fn reason(gangs: &[Gang], because: PreemptionReason) -> String {
        let decision = Decision::Preempt {
            gang: GangId::new("team/by"),
            placement: Placement::new(),
            victims: vec![Victim {
                gang: GangId::new("team/v"),
                reason: because,
                lost_device_seconds: 8,
            }],
        };
        let known = |id: &GangId| gangs.iter().find(|gang| gang.id == *id);
        let at = (Time::from_millis(0), RecordClock::Simulated);
        let records = JobEventRecord::from_decision(at, &decision, known);
        records.last().unwrap().reason.clone()
    }

    #[test]
    fn times_use_the_clock_of_the_engine() {
        let until = Time::from_millis(90_000);
        let reserved = WaitDetail::Reserved {
            head: GangId::new("team/head"),
            start: Some(until),
            nodes: 2,
        };
        for detail in [WaitDetail::BackingOff { until }, reserved] {
            let explanation = WaitExplanation::from(detail);
            let simulated = format_explanation(&explanation, RecordClock::Simulated);
            assert!(simulated.contains(" 90 s"), "{simulated}");
            let wall = format_explanation(&explanation, RecordClock::Wall);
            assert!(wall.contains(" 1970-01-01T00:01:30Z"), "{wall}");
        }
    }

    #[test]
    fn reason_for_a_victim_of_its_queue_is_priority_or_age() {
        let reason = |own, other| {
            let gangs = [gang("team/v", own), gang("team/by", other)];
            reason(&gangs, PreemptionReason::LaterInQueue)
        };
        assert_eq!(
            reason(1, 5),
            "for team/by: its priority is lower in the same queue; 8 device-seconds of work are lost"
        );
        assert_eq!(
            reason(5, 5),
            "for team/by: it is later in the same queue at the same priority; \
             8 device-seconds of work are lost"
        );
    }

    #[test]
    fn reason_for_a_victim_of_unknown_priority_is_its_order() {
        let reason = reason(&[gang("team/v", 1)], PreemptionReason::LaterInQueue);
        assert!(
            reason.starts_with("for team/by: it comes after the other in the same queue; "),
            "{reason}"
        );
    }
}
