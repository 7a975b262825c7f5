//! Why the nodes have no place for a gang.

mod permanent_reason;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::context::ExplanationContext;
use super::empty_capacity::EmptyCapacity;
use super::survey::{GroupSurvey, ResourceNeed};
use super::union::{UnionCapacity, union_nodes};
use super::{UnblockingChange, WaitDetail};
use crate::queueing::{Blockage, Signal, WakeCondition};
use crate::state::{Catalog, GroupShape, Nodes, ResourceIdx};

/// Returns the first reason that holds for a single task group, or for all groups together.
pub(crate) fn explain(question: &ExplanationContext<'_>) -> Box<Blockage> {
    let mut wake = WakeCondition::default();
    wake.on_rise(Signal::Nodes, 1);
    let surveys = OnceCell::new();
    if let Some(detail) = question.permanent_reason(&surveys) {
        let detail = question.avoided_nodes().unwrap_or(detail);
        return Blockage::new(detail, wake);
    }
    let surveys = question.surveys(&surveys);
    let union = question.union_capacity(surveys);
    if let Some((detail, resource, missing)) = question.insufficient_capacity(surveys, &union) {
        wake.on_rise(Signal::Freed(resource), missing);
        return Blockage::new(detail, wake);
    }
    let detail = match question.topology_fragmented(&mut wake) {
        Some(detail) => detail,
        None => {
            question.watch_required_groups(&mut wake);
            question.fragmented_capacity(surveys, &union, &mut wake)
        }
    };
    question.watch_totals(surveys, &union, &mut wake);
    Blockage::new(detail, wake)
}

/// Returns the least room to free so that the gang could start. It costs more than the refusal
/// itself, so the engine computes it only for gangs whose explanation it reports.
pub(crate) fn smallest_change(question: &ExplanationContext<'_>) -> Option<UnblockingChange> {
    question.find_least_release(question.surveys(&OnceCell::new()))
}

/// True if the nodes could not hold a group alone even if they were empty. The caller must have
/// counted the kinds of nodes of the group's signature.
pub(crate) fn can_never_fit(nodes: &Nodes, catalog: &Catalog, group: &GroupShape) -> bool {
    let supply = EmptyCapacity::new(nodes, catalog, group, &[]);
    supply.room < supply.pods
}

