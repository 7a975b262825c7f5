//! Searches for a smaller number of pods with which a waiting job would start now.

use std::time::Duration;

use tokio::time::Instant;
use trellis_api::visibility::RequestChange;
use trellis_api::{TrainingJob, ValidatedJob};
use trellis_plan::PlannedJob;

/// Longest time of the searches for one plan. A shape that was found until then counts.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Most numbers of pods to check for validity.
const MAX_SHAPES: u32 = 64;

/// The searches for one plan.
pub(super) struct ShapeSearch {
    end: Option<Instant>,
}

impl Default for ShapeSearch {
    fn default() -> Self {
        Self {
            end: Instant::now().checked_add(MAX_TIME),
        }
    }
}

/// A smaller job.
struct Shape {
    pods: u32,
    field: &'static str,
    job: TrainingJob,
}

impl ShapeSearch {
    fn is_over(&self) -> bool {
        self.end.is_none_or(|end| Instant::now() >= end)
    }

    /// Returns the largest number of pods of the job's largest task group with which the job starts.
    /// `starts` returns true if a job starts. More pods are harder to place in general, so the search
    /// halves the range; a shape that it returns was tried itself.
    pub(super) fn find(
        &mut self,
        job: &TrainingJob,
        planned: &PlannedJob,
        mut starts: impl FnMut(TrainingJob) -> bool,
    ) -> Vec<RequestChange> {
        let Some((group, pods)) = largest_group(planned) else {
            return Vec::new();
        };
        if self.is_over() {
            return Vec::new();
        }
        let shapes = smaller_shapes(job, &group, pods);
        let (mut low, mut high) = (0, shapes.len());
        let mut best = None;
        while low < high && !self.is_over() {
            let middle = low.midpoint(high);
            let Some(shape) = shapes.get(middle) else {
                break;
            };
            if starts(shape.job.clone()) {
                best = Some(shape);
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        let change = best.map(|shape| RequestChange {
            field: format!("spec.taskGroups[{group}].{}", shape.field),
            value: shape.pods.to_string(),
        });
        change.into_iter().collect()
    }
}

/// Returns the task group with the most pods in the gang, and their number.
fn largest_group(planned: &PlannedJob) -> Option<(String, u32)> {
    let groups = planned.compiled.as_ref()?.groups().iter();
    let largest = groups.max_by_key(|group| group.gang_size())?;
    Some((largest.name().to_owned(), largest.gang_size()))
}

/// Returns valid jobs with fewer pods in the group, in ascending order of pods.
fn smaller_shapes(job: &TrainingJob, group: &str, pods: u32) -> Vec<Shape> {
    let step = usize::try_from(pods.div_ceil(MAX_SHAPES)).unwrap_or(1);
    let counts = (1..pods).rev().step_by(step.max(1)).collect::<Vec<_>>();
    let counts = counts.into_iter().rev();
    let shapes = counts.filter_map(|pods| {
        let mut job = job.clone();
        let group = job.spec.task_groups.iter_mut().find(|g| g.name == group)?;
        let field = match &mut group.min_replicas {
            Some(least) => {
                *least = pods.into();
                "minReplicas"
            }
            None => {
                group.replicas = Some(pods.into());
                "replicas"
            }
        };
        ValidatedJob::try_from(job.clone()).ok()?;
        Some(Shape { pods, field, job })
    });
    shapes.collect()
}
