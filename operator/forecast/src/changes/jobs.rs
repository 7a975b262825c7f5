//! Changes of jobs.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use trellis_api::rules::{self, MAX_GROUPS, MAX_PODS};
use trellis_api::visibility::{AddedJob, AddedTaskGroup, ChangedJob, GangName, JobRef};
use trellis_gang::key::Key;
use trellis_gang::{engine, external};
use trellis_scheduler::{Gang, GangId, GroupName, QueueName, ResourceName, Resources, TaskGroup};

use super::queues::to_units;
use super::{ChangedCluster, KnownGang, MAX_ADDED_JOBS, count_up};
use crate::InvalidChange;

impl ChangedCluster {
    pub(super) fn add_jobs(&mut self, added: &AddedJob) -> Result<(), InvalidChange> {
        let model = self.model(added)?;
        let count = added.count.unwrap_or(1);
        count_up(&mut self.added_jobs, count, MAX_ADDED_JOBS, "jobs")?;
        for number in 1..=count {
            let name = match added.count {
                None | Some(1) => added.name.clone(),
                Some(_) => format!("{}-{number}", added.name),
            };
            check_name("name", rules::job_name(&name), &name)?;
            let id = engine::gang_id(&Key::new(&added.namespace, &name));
            if self.gangs.contains_key(&id) {
                let message = format!("job {} exists: choose another name", id.as_str());
                return Err(InvalidChange::new("name", message));
            }
            let gang = Gang {
                groups: rename_pods(&model.groups, &name),
                id,
                ..model.clone()
            };
            self.engine.apply_gang(gang.clone());
            self.gangs.insert(
                gang.id.clone(),
                KnownGang {
                    gang,
                    nodes: BTreeSet::new(),
                    since: None,
                    restarts: false,
                },
            );
        }
        Ok(())
    }

    pub(super) fn change_job(&mut self, change: &ChangedJob) -> Result<(), InvalidChange> {
        let job = JobRef {
            namespace: change.namespace.clone(),
            name: change.name.clone(),
        };
        let queue = change.queue.as_deref();
        let queue = queue.map(|name| Ok(self.queue("queue", name)?.name.clone()));
        let now = self.now;
        let known = self.known_gang("name", &job)?;
        let queue = queue.transpose()?;
        let runtime = change.runtime_seconds.map(parse_runtime).transpose()?;
        if known.restarts {
            let message = format!("{job} restarts: ask again when it waits or runs");
            return Err(InvalidChange::new("name", message));
        }
        if let Some(queue) = queue {
            if known.since.is_some() {
                let message =
                    format!("{job} holds its place: only a waiting job changes its queue");
                return Err(InvalidChange::new("queue", message));
            }
            known.gang.queue = queue;
        }
        if let Some(priority) = change.priority {
            known.gang.priority = priority;
        }
        if let Some(runtime) = runtime {
            let has_run = known
                .since
                .map(|since| now.since(since))
                .unwrap_or_default();
            if runtime <= has_run {
                let message = format!("{job} has run for {} s: give more", has_run.as_secs());
                return Err(InvalidChange::new("runtimeSeconds", message));
            }
            set_runtime(&mut known.gang, runtime);
        }
        let gang = known.gang.clone();
        self.engine.apply_gang(gang);
        Ok(())
    }

    pub(super) fn remove_job(&mut self, job: &JobRef) -> Result<(), InvalidChange> {
        let id = self.known_gang("name", job)?.gang.id.clone();
        self.delete_surplus(&engine::job_key(&id));
        self.engine.delete_gang(&id);
        self.gangs.remove(&id);
        Ok(())
    }

