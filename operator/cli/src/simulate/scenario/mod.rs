//! Turns files into a script.
//! Every object goes through the same steps as in `trellis plan`, at the time at which it is
//! applied.

mod autoscaler;
mod cluster_objects;
mod deletion;
mod event;
mod expectations;
mod group_pods;
mod job_pods;
mod job_submission;
mod queued_job;
mod script_author;

use std::path::PathBuf;

use trellis_api::document::Problem;
use trellis_policies::cedar::Requester;
use trellis_simulate::SimulationScript;
use trellis_simulate::scenario::ScenarioEvent;

use super::input_files::SimulationFiles;
use crate::files::source_object::SourceObject;
use script_author::ScriptAuthor;

/// The result of reading the files.
pub(super) struct ReadScenario {
    pub(super) script: SimulationScript,
    /// The seed of a scenario.
    pub(super) seed: Option<u64>,
    /// Notes about facts that the user might not expect.
    pub(super) notes: Vec<String>,
}

/// An event, and its position in a file.
struct SourcedEvent<'a> {
    event: &'a ScenarioEvent,
    source: &'a SourceObject,
    /// For example `spec.events[3]`.
    field: String,
}

/// Reads all files.
/// `requester` submits the jobs; None: the requester is unknown.
///
/// # Errors
/// All problems of the files.
pub(super) fn read_scenario(
    paths: &[PathBuf],
    requester: Option<Requester>,
) -> Result<ReadScenario, Vec<Problem>> {
    let mut files = SimulationFiles::read(paths);
    let mut problems = std::mem::take(&mut files.problems);
    if problems.is_empty() && files.scenarios.is_empty() && files.objects.is_empty() {
        let paths: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
        let message = "contains nothing to simulate: name a file with a Scenario or with objects";
        problems.push(Problem::for_file(message).with_file(paths.join(", ")));
    }
    let mut author = ScriptAuthor::new(requester);
    for (scenario, source) in &files.scenarios {
        for (number, pattern) in scenario.spec.nodes.iter().enumerate() {
            author.add_pattern(pattern, source, &format!("spec.nodes[{number}]"));
        }
    }
    author.add_initial_objects(&files.objects);
    let mut events: Vec<SourcedEvent<'_>> = Vec::new();
    for (scenario, source) in &files.scenarios {
        for (number, event) in scenario.spec.events.iter().enumerate() {
            let field = format!("spec.events[{number}]");
            events.push(SourcedEvent {
                event,
                source,
                field,
            });
        }
    }
    // The sort is stable: events with the same time keep the order of the file.
    events.sort_by_key(|event| event.event.at);
    for event in &events {
        author.add_event(event);
    }
    for (scenario, source) in &files.scenarios {
        author.add_autoscaler(&scenario.spec.autoscaler, source);
    }
    let seed = files.scenarios.iter().find_map(|(s, _)| s.spec.seed);
    let (script, notes) = match author.finish(&events) {
        Ok(done) => done,
        Err(more) => {
            problems.extend(more);
            return Err(problems);
        }
    };
    if problems.is_empty() {
        Ok(ReadScenario {
            script,
            seed,
            notes,
        })
    } else {
        Err(problems)
    }
}
