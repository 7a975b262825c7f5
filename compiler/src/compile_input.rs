//! Input that a job was compiled from.

use trellis_api::ResolvedJob;
use trellis_api::job::TaskGroup;

use crate::gang_facts::GangFacts;
use crate::pod::TemplateLayers;
use crate::{CompileContext, Settings};
use std::sync::Arc;

/// Input that a compiled job keeps. Its objects are many times as large, so they are rebuilt from
/// this on demand, byte for byte.
#[derive(Debug)]
pub(crate) struct CompileInput {
    pub job: ResolvedJob,
    pub surroundings: CompileContext,
    pub settings: Arc<Settings>,
}

impl CompileInput {
    pub fn gang_facts(&self) -> GangFacts<'_> {
        GangFacts::new(self.job.job(), &self.settings)
    }

    /// Layers below the fields of a task group.
    pub fn layers(&self, group: usize) -> TemplateLayers<'_> {
        TemplateLayers {
            profile: self.surroundings.profile.as_deref(),
            template: self.job.job().template(group),
        }
    }

    pub fn groups(&self) -> &[TaskGroup] {
        &self.job.job().spec().task_groups
    }
}
