//! Why a topology has no place for all slices of a group.

use std::ops::Range;

use super::context::ExplanationContext;
use crate::ids::GroupName;
use crate::placement::{
    CapacityView, GangTopology, GroupFit, ResolvedLayer, ResolvedRequest, round_down,
};
use crate::state::{GroupShape, NodeIdx};

/// A group whose slices do not all fit, and the domain that comes closest to another slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScarceSlices {
    /// The task group, if it is one of several.
    pub group: Option<GroupName>,
    /// The name of the level: each slice must be in one domain of it.
    pub level: String,
    /// The keys of the node labels that name a domain of the level, coarse to fine.
    pub labels: Vec<String>,
    /// Pods of the group.
    pub pods: u32,
    /// Pods in each slice.
    pub slice_pods: u32,
    /// Slices that fit.
    pub fitting_slices: u64,
    /// Where all slices must be: the level, and the domain with room for the most slices. None:
    /// anywhere.
    pub within: Option<(String, String)>,
    /// The domain with room for the most pods of another slice, by its label values, coarse to
    /// fine: `block-1/rack-3`. None: there is no domain.
    pub domain: Option<String>,
    /// The pods of another slice for which it has room. With inner slices, only pods in whole inner
    /// slices count.
    pub fitting_pods: u64,
    /// Nodes that are in no domain of the level, because they lack its label or the label of a
    /// level above.
    pub unlabelled: u32,
}

/// The pods in whole slices on some nodes.
#[derive(Default)]
struct SliceCount {
    whole_pods: u64,
    /// The domain with room for the most pods of another slice, and how many.
    best_rest: Option<(usize, u64)>,
}

impl ScarceSlices {
    /// Returns the number of slices of the group.
    #[must_use]
    pub fn slices(&self) -> u64 {
        u64::from(self.pods.checked_div(self.slice_pods).unwrap_or(0))
    }
}

impl ExplanationContext<'_> {
    /// Returns the first group whose slices do not all fit, if each other topology request of the
    /// group could be met. Each group counts alone. The obstacle is the finest layer that does not
    /// fit, because a coarser layer consists of its slices.
    pub(super) fn find_scarce_slices(
        &self,
        topology: &GangTopology,
        view: CapacityView,
    ) -> Option<ScarceSlices> {
        let single = topology.single_request(self.shape);
        let mut groups = self.shape.groups.iter().enumerate();
        groups.find_map(|(at, group)| {
            let single = single.as_ref().filter(|(only, _)| *only == at);
            let own = topology.group_request(at);
            let request = single.map(|(_, request)| request).or(own)?;
            let mut layers = request.slices.layers().iter().rev();
            layers.find_map(|layer| self.scarce_slices(at, group, (request, *layer), view))
        })
    }

    fn scarce_slices(
        &self,
        at: usize,
        group: &GroupShape,
        (request, layer): (&ResolvedRequest, ResolvedLayer),
        view: CapacityView,
    ) -> Option<ScarceSlices> {
        let layout = &request.level.layout;
        let needed = u64::from(group.count);
        let count_on = self.pod_counter(group, view)?;
        // All slices are on one of these stretches. A number is that of a required domain.
        let stretches: Vec<(Option<usize>, Range<usize>)> = match request.is_required() {
            false => vec![(None, 0..layout.nodes().len())],
            true => {
                let domains = layout.domains(request.level.depth).enumerate();
                domains.map(|(at, stretch)| (Some(at), stretch)).collect()
            }
        };
        let counted = stretches.into_iter().map(|(number, stretch)| {
            let nodes = layout.nodes_in(stretch.clone());
            let pods = nodes.iter().map(|node| count_on(*node));
            let has_room = number.is_none() || pods.fold(0, u64::saturating_add) >= needed;
            let count = self.count_slices((request, layer), &stretch, &count_on);
            (has_room, count, number, nodes)
        });
        // Among equal domains, take the first by name.
        let rank = |(has_room, count, ..): &(bool, SliceCount, _, _)| (*has_room, count.whole_pods);
        let best = counted.reduce(|best, next| match rank(&next) > rank(&best) {
            true => next,
            false => best,
        });
        let (has_room, count, number, nodes) = best?;
        // Without room for all pods, a required level is the obstacle, not the slices.
        if count.whole_pods >= needed || !has_room {
            return None;
        }
        let within = number.map(|number| {
            let level = self.nodes.domains().level_name(&request.level);
            (level, layout.name(request.level.depth, number))
        });
        let mut level = request.level.clone();
        level.depth = layer.depth;
        let name = self.nodes.domains().level_name(&level);
        let slice = u64::from(layer.pods);
        let domain = |number: usize| layout.name(layer.depth, number);
        let labelled = |node: &&NodeIdx| layout.domain(layer.depth, **node).is_some();
        let unlabelled = nodes
            .len()
            .saturating_sub(nodes.iter().filter(labelled).count());
        Some(ScarceSlices {
            group: self.group_name(at),
            labels: self.nodes.domains().level_labels(&name),
            level: name,
            pods: group.count,
            slice_pods: layer.pods,
            fitting_slices: count.whole_pods.checked_div(slice).unwrap_or(0),
            within,
            domain: count.best_rest.map(|(number, _)| domain(number)),
            fitting_pods: count.best_rest.map_or(0, |(_, pods)| pods),
            unlabelled: u32::try_from(unlabelled).unwrap_or(u32::MAX),
        })
    }

    /// Counts the whole slices on a stretch of the topology.
    fn count_slices(
        &self,
        (request, layer): (&ResolvedRequest, ResolvedLayer),
        stretch: &Range<usize>,
        count_on: &impl Fn(NodeIdx) -> u64,
    ) -> SliceCount {
        let layout = &request.level.layout;
        let inner = request.slices.within(layer.depth);
        let mut sum = SliceCount::default();
        for (number, domain) in layout.domains_in(layer.depth, stretch) {
            let mut counter = inner.counter(layout, layer.depth);
            for place in domain {
                let Some(node) = layout.nodes().get(place) else {
                    continue;
                };
                let place = u32::try_from(place).unwrap_or(u32::MAX);
                counter.add(place, count_on(*node));
            }
            let pods = counter.take();
            let whole = round_down(pods, layer.pods);
            let rest = pods.saturating_sub(whole);
            sum.whole_pods = sum.whole_pods.saturating_add(whole);
            if sum.best_rest.is_none_or(|(_, best)| rest > best) {
                sum.best_rest = Some((number, rest));
            }
        }
        sum
    }

    /// Returns a function that counts how many pods of a group a node holds.
    pub(super) fn pod_counter<'s>(
        &'s self,
        group: &'s GroupShape,
        view: CapacityView,
    ) -> Option<impl Fn(NodeIdx) -> u64 + use<'s>> {
        let fit = GroupFit::new(self.nodes, group, view);
        let signature = self.catalog.signature(group.signature)?;
        Some(
            move |node| match signature.allows(node) && !self.excluded.contains(&node) {
                true => u64::from(fit.count_fitting(node, group.count)),
                false => 0,
            },
        )
    }
}
