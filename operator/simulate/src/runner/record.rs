//! Records of events, one line each.

use std::cmp::Ordering;

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use trellis_scheduler::{Because, Certificate, Decision, Gang, GangId, Placement, Time, Victim};

/// An event of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// The job is placed, and starts.
    Placed,
    /// The job is pending for another reason than was last reported.
    Waiting,
    /// The job has a reservation. Other jobs may start if they do not delay it.
    Reserved,
    /// The job will be placed once its victims are gone.
    Nominated,
    /// The job loses its place to another job, or because its queue is drained.
    Preempted,
    /// The gang starts again, since a node or a pod of it is gone or has failed.
    Restarted,
    /// Pods of it have failed or left, and come back alone while the other pods go on.
    Recovering,
    /// A pod of it has ended and holds nothing any more; the other pods go on.
    PodEnded,
    /// A surplus pod has joined.
    Grown,
    /// A surplus pod stops, to make room or because it failed or left.
    Shrunk,
    /// The job has done its work.
    Finished,
    /// The job was ended before it had done its work.
    Failed,
    /// The job is Refused as it is, or while a limit has no room.
    Refused,
    /// The job is deleted.
    Deleted,
}

impl Event {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Waiting => "waiting",
            Self::Reserved => "reserved",
            Self::Nominated => "nominated",
            Self::Preempted => "preempted",
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
pub struct Record<'a> {
    /// Time of the event.
    pub t: Time,
    /// The event.
    pub event: Event,
    /// The job.
    pub job: &'a GangId,
    /// The placement, if the job is placed or has a reservation.
    pub place: Option<(&'a Gang, &'a Placement)>,
    /// Reason. Empty if the event is reason enough.
    pub reason: String,
}

/// Pods with their nodes, in the order of their ranks.
struct Pods<'a>(Option<(&'a Gang, &'a Placement)>);

impl Serialize for Pods<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some((gang, placement)) = self.0 {
            for (name, index, node) in placement.iter() {
                if let Some(group) = gang.groups.iter().find(|g| g.name == *name) {
                    let number = group.first.saturating_add(index);
                    let pod = format!("{}-{number}", group.pod_prefix);
                    map.serialize_entry(&pod, node.as_str())?;
                }
            }
        }
        map.end()
    }
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_struct("Record", 5)?;
        line.serialize_field("t", &seconds(self.t))?;
        line.serialize_field("event", self.event.as_str())?;
        line.serialize_field("job", self.job.as_str())?;
        line.serialize_field("pods", &Pods(self.place))?;
        line.serialize_field("reason", &self.reason)?;
        line.end()
    }
}

/// The clock of an engine.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// Simulated time, which starts at zero.
    Simulated,
    /// The time of day.
    Wall,
}

impl<'a> Record<'a> {
    /// Records of a decision, one for each job. `gang` looks up the jobs that are placed.
    #[must_use]
    pub fn of(
        (t, clock): (Time, Clock),
        decision: &'a Decision,
        gang: impl Fn(&GangId) -> Option<&'a Gang>,
    ) -> Vec<Self> {
        let one = |event, job, place, reason| Self {
            t,
            event,
            job,
            place,
            reason,
        };
        let leaves = |victim: &'a Victim, by: Option<&GangId>| {
            let priority = |id: &GangId| Some(gang(id)?.priority);
            let priorities = by.and_then(|by| priority(&victim.gang).zip(priority(by)));
            let order = priorities.map(|(own, other)| own.cmp(&other));
            one(
                Event::Preempted,
                &victim.gang,
                None,
                why_victim(victim, by, order),
            )
        };
        match decision {
            Decision::Place {
                gang: id,
                placement,
                ..
            } => {
                let place = gang(id).map(|gang| (gang, placement));
                vec![one(Event::Placed, id, place, String::new())]
            }
            Decision::Preempt {
                gang: id,
                placement,
                victims,
            } => {
                let place = gang(id).map(|gang| (gang, placement));
                let reason = format!("once {} victims are gone", victims.len());
                let nominated = one(Event::Nominated, id, place, reason);
                let victims = victims.iter().map(|victim| leaves(victim, Some(id)));
                std::iter::once(nominated).chain(victims).collect()
            }
            Decision::Reserve {
                gang: id,
                start,
                placement,
            } => {
                let place = gang(id).map(|gang| (gang, placement));
                let reason = match start {
                    Some(start) => format!("from {} s on", seconds(*start)),
                    None => "no start is known".to_owned(),
                };
                vec![one(Event::Reserved, id, place, reason)]
            }
            Decision::Drain { victim } => vec![leaves(victim, None)],
            Decision::Wait {
                gang: id,
                certificate,
            } => {
                let event = if certificate.detail.is_refusal() {
                    Event::Refused
                } else {
                    Event::Waiting
                };
                vec![one(event, id, None, why(certificate, clock))]
            }
        }
    }
}

