//! Input that a job was compiled from.

use trellis_api::ResolvedJob;
use trellis_api::job::TaskGroup;

use crate::gang::Gang;
use crate::pod::Layers;
use crate::{Settings, Surroundings};
use std::sync::Arc;

/// Input that a compiled job keeps. Its objects are many times as large, so they are rebuilt from
/// this on demand, byte for byte.
#[derive(Debug)]
pub(crate) struct Source {
    pub job: ResolvedJob,
    pub surroundings: Surroundings,
    pub settings: Arc<Settings>,
}

impl Source {
    pub fn gang(&self) -> Gang<'_> {
        Gang::new(self.job.job(), &self.settings)
    }

    /// Layers below the fields of a task group.
    pub fn layers(&self, group: usize) -> Layers<'_> {
        Layers {
            profile: self.surroundings.profile.as_deref(),
            template: self.job.job().template(group),
        }
    }

    pub fn groups(&self) -> &[TaskGroup] {
        &self.job.job().spec().task_groups
    }
}
