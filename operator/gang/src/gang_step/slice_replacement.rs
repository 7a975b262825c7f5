//! A slice outside the gang that takes the part of a slice of the gang.

use std::collections::BTreeMap;

use trellis_api::job::TaskGroup;
use trellis_api::pod_group::{Assignment, Plan};

use super::created_members::Gang;
use crate::observed::PodView;
use crate::spare_slices::running_spare_slices;
use crate::{AuthorizedAttempt, GangIndexes, journal};

/// A slice of a placed gang that has lost its nodes, and the running slice that takes its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceReplacement {
    /// Task group of both slices.
    pub group: String,
    /// Index of the first pod of the slice that leaves the gang.
    pub leaves: u32,
    /// Index of the first pod of the slice that joins the gang.
    pub joins: u32,
    /// Nodes of the pods of the joining slice, in the order of their indexes.
    pub nodes: Vec<String>,
}

impl SliceReplacement {
    /// Changes the plan. None: the slices are not as expected.
    pub(crate) fn apply(&self, plan: &mut Plan) -> Option<()> {
        let size = u32::try_from(self.nodes.len())
            .ok()
            .filter(|size| *size > 0)?;
        let of_group = journal::members(plan).filter(|(group, ..)| *group == self.group);
        let mut pods: Vec<(u32, String)> = of_group
            .map(|(_, index, node)| (index, node.to_owned()))
            .collect();
        let at = pods.iter().position(|(index, _)| *index == self.leaves)?;
        let joining = (self.joins..).zip(&self.nodes);
        for ((_, node), pod) in joining.zip(pods.get_mut(at..)?) {
            pod.1.clone_from(node);
        }
        let starts = pods.iter().step_by(usize::try_from(size).ok()?);
        let starts = starts.map(|(start, _)| match *start == self.leaves {
            true => i64::from(self.joins),
            false => i64::from(*start),
        });
        let elastic = plan.elastic.iter_mut().find(|e| e.name == self.group)?;
        elastic.starts = starts.collect();
        let mut runs: Vec<Assignment> = Vec::new();
        for (_, node) in pods {
            match runs.last_mut() {
                Some(run) if run.node == node => run.count = run.count.saturating_add(1),
                _ => runs.push(Assignment {
                    group: self.group.clone(),
                    node,
                    count: 1,
                    pods: Vec::new(),
                }),
            }
        }
        let first = plan
            .assignments
            .iter()
            .position(|a| a.group == self.group)?;
        plan.assignments.retain(|a| a.group != self.group);
        plan.assignments.splice(first..first, runs);
        Some(())
    }
}

impl Gang<'_> {
    /// Returns the next slice of the gang whose part another slice takes.
    pub(super) fn slice_replacement(
        &self,
        run: &AuthorizedAttempt,
        plan: &Plan,
    ) -> Option<SliceReplacement> {
        let awaited = &run.attempt.awaited;
        if awaited.attempt != plan.attempt || !awaited.pods.iter().any(|pods| pods.displaced) {
            return None;
        }
        let spec = run.job.compiled().job().spec();
        let awaited = awaited.index_by_pod();
        spec.task_groups.iter().find_map(|group| {
            let gang = GangIndexes::new(group, Some(plan));
            let is_displaced = |index: &u32| {
                let entry = awaited.get(&group.name, *index);
                entry.is_some_and(|entry| entry.displaced)
            };
            let leaves = gang.iter().find(is_displaced)?;
            self.spare_slice(group, &gang, (group.slice_of(leaves)?.start, plan))
        })
    }

    /// Returns the first running slice outside the gang, in the part of the slice that leaves.
    fn spare_slice(
        &self,
        group: &TaskGroup,
        gang: &GangIndexes,
        (leaves, plan): (u32, &Plan),
    ) -> Option<SliceReplacement> {
        let evicted = &self.members.surplus_removals.evictions;
        let stays = |pod: &&PodView| {
            let is_current = pod.job_uid == self.members.uid && pod.plan == plan.hash;
            is_current && !evicted.contains_key(&pod.uid)
        };
        let pods = || self.members.pods.values().filter(stays);
        let joins = *running_spare_slices(group, gang, pods()).first()?;
        let slice = group.slice_of(joins)?;
        let joining = pods().filter(|pod| pod.group == group.name && slice.contains(&pod.index));
        let nodes = joining.filter_map(|pod| Some((pod.index, pod.node.clone()?)));
        let nodes: BTreeMap<u32, String> = nodes.collect();
        Some(SliceReplacement {
            group: group.name.clone(),
            leaves,
            joins,
            nodes: nodes.into_values().collect(),
        })
    }
}
