//! Translates the events of a scenario into the script.

use trellis_api::API_VERSION;
use trellis_api::kinds::{KINDS, is_job};
use trellis_scheduler::Time;
use trellis_simulate::PodChange;

use super::SourcedEvent;
use super::script_author::ScriptAuthor;

/// Returns the version of a kind, so that an event may omit it.
fn default_version(kind: &str) -> Option<&'static str> {
    match kind {
        "Node" | "Pod" | "Namespace" | "Service" => Some("v1"),
        "PriorityClass" => Some("scheduling.k8s.io/v1"),
        _ if KINDS.contains(&kind) => Some(API_VERSION),
        _ => None,
    }
}

impl ScriptAuthor {
    /// Adds an event. Expectations are added last, when all jobs are known.
    pub(super) fn add_event(&mut self, event: &SourcedEvent<'_>) {
        let (source, field) = (event.source, event.field.as_str());
        let scenario_event = event.event;
        let at = Time::default().plus(scenario_event.at.0);
        let actions = [
            scenario_event.apply.is_some(),
            scenario_event.delete.is_some(),
            scenario_event.fail.is_some(),
            scenario_event.finish.is_some(),
            scenario_event.expect.is_some(),
        ];
        if actions.iter().filter(|is_set| **is_set).count() != 1 {
            let message = "must have exactly one of apply, delete, fail, finish and expect: write an event for each";
            self.problems.push(source.problem(field, message));
            return;
        }
        if let Some(target) = &scenario_event.delete {
            self.delete_object(at, target, source, field);
        }
        if let Some(failed) = &scenario_event.fail {
            let field = format!("{field}.fail.pod");
            let pod = (failed.namespace.as_deref(), failed.pod.as_str());
            let change = PodChange::Fails {
                exit_code: failed.exit_code,
                reason: failed.reason.clone(),
            };
            self.change_job_pod(at, pod, change, source, Some(&field));
        }
        if let Some(finished) = &scenario_event.finish {
            let field = format!("{field}.finish.pod");
            let pod = (finished.namespace.as_deref(), finished.pod.as_str());
            self.change_job_pod(at, pod, PodChange::Finishes, source, Some(&field));
        }
        let field = format!("{field}.apply");
        let applied = scenario_event.apply.as_ref().map(|_| {
            let object = source.document.embedded_object(&field, default_version);
            object.map_err(|problem| problem.with_file(source.file.as_str()))
        });
        let document = match applied {
            Some(Ok(document)) => Some(document),
            Some(Err(problem)) => {
                self.problems.push(problem);
                return;
            }
            None => None,
        };
        let is_job = document.as_ref().is_some_and(is_job);
        if scenario_event.runtime.is_some() && !is_job {
            let message =
                "is the run time of a TrainingJob, and this event applies none: remove it";
            let field = format!("{}.runtime", event.field);
            self.problems.push(source.problem(&field, message));
        }
        let Some(document) = document else { return };
        if is_job {
            self.apply_job(
                at,
                &document,
                source,
                scenario_event.runtime.map(|span| span.0),
            );
            return;
        }
        match self.apply_object(at, &document, source) {
            Ok(true) => self.retry_unqueued(at),
            Ok(false) => {
                let message = format!("a simulation does not support {:?}", document.kind);
                let field = format!("{field}.kind");
                self.problems.push(source.problem(&field, message));
            }
            Err(problems) => self.problems.extend(problems),
        }
    }
}