impl ExplanationContext<'_> {
    /// Returns the survey of each task group. The first call visits every node.
    fn surveys<'s>(&self, known: &'s OnceCell<Vec<GroupSurvey>>) -> &'s [GroupSurvey] {
        known.get_or_init(|| {
            let groups = self.shape.groups.iter();
            groups
                .map(|group| GroupSurvey::new(self.nodes, self.catalog, group, self.excluded))
                .collect()
        })
    }

    /// Explains that too little is free in total, for one group or for all of them.
    fn insufficient_capacity(
        &self,
        surveys: &[GroupSurvey],
        union: &BTreeMap<ResourceIdx, UnionCapacity>,
    ) -> Option<(WaitDetail, ResourceIdx, i128)> {
        for (at, survey) in surveys.iter().enumerate() {
            let lines = survey.resources.iter();
            let short =
                scarcest(lines.map(|line| (line, line.need.total_need(survey.pods), line.free)));
            if let Some((line, needs, free)) = short {
                let missing = needs.saturating_sub(free);
                let (held_by_gangs, held_by_others) = survey.usage(self, line);
                let detail = WaitDetail::InsufficientCapacity {
                    group: self.group_name(at),
                    resource: line.need.name.clone(),
                    needs,
                    free,
                    missing,
                    nodes: node_count(survey),
                    used_by_gangs: held_by_gangs,
                    used_by_external_pods: held_by_others,
                };
                return Some((detail, line.need.resource, missing));
            }
        }
        let lines = self.union_lines(surveys, union);
        let (line, needs, free) = scarcest(
            lines
                .iter()
                .map(|(line, needs, all)| (*line, *needs, all.free)),
        )?;
        let all = union.get(&line.need.resource)?;
        let missing = needs.saturating_sub(free);
        let detail = WaitDetail::InsufficientCapacity {
            group: None,
            resource: line.need.name.clone(),
            needs,
            free,
            missing,
            nodes: union_nodes(surveys),
            used_by_gangs: all.used_by_gangs,
            used_by_external_pods: all.used_by_external_pods,
        };
        Some((detail, line.need.resource, missing))
    }

    /// Explains why the gang does not fit although enough is free in total.
    fn fragmented_capacity(
        &self,
        surveys: &[GroupSurvey],
        union: &BTreeMap<ResourceIdx, UnionCapacity>,
        wake: &mut WakeCondition,
    ) -> WaitDetail {
        let all = self.shape.groups.iter().zip(surveys).enumerate();
        let mut rooms =
            all.map(|(at, (group, survey))| (at, survey, survey.fitting_pods(self.nodes, group)));
        let short = rooms.find(|(_, survey, room)| *room < survey.pods);
        let Some((at, survey, room)) = short else {
            for resource in union.keys() {
                wake.on_rise(Signal::Freed(*resource), 1);
            }
            return WaitDetail::GroupsCollide {
                pods: self.gang.pod_count(),
                nodes: union_nodes(surveys),
                certain: self.certain,
            };
        };
        // If one resource is scattered, only more of it can help. Otherwise more of any resource
        // may help.
        for line in &survey.resources {
            let spread = survey.spread(self.nodes, line);
            if spread.fitting_pods < survey.pods {
                wake.on_rise(Signal::Freed(line.need.resource), 1);
                return WaitDetail::Scattered {
                    group: self.group_name(at),
                    resource: line.need.name.clone(),
                    needs: i128::from(line.need.per_pod),
                    pods: survey.pods,
                    room,
                    free: line.free,
                    nodes: spread.nodes_free,
                    largest_free: i128::from(spread.largest),
                };
            }
        }
        for line in &survey.resources {
            wake.on_rise(Signal::Freed(line.need.resource), 1);
        }
        self.separate_resources(at, survey, room)
    }

    fn separate_resources(&self, at: usize, survey: &GroupSurvey, room: u64) -> WaitDetail {
        let u32_of = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let Some(apart) = survey.separate_resources(self.nodes) else {
            return WaitDetail::GroupsCollide {
                pods: survey.pods,
                nodes: node_count(survey),
                certain: self.certain,
            };
        };
        WaitDetail::SeparateResources {
            group: self.group_name(at),
            resource: apart.first.need.name.clone(),
            needs: i128::from(apart.first.need.per_pod),
            pods: survey.pods,
            room,
            nodes: u32_of(apart.nodes),
            missing_resource: apart.missing.need.name.clone(),
            missing_resource_nodes: u32_of(apart.missing_nodes),
        }
    }

    /// Wakes the gang when so much is taken that too little free capacity becomes the reason.
    fn watch_totals(
        &self,
        surveys: &[GroupSurvey],
        union: &BTreeMap<ResourceIdx, UnionCapacity>,
        wake: &mut WakeCondition,
    ) {
        let mut left: BTreeMap<ResourceIdx, i128> = BTreeMap::new();
        let mut see = |resource: ResourceIdx, free: i128, needs: i128| {
            let slack = free.saturating_sub(needs);
            let least = left.entry(resource).or_insert(slack);
            *least = (*least).min(slack);
        };
        for survey in surveys {
            for line in &survey.resources {
                see(
                    line.need.resource,
                    line.free,
                    line.need.total_need(survey.pods),
                );
            }
        }
        for (line, needs, all) in self.union_lines(surveys, union) {
            see(line.need.resource, all.free, needs);
        }
        for (resource, slack) in left {
            wake.on_rise(Signal::Taken(resource), slack.saturating_add(1));
        }
    }
}

/// Returns the scarcest of the insufficient resources: a device if there is one, else the resource
/// that lacks most relative to the need.
fn scarcest<'l, L: AsRef<ResourceNeed>>(
    lines: impl Iterator<Item = (&'l L, i128, i128)>,
) -> Option<(&'l L, i128, i128)> {
    let mut worst: Option<(&L, i128, i128)> = None;
    for (line, needs, has) in lines.filter(|(_, needs, has)| has < needs) {
        if line.as_ref().name.is_device() {
            return Some((line, needs, has));
        }
        let worse = worst.is_none_or(|(_, needs_before, has_before)| {
            has.saturating_mul(needs_before) < has_before.saturating_mul(needs)
        });
        if worse {
            worst = Some((line, needs, has));
        }
    }
    worst
}

fn node_count(survey: &GroupSurvey) -> u32 {
    u32::try_from(survey.nodes.len()).unwrap_or(u32::MAX)
}