/// Seconds since the simulation began.
#[must_use]
pub fn seconds(time: Time) -> f64 {
    time.as_millis() as f64 / 1000.0
}

/// Why a gang waits: the reason's word and the sentence, with times by this clock.
#[must_use]
pub fn why(certificate: &Certificate, clock: Clock) -> String {
    match clock {
        Clock::Simulated => format!("{}: {certificate:#}", certificate.reason),
        Clock::Wall => format!("{}: {certificate}", certificate.reason),
    }
}

/// Reason of a preemption. `by`: the gang that takes the place. `order`: how the priority of the
/// victim compares to that of `by`, if both are known.
#[must_use]
pub(super) fn why_victim(victim: &Victim, by: Option<&GangId>, order: Option<Ordering>) -> String {
    let because = match victim.because {
        Because::LaterInQueue => match order {
            Some(Ordering::Less) => "its priority is lower in the same queue",
            Some(Ordering::Equal) => "it is later in the same queue at the same priority",
            Some(Ordering::Greater) | None => "it comes after the other in the same queue",
        },
        Because::Borrows => "its queue holds more than its quota",
        Because::LowerPriority => "its priority is lower",
        Because::Drained => "its queue is drained",
        Because::Surplus => "it is surplus",
    };
    let lost = victim.lost_device_seconds;
    match by {
        Some(by) => format!("for {by}: {because}; {lost} device-seconds of work are lost"),
        None => format!("{because}; {lost} device-seconds of work are lost"),
    }
}

#[cfg(test)]
mod tests {
    use trellis_scheduler::{Detail, QueueName};

    use super::*;

    fn gang(name: &str, priority: i32) -> Gang {
        Gang {
            priority,
            ..Gang::new(GangId::new(name), QueueName::new("q"), vec![])
        }
    }

    /// Why victim `v` leaves for gang `by`.
    fn reason(gangs: &[Gang], because: Because) -> String {
        let decision = Decision::Preempt {
            gang: GangId::new("team/by"),
            placement: Placement::new(),
            victims: vec![Victim {
                gang: GangId::new("team/v"),
                because,
                lost_device_seconds: 8,
            }],
        };
        let known = |id: &GangId| gangs.iter().find(|gang| gang.id == *id);
        let at = (Time::from_millis(0), Clock::Simulated);
        let records = Record::of(at, &decision, known);
        records.last().unwrap().reason.clone()
    }

    #[test]
    fn times_are_told_by_the_clock_of_the_engine() {
        let until = Time::from_millis(90_000);
        let certificate = Certificate::from(Detail::BackingOff { until });
        assert!(why(&certificate, Clock::Simulated).ends_with("not before 90 s"));
        assert!(why(&certificate, Clock::Wall).ends_with("not before 1970-01-01T00:01:30Z"));
    }

    #[test]
    fn a_victim_of_the_same_queue_has_a_lower_priority_or_is_later_at_the_same() {
        let reason = |own, other| {
            let gangs = [gang("team/v", own), gang("team/by", other)];
            reason(&gangs, Because::LaterInQueue)
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
    fn a_victim_of_an_unknown_priority_comes_after_the_other() {
        let reason = reason(&[gang("team/v", 1)], Because::LaterInQueue);
        assert!(
            reason.starts_with("for team/by: it comes after the other in the same queue; "),
            "{reason}"
        );
    }
}
