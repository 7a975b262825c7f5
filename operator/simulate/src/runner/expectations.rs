//! Expectations that a scenario states.

use std::collections::{BTreeMap, BTreeSet};

use trellis_scheduler::{FlavorName, GangId, Time};

use super::record::to_seconds;
use crate::summary::ExpectationResult;

/// The expectations for one time. They are checked after all other events of that time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations {
    /// Jobs that are placed.
    pub placed: Option<ExpectedJobs>,
    /// Jobs that are pending.
    pub pending: Option<ExpectedJobs>,
    /// Jobs that were preempted at or before this time.
    pub preempted: Option<ExpectedJobs>,
    /// The nodes of the running pods, by job.
    pub nodes: BTreeMap<GangId, BTreeSet<String>>,
    /// Number of running pods, by job.
    pub running: BTreeMap<GangId, u64>,
    /// The flavors whose quota a job holds, by job.
    pub flavors: BTreeMap<GangId, BTreeSet<String>>,
    /// The number of nodes, by flavor.
    pub node_counts: BTreeMap<FlavorName, usize>,
}

/// The jobs that must be in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedJobs {
    /// Exactly these jobs. An empty list: none.
    All(Vec<GangId>),
    /// A number of these jobs.
    Count {
        /// The smallest number.
        minimum: usize,
        /// The largest number.
        maximum: usize,
        /// The jobs.
        jobs: Vec<GangId>,
    },
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimulatedJobState {
    Absent,
    Refused,
    Waiting,
    Placed,
    Ended,
}

impl SimulatedJobState {
    const fn as_text(self) -> &'static str {
        match self {
            Self::Absent => "does not exist",
            Self::Refused => "is refused",
            Self::Waiting => "is pending",
            Self::Placed => "is placed",
            Self::Ended => "has ended",
        }
    }
}

/// Reports the states of all jobs that exist or existed.
pub(super) trait JobObserver {
    fn job_state(&self, job: &GangId) -> SimulatedJobState;
    fn was_preempted(&self, job: &GangId) -> bool;
    /// The nodes of the running pods.
    fn nodes(&self, job: &GangId) -> BTreeSet<String>;
    /// Number of running pods.
    fn running_pods(&self, job: &GangId) -> u64;
    /// The flavors whose quota the job holds.
    fn flavors(&self, job: &GangId) -> BTreeSet<String>;
    /// Number of nodes of a flavor.
    fn node_count(&self, flavor: &FlavorName) -> usize;
    /// All jobs, by name.
    fn job_ids(&self) -> Vec<GangId>;
}

impl Expectations {
    pub(super) fn check(&self, at: Time, look: &impl JobObserver) -> ExpectationResult {
        let mut differences = Vec::new();
        let standings = [
            (&self.placed, SimulatedJobState::Placed, "placed"),
            (&self.pending, SimulatedJobState::Waiting, "pending"),
        ];
        for (jobs, state, word) in standings {
            let has_state = |job: &GangId| look.job_state(job) == state;
            add_differences(
                jobs.as_ref(),
                word,
                look,
                has_state,
                &mut differences,
                |job| look.job_state(job).as_text(),
            );
        }
        let was = |job: &GangId| look.was_preempted(job);
        let jobs = self.preempted.as_ref();
        add_differences(
            jobs,
            "preempted",
            look,
            was,
            &mut differences,
            |_| "was not preempted",
        );
        for (job, expected) in &self.nodes {
            let (has_state, expected) = (join_names(&look.nodes(job)), join_names(expected));
            if has_state != expected {
                differences.push(format!("{job} runs on {has_state}, expected on {expected}"));
            }
        }
        for (job, expected) in &self.running {
            let has_state = look.running_pods(job);
            if has_state != *expected {
                differences.push(format!(
                    "{job} has {has_state} running pods, expected {expected}"
                ));
            }
        }
        for (job, expected) in &self.flavors {
            let (has_state, expected) = (join_names(&look.flavors(job)), join_names(expected));
            if has_state != expected {
                differences.push(format!(
                    "{job} holds flavors {has_state}, expected {expected}"
                ));
            }
        }
        for (flavor, expected) in &self.node_counts {
            let count = look.node_count(flavor);
            if count != *expected {
                let flavor = flavor.as_str();
                differences.push(format!(
                    "flavor {flavor} has {count} nodes, expected {expected}"
                ));
            }
        }
        ExpectationResult {
            t: to_seconds(at),
            held: differences.is_empty(),
            reason: differences.join("; "),
        }
    }

    /// Returns the result of an expectation after the end of the simulation.
    pub(super) fn not_reached(at: Time, end: Time) -> ExpectationResult {
        ExpectationResult {
            t: to_seconds(at),
            held: false,
            reason: format!("not reached: the simulation ends at {} s", to_seconds(end)),
        }
    }
}

impl ExpectationResult {
    /// Returns the result of an event that was impossible.
    pub(super) fn failed(at: Time, reason: String) -> Self {
        Self {
            t: to_seconds(at),
            held: false,
            reason,
        }
    }
}

fn join_names(names: &BTreeSet<String>) -> String {
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.iter().cloned().collect::<Vec<_>>().join(", "),
    }
}

/// Adds the differences between the expected jobs and the jobs in the state.
fn add_differences(
    jobs: Option<&ExpectedJobs>,
    word: &str,
    look: &impl JobObserver,
    has_state: impl Fn(&GangId) -> bool,
    wrong: &mut Vec<String>,
    actual_state: impl Fn(&GangId) -> &'static str,
) {
    let list = match jobs {
        None => return,
        Some(ExpectedJobs::All(list)) => list,
        Some(ExpectedJobs::Count {
            minimum,
            maximum,
            jobs: candidates,
        }) => {
            let matching: Vec<&str> = candidates
                .iter()
                .filter(|job| has_state(job))
                .map(GangId::as_str)
                .collect();
            if !(*minimum..=*maximum).contains(&matching.len()) {
                let expected = match (minimum, maximum) {
                    (minimum, maximum) if minimum == maximum => format!("exactly {minimum}"),
                    (0, maximum) => format!("at most {maximum}"),
                    (minimum, maximum) if *maximum >= candidates.len() => {
                        format!("at least {minimum}")
                    }
                    (minimum, maximum) => format!("{minimum} to {maximum}"),
                };
                let (number, all) = (matching.len(), candidates.len());
                let names = if matching.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", matching.join(", "))
                };
                wrong.push(format!(
                    "{number} of {all} jobs are {word}{names}, expected {expected}"
                ));
            }
            return;
        }
    };
    if list.is_empty() {
        let others = look.job_ids().into_iter().filter(|job| has_state(job));
        wrong.extend(others.map(|job| format!("{job} is {word}, expected none")));
    }
    let missed = list.iter().filter(|job| !has_state(job));
    wrong.extend(missed.map(|job| format!("{job} {}, expected {word}", actual_state(job))));
}
