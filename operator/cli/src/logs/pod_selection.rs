//! Selects the pods whose logs are shown. Pure.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use trellis_api::TrainingJob;
use trellis_api::pod_template::MAIN_CONTAINER;
use trellis_reads::pods::{PodLine, StageRanks, group_stage};

use super::no_log::{self, NoLog};

/// Criteria of the user.
#[derive(Clone, Debug, Default)]
pub struct LogTarget {
    /// The pod with this rank.
    pub rank: Option<u32>,
    /// Pods of this group.
    pub group: Option<String>,
    /// The pod with this index.
    pub index: Option<u32>,
    /// All pods that match.
    pub all: bool,
    /// Pods or containers of the previous run.
    pub previous: bool,
    /// The name of the container. None: the group's own container.
    pub container: Option<String>,
}

/// A selected pod.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedPod {
    /// The pod.
    pub pod: PodLine,
    /// Its uid.
    pub uid: String,
    /// The container.
    pub container: String,
    /// True if the container has started, and so has a log.
    pub has_started: bool,
    /// True to show the container instance before the last restart.
    pub before_restart: bool,
}

/// Returns the selected pods, in the order of their ranks.
///
/// # Errors
/// If no pod matches; the error has the reason.
pub fn select_pods<'a>(
    job: &TrainingJob,
    pods: impl IntoIterator<Item = &'a Pod>,
    target: &LogTarget,
) -> Result<Vec<SelectedPod>, NoLog> {
    let at = SelectedStage::from_target(job, target)?;
    let all: Vec<_> = pods
        .into_iter()
        .filter_map(|pod| Some((pod, PodLine::from_pod(pod)?)))
        .filter(|(_, line)| is_in_stage(job, line, at.number))
        .collect();
    let current = match at.is_current {
        true => job
            .status
            .as_ref()
            .and_then(|status| status.attempt)
            .unwrap_or(1),
        // Pods of a complete stage belong to the attempt that completed it.
        false => all.iter().map(|(_, line)| line.attempt).max().unwrap_or(1),
    };
    let select_attempt = |attempt: i64| -> Vec<SelectedPod> {
        let matching = all.iter().filter(|(_, line)| line.attempt == attempt);
        let matching =
            matching.filter(|(pod, line)| at.matches(line, target) && has_container(pod, target));
        let mut selected: Vec<_> = matching
            .map(|(pod, line)| to_selected(pod, line, target))
            .collect();
        selected.sort_by_key(|chosen| (chosen.pod.rank, chosen.pod.name.clone()));
        at.pick_for_rank(selected, target)
    };
    let found = match target.previous {
        false => select_attempt(current),
        true => {
            let restarted: Vec<_> = select_attempt(current)
                .into_iter()
                .filter(|chosen| chosen.before_restart)
                .collect();
            let attempts = all.iter().map(|(_, line)| line.attempt);
            let before = attempts.filter(|attempt| *attempt < current).max();
            match before {
                Some(before) if restarted.is_empty() => select_attempt(before)
                    .into_iter()
                    .map(|chosen| SelectedPod {
                        before_restart: false,
                        ..chosen
                    })
                    .collect(),
                _ => restarted,
            }
        }
    };
    if !found.is_empty() {
        return Ok(found);
    }
    let lacks =
        |(pod, line): &&(&Pod, PodLine)| at.matches(line, target) && !has_container(pod, target);
    if let Some((pod, line)) = all.iter().find(lacks) {
        let container = container_name(target);
        let reason =
            no_log::explain_missing_container(&line.name, container, &container_names(pod));
        // Another pod of the job may have the container.
        return Err(match target.all {
            true => NoLog::Unavailable(reason),
            false => NoLog::Impossible(reason),
        });
    }
    let lines: Vec<_> = all.into_iter().map(|(_, line)| line).collect();
    Err(NoLog::Unavailable(match target.previous {
        true => no_log::explain_missing_previous(job),
        false => no_log::explain_missing_pod(job, &lines, &at.ranks, at.pod.as_ref()),
    }))
}

/// The selected stage, and the pods in it.
struct SelectedStage {
    number: u32,
    is_current: bool,
    ranks: StageRanks,
    /// The one selected pod, by group and index. None: all pods.
    pod: Option<(String, u32)>,
}

