//! Describes the outcome of a job in the form of the API.

use std::collections::BTreeSet;

use trellis_api::TrainingJobSpec;
use trellis_api::resolved_job::AmountSource;
use trellis_api::topology::{Closeness, SlicePolicy};
use trellis_api::visibility::{PlannedJob as Description, PlannedTaskGroup, PodsOnNode, Preempted};
use trellis_compiler::{CompiledGroup, CompiledJob};
use trellis_gang::engine;
use trellis_gang::external::job_ref;
use trellis_scheduler::{Placement, Victim};

use super::PlannedJob;

/// Describes the job and its placement, or the reason why it has none.
#[must_use]
pub fn describe(job: &PlannedJob) -> Description {
    let compiled = job.compiled.as_ref();
    let place = job.place.as_ref().ok().map(|place| &place.placement);
    let hold = job.place.as_ref().err();
    let later = job.later_groups.iter();
    let later = later.map(|(stage, group)| format!("stage {stage}: task group {group:?}"));
    let runs = compiled.filter(|_| place.is_some());
    let notes = job.notes.iter().cloned();
    Description {
        job: job_ref(&job.key),
        verdict: job.verdict(),
        reason: hold.map(|hold| hold.reason),
        message: hold.map(|hold| hold.message.clone()),
        queue: compiled.map(|job| job.queue().to_owned()),
        priority: compiled.map(CompiledJob::priority),
        objects: compiled.map(describe_objects).unwrap_or_default(),
        defaults: compiled
            .map(|job| job.groups().iter().filter_map(describe_defaults).collect())
            .unwrap_or_default(),
        slices: compiled
            .map(|job| describe_slices(job.job().spec()))
            .unwrap_or_default(),
        later_stages: compiled.map(|_| later.collect()).unwrap_or_default(),
        task_groups: place.map(task_groups).unwrap_or_default(),
        nodes: place.map(count_nodes),
        topology: job.levels.clone(),
        claims: job.claims.clone(),
        preempts: job.victims.iter().map(preempted).collect(),
        preempts_others: Vec::new(),
        notes: notes.chain(runs.and_then(secret_note)).collect(),
        explanation: None,
        smaller_shapes: Vec::new(),
    }
}

/// Returns a victim in the form of the API.
#[must_use]
pub fn preempted(victim: &Victim) -> Preempted {
    let (job, member) = engine::parse_gang_id(&victim.gang);
    Preempted {
        pod: member.map(|m| trellis_api::names::pod_name(&job.name, &m.group, m.first)),
        job: job_ref(&job),
        because: Some(victim.reason.to_string()),
        lost_device_seconds: Some(victim.lost_device_seconds),
    }
}

fn task_groups(placement: &Placement) -> Vec<PlannedTaskGroup> {
    let groups = placement.groups().iter();
    let group = groups.map(|group| {
        let runs = group.runs.iter();
        let pods = runs.clone().map(|(_, pods)| i64::from(*pods));
        PlannedTaskGroup {
            name: group.group.to_string(),
            pods: pods.fold(0, i64::saturating_add),
            nodes: runs
                .map(|(node, pods)| PodsOnNode {
                    node: node.to_string(),
                    pods: *pods,
                })
                .collect(),
        }
    });
    group.collect()
}

fn count_nodes(placement: &Placement) -> i64 {
    let nodes: BTreeSet<_> = placement.iter().map(|(_, _, node)| node).collect();
    i64::try_from(nodes.len()).unwrap_or(i64::MAX)
}

/// Returns a note about the Secrets that the job waits for before it is placed. A plan does not read
/// them.
fn secret_note(job: &CompiledJob) -> Option<String> {
    let any = !job.external_secrets().is_empty();
    any.then(|| {
        "it waits until its ExternalSecrets are ready, which a plan does not check".to_owned()
    })
}

fn describe_objects(job: &CompiledJob) -> Vec<String> {
    let name = job.job().name();
    let services = job.services().into_iter();
    let services = services.filter_map(|service| service.metadata.name);
    let mut lines: Vec<_> = services.map(|name| format!("Service {name}")).collect();
    lines.push(format!("NetworkPolicy {name}"));
    lines.extend(
        job.config_maps()
            .iter()
            .filter_map(|c| c.metadata.name.as_ref())
            .map(|name| format!("ConfigMap {name}")),
    );
    lines.extend(job.key_secret_name().map(|name| format!("Secret {name}")));
    lines.extend(
        job.external_secrets()
            .iter()
            .filter_map(|secret| secret.metadata.name.as_ref())
            .map(|name| format!("ExternalSecret {name}")),
    );
    lines.push(format!("PodGroup {name}"));
    lines.extend(job.groups().iter().map(describe_pods));
    lines
}

fn describe_pods(group: &CompiledGroup) -> String {
    let first = group.pod_name(0);
    let pods = match group.replicas() {
        1 => format!("Pod {first}"),
        // status.compiled has the same format.
        many => format!("Pods {first}..{} ({many})", many.saturating_sub(1)),
    };
    match group.gang_size() {
        all if all == group.replicas() => pods,
        0 => format!("{pods}, outside the gang: while capacity is free"),
        least => format!("{pods}: {least} in the gang, the rest while capacity is free"),
    }
}

/// Describes the slices of a job and of its task groups, one line for each layer.
fn describe_slices(spec: &TrainingJobSpec) -> Vec<String> {
    let world: Vec<&str> = spec.world_groups().map(|g| g.name.as_str()).collect();
    let of_job = spec.topology.as_ref();
    let of_job = of_job.map(|closeness| (world.join("+"), closeness, spec.world_size()));
    let of_groups = spec.task_groups.iter().filter_map(|group| {
        let closeness = group.topology.as_ref()?;
        Some((group.name.clone(), closeness, group.replicas()))
    });
    let lines = of_job.into_iter().chain(of_groups);
    lines
        .flat_map(|(name, closeness, all)| describe_layers(&name, closeness, all))
        .collect()
}

fn describe_layers(name: &str, closeness: &Closeness, all: u32) -> Vec<String> {
    let policy = match closeness.slice_policy {
        Some(SlicePolicy::Preferred) => " if there is room",
        Some(SlicePolicy::Required) | None => "",
    };
    let layers = closeness.slices.iter().zip(closeness.slice_sizes(all));
    let lines = layers.map(|(layer, pods)| {
        let level = &layer.level;
        let slices = all.checked_div(pods).unwrap_or(0);
        let plural = if slices == 1 { "" } else { "s" };
        format!(
            "{name}: {slices} slice{plural} of {pods} pods, each in one domain of level {level:?}{policy}"
        )
    });
    lines.collect()
}

/// Describes the amounts of a task group's pods that other objects set.
/// None: the task group itself sets both amounts.
fn describe_defaults(group: &CompiledGroup) -> Option<String> {
    let compute = group.compute();
    let amounts = [("cpu", &compute.cpu), ("memory", &compute.memory)];
    let stated = amounts
        .iter()
        .filter(|(_, amount)| amount.source != AmountSource::Group)
        .map(|(name, amount)| format!("{name} {} by {}", amount.quantity, amount.source));
    let stated: Vec<String> = stated.collect();
    (!stated.is_empty()).then(|| format!("{}: {}", group.name(), stated.join(", ")))
}
