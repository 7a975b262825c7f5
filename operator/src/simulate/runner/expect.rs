//! What a scenario says must be so.

use serde::Serialize;
use trellis_scheduler::{GangId, Time};

use super::record::seconds;

/// What must be so at some time, after everything else that happens then. A job
/// that a list names must be so; a list that names none says that none is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// They hold their place.
    pub placed: Option<Vec<GangId>>,
    /// They wait.
    pub pending: Option<Vec<GangId>>,
    /// They have lost their place to others, at some time up to then.
    pub preempted: Option<Vec<GangId>>,
}

/// Whether it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expectation {
    /// When, in seconds.
    pub t: f64,
    /// It was so.
    pub held: bool,
    /// What was otherwise; empty where it held.
    pub reason: String,
}

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Absent,
    Refused,
    Waiting,
    Placed,
    Ended,
}

impl Standing {
    const fn words(self) -> &'static str {
        match self {
            Self::Absent => "is not there",
            Self::Refused => "is refused",
            Self::Waiting => "waits",
            Self::Placed => "is placed",
            Self::Ended => "has ended",
        }
    }
}

/// Every job that is or was there: how it stands, and whether it was preempted.
pub(super) trait Look {
    fn standing(&self, job: &GangId) -> Standing;
    fn was_preempted(&self, job: &GangId) -> bool;
    /// All jobs, by name.
    fn all(&self) -> Vec<GangId>;
}

impl Expect {
    pub(super) fn check(&self, at: Time, look: &impl Look) -> Expectation {
        let mut wrong = Vec::new();
        let standings = [
            (&self.placed, Standing::Placed, "placed"),
            (&self.pending, Standing::Waiting, "pending"),
        ];
        for (list, wanted, word) in standings {
            let is = |job: &GangId| look.standing(job) == wanted;
            judge(list.as_deref(), word, look, is, &mut wrong, |job| {
                look.standing(job).words()
            });
        }
        let list = self.preempted.as_deref();
        let was = |job: &GangId| look.was_preempted(job);
        judge(
            list,
            "preempted",
            look,
            was,
            &mut wrong,
            |_| "was not preempted",
        );
        Expectation {
            t: seconds(at),
            held: wrong.is_empty(),
            reason: wrong.join("; "),
        }
    }

    /// The simulation ended before it was time.
    pub(super) fn not_reached(at: Time, end: Time) -> Expectation {
        Expectation {
            t: seconds(at),
            held: false,
            reason: format!("not reached: the simulation ends at {} s", seconds(end)),
        }
    }
}

/// Adds what is otherwise than a list says.
fn judge(
    list: Option<&[GangId]>,
    word: &str,
    look: &impl Look,
    is: impl Fn(&GangId) -> bool,
    wrong: &mut Vec<String>,
    instead: impl Fn(&GangId) -> &'static str,
) {
    let Some(list) = list else { return };
    if list.is_empty() {
        let others = look.all().into_iter().filter(|job| is(job));
        wrong.extend(others.map(|job| format!("{job} is {word}, and none is expected to be")));
    }
    let missed = list.iter().filter(|job| !is(job));
    wrong.extend(missed.map(|job| format!("{job} {}, expected {word}", instead(job))));
}
