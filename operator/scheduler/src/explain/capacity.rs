//! Why the nodes have no place for a gang.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::exclusions;
use super::supply::Supply;
use super::survey::{Asked, Survey};
use super::union::{Union, union_nodes};
use super::{Change, Detail, Exclusions, Silent};
use crate::gang::Gang;
use crate::ids::GroupName;
use crate::placement::{Answer, Room, search};
use crate::queueing::{Blocked, Signal, Wake};
use crate::state::{Catalog, GroupShape, NodeIdx, Nodes, ResourceIdx, Shape};

/// A gang that the nodes have no place for, and the state in which to explain it.
pub(crate) struct Question<'a> {
    pub(crate) nodes: &'a Nodes,
    pub(crate) catalog: &'a Catalog,
    pub(crate) gang: &'a Gang,
    pub(crate) shape: &'a Shape,
    pub(crate) excluded: &'a [NodeIdx],
    /// True if the search for a place reached no bound.
    pub(crate) certain: bool,
    /// The placements of gangs whose victims have not left yet.
    pub(crate) promised: Promised,
}

/// Amounts by node and resource.
pub(crate) type Promised = BTreeMap<(NodeIdx, ResourceIdx), i128>;

impl Question<'_> {
    /// The amounts of a resource that placed gangs hold on a node, and that other pods use. A
    /// promised placement counts once, although its victims still hold the same room.
    pub(super) fn held(&self, resource: ResourceIdx, node: NodeIdx) -> (i128, i128) {
        let (gangs, others) = self.nodes.held(resource, node);
        let promised = self.promised.get(&(node, resource)).copied().unwrap_or(0);
        let all = i128::from(self.nodes.allocatable(resource, node));
        let twice = gangs.saturating_add(others).saturating_sub(all);
        (gangs.saturating_sub(twice.clamp(0, promised)), others)
    }
}

/// The first reason that holds for a single task group, or for all groups together.
pub(crate) fn explain(question: &Question<'_>) -> Box<Blocked> {
    let mut wake = Wake::default();
    wake.on(Signal::Nodes, 1);
    let surveys = OnceCell::new();
    if let Some(detail) = question.never(&surveys) {
        let detail = question.avoiding().unwrap_or(detail);
        return Blocked::new(detail, wake);
    }
    let surveys = question.surveys(&surveys);
    let union = question.union(surveys);
    if let Some((detail, resource, missing)) = question.insufficient(surveys, &union) {
        wake.on(Signal::Freed(resource), missing);
        return Blocked::new(detail, wake);
    }
    let detail = match question.topology_fragmented(&mut wake) {
        Some(detail) => detail,
        None => {
            question.watch_close_groups(&mut wake);
            question.fragmented(surveys, &union, &mut wake)
        }
    };
    question.watch_totals(surveys, &union, &mut wake);
    Blocked::new(detail, wake)
}

/// The least that must become free for a gang that could start then. It costs more than the refusal
/// itself, so it is computed only for gangs whose explanation is reported.
pub(crate) fn what_helps(question: &Question<'_>) -> Option<Change> {
    question.least_to_free(question.surveys(&OnceCell::new()))
}

/// True if the nodes could not hold a group alone even if they were empty. The kinds of nodes of
/// the group's signature must have been counted.
pub(crate) fn never_holds(nodes: &Nodes, catalog: &Catalog, group: &GroupShape) -> bool {
    let supply = Supply::new(nodes, catalog, group, &[]);
    supply.room < supply.pods
}

