//! Why no domain of a topology has a place for a gang.

use super::WaitDetail;
use super::context::ExplanationContext;
use crate::gang::Gang;
use crate::ids::GroupName;
use crate::placement::{
    CapacityView, GangTopology, ResolvedRequest, SearchResult, groups_by_size, search_topology,
};
use crate::queueing::{Blockage, Signal, WakeCondition};
use crate::state::{Catalog, GangShape, GroupShape, NodeIdx, Nodes, TopologyDomains};
use crate::topology::TopologyRequest;

/// The pods that must be in one domain, and the domain that holds most of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestDomain {
    /// The task group, if it is one of several that must be in one domain. None: the gang.
    pub group: Option<GroupName>,
    /// The name of the level.
    pub level: String,
    /// The keys of the node labels that name a domain of the level, coarse to fine.
    pub labels: Vec<String>,
    /// Pods.
    pub pods: u64,
    /// The domain that holds most of the pods, by its label values, coarse to fine:
    /// `block-1/rack-3`. None: there is no domain.
    pub domain: Option<String>,
    /// Number of the pods that it holds, the largest pods first. If it holds all of them, the gang
    /// does not fit because of other topology requests or collisions between groups.
    pub fitting_pods: u64,
    /// Number of domains of the level.
    pub domains: u32,
    /// Nodes that are in no domain of the level, because they lack its label or the label of a
    /// level above.
    pub unlabelled: u32,
}

/// Checks that the topology levels that a gang and its groups request exist.
///
/// # Errors
///
/// No topology has one of the levels.
pub(crate) fn check_levels(domains: &TopologyDomains, gang: &Gang) -> Result<(), Box<Blockage>> {
    let Some(detail) = find_missing_level(domains, gang) else {
        return Ok(());
    };
    let mut wake = WakeCondition::default();
    wake.on_rise(Signal::Queues, 1)
        .on_rise(Signal::Head(gang.queue.clone()), 1);
    Err(Blockage::new(detail, wake))
}

fn find_missing_level(domains: &TopologyDomains, gang: &Gang) -> Option<WaitDetail> {
    if gang.pod_count() == 0 {
        return None;
    }
    let several = gang.groups.len() > 1;
    let own = || {
        let mut groups = gang.groups.iter();
        groups.find_map(|group| {
            let request = group.topology.as_ref();
            let requests = (gang.topology.as_ref(), request);
            let found =
                ResolvedRequest::find_for_group(domains, requests, (&group.slices, group.balanced));
            Some((several.then(|| group.name.clone()), found.err()?))
        })
    };
    let request = gang.topology.as_ref();
    let missing = request.and_then(|request| ResolvedRequest::find(domains, request).err());
    let (group, missing) = missing.map(|level| (None, level)).or_else(own)?;
    Some(WaitDetail::TopologyNotFound {
        group,
        missing,
        levels: domains.level_names(),
    })
}

/// The pods of a group or of the gang that must be in one domain.
struct DomainRequirement<'a> {
    /// None: the gang.
    group: Option<usize>,
    near: &'a ResolvedRequest,
}