impl SelectedStage {
    fn from_target(job: &TrainingJob, target: &LogTarget) -> Result<Self, NoLog> {
        let current = job
            .status
            .as_ref()
            .map_or(1, |status| status.stage_number());
        let number = match &target.group {
            None => current,
            Some(group) => group_stage(&job.spec, group)
                .ok_or_else(|| NoLog::Impossible(no_log::explain_missing_group(job, group)))?,
        };
        if number > current {
            return Err(NoLog::Unavailable(no_log::explain_later_stage(
                job, number, current,
            )));
        }
        let ranks = StageRanks::for_stage(&job.spec, number);
        let pod = match (target.all, target.rank) {
            (true, _) => None,
            (false, Some(rank)) => {
                let at = ranks
                    .pod_at(rank)
                    .map(|(group, index)| (group.to_owned(), index));
                Some(at.ok_or_else(|| {
                    NoLog::Impossible(no_log::explain_missing_rank(job, rank, &ranks))
                })?)
            }
            (false, None) => {
                let group = target
                    .group
                    .as_deref()
                    .or(ranks.leader_group())
                    .unwrap_or_default();
                Some((group.to_owned(), target.index.unwrap_or(0)))
            }
        };
        if let Some((group, index)) = &pod
            && job
                .spec
                .group(group)
                .is_some_and(|group| *index >= group.replicas())
        {
            return Err(NoLog::Impossible(no_log::explain_missing_index(
                job, group, *index,
            )));
        }
        Ok(Self {
            number,
            is_current: number == current,
            ranks,
            pod,
        })
    }

    fn matches(&self, line: &PodLine, target: &LogTarget) -> bool {
        match (&self.pod, target.rank) {
            (None, _) => target
                .group
                .as_ref()
                .is_none_or(|group| *group == line.group),
            // The rank in the pod's own environment wins over the rank by the spec.
            (Some((group, index)), Some(rank)) => match line.rank {
                Some(own) => own == rank,
                None => *group == line.group && *index == line.index,
            },
            (Some((group, index)), None) => *group == line.group && *index == line.index,
        }
    }

    /// Picks one of several pods with the same rank.
    /// An elastic job has such pods while it changes its size. The pod that has the rank by the
    /// current spec wins.
    fn pick_for_rank(&self, found: Vec<SelectedPod>, target: &LogTarget) -> Vec<SelectedPod> {
        let Some((group, index)) = self.pod.as_ref().filter(|_| target.rank.is_some()) else {
            return found;
        };
        let by_spec =
            |chosen: &&SelectedPod| chosen.pod.group == *group && chosen.pod.index == *index;
        match found.iter().find(by_spec).or(found.first()) {
            Some(one) => vec![one.clone()],
            None => found,
        }
    }
}

fn is_in_stage(job: &TrainingJob, line: &PodLine, stage: u32) -> bool {
    group_stage(&job.spec, &line.group).is_none_or(|own| own == stage)
}

/// Returns the name of the selected container.
pub fn container_name(target: &LogTarget) -> &str {
    target.container.as_deref().unwrap_or(MAIN_CONTAINER)
}

/// Returns the container names of a pod.
/// Main containers come before init and ephemeral containers.
fn container_names(pod: &Pod) -> Vec<&str> {
    let spec = pod.spec.as_ref();
    let main = spec.map(|spec| spec.containers.as_slice());
    let inits = spec.and_then(|spec| spec.init_containers.as_deref());
    let all = main.into_iter().chain(inits).flatten();
    let all = all.map(|container| container.name.as_str());
    let attached = spec.and_then(|spec| spec.ephemeral_containers.as_deref());
    let attached = attached.into_iter().flatten();
    all.chain(attached.map(|container| container.name.as_str()))
        .collect()
}

fn has_container(pod: &Pod, target: &LogTarget) -> bool {
    container_names(pod).contains(&container_name(target))
}

/// Returns the status of a container of a pod.
fn container_status<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let inits = status.init_container_statuses.as_ref();
    let main = status.container_statuses.as_ref();
    let attached = status.ephemeral_container_statuses.as_ref();
    let mut all = inits.into_iter().chain(main).chain(attached).flatten();
    all.find(|status| status.name == container)
}

/// Returns true if the container or its pod has stopped.
pub fn has_stopped(pod: &Pod, container: &str) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let state = container_status(pod, container).and_then(|own| own.state.as_ref());
    matches!(phase, Some("Succeeded" | "Failed"))
        || state.is_some_and(|state| state.terminated.is_some())
}

fn to_selected(pod: &Pod, line: &PodLine, target: &LogTarget) -> SelectedPod {
    let container = container_name(target);
    let own = container_status(pod, container);
    let state = own.and_then(|own| own.state.as_ref());
    SelectedPod {
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        container: container.to_owned(),
        has_started: own.is_some_and(|own| own.restart_count > 0)
            || state.is_some_and(|state| state.running.is_some() || state.terminated.is_some()),
        before_restart: target.previous && own.is_some_and(|own| own.restart_count > 0),
        pod: line.clone(),
    }
}
