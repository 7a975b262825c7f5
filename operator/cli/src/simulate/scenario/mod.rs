//! From files to a script: every object goes the way that a plan goes, at the
//! time at which it is applied.

mod author;
mod delete;
mod expects;
mod pods;
mod queued;

use std::path::PathBuf;

use trellis_api::document::Problem;
use trellis_policies::cedar::Requester;

use super::files::Files;
use crate::source::Source;
use author::Author;
use trellis_simulate::Script;
use trellis_simulate::scenario::ScenarioEvent;

/// What the files come to.
pub(super) struct Read {
    pub(super) script: Script,
    /// What a scenario says is to be drawn with.
    pub(super) seed: Option<u64>,
    /// What the user might not expect.
    pub(super) notes: Vec<String>,
}

/// An event, and where it is written.
struct Event<'a> {
    event: &'a ScenarioEvent,
    source: &'a Source,
    /// `spec.events[3]`.
    field: String,
}

/// Reads all files. `requester` submits the jobs; None: nobody knows who.
///
/// # Errors
/// Everything that is wrong with them.
pub(super) fn read(paths: &[PathBuf], requester: Option<Requester>) -> Result<Read, Vec<Problem>> {
    let mut files = Files::read(paths);
    let mut problems = std::mem::take(&mut files.problems);
    if problems.is_empty() && files.scenarios.is_empty() && files.objects.is_empty() {
        let paths: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
        let message = "holds nothing to simulate: name a file with a Scenario or with objects";
        problems.push(Problem::of_file(message).in_file(paths.join(", ")));
    }
    let mut author = Author::new(requester);
    for (scenario, source) in &files.scenarios {
        for (number, pattern) in scenario.spec.nodes.iter().enumerate() {
            author.pattern(pattern, source, &format!("spec.nodes[{number}]"));
        }
    }
    author.begin(&files.objects);
    let mut events: Vec<Event<'_>> = Vec::new();
    for (scenario, source) in &files.scenarios {
        for (number, event) in scenario.spec.events.iter().enumerate() {
            let field = format!("spec.events[{number}]");
            events.push(Event {
                event,
                source,
                field,
            });
        }
    }
    // What happens at one time, in the order in which it is written.
    events.sort_by_key(|event| event.event.at);
    for event in &events {
        author.event(event);
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
        Ok(Read {
            script,
            seed,
            notes,
        })
    } else {
        Err(problems)
    }
}
