//! Why a gang could not start even if all other gangs ended.

use std::cell::OnceCell;

use super::scarcest;
use crate::explain::context::ExplanationContext;
use crate::explain::empty_capacity::EmptyCapacity;
use crate::explain::survey::GroupSurvey;
use crate::explain::union::union_nodes;
use crate::explain::{Exclusions, UnadvertisedDevice, WaitDetail, exclusions};
use crate::placement::{CapacityView, SearchResult, search};

impl ExplanationContext<'_> {
    /// Returns the reason why the gang could not start even if all other gangs ended.
    pub(super) fn permanent_reason(
        &self,
        surveys: &OnceCell<Vec<GroupSurvey>>,
    ) -> Option<WaitDetail> {
        let groups = self.shape.groups.iter();
        let supplies: Vec<EmptyCapacity> = groups
            .map(|group| EmptyCapacity::new(self.nodes, self.catalog, group, self.excluded))
            .collect();
        for (at, supply) in supplies.iter().enumerate() {
            if supply.pods > 0 && supply.nodes == 0 {
                let group = self.shape.groups.get(at)?;
                return Some(WaitDetail::NoMatchingNodes {
                    group: self.group_name(at),
                    exclusions: exclusions::count_exclusions(
                        self.nodes,
                        self.catalog,
                        group,
                        self.excluded,
                    ),
                });
            }
        }
        supplies
            .iter()
            .enumerate()
            .find_map(|(at, supply)| self.group_exceeds_cluster(at, supply))
            .or_else(|| self.gang_exceeds_cluster(surveys))
            .or_else(|| self.exceeds_topology())
    }

    /// Explains that the gang would fit on nodes that it avoids for a while, if that is so.
    pub(super) fn avoided_nodes(&self) -> Option<WaitDetail> {
        if self.excluded.is_empty() {
            return None;
        }
        let all = Self {
            excluded: &[],
            nominated_usage: self.nominated_usage.clone(),
            ..*self
        };
        let avoided = u32::try_from(self.excluded.len()).unwrap_or(u32::MAX);
        all.permanent_reason(&OnceCell::new())
            .is_none()
            .then_some(WaitDetail::NodesAvoided { avoided })
    }

    /// Explains that one group alone is too large for empty nodes.
    fn group_exceeds_cluster(&self, at: usize, supply: &EmptyCapacity) -> Option<WaitDetail> {
        if supply.room >= supply.pods {
            return None;
        }
        let (group, nodes, silent) = (
            self.group_name(at),
            supply.nodes,
            self.unadvertised_device(at),
        );
        let others = self.other_exclusions(at, nodes);
        if let Some(stock) = supply.resources.iter().find(|s| s.largest < s.need.per_pod) {
            return Some(WaitDetail::PodTooLarge {
                group,
                resource: Some(stock.need.name.clone()),
                needs: i128::from(stock.need.per_pod),
                largest: i128::from(stock.largest),
                nodes,
                unadvertised: silent,
                exclusions: others,
            });
        }
        if supply.room == 0 {
            return Some(WaitDetail::PodTooLarge {
                group,
                resource: None,
                needs: 0,
                largest: 0,
                nodes,
                unadvertised: silent,
                exclusions: others,
            });
        }
        let stocks = supply.resources.iter();
        let short = scarcest(stocks.map(|s| (s, s.need.total_need(supply.pods), s.capacity)));
        Some(match short {
            Some((stock, needs, capacity)) => WaitDetail::ClusterTooSmall {
                group,
                resource: stock.need.name.clone(),
                needs,
                capacity,
                nodes,
                unadvertised: silent,
                exclusions: others,
            },
            None => WaitDetail::TooFewPlaces {
                group,
                pods: supply.pods,
                room: Some(supply.room),
                nodes,
                unadvertised: silent,
                exclusions: others,
            },
        })
    }

    /// Explains that all groups together are too large for empty nodes.
    fn gang_exceeds_cluster(&self, surveys: &OnceCell<Vec<GroupSurvey>>) -> Option<WaitDetail> {
        if self.shape.groups.len() < 2 {
            return None;
        }
        let surveys = self.surveys(surveys);
        let union = self.union_capacity(surveys);
        let lines = self.union_lines(surveys, &union);
        let nodes = union_nodes(surveys);
        let silent = (0..surveys.len()).find_map(|at| self.unadvertised_device(at));
        let short = scarcest(
            lines
                .iter()
                .map(|(line, needs, all)| (*line, *needs, all.capacity)),
        );
        if let Some((line, needs, capacity)) = short {
            return Some(WaitDetail::ClusterTooSmall {
                group: None,
                resource: line.need.name.clone(),
                needs,
                capacity,
                nodes,
                unadvertised: silent,
                exclusions: Exclusions::default(),
            });
        }
        let none = SearchResult::NoPlace { certain: true };
        let answer = search(
            self.nodes,
            self.catalog,
            self.shape,
            self.excluded,
            CapacityView::Empty,
        );
        (answer == none).then(|| WaitDetail::TooFewPlaces {
            group: None,
            pods: self.gang.pod_count(),
            room: None,
            nodes,
            unadvertised: silent,
            exclusions: Exclusions::default(),
        })
    }

    fn unadvertised_device(&self, group: usize) -> Option<UnadvertisedDevice> {
        let group = self.shape.groups.get(group)?;
        exclusions::unadvertised_device(self.nodes, self.catalog, group, self.excluded)
    }

    /// Returns the reasons that keep a group off the nodes that do not match, if some nodes match.
    fn other_exclusions(&self, group: usize, matching: u32) -> Exclusions {
        match self.shape.groups.get(group) {
            Some(group) if matching < self.nodes.node_count() => {
                exclusions::count_exclusions(self.nodes, self.catalog, group, self.excluded)
            }
            _ => Exclusions::default(),
        }
    }
}
