//! Submits jobs, and queues the jobs that may run.

use std::time::Duration;

use trellis_api::TrainingJob;
use trellis_api::document::Document;
use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_policies::quota::LimitedQuantity;
use trellis_scheduler::{FlavorName, Time};
use trellis_simulate::{ScriptChange, WithheldJob};

use super::group_pods::GroupPods;
use super::queued_job::{UnqueuedJob, build_queued_job};
use super::script_author::ScriptAuthor;
use crate::files::source_object::{DEFAULT_NAMESPACE, SourceObject};
use crate::plan::job_preparation;
use crate::plan::notes::unlabelled_namespaces;

impl ScriptAuthor {
    /// Applies a job.
    pub(super) fn apply_job(
        &mut self,
        at: Time,
        document: &Document,
        source: &SourceObject,
        runtime: Option<Duration>,
    ) {
        let mut job: TrainingJob = match document.decode_valid() {
            Ok(job) => job,
            Err(problems) => {
                self.problems.extend(source.to_problems(problems));
                return;
            }
        };
        let namespace = job.metadata.namespace.take();
        job.metadata.namespace = Some(namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()));
        let key = Key::from_meta(&job.metadata);
        let submitted = self.jobs.get(&key).copied();
        if submitted == Some(at) {
            let message = format!(
                "TrainingJob \"{key}\" is applied twice at the same time: rename one, or apply it later"
            );
            let problem = document.problem("metadata.name", message);
            self.problems.push(problem.with_file(source.file.as_str()));
            return;
        }
        self.known_jobs.insert(key.clone());
        let submitted = submitted.unwrap_or(at);
        self.jobs.insert(key.clone(), submitted);
        self.unqueued.remove(&key);
        let waiting = UnqueuedJob {
            job,
            runtime,
            submitted,
            reason: String::new(),
        };
        self.submit_or_wait(at, key, waiting);
    }

    /// Queues a job, if it may run and all objects that it needs exist.
    /// Otherwise it records the reason.
    fn submit_or_wait(&mut self, at: Time, key: Key, waiting: UnqueuedJob) {
        let problems = self.snapshot.policies.load();
        self.notes.extend(problems);
        if !unlabelled_namespaces::find_unlabelled([&*key.namespace], &self.snapshot).is_empty() {
            self.unlabelled.insert(key.namespace.clone());
        }
        if waiting.job.spec.stage_count() > 1 {
            let note = format!("job {key}: of its stages only the first is simulated");
            self.notes.push(note);
        }
        let requester = self.requester.as_ref();
        let (compiled, inputs) =
            job_preparation::prepare_job(waiting.job.clone(), None, requester, &self.snapshot);
        let hold = match (compiled, inputs) {
            (Some(compiled), Ok(inputs)) => {
                let limits = inputs.limits;
                let joining = limits.for_joining_pods().to_draws();
                let mut job = build_queued_job(&compiled, &waiting, inputs.volumes, &joining);
                let denied = inputs.denied_node_orders.into_iter();
                let denied = denied.map(|(flavor, message)| (FlavorName::new(flavor), message));
                job.gang.denied_flavors = denied.collect();
                self.group_pods.insert(key, GroupPods::from_job(&compiled));
                job.gang.preempts = !self.snapshot.never_preempts(compiled.job().spec());
                job.gang.draws = limits.to_draws();
                let draws = limits.draws.into_iter().map(|draw| draw.limit);
                job.gpu_hour_limits = draws
                    .filter(|l| l.quantity == LimitedQuantity::GpuHours)
                    .collect();
                self.script.add(at, ScriptChange::Job(Box::new(job)));
                return;
            }
            (_, Err(hold)) => hold,
            // A job that cannot be compiled always has an error.
            (None, Ok(_)) => return,
        };
        let refused = hold.is_refused();
        let reason = format!("{}: {}", hold.reason, hold.message);
        if reason != waiting.reason {
            let hold = WithheldJob {
                id: engine::gang_id(&key),
                refused,
                reason: reason.clone(),
            };
            self.script.add(at, ScriptChange::JobWithheld(hold));
        }
        self.unqueued.insert(key, UnqueuedJob { reason, ..waiting });
    }

    /// Tries to queue the waiting jobs again, after an object was added or deleted.
    pub(super) fn retry_unqueued(&mut self, at: Time) {
        for (key, waiting) in std::mem::take(&mut self.unqueued) {
            self.submit_or_wait(at, key, waiting);
        }
    }
}
