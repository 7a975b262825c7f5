//! Renders the plan for people.

use std::collections::BTreeSet;

use trellis_api::TrainingJobSpec;
use trellis_api::job::LevelPlacement;
use trellis_api::resolved_job::AmountSource;
use trellis_api::topology::{Closeness, SlicePolicy};
use trellis_compiler::{CompiledGroup, CompiledJob};
use trellis_scheduler::{Placement, Victim};

use super::node_runs;
use super::planned_job::PlannedJob;

/// Renders every job with its objects.
/// Each job has its placement, or the reason why it has none.
pub(super) fn render_plan(planned: &[PlannedJob]) -> String {
    let mut out = String::new();
    for (i, job) in planned.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        render_job(job, &mut out);
    }
    if planned.len() > 1 {
        let run = planned.iter().filter(|p| p.would_run()).count();
        let ended = planned.iter().filter(|p| p.has_ended).count();
        let refused = planned.iter().filter(|p| p.is_refused()).count();
        let counts = [run, ended, refused];
        let wait = counts
            .iter()
            .fold(planned.len(), |n, o| n.saturating_sub(*o));
        let count_text = |count: usize, words: &str| match count {
            0 => String::new(),
            count => format!(", {count} {words}"),
        };
        out.push_str(&format!(
            "\n{} jobs: {run} would run, {wait} would wait{}{}\n",
            planned.len(),
            count_text(refused, "would be Refused"),
            count_text(ended, "would not run"),
        ));
    }
    out
}

/// Describes in one line why a job would wait or be Refused.
/// None: it would run.
pub(super) fn describe_reason(job: &PlannedJob) -> Option<String> {
    let hold = job.place.as_ref().err()?;
    Some(format!(
        "TrainingJob {} {}: {}: {}",
        job.key,
        job.verdict(),
        hold.reason,
        hold.message
    ))
}

/// Describes the jobs ahead that may keep a runnable job waiting.
/// None: no such job is known.
pub(super) fn describe_jobs_ahead(job: &PlannedJob) -> Option<String> {
    let compiled = job.compiled.as_ref().filter(|_| job.would_run())?;
    let queue = compiled.queue();
    match job.jobs_ahead {
        0 => None,
        1 => Some(format!(
            "1 pending job before it in queue {queue:?} is not in the plan: it may have to wait for that job"
        )),
        many => Some(format!(
            "{many} pending jobs before it in queue {queue:?} are not in the plan: it may have to wait for those jobs"
        )),
    }
}

/// Describes the Secrets that the job waits for before it is placed.
/// A plan does not read them.
fn describe_secret_wait(job: &PlannedJob) -> Option<String> {
    let compiled = job.compiled.as_ref().filter(|_| job.would_run())?;
    let any = !compiled.external_secrets().is_empty();
    any.then(|| {
        "it waits until its ExternalSecrets are ready, which a plan does not check".to_owned()
    })
}

fn render_job(job: &PlannedJob, out: &mut String) {
    out.push_str(&format!("TrainingJob {} {}\n", job.key, job.verdict()));
    for PlanRow { name, lines } in describe_job(job) {
        for (at, line) in lines.iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            out.push_str(&format!("  {name:<9}{line}\n"));
        }
    }
}

/// Lines about one subject, at least one.
pub(super) struct PlanRow {
    /// The subject in one word.
    pub(super) name: &'static str,
    pub(super) lines: Vec<String>,
}

/// Describes the job and its placement, or the reason why it has none.
pub(super) fn describe_job(job: &PlannedJob) -> Vec<PlanRow> {
    let mut rows: Vec<(&'static str, Vec<String>)> = Vec::new();
    if let Some(compiled) = &job.compiled {
        let turn = format!("{}, priority {}", compiled.queue(), compiled.priority());
        let defaults = compiled.groups().iter().filter_map(describe_defaults);
        let later = job.later_groups.iter();
        let later = later.map(|(stage, group)| format!("stage {stage}: task group {group:?}"));
        rows.extend([
            ("queue", vec![turn]),
            ("objects", describe_objects(compiled)),
            ("defaults", defaults.collect()),
            ("slices", describe_slices(compiled.job().spec())),
            ("then", later.collect()),
        ]);
    }
    match &job.place {
        Ok(place) => {
            let notes = describe_jobs_ahead(job)
                .into_iter()
                .chain(describe_secret_wait(job));
            rows.extend([
                ("nodes", describe_places(&place.placement)),
                (
                    "topology",
                    describe_levels(&job.levels).into_iter().collect(),
                ),
                ("claims", job.claims.clone()),
                (
                    "preempts",
                    job.victims.iter().map(describe_victim).collect(),
                ),
                ("note", notes.collect()),
            ]);
        }
        Err(held) => rows.push(("reason", vec![format!("{}: {}", held.reason, held.message)])),
    }
    let rows = rows.into_iter().filter(|(_, lines)| !lines.is_empty());
    rows.map(|(name, lines)| PlanRow { name, lines }).collect()
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

/// Describes how the ranks follow the topology, by level. None: there is no topology to follow.
fn describe_levels(levels: &[LevelPlacement]) -> Option<String> {
    let level_text = |placed: &LevelPlacement| {
        let (level, crossings, least) = (&placed.level, placed.crossings, placed.least_crossings);
        match placed.domains {
            1 => format!("{level}: 1 domain"),
            many if crossings > least => {
                format!("{level}: {many} domains, {crossings} ring crossings (at least {least})")
            }
            many => format!("{level}: {many} domains, {crossings} ring crossings"),
        }
    };
    let texts: Vec<String> = levels.iter().map(level_text).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn describe_victim(victim: &Victim) -> String {
    format!(
        "{}: {} (work lost: {} device-seconds)",
        victim.gang, victim.reason, victim.lost_device_seconds
    )
}

fn describe_places(placement: &Placement) -> Vec<String> {
    let groups = placement.groups().iter();
    let mut lines: Vec<String> = groups
        .map(|g| format!("{}: {}", g.group, node_runs::format_runs(&g.runs)))
        .collect();
    let nodes: BTreeSet<_> = placement.iter().map(|(_, _, node)| node).collect();
    let pods = placement.iter().count();
    if pods > 1 {
        let plural = if nodes.len() == 1 { "" } else { "s" };
        lines.push(format!("{pods} pods on {} node{plural}", nodes.len()));
    }
    lines
}