impl ExplanationContext<'_> {
    /// Explains that no domain could hold the pods that must be in one domain, even if all nodes
    /// were empty.
    pub(super) fn exceeds_topology(&self) -> Option<WaitDetail> {
        let close = GangTopology::for_shape(self.nodes, self.shape)?;
        let slices = self.find_scarce_slices(&close, CapacityView::Empty);
        slices.map(WaitDetail::ExceedsSlices).or_else(|| {
            self.find_impossible(&close, CapacityView::Empty)
                .map(WaitDetail::ExceedsTopology)
        })
    }

    /// Explains that no domain has enough free capacity for the pods that must be in one domain.
    /// None: the gang waits for another reason.
    pub(super) fn topology_fragmented(&self, wake: &mut WakeCondition) -> Option<WaitDetail> {
        let close = GangTopology::for_shape(self.nodes, self.shape)?;
        if let Some(slices) = self.find_scarce_slices(&close, CapacityView::Free) {
            self.watch_freed(wake);
            return Some(WaitDetail::SlicesFragmented(slices));
        }
        let musts = domain_requirements(&close);
        let must = musts.iter().find(|must| {
            must.group.is_none()
                || self.pods(must) > self.best_domain(must, CapacityView::Free).fitting_pods
        })?;
        self.watch_domains(must, wake);
        Some(WaitDetail::TopologyFragmented {
            domain: self.best_domain(must, CapacityView::Free),
            certain: self.certain,
        })
    }

    /// Wakes the gang when so much is taken that possibly no domain can hold a group that must be
    /// in one domain.
    pub(super) fn watch_required_groups(&self, wake: &mut WakeCondition) {
        let close = GangTopology::for_shape(self.nodes, self.shape);
        let is_bound = |close: GangTopology| {
            let mut groups = 0..self.shape.groups.len();
            !domain_requirements(&close).is_empty()
                || groups.any(|at| close.slices(self.shape, at).is_some())
        };
        if close.is_some_and(is_bound) {
            for (resource, _) in &self.shape.total {
                wake.on_rise(Signal::Taken(*resource), 1);
            }
        }
    }

    fn find_impossible(&self, close: &GangTopology, room: CapacityView) -> Option<BestDomain> {
        let musts = domain_requirements(close);
        for must in &musts {
            // For a single group the count is exact.
            let best = (self.groups(must).len() < 2).then(|| self.best_domain(must, room));
            if let Some(best) = best.filter(|best| best.fitting_pods < best.pods) {
                return Some(best);
            }
        }
        let first = musts.last()?;
        if musts.len() < 2 && count_groups_with_pods(self.shape) < 2 {
            return None;
        }
        let wish = (self.shape, self.excluded);
        let answer = search_topology(self.nodes, self.catalog, wish, close, room);
        (answer == SearchResult::NoPlace { certain: true }).then(|| self.best_domain(first, room))
    }

    fn groups(&self, must: &DomainRequirement<'_>) -> Vec<&GroupShape> {
        let of = |at: usize| must.group.is_none_or(|group| group == at);
        let groups = groups_by_size(self.nodes, self.shape).into_iter();
        groups
            .filter(|(at, group)| of(*at) && group.count > 0)
            .map(|(_, group)| group)
            .collect()
    }

    fn pods(&self, must: &DomainRequirement<'_>) -> u64 {
        let groups = self.groups(must);
        let pods = groups.iter().map(|group| u64::from(group.count));
        pods.fold(0, u64::saturating_add)
    }

    /// Returns the domain that holds most of the pods, or of equal domains the first by name.
    fn best_domain(&self, must: &DomainRequirement<'_>, room: CapacityView) -> BestDomain {
        let (layout, depth) = (&must.near.level.layout, must.near.level.depth);
        let request = match must.group {
            Some(at) => self.shape.groups.get(at).and_then(|g| g.topology.as_ref()),
            None => self.shape.topology.as_ref(),
        };
        let groups = self.groups(must);
        let mut best: Option<(usize, u64)> = None;
        let mut labelled = 0_usize;
        for (number, stretch) in layout.domains(depth).enumerate() {
            let among = layout.nodes_in(stretch);
            labelled = labelled.saturating_add(among.len());
            let holds = self.count_fitting(&groups, among, room);
            if best.is_none_or(|(_, most)| holds > most) {
                best = Some((number, holds));
            }
        }
        let u32_of = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let level = request.and_then(TopologyRequest::required_level);
        let level = level.unwrap_or_default().to_owned();
        BestDomain {
            group: must.group.and_then(|at| self.group_name(at)),
            labels: self.nodes.domains().level_labels(&level),
            level,
            pods: self.pods(must),
            domain: best.map(|(number, _)| layout.name(depth, number)),
            fitting_pods: best.map_or(0, |(_, holds)| holds),
            domains: u32_of(layout.domain_count(depth)),
            unlabelled: u32_of(layout.nodes().len().saturating_sub(labelled)),
        }
    }

    /// Returns how many pods of these groups the nodes hold, placed one after another.
    fn count_fitting(&self, groups: &[&GroupShape], among: &[NodeIdx], room: CapacityView) -> u64 {
        if let [group] = groups {
            return self.count_fitting_of_group(group, among, room);
        }
        let mut left: Vec<Vec<i64>> = among
            .iter()
            .map(|node| self.node_amounts(*node, room))
            .collect();
        let mut held = 0_u64;
        for group in groups {
            let needs = self.shape.total.iter().map(|(r, _)| group.need(*r));
            let needs: Vec<i64> = needs.collect();
            let mut pods = i64::from(group.count);
            for (node, left) in among.iter().zip(&mut left) {
                if !self.allows(group, *node) {
                    continue;
                }
                let places = left.iter().zip(&needs);
                let fits = places
                    .filter_map(|(left, need)| left.checked_div(*need))
                    .fold(pods, i64::min);
                for (left, need) in left.iter_mut().zip(&needs) {
                    *left = left.saturating_sub(need.saturating_mul(fits));
                }
                pods = pods.saturating_sub(fits);
            }
            let missing = u64::try_from(pods).unwrap_or(0);
            held = held.saturating_add(u64::from(group.count).saturating_sub(missing));
        }
        held
    }

    fn count_fitting_of_group(
        &self,
        group: &GroupShape,
        among: &[NodeIdx],
        room: CapacityView,
    ) -> u64 {
        let Some(count_on) = self.pod_counter(group, room) else {
            return 0;
        };
        let pods = among.iter().map(|node| count_on(*node));
        pods.fold(0, u64::saturating_add)
            .min(u64::from(group.count))
    }

    /// Returns a node's amount of each resource that the gang needs.
    fn node_amounts(&self, node: NodeIdx, room: CapacityView) -> Vec<i64> {
        let total = self.shape.total.iter();
        total
            .map(|(resource, _)| {
                let column = self.nodes.column(*resource);
                column.map_or(0, |column| room.amount(column, node))
            })
            .collect()
    }

    fn allows(&self, group: &GroupShape, node: NodeIdx) -> bool {
        is_node_allowed(self.catalog, group, node) && !self.excluded.contains(&node)
    }

    /// Wakes the gang when a domain may hold it. If every domain has too little of one resource,
    /// only more of that resource can help. Otherwise more of any resource may help.
    fn watch_domains(&self, must: &DomainRequirement<'_>, wake: &mut WakeCondition) {
        let level = &must.near.level;
        for group in self.groups(must) {
            for (resource, need) in group.demand.iter() {
                let places = |node: &NodeIdx| count_places(self.nodes, *resource, *need, *node);
                let holds = level.layout.domains(level.depth).any(|stretch| {
                    let among = level.layout.nodes_in(stretch).iter();
                    let allowed = among.filter(|node| self.allows(group, **node));
                    let all = allowed.map(places).fold(0, u64::saturating_add);
                    all >= u64::from(group.count)
                });
                if !holds {
                    wake.on_rise(Signal::Freed(*resource), 1);
                    return;
                }
            }
        }
        self.watch_freed(wake);
    }

    /// Wakes the gang when more of any resource that it needs is free.
    fn watch_freed(&self, wake: &mut WakeCondition) {
        for (resource, _) in &self.shape.total {
            wake.on_rise(Signal::Freed(*resource), 1);
        }
    }
}

fn count_places(
    nodes: &Nodes,
    resource: crate::state::ResourceIdx,
    need: i64,
    node: NodeIdx,
) -> u64 {
    let free = nodes.free(resource, node).max(0);
    u64::try_from(free.checked_div(need).unwrap_or(0)).unwrap_or(0)
}

fn is_node_allowed(catalog: &Catalog, group: &GroupShape, node: NodeIdx) -> bool {
    let signature = catalog.signature(group.signature);
    signature.is_some_and(|signature| signature.allows(node))
}

fn count_groups_with_pods(shape: &GangShape) -> usize {
    shape.groups.iter().filter(|g| g.count > 0).count()
}

/// Returns the sets of pods that must be in one domain: first those of groups, last that of the
/// gang.
fn domain_requirements(close: &GangTopology) -> Vec<DomainRequirement<'_>> {
    let groups = close.groups.iter().enumerate();
    let own = groups.filter_map(|(at, near)| {
        let near = near.as_ref()?;
        Some(DomainRequirement {
            group: Some(at),
            near,
        })
    });
    let gang = close
        .gang
        .iter()
        .map(|near| DomainRequirement { group: None, near });
    own.chain(gang)
        .filter(|must| must.near.is_required())
        .collect()
}
