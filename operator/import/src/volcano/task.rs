//! Tasks of a Job, as task groups.

use serde_json::{Value, json};
use trellis_api::job::{Dependency, Membership, Role, TaskGroup};

use super::partition;
use super::plugins::{VolcanoPlugins, hosts_variable};
use crate::draft::JobDraft;
use crate::fields::Fields;
use crate::pod::{self, GroupDraft, PodHints};

/// Greatest number of task groups of a job (docs/api.md).
const MAX_GROUPS: usize = 16;
/// Greatest length of a variable's value, in characters (`env[].value`, docs/api.md).
const MAX_VARIABLE_LENGTH: usize = 32_768;

/// Returns the name of a task. For a task without a name, Volcano's webhook sets `default` and its
/// index.
fn task_name(task: &Fields<'_>, at: usize) -> String {
    let name = task.value().get("name").and_then(Value::as_str);
    let name = name.filter(|name| !name.is_empty());
    name.map_or_else(|| format!("default{at}"), str::to_owned)
}

/// Leaves out tasks without pods, which Volcano accepts.
pub(super) fn with_pods<'a>(tasks: Vec<Fields<'a>>) -> Vec<Fields<'a>> {
    let mut tasks = tasks;
    tasks.retain(|task| {
        let has_pods = read_replicas(task) != 0;
        if !has_pods {
            task.note("has no pods, so it becomes no task group", "leave it out");
        }
        has_pods
    });
    tasks
}

/// Returns the names of all tasks.
pub(super) fn task_names(tasks: &[Fields<'_>]) -> Vec<String> {
    let tasks = tasks.iter().enumerate();
    tasks.map(|(at, task)| task_name(task, at)).collect()
}

/// Returns the number of pods of a task; the default is one.
fn read_replicas(task: &Fields<'_>) -> i64 {
    let replicas = task.value().get("replicas").and_then(Value::as_i64);
    replicas.unwrap_or(1)
}

/// Returns the host variables of the svc plugin. The pods have the same names in Trellis.
pub(super) fn host_variables(tasks: &[Fields<'_>], job: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    // A job has at most this many groups.
    for (at, task) in tasks.iter().enumerate().take(MAX_GROUPS) {
        let (name, count) = (task_name(task, at), read_replicas(task));
        let host = |index| format!("{job}-{name}-{index}.{job}");
        let hosts: Vec<String> = (0..count.clamp(0, 4096)).map(host).collect();
        let variable = hosts_variable(&name);
        found.push((variable.replace("_HOSTS", "_NUM"), count.to_string()));
        let hosts = hosts.join(",");
        if hosts.len() <= MAX_VARIABLE_LENGTH {
            found.push((variable, hosts));
        }
    }
    found
}

/// Reads a task.
pub(super) fn read_task(
    task: &Fields<'_>,
    at: usize,
    plugins: &VolcanoPlugins,
    hints: &PodHints<'_>,
) -> Option<GroupDraft> {
    task.ignore(&["name"]);
    let mut pods = pod::read_template(task, "template", hints)?;
    let group = &mut pods.group;
    group.name = task_name(task, at);
    group.replicas = task.integer("replicas").filter(|count| *count != 1);
    group.role = plugins.role(&group.name);
    if let Some(policy) = &pods.restart_policy
        && policy.value != "Never"
    {
        let value = json!(policy.value);
        task.log().note(
            &policy.path,
            Some(&value),
            "lets the kubelet restart a container by itself, and in Trellis the kubelet never does",
            "use spec.restart to choose what a failure restarts",
        );
    }
    // The workers of an MPI job in Volcano only run sshd, which the framework MPI also starts.
    let is_host = plugins.mpi_workers.as_deref() == Some(group.name.as_str());
    let words = group.command.iter().chain(&group.args);
    if is_host && words.into_iter().any(|word| word.contains("sshd")) {
        for (key, words) in [("command", &mut group.command), ("args", &mut group.args)] {
            let words = std::mem::take(words);
            if !words.is_empty() {
                task.log().note(
                    &format!("{}.{key}", pods.main),
                    Some(&json!(words)),
                    "starts sshd, which framework MPI does by itself",
                    "keep the rest of the command, and end it with exec /etc/trellis/hosts/sshd",
                );
            }
        }
    }
    task.ignore_if("topologyPolicy", &json!("none"));
    task.note_at(
        "topologyPolicy",
        "is about NUMA nodes, which Trellis ignores",
        "set the topology manager policy of the kubelets",
    );
    task.ignore_if("maxRetry", &json!(3));
    task.note_at(
        "maxRetry",
        "counts the failures of one task, and Trellis counts them for the job",
        "set spec.restart.limit",
    );
    Some(pods)
}

/// Sets the size of the gang.
pub(super) fn read_gang_size(spec: &Fields<'_>, tasks: &[Fields<'_>], draft: &mut JobDraft) {
    let elastic = super::can_be_elastic(draft.spec.framework);
    let mut minimum = 0_i64;
    for (task, pods) in tasks.iter().zip(&mut draft.pods) {
        let replicas = i64::from(pods.group.replicas());
        let count = read_minimum(task).map_or(replicas, |(min, count)| {
            if count != replicas {
                set_minimum(&min, count, elastic, pods);
            }
            count
        });
        minimum = minimum.saturating_add(count);
    }
    let all = draft.pods.iter().map(|p| i64::from(p.group.replicas()));
    let all: i64 = all.fold(0, i64::saturating_add);
    let Some(count) = spec.integer("minAvailable") else {
        return;
    };
    match draft.pods.as_mut_slice() {
        // Go writes 0 for an unset number.
        _ if count == minimum || count == 0 => {}
        pods if count == all => {
            // The minimums of the tasks are smaller, and the job's minimum applies too.
            pods.iter_mut()
                .for_each(|pods| pods.group.min_replicas = None);
        }
        // The minimums of the job and of the task both apply, so the greater one counts.
        [pods] if elastic && count > 0 && count < all && pods.group.is_in_gang() => {
            pods.group.min_replicas = pods.group.min_replicas.max(Some(count));
            pods.origins
                .push(("minReplicas", spec.field_path("minAvailable")));
        }
        _ => spec.note_at(
            "minAvailable",
            &format!(
                "does not state which of the {all} pods may be missing, so all of them are in the gang"
            ),
            "set minReplicas on a task group that can run with fewer pods (docs/elastic.md)",
        ),
    }
}

/// Returns the field with the smallest number of pods of a task, and that number. None: all pods
/// must run.
fn read_minimum<'a>(task: &Fields<'a>) -> Option<(Fields<'a>, i64)> {
    let of_partitions = partition::read_minimum(task);
    let Some(own) = task.integer("minAvailable") else {
        return of_partitions;
    };
    if let Some((min, count)) = of_partitions.filter(|(_, count)| *count != own) {
        let message = format!(
            "gives {count} pods with partitionSize, and minAvailable is {own}, but Volcano requires the same number: correct one of them"
        );
        task.log().add_problem(min.path(), message);
    }
    Some((task.get("minAvailable")?, own))
}

