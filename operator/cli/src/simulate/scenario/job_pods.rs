//! Pods of jobs: surplus pods, and pods that an event names.

use trellis_compiler::{CompiledGroup, CompiledJob};
use trellis_gang::engine;
use trellis_gang::engine::{AttemptState, SurplusPodId};
use trellis_gang::key::Key;
use trellis_scheduler::{LimitDraw, Time};
use trellis_simulate::{PodChange, RequiredLevel, ScriptChange, ScriptPodEvent, ScriptSurplusPod};

use super::script_author::{DEFAULT_NAMESPACE, ScriptAuthor};
use crate::source_object::SourceObject;

/// The part of a task group that is needed to name its pods.
#[derive(Clone, Debug)]
pub(super) struct GroupPods {
    name: String,
    pods: u32,
    is_elastic: bool,
    /// Rank of the first pod. None: its pods have no ranks.
    first_rank: Option<u32>,
}

impl GroupPods {
    /// Returns the task groups of a job.
    pub(super) fn from_job(job: &CompiledJob) -> Vec<Self> {
        let groups = job.groups().iter().map(|group| {
            let written = job.job().spec().group(group.name());
            Self {
                name: group.name().to_owned(),
                pods: group.replicas(),
                is_elastic: is_elastic(job, group),
                first_rank: written
                    .is_some_and(trellis_api::job::TaskGroup::is_in_world)
                    .then(|| group.first_rank()),
            }
        });
        groups.collect()
    }
}

fn is_elastic(job: &CompiledJob, group: &CompiledGroup) -> bool {
    let written = job.job().spec().group(group.name());
    group.gang_size() < group.replicas()
        && written.is_some_and(trellis_api::job::TaskGroup::is_in_gang)
}

/// Returns the surplus pods of a job, by group and index.
pub(super) fn surplus_pods(
    job: &CompiledJob,
    ticket: &AttemptState,
    draws: &[LimitDraw],
) -> Vec<ScriptSurplusPod> {
    let spec = job.job().spec();
    let mut pods = Vec::new();
    for group in job.groups() {
        let level = spec.required_level(group.name());
        let level = level.map(|(name, is_of_group)| RequiredLevel {
            name: name.to_owned(),
            is_of_group,
        });
        for index in group.gang_size()..group.replicas() {
            let member = SurplusPodId {
                group: group.name().to_owned(),
                index,
            };
            let (actual, plan) = Default::default();
            let Some(mut gang) =
                engine::gang_from_surplus_pod(job, ticket, &actual, &plan, &member)
            else {
                continue;
            };
            gang.draws = draws.to_vec();
            pods.push((
                member,
                ScriptSurplusPod {
                    gang,
                    is_elastic: is_elastic(job, group),
                    level: level.clone(),
                },
            ));
        }
    }
    // The operator uses the same order.
    pods.sort_by(|(a, _), (b, _)| a.cmp(b));
    pods.into_iter().map(|(_, pod)| pod).collect()
}

impl ScriptAuthor {
    /// Lets a pod of a job fail, leave or finish.
    /// Returns false if no job has such a pod. With a `field`, it then also reports a problem.
    pub(super) fn change_job_pod(
        &mut self,
        at: Time,
        (namespace, name): (Option<&str>, &str),
        what: PodChange,
        source: &SourceObject,
        field: Option<&str>,
    ) -> bool {
        let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE);
        let mut found = self.group_pods.iter().filter_map(|(job, groups)| {
            let member = SurplusPodId::from_pod_name(&job.name, name)
                .filter(|_| *job.namespace == *namespace)?;
            let group = groups.iter().find(|group| group.name == member.group)?;
            (member.index < group.pods && self.jobs.contains_key(job))
                .then_some((job, group, member))
        });
        if let Some((job, group, member)) = found.next() {
            let event = ScriptPodEvent {
                job: engine::gang_id(job),
                pod: name.to_owned(),
                group: member.group,
                index: member.index,
                rank: group
                    .first_rank
                    .map(|first| first.saturating_add(member.index)),
                is_elastic: group.is_elastic,
                change: what,
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
