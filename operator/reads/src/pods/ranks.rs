//! Computes the rank of each pod from the spec.
//! The compiler writes the same rank into `TRELLIS_RANK`.

use trellis_api::TrainingJobSpec;

/// The ranks of one stage, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRanks {
    /// Group, its first rank and its number of pods, in the order of the ranks.
    groups: Vec<(String, u32, u32)>,
}

impl StageRanks {
    /// Returns the ranks of a stage. Stages count from 1.
    #[must_use]
    pub fn for_stage(spec: &TrainingJobSpec, stage: u32) -> Self {
        let spec = spec.for_stage(stage);
        let mut next = 0_u32;
        let groups = spec.groups_by_rank().into_iter().map(|group| {
            let first = next;
            next = next.saturating_add(group.replicas());
            (group.name.clone(), first, group.replicas())
        });
        Self {
            groups: groups.collect(),
        }
    }

    /// The greatest number of pods.
    #[must_use]
    pub fn total(&self) -> u32 {
        let last = self.groups.last();
        last.map_or(0, |(_, first, pods)| first.saturating_add(*pods))
    }

    /// Returns the rank of a pod of a group.
    #[must_use]
    pub fn rank(&self, group: &str, index: u32) -> Option<u32> {
        let (_, first, _) = self.groups.iter().find(|(name, _, _)| name == group)?;
        Some(first.saturating_add(index))
    }

    /// Returns the group and index with this rank.
    #[must_use]
    pub fn pod_at(&self, rank: u32) -> Option<(&str, u32)> {
        self.groups.iter().find_map(|(name, first, pods)| {
            let index = rank.checked_sub(*first)?;
            (index < *pods).then_some((name.as_str(), index))
        })
    }

    /// The group with rank 0.
    #[must_use]
    pub fn leader_group(&self) -> Option<&str> {
        self.pod_at(0).map(|(group, _)| group)
    }
}

/// Returns the stage of a group, from 1. None: the group does not exist.
#[must_use]
pub fn group_stage(spec: &TrainingJobSpec, group: &str) -> Option<u32> {
    let stages = spec.group_stages();
    let mut groups = spec.task_groups.iter().zip(stages);
    groups
        .find(|(own, _)| own.name == group)
        .map(|(_, stage)| stage)
}