fn set_minimum(min: &Fields<'_>, count: i64, elastic: bool, pods: &mut GroupDraft) {
    let group = &mut pods.group;
    let framework_needs_all = "is less than replicas, and this framework starts with a fixed number of pods, so all are in the gang";
    if !elastic {
        min.note(
            framework_needs_all,
            "lower replicas to the number that the job can run with",
        );
    } else if count > 0 {
        group.min_replicas = Some(count);
        pods.origins.push(("minReplicas", min.path().to_owned()));
    } else if group.role.is_some_and(|role| role != Role::Evaluator) {
        min.note(
            "is 0, and without this group there is no rank 0",
            "leave it out",
        );
    } else {
        group.membership = Some(Membership::BestEffort);
        min.note(
            "lets the job run without the task: the group gets membership: BestEffort, so it is outside the world size and the job does not wait for it",
            "leave out membership: BestEffort if its pods train with the other groups",
        );
    }
}

/// Reads the dependencies of tasks, and sorts the groups by them.
pub(super) fn read_order(tasks: &[Fields<'_>], draft: &mut JobDraft) {
    for (task, pods) in tasks.iter().zip(&mut draft.pods) {
        let Some(dependency) = task.object("dependsOn") else {
            continue;
        };
        let names = dependency.texts("name");
        let iteration = dependency.one_of("iteration", &["any", "all"]);
        if names.len() > 1 && iteration.as_deref() == Some("any") {
            dependency.note_at(
                "iteration",
                "starts the task when one of the named tasks is ready, and in Trellis it waits for all",
                "remove the tasks from dependsOn that it need not wait for",
            );
        }
        let to_dependency = |group| Dependency {
            group,
            status: None,
        };
        pods.group.depends_on = names.into_iter().map(to_dependency).collect();
    }
    let before: Vec<String> = draft.pods.iter().map(|p| p.group.name.clone()).collect();
    sort_by_dependencies(&mut draft.pods);
    let after: Vec<String> = draft.pods.iter().map(|p| p.group.name.clone()).collect();
    if before != after
        && let Some(task) = tasks.first()
    {
        let log = task.log();
        log.mark_opened("spec.tasks");
        let reason = format!(
            "puts the task groups in another order, {}, because in Trellis a group comes after its dependencies",
            after.join(", ")
        );
        let instead =
            "ranks follow that order: give a group the role Coordinator if it must have rank 0";
        let at = tasks
            .iter()
            .map(|task| task.field_path("dependsOn"))
            .find(|p| log.is_opened(p));
        let path = at.unwrap_or_else(|| "spec.tasks".to_owned());
        log.note(&path, None, reason, instead);
    }
}

/// Sorts groups after their dependencies. Groups in a cycle keep their order, and the validation
/// reports the cycle.
fn sort_by_dependencies(pods: &mut Vec<GroupDraft>) {
    let mut waiting = std::mem::take(pods);
    while !waiting.is_empty() {
        let names: Vec<String> = waiting.iter().map(|p| p.group.name.clone()).collect();
        let free = waiting.iter().position(|pods| {
            let mut on = pods.group.depends_on.iter();
            !on.any(|d| d.group != pods.group.name && names.contains(&d.group))
        });
        let Some(next) = free else { break };
        pods.push(waiting.remove(next));
    }
    pods.append(&mut waiting);
}

/// Returns true if the group contains rank 0.
pub(super) fn has_rank_0(group: &TaskGroup, all: &[GroupDraft]) -> bool {
    let has_leader = all.iter().any(|pods| pods.group.role().has_rank_0());
    let first = all.iter().find(|pods| pods.group.is_in_world());
    group.role().has_rank_0()
        || (!has_leader && first.is_some_and(|first| first.group.name == group.name))
}
