//! A slice outside the gang that replaces a slice of the gang.

use std::collections::BTreeMap;

use trellis_api::job::TaskGroup;
use trellis_api::pod_group::{Assignment, Plan};

use super::created_members::Gang;
use crate::observed::PodView;
use crate::spare_slices::running_spare_slices;
use crate::{AuthorizedAttempt, GangIndexes, journal};

/// A slice of a placed gang that cannot return to its nodes, and the running slice that replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceReplacement {
    /// Task group of both slices.
    pub group: String,
    /// Index of the first pod of the slice that leaves the gang.
    pub leaving_start: u32,
    /// Index of the first pod of the slice that joins the gang.
    pub joining_start: u32,
    /// Nodes of the pods of the joining slice, in the order of their indexes.
    pub nodes: Vec<String>,
}

impl SliceReplacement {
    /// Changes the plan. None: the plan does not contain the leaving slice.
    pub(crate) fn apply(&self, plan: &mut Plan) -> Option<()> {
        let size = u32::try_from(self.nodes.len())
            .ok()
            .filter(|size| *size > 0)?;
        let of_group = journal::members(plan).filter(|(group, ..)| *group == self.group);
        let mut pods: Vec<(u32, String)> = of_group
            .map(|(_, index, node)| (index, node.to_owned()))
            .collect();
        let at = pods
            .iter()
            .position(|(index, _)| *index == self.leaving_start)?;
        let joining = (self.joining_start..).zip(&self.nodes);
        for ((_, node), pod) in joining.zip(pods.get_mut(at..)?) {
            pod.1.clone_from(node);
        }
        let starts = pods.iter().step_by(usize::try_from(size).ok()?);
        let starts = starts.map(|(start, _)| match *start == self.leaving_start {
            true => i64::from(self.joining_start),
            false => i64::from(*start),
        });
        let elastic = plan.elastic.iter_mut().find(|e| e.name == self.group)?;
        elastic.slice_starts = starts.collect();
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
    /// Returns the next slice of the gang to replace, with its replacement.
    pub(super) fn slice_replacement(
        &self,
        run: &AuthorizedAttempt,
        plan: &Plan,
    ) -> Option<SliceReplacement> {
        let awaited = &run.attempt.awaited;
        if awaited.attempt != plan.attempt {
            return None;
        }
        let spec = run.job.compiled().job().spec();
        let awaited = awaited.index_by_pod();
        let groups = spec.task_groups.iter().filter(|group| group.has_slices());
        groups.into_iter().find_map(|group| {
            let gang = GangIndexes::new(group, Some(plan));
            // A lower value of `replicas` removes the slices with the highest indexes.
            let must_leave = |index: &u32| {
                let entry = awaited.get(&group.name, *index);
                *index >= group.replicas() || entry.is_some_and(|entry| entry.displaced)
            };
            let leaves = gang.iter().find(must_leave)?;
            self.spare_slice(group, &gang, (group.slice_of(leaves)?.start, plan))
        })
    }

    /// Returns the replacement of the leaving slice by the first running slice outside the gang.
    fn spare_slice(
        &self,
        group: &TaskGroup,
        gang: &GangIndexes,
        (leaves, plan): (u32, &Plan),
    ) -> Option<SliceReplacement> {
        let removals = self.members.surplus_removals;
        let makes_room = |pod: &PodView| {
            removals.evictions.contains_key(&pod.uid) || removals.nominated.contains(&pod.uid)
        };
        let stays = |pod: &&PodView| {
            let is_current = pod.job_uid == self.members.uid && pod.plan == plan.hash;
            is_current && !makes_room(pod)
        };
        let pods = || self.members.pods.values().filter(stays);
        let joins = *running_spare_slices(group, gang, pods()).first()?;
        let slice = group.slice_of(joins)?;
        let joining = pods().filter(|pod| pod.group == group.name && slice.contains(&pod.index));
        let nodes = joining.filter_map(|pod| Some((pod.index, pod.node.clone()?)));
        let nodes: BTreeMap<u32, String> = nodes.collect();
        Some(SliceReplacement {
            group: group.name.clone(),
            leaving_start: leaves,
            joining_start: joins,
            nodes: nodes.into_values().collect(),
        })
    }
}
