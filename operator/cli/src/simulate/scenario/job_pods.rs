//! Translates changes of a job's pods, which events name, into the script.

use trellis_gang::engine;
use trellis_gang::engine::SurplusUnit;
use trellis_gang::key::Key;
use trellis_scheduler::Time;
use trellis_simulate::{PodChange, ScriptChange, ScriptPodEvent};

use super::script_author::ScriptAuthor;
use crate::files::source_object::{DEFAULT_NAMESPACE, SourceObject};

impl ScriptAuthor {
    /// Lets a pod of a job fail, leave or finish.
    /// Returns false if no job has such a pod. With a `field`, it then also reports a problem.
    pub(super) fn change_job_pod(
        &mut self,
        at: Time,
        (namespace, name): (Option<&str>, &str),
        change: PodChange,
        source: &SourceObject,
        field: Option<&str>,
    ) -> bool {
        let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE);
        let mut found = self.group_pods.iter().filter_map(|(job, groups)| {
            let unit = SurplusUnit::from_pod_name(&job.name, name)
                .filter(|_| *job.namespace == *namespace)?;
            let group = groups.iter().find(|group| group.name == unit.group)?;
            (unit.first < group.pods && self.jobs.contains_key(job)).then_some((job, group, unit))
        });
        if let Some((job, group, unit)) = found.next() {
            let event = ScriptPodEvent {
                job: engine::gang_id(job),
                pod: name.to_owned(),
                group: unit.group,
                index: unit.first,
                slice: group.slice_size.and_then(|size| {
                    let slice = unit.first.checked_div(size)?;
                    let start = slice.saturating_mul(size);
                    Some(start..start.saturating_add(size))
                }),
                rank: group
                    .first_rank
                    .map(|first| first.saturating_add(unit.first)),
                is_elastic: group.is_elastic,
                change,
            };
            self.script.add(at, ScriptChange::JobPod(event));
            return true;
        }
        if let Some(field) = field {
            let key = Key::new(namespace, name);
            let message = format!(
                "\"{key}\" is not a pod of a TrainingJob that exists at that time: write it as in llm-worker-0"
            );
            self.problems.push(source.problem(field, message));
        }
        false
    }
}