impl Question<'_> {
    /// The group's name, if the gang has several groups.
    pub(super) fn name(&self, group: usize) -> Option<GroupName> {
        let several = self.gang.groups.len() > 1;
        self.gang
            .groups
            .get(group)
            .filter(|_| several)
            .map(|g| g.name.clone())
    }

    fn silent(&self, group: usize) -> Option<Silent> {
        let group = self.shape.groups.get(group)?;
        exclusions::silent(self.nodes, self.catalog, group, self.excluded)
    }

    /// The reasons that keep a group off the nodes that do not match, if some do match.
    fn others(&self, group: usize, matching: u32) -> Exclusions {
        match self.shape.groups.get(group) {
            Some(group) if matching < self.nodes.present() => {
                exclusions::count(self.nodes, self.catalog, group, self.excluded)
            }
            _ => Exclusions::default(),
        }
    }

    /// If the gang would fit on the nodes that are left out for a while, that exclusion is the
    /// reason.
    fn avoiding(&self) -> Option<Detail> {
        if self.excluded.is_empty() {
            return None;
        }
        let all = Self {
            excluded: &[],
            promised: self.promised.clone(),
            ..*self
        };
        let avoided = u32::try_from(self.excluded.len()).unwrap_or(u32::MAX);
        all.never(&OnceCell::new())
            .is_none()
            .then_some(Detail::NodesAvoided { avoided })
    }

    /// The survey of each task group. Looks at every node, once.
    fn surveys<'s>(&self, known: &'s OnceCell<Vec<Survey>>) -> &'s [Survey] {
        known.get_or_init(|| {
            let groups = self.shape.groups.iter();
            groups
                .map(|group| Survey::new(self.nodes, self.catalog, group, self.excluded))
                .collect()
        })
    }

    /// The reason why the gang could not start even if all other gangs ended.
    fn never(&self, surveys: &OnceCell<Vec<Survey>>) -> Option<Detail> {
        let groups = self.shape.groups.iter();
        let supplies: Vec<Supply> = groups
            .map(|group| Supply::new(self.nodes, self.catalog, group, self.excluded))
            .collect();
        for (at, supply) in supplies.iter().enumerate() {
            if supply.pods > 0 && supply.nodes == 0 {
                let group = self.shape.groups.get(at)?;
                return Some(Detail::NoMatchingNodes {
                    group: self.name(at),
                    exclusions: exclusions::count(self.nodes, self.catalog, group, self.excluded),
                });
            }
        }
        supplies
            .iter()
            .enumerate()
            .find_map(|(at, supply)| self.exceeds(at, supply))
            .or_else(|| self.exceeds_together(surveys))
            .or_else(|| self.exceeds_topology())
    }

    /// One group alone is too large for empty nodes.
    fn exceeds(&self, at: usize, supply: &Supply) -> Option<Detail> {
        if supply.room >= supply.pods {
            return None;
        }
        let (group, nodes, silent) = (self.name(at), supply.nodes, self.silent(at));
        let others = self.others(at, nodes);
        if let Some(stock) = supply.stocks.iter().find(|s| s.largest < s.asked.need) {
            return Some(Detail::PodTooLarge {
                group,
                resource: Some(stock.asked.name.clone()),
                needs: i128::from(stock.asked.need),
                largest: i128::from(stock.largest),
                nodes,
                silent,
                others,
            });
        }
        if supply.room == 0 {
            return Some(Detail::PodTooLarge {
                group,
                resource: None,
                needs: 0,
                largest: 0,
                nodes,
                silent,
                others,
            });
        }
        let stocks = supply.stocks.iter();
        let short = worst(stocks.map(|s| (s, s.asked.needs(supply.pods), s.capacity)));
        Some(match short {
            Some((stock, needs, capacity)) => Detail::ClusterTooSmall {
                group,
                resource: stock.asked.name.clone(),
                needs,
                capacity,
                nodes,
                silent,
                others,
            },
            None => Detail::TooFewPlaces {
                group,
                pods: supply.pods,
                room: Some(supply.room),
                nodes,
                silent,
                others,
            },
        })
    }

    /// All groups together are too large for empty nodes.
    fn exceeds_together(&self, surveys: &OnceCell<Vec<Survey>>) -> Option<Detail> {
        if self.shape.groups.len() < 2 {
            return None;
        }
        let surveys = self.surveys(surveys);
        let union = self.union(surveys);
        let lines = self.union_lines(surveys, &union);
        let nodes = union_nodes(surveys);
        let silent = (0..surveys.len()).find_map(|at| self.silent(at));
        let short = worst(
            lines
                .iter()
                .map(|(line, needs, all)| (*line, *needs, all.capacity)),
        );
        if let Some((line, needs, capacity)) = short {
            return Some(Detail::ClusterTooSmall {
                group: None,
                resource: line.asked.name.clone(),
                needs,
                capacity,
                nodes,
                silent,
                others: Exclusions::default(),
            });
        }
        let none = Answer::Nothing { certain: true };
        let answer = search(
            self.nodes,
            self.catalog,
            self.shape,
            self.excluded,
            Room::Empty,
        );
        (answer == none).then(|| Detail::TooFewPlaces {
            group: None,
            pods: self.gang.pod_count(),
            room: None,
            nodes,
            silent,
            others: Exclusions::default(),
        })
    }

    /// Too little is free in total: for one group, or for all of them.
    fn insufficient(
        &self,
        surveys: &[Survey],
        union: &BTreeMap<ResourceIdx, Union>,
    ) -> Option<(Detail, ResourceIdx, i128)> {
        for (at, survey) in surveys.iter().enumerate() {
            let lines = survey.lines.iter();
            let short = worst(lines.map(|line| (line, line.asked.needs(survey.pods), line.free)));
            if let Some((line, needs, free)) = short {
                let missing = needs.saturating_sub(free);
                let (held_by_gangs, held_by_others) = survey.held(self, line);
                let detail = Detail::InsufficientCapacity {
                    group: self.name(at),
                    resource: line.asked.name.clone(),
                    needs,
                    free,
                    missing,
                    nodes: node_count(survey),
                    held_by_gangs,
                    held_by_others,
                };
                return Some((detail, line.asked.resource, missing));
            }
        }
        let lines = self.union_lines(surveys, union);
        let (line, needs, free) = worst(
            lines
                .iter()
                .map(|(line, needs, all)| (*line, *needs, all.free)),
        )?;
        let all = union.get(&line.asked.resource)?;
        let missing = needs.saturating_sub(free);
        let detail = Detail::InsufficientCapacity {
            group: None,
            resource: line.asked.name.clone(),
            needs,
            free,
            missing,
            nodes: union_nodes(surveys),
            held_by_gangs: all.held_by_gangs,
            held_by_others: all.held_by_others,
        };
        Some((detail, line.asked.resource, missing))
    }

    /// Enough is free in total.
    fn fragmented(
        &self,
        surveys: &[Survey],
        union: &BTreeMap<ResourceIdx, Union>,
        wake: &mut Wake,
    ) -> Detail {
        let all = self.shape.groups.iter().zip(surveys).enumerate();
        let mut rooms =
            all.map(|(at, (group, survey))| (at, survey, survey.room(self.nodes, group)));
        let short = rooms.find(|(_, survey, room)| *room < survey.pods);
        let Some((at, survey, room)) = short else {
            for resource in union.keys() {
                wake.on(Signal::Freed(*resource), 1);
            }
            return Detail::GroupsCollide {
                pods: self.gang.pod_count(),
                nodes: union_nodes(surveys),
                certain: self.certain,
            };
        };
        // If one resource is scattered, only more of that resource can help. Otherwise any of them
        // may.
        for line in &survey.lines {
            let spread = survey.spread(self.nodes, line);
            if spread.places < survey.pods {
                wake.on(Signal::Freed(line.asked.resource), 1);
                return Detail::Scattered {
                    group: self.name(at),
                    resource: line.asked.name.clone(),
                    needs: i128::from(line.asked.need),
                    pods: survey.pods,
                    room,
                    free: line.free,
                    nodes: spread.nodes_free,
                    most: i128::from(spread.most),
                };
            }
        }
        for line in &survey.lines {
            wake.on(Signal::Freed(line.asked.resource), 1);
        }
        self.apart(at, survey, room)
    }

    fn apart(&self, at: usize, survey: &Survey, room: u64) -> Detail {
        let u32_of = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let Some(apart) = survey.apart(self.nodes) else {
            return Detail::GroupsCollide {
                pods: survey.pods,
                nodes: node_count(survey),
                certain: self.certain,
            };
        };
        Detail::Apart {
            group: self.name(at),
            resource: apart.first.asked.name.clone(),
            needs: i128::from(apart.first.asked.need),
            pods: survey.pods,
            room,
            nodes: u32_of(apart.nodes),
            lacking: apart.lacking.asked.name.clone(),
            lacking_nodes: u32_of(apart.lacking_nodes),
        }
    }

    /// Wakes the gang when so much is taken that free capacity becomes the reason.
    fn watch_totals(
        &self,
        surveys: &[Survey],
        union: &BTreeMap<ResourceIdx, Union>,
        wake: &mut Wake,
    ) {
        let mut left: BTreeMap<ResourceIdx, i128> = BTreeMap::new();
        let mut see = |resource: ResourceIdx, free: i128, needs: i128| {
            let slack = free.saturating_sub(needs);
            let least = left.entry(resource).or_insert(slack);
            *least = (*least).min(slack);
        };
        for survey in surveys {
            for line in &survey.lines {
                see(
                    line.asked.resource,
                    line.free,
                    line.asked.needs(survey.pods),
                );
            }
        }
        for (line, needs, all) in self.union_lines(surveys, union) {
            see(line.asked.resource, all.free, needs);
        }
        for (resource, slack) in left {
            wake.on(Signal::Taken(resource), slack.saturating_add(1));
        }
    }
}

/// The scarcest of the resources of which there is less than is needed: a device if there is one,
/// else the one that lacks most in relation to the need.
fn worst<'l, L: AsRef<Asked>>(
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

fn node_count(survey: &Survey) -> u32 {
    u32::try_from(survey.nodes.len()).unwrap_or(u32::MAX)
}
