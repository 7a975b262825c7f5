//! Writes the script: the effect of each object at its time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trellis_api::document::Problem;
use trellis_gang::key::Key;
use trellis_policies::cedar::Requester;
use trellis_scheduler::Time;
use trellis_simulate::{ScriptChange, SimulationScript};

use super::group_pods::GroupPods;
use super::queued_job::UnqueuedJob;
use super::{SourcedEvent, expectations};
use crate::plan::notes::unlabelled_namespaces;
use crate::plan::plan_requester::PlanRequester;
use crate::plan::snapshot::ClusterSnapshot;

/// The script so far, and the cluster at this point of it.
#[derive(Default)]
pub(super) struct ScriptAuthor {
    pub(super) script: SimulationScript,
    pub(super) snapshot: ClusterSnapshot,
    pub(super) unqueued: BTreeMap<Key, UnqueuedJob>,
    /// The requester of the jobs.
    pub(super) requester: Option<Requester>,
    /// True if a node existed at any time, or may come.
    pub(super) has_nodes: bool,
    /// Every flavor that existed at any time.
    pub(super) known_flavors: BTreeSet<String>,
    /// Every flavor that could get new nodes at any time.
    pub(super) growing_flavors: BTreeSet<String>,
    /// Every job that existed at any time.
    pub(super) known_jobs: BTreeSet<Key>,
    /// The jobs that exist now.
    pub(super) jobs: BTreeMap<Key, Time>,
    /// The task groups of jobs that were queued.
    pub(super) group_pods: BTreeMap<Key, Vec<GroupPods>>,
    /// Namespaces whose labels were needed before they were known.
    pub(super) unlabelled: BTreeSet<Arc<str>>,
    pub(super) problems: Vec<Problem>,
    pub(super) notes: Vec<String>,
}

impl ScriptAuthor {
    /// Creates an empty script.
    /// `requester` submits the jobs; None: the requester is unknown.
    pub(super) fn new(requester: Option<Requester>) -> Self {
        Self {
            requester,
            ..Self::default()
        }
    }

    /// Returns the complete script.
    pub(super) fn finish(
        mut self,
        events: &[SourcedEvent<'_>],
    ) -> Result<(SimulationScript, Vec<String>), Vec<Problem>> {
        for event in events {
            let Some(expected) = &event.event.expect else {
                continue;
            };
            match expectations::resolve_expectation(
                expected,
                event,
                (&self.known_jobs, &self.known_flavors),
            ) {
                Ok(expect) => {
                    let at = Time::default().plus(event.event.at.0);
                    self.script.add(at, ScriptChange::Expect(expect));
                }
                Err(problems) => self.problems.extend(problems),
            }
        }
        if !self.has_nodes {
            let note = "there are no nodes, so no job is placed: add some (docs/simulate.md)";
            self.notes.push(note.to_owned());
        }
        if self.known_jobs.is_empty() {
            let note =
                "there is no TrainingJob, so nothing is simulated: add one (docs/simulate.md)";
            self.notes.push(note.to_owned());
        }
        let requester_note = PlanRequester::Unknown.assumption_note(&self.snapshot);
        self.notes
            .extend(requester_note.filter(|_| self.requester.is_none()));
        let unlabelled = self.unlabelled.iter().map(|name| &**name);
        let unlabelled = unlabelled_namespaces::find_unlabelled(unlabelled, &self.snapshot);
        self.notes
            .extend(unlabelled_namespaces::format_note(&unlabelled));
        if self.problems.is_empty() {
            Ok((self.script, self.notes))
        } else {
            Err(self.problems)
        }
    }
}
