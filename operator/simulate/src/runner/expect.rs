//! Expectations that a scenario states.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use trellis_scheduler::{GangId, Time};

use super::record::seconds;

/// The expectations for one time, checked after everything else that happens then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// Jobs that hold their place.
    pub placed: Option<ExpectedJobs>,
    /// Jobs that wait.
    pub pending: Option<ExpectedJobs>,
    /// Jobs that have lost their place to other jobs, at some time up to then.
    pub preempted: Option<ExpectedJobs>,
    /// The nodes that the running pods of a job are on.
    pub nodes: BTreeMap<GangId, BTreeSet<String>>,
    /// Number of running pods, by job.
    pub running: BTreeMap<GangId, u64>,
    /// The flavors that a job holds quota of.
    pub flavors: BTreeMap<GangId, BTreeSet<String>>,
}

/// Jobs that must be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedJobs {
    /// Exactly these jobs. An empty list: none.
    All(Vec<GangId>),
    /// A number of these jobs.
    Count {
        /// Least number.
        least: usize,
        /// Largest number.
        most: usize,
        /// The jobs.
        of: Vec<GangId>,
    },
}

/// Result of an expectation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expectation {
    /// Time, in seconds.
    pub t: f64,
    /// True if the expectation held.
    pub held: bool,
    /// The difference; empty if the expectation held.
    pub reason: String,
}

/// State of a job.
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

/// Every job that is or was there.
pub(super) trait Look {
    fn standing(&self, job: &GangId) -> Standing;
    fn was_preempted(&self, job: &GangId) -> bool;
    /// The nodes of the pods that run.
    fn nodes(&self, job: &GangId) -> BTreeSet<String>;
    /// Number of running pods.
    fn running(&self, job: &GangId) -> u64;
    /// The flavors that the job holds quota of.
    fn flavors(&self, job: &GangId) -> BTreeSet<String>;
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
        for (jobs, wanted, word) in standings {
            let is = |job: &GangId| look.standing(job) == wanted;
            judge(jobs.as_ref(), word, look, is, &mut wrong, |job| {
                look.standing(job).words()
            });
        }
        let was = |job: &GangId| look.was_preempted(job);
        let jobs = self.preempted.as_ref();
        judge(
            jobs,
            "preempted",
            look,
            was,
            &mut wrong,
            |_| "was not preempted",
        );
        for (job, expected) in &self.nodes {
            let (is, expected) = (names(&look.nodes(job)), names(expected));
            if is != expected {
                wrong.push(format!("{job} runs on {is}, expected on {expected}"));
            }
        }
        for (job, expected) in &self.running {
            let is = look.running(job);
            if is != *expected {
                wrong.push(format!("{job} has {is} running pods, expected {expected}"));
            }
        }
        for (job, expected) in &self.flavors {
            let (is, expected) = (names(&look.flavors(job)), names(expected));
            if is != expected {
                wrong.push(format!("{job} holds flavors {is}, expected {expected}"));
            }
        }
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

impl Expectation {
    /// An event that could not happen.
    pub(super) fn failed(at: Time, reason: String) -> Self {
        Self {
            t: seconds(at),
            held: false,
            reason,
        }
    }
}

fn names(names: &BTreeSet<String>) -> String {
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.iter().cloned().collect::<Vec<_>>().join(", "),
    }
}

/// Adds the differences from the expectation.
fn judge(
    jobs: Option<&ExpectedJobs>,
    word: &str,
    look: &impl Look,
    is: impl Fn(&GangId) -> bool,
    wrong: &mut Vec<String>,
    instead: impl Fn(&GangId) -> &'static str,
) {
    let list = match jobs {
        None => return,
        Some(ExpectedJobs::All(list)) => list,
        Some(ExpectedJobs::Count { least, most, of }) => {
            let so: Vec<&str> = of
                .iter()
                .filter(|job| is(job))
                .map(GangId::as_str)
                .collect();
            if !(*least..=*most).contains(&so.len()) {
                let expected = match (least, most) {
                    (least, most) if least == most => format!("exactly {least}"),
                    (0, most) => format!("at most {most}"),
                    (least, most) if *most >= of.len() => format!("at least {least}"),
                    (least, most) => format!("{least} to {most}"),
                };
                let (number, all) = (so.len(), of.len());
                let who = if so.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", so.join(", "))
                };
                wrong.push(format!(
                    "{number} of {all} jobs are {word}{who}, expected {expected}"
                ));
            }
            return;
        }
    };
    if list.is_empty() {
        let others = look.all().into_iter().filter(|job| is(job));
        wrong.extend(others.map(|job| format!("{job} is {word}, and none is expected to be")));
    }
    let missed = list.iter().filter(|job| !is(job));
    wrong.extend(missed.map(|job| format!("{job} {}, expected {word}", instead(job))));
}