    /// Returns a gang with all that the new jobs have in common.
    fn model(&mut self, added: &AddedJob) -> Result<Gang, InvalidChange> {
        let mut gang = match (&added.like, added.groups.as_slice()) {
            (Some(job), []) => self.known_gang("like", job)?.gang.clone(),
            (None, groups @ [_, ..]) => {
                let queue = added.queue.as_deref();
                let queue =
                    queue.ok_or_else(|| InvalidChange::new("queue", "is needed with `groups`"))?;
                check_size(groups)?;
                let groups = groups.iter().enumerate().map(to_task_group);
                let groups = groups.collect::<Result<_, _>>()?;
                Gang::new(GangId::new(""), QueueName::new(queue), groups)
            }
            _ => {
                let message = "give either `like` or `groups`: the shape of the job";
                return Err(InvalidChange::new("like", message));
            }
        };
        if let Some(queue) = &added.queue {
            gang.queue = self.queue("queue", queue)?.name.clone();
        }
        if let Some(seconds) = added.runtime_seconds {
            set_runtime(&mut gang, parse_runtime(seconds)?);
        }
        check_name(
            "namespace",
            rules::namespace(&added.namespace),
            &added.namespace,
        )?;
        Ok(Gang {
            priority: added.priority.unwrap_or(gang.priority),
            submitted: self.now,
            not_before: None,
            preempted: false,
            excluded_nodes: Vec::new(),
            // Limits belong to the requester, and the new jobs have none.
            draws: Vec::new(),
            ..gang
        })
    }

    /// Returns the gang of a job.
    fn known_gang(&mut self, field: &str, job: &JobRef) -> Result<&mut KnownGang, InvalidChange> {
        let key =
            external::gang_key_from_name(&job.namespace, &GangName::from_object_name(&job.name));
        self.gangs.get_mut(&engine::gang_id(&key)).ok_or_else(|| {
            let message = format!("no job {job} waits or runs: `trellis queue -A` lists them");
            InvalidChange::new(field, message)
        })
    }
}

/// Gives the pods of a copied job names of their own.
fn rename_pods(groups: &[TaskGroup], job: &str) -> Vec<TaskGroup> {
    let mut groups = groups.to_vec();
    for group in &mut groups {
        group.pod_prefix = format!("{job}-{}", group.name);
        for part in &mut group.parts {
            part.pod_prefix = format!("{job}-{}", part.name);
        }
    }
    groups
}

/// Checks the size of a job against the limits of a TrainingJob.
fn check_size(groups: &[AddedTaskGroup]) -> Result<(), InvalidChange> {
    let pods = groups.iter().map(|group| u64::from(group.replicas));
    let pods = pods.fold(0_u64, u64::saturating_add);
    let message = match (groups.len() <= MAX_GROUPS, pods <= u64::from(MAX_PODS)) {
        (true, true) => return Ok(()),
        (false, _) => format!(
            "{} groups are too many: a job has at most {MAX_GROUPS}",
            groups.len()
        ),
        (true, false) => format!("{pods} pods are too many: a job has at most {MAX_PODS}"),
    };
    Err(InvalidChange::new("groups", message))
}

fn to_task_group((at, group): (usize, &AddedTaskGroup)) -> Result<TaskGroup, InvalidChange> {
    let invalid =
        |field: &str, why: String| InvalidChange::new(format!("groups[{at}].{field}"), why);
    if group.replicas == 0 {
        return Err(invalid("replicas", "must be at least 1".to_owned()));
    }
    let amounts = group.requests.iter().map(|(name, amount)| {
        let units = to_units(name, amount).map_err(|why| invalid("requests", why))?;
        Ok((ResourceName::new(name.as_str()), units))
    });
    let request: Resources = amounts.collect::<Result<_, InvalidChange>>()?;
    if request.iter().all(|(_, amount)| amount == 0) {
        let message = "must name at least one resource, and more than 0 of it";
        return Err(invalid("requests", message.to_owned()));
    }
    let device = request
        .iter()
        .map(|(name, _)| name)
        .find(|name| name.is_device());
    let name = GroupName::new(format!("group-{at}"));
    Ok(TaskGroup {
        device: device.cloned(),
        ..TaskGroup::new(name, group.replicas, request, String::new())
    })
}

/// Sets how long the run of a gang takes. A shorter prediction would count otherwise.
fn set_runtime(gang: &mut Gang, runtime: Duration) {
    gang.runtime = Some(runtime);
    gang.predicted = None;
}

fn parse_runtime(seconds: i64) -> Result<Duration, InvalidChange> {
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    let seconds =
        seconds.ok_or_else(|| InvalidChange::new("runtimeSeconds", "must be at least 1"))?;
    Ok(Duration::from_secs(seconds))
}

fn check_name<E: Display>(
    field: &str,
    result: Result<(), E>,
    name: &str,
) -> Result<(), InvalidChange> {
    result.map_err(|error| InvalidChange::new(field, format!("{name:?} {error}")))
}
