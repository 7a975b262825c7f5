//! The pods of a job's task groups.

use std::collections::BTreeSet;

use trellis_compiler::{CompiledGroup, CompiledJob};
use trellis_gang::engine;
use trellis_gang::engine::{AttemptState, SurplusUnit};
use trellis_scheduler::LimitDraw;
use trellis_simulate::{RequiredLevel, ScriptSurplusUnit};

/// The part of a task group that is needed to name its pods.
#[derive(Clone, Debug)]
pub(super) struct GroupPods {
    pub(super) name: String,
    pub(super) pods: u32,
    pub(super) is_elastic: bool,
    /// Number of pods in a slice of the first layer. None: the group is not split.
    pub(super) slice_size: Option<u32>,
    /// Rank of the first pod. None: its pods have no ranks.
    pub(super) first_rank: Option<u32>,
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
                slice_size: written.and_then(|group| group.slice_sizes().first().copied()),
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

/// Returns the surplus pods and slices of a job, by group and index.
pub(super) fn surplus_units(
    job: &CompiledJob,
    ticket: &AttemptState,
    draws: &[LimitDraw],
) -> Vec<ScriptSurplusUnit> {
    let spec = job.job().spec();
    let mut of_script = Vec::new();
    for group in job.groups() {
        let level = spec.required_level(group.name());
        let level = level.map(|(name, is_of_group)| RequiredLevel {
            name: name.to_owned(),
            is_of_group,
        });
        let Some(written) = spec.group(group.name()) else {
            continue;
        };
        let indexes = group.gang_size()..group.replicas();
        let units: BTreeSet<_> = indexes
            .map(|index| SurplusUnit::of_pod(written, index))
            .collect();
        for unit in units {
            let (actual, plan) = Default::default();
            let Some(mut gang) = engine::gang_from_surplus_unit(job, ticket, &actual, &plan, &unit)
            else {
                continue;
            };
            gang.draws = draws.to_vec();
            of_script.push((
                unit,
                ScriptSurplusUnit {
                    gang,
                    is_elastic: is_elastic(job, group),
                    restarts_others: is_elastic(job, group) && !spec.has_replica_groups(written),
                    level: level.clone(),
                },
            ));
        }
    }
    // The operator uses the same order.
    of_script.sort_by(|(a, _), (b, _)| a.cmp(b));
    of_script.into_iter().map(|(_, unit)| unit).collect()
}
