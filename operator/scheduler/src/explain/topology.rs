//! Why no domain of a topology has a place for a gang.

use super::Detail;
use super::capacity::Question;
use crate::gang::Gang;
use crate::ids::GroupName;
use crate::placement::{Answer, Closeness, Fit, Near, Room, by_size, search_topology};
use crate::queueing::{Blocked, Signal, Wake};
use crate::state::{Catalog, Domains, GroupShape, NodeIdx, Nodes, Shape};
use crate::topology::TopologyRequest;

/// The pods that must be in one domain, and the domain that holds most of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InDomain {
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
    pub best: Option<String>,
    /// How many of the pods it holds, the largest pods first. If it holds all of them, other
    /// topology requests or collisions between groups are why the gang does not fit.
    pub holds: u64,
    /// How many domains the level has.
    pub domains: u32,
    /// Nodes that are in no domain of the level: they lack its label, or that of a level above.
    pub unlabelled: u32,
}

/// Checks that the topology levels that a gang and its groups ask for exist.
///
/// # Errors
///
/// No topology has one of the levels.
pub(crate) fn is_there(domains: &Domains, gang: &Gang) -> Result<(), Box<Blocked>> {
    let Some(detail) = not_found(domains, gang) else {
        return Ok(());
    };
    let mut wake = Wake::default();
    wake.on(Signal::Queues, 1)
        .on(Signal::Head(gang.queue.clone()), 1);
    Err(Blocked::new(detail, wake))
}

fn not_found(domains: &Domains, gang: &Gang) -> Option<Detail> {
    if gang.pod_count() == 0 {
        return None;
    }
    let missing = |request: &Option<TopologyRequest>| Near::find(domains, request.as_ref()?).err();
    let several = gang.groups.len() > 1;
    let own = || {
        let mut groups = gang.groups.iter();
        groups.find_map(|group| {
            let level = missing(&group.topology)?;
            Some((several.then(|| group.name.clone()), level))
        })
    };
    let (group, missing) = missing(&gang.topology)
        .map(|level| (None, level))
        .or_else(own)?;
    Some(Detail::TopologyNotFound {
        group,
        missing,
        levels: domains.levels(),
    })
}

/// The pods that must be in one domain: those of a group, or of the gang.
struct Must<'a> {
    /// None: the gang.
    group: Option<usize>,
    near: &'a Near,
}

impl Question<'_> {
    /// The pods that must be in one domain exceed every domain even if all nodes were empty.
    pub(super) fn exceeds_topology(&self) -> Option<Detail> {
        let close = Closeness::of(self.nodes, self.shape)?;
        self.impossible(&close, Room::Empty)
            .map(Detail::ExceedsTopology)
    }

    /// The pods that must be in one domain exceed the free capacity of every domain. None: that is
    /// not why the gang waits.
    pub(super) fn topology_fragmented(&self, wake: &mut Wake) -> Option<Detail> {
        let close = Closeness::of(self.nodes, self.shape)?;
        let musts = musts(&close);
        let must = musts.iter().find(|must| {
            must.group.is_none() || self.pods(must) > self.best(must, Room::Free).holds
        })?;
        self.watch_domains(must, wake);
        Some(Detail::TopologyFragmented {
            domain: self.best(must, Room::Free),
            certain: self.certain,
        })
    }

    /// Wakes the gang when so much is taken that no domain may hold a group any more that must be
    /// in one.
    pub(super) fn watch_close_groups(&self, wake: &mut Wake) {
        let close = Closeness::of(self.nodes, self.shape);
        if close.is_some_and(|close| !musts(&close).is_empty()) {
            for (resource, _) in &self.shape.total {
                wake.on(Signal::Taken(*resource), 1);
            }
        }
    }

    fn impossible(&self, close: &Closeness, room: Room) -> Option<InDomain> {
        let musts = musts(close);
        for must in &musts {
            // For a single group the count is exact.
            let best = (self.groups(must).len() < 2).then(|| self.best(must, room));
            if let Some(best) = best.filter(|best| best.holds < best.pods) {
                return Some(best);
            }
        }
        let first = musts.last()?;
        if musts.len() < 2 && with_pods(self.shape) < 2 {
            return None;
        }
        let wish = (self.shape, self.excluded);
        let answer = search_topology(self.nodes, self.catalog, wish, close, room);
        (answer == Answer::Nothing { certain: true }).then(|| self.best(first, room))
    }

    fn groups(&self, must: &Must<'_>) -> Vec<&GroupShape> {
        let of = |at: usize| must.group.is_none_or(|group| group == at);
        let groups = by_size(self.nodes, self.shape).into_iter();
        groups
            .filter(|(at, group)| of(*at) && group.count > 0)
            .map(|(_, group)| group)
            .collect()
    }

    fn pods(&self, must: &Must<'_>) -> u64 {
        let groups = self.groups(must);
        let pods = groups.iter().map(|group| u64::from(group.count));
        pods.fold(0, u64::saturating_add)
    }

    /// The domain that holds most of the pods; of equal ones the first by name.
    fn best(&self, must: &Must<'_>, room: Room) -> InDomain {
        let (layout, depth) = (&must.near.level.layout, must.near.level.depth);
        let request = match must.group {
            Some(at) => self.shape.groups.get(at).and_then(|g| g.topology.as_ref()),
            None => self.shape.topology.as_ref(),
        };
        let groups = self.groups(must);
        let mut best: Option<(usize, u64)> = None;
        let mut labelled = 0_usize;
        for (number, stretch) in layout.domains(depth).enumerate() {
            let among = layout.stretch(stretch);
            labelled = labelled.saturating_add(among.len());
            let holds = self.holds(&groups, among, room);
            if best.is_none_or(|(_, most)| holds > most) {
                best = Some((number, holds));
            }
        }
        let u32_of = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let level = request.and_then(TopologyRequest::required_level);
        let level = level.unwrap_or_default().to_owned();
        InDomain {
            group: must.group.and_then(|at| self.name(at)),
            labels: self.nodes.domains().labels(&level),
            level,
            pods: self.pods(must),
            best: best.map(|(number, _)| layout.name(depth, number)),
            holds: best.map_or(0, |(_, holds)| holds),
            domains: u32_of(layout.domain_count(depth)),
            unlabelled: u32_of(layout.nodes().len().saturating_sub(labelled)),
        }
    }

    /// How many pods of these groups the nodes hold, placed one after another.
    fn holds(&self, groups: &[&GroupShape], among: &[NodeIdx], room: Room) -> u64 {
        if let [group] = groups {
            return self.holds_one(group, among, room);
        }
        let mut left: Vec<Vec<i64>> = among.iter().map(|node| self.room(*node, room)).collect();
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

    fn holds_one(&self, group: &GroupShape, among: &[NodeIdx], room: Room) -> u64 {
        let fit = Fit::new(self.nodes, group, room);
        let allowed = among.iter().filter(|node| self.allows(group, **node));
        let pods = allowed.map(|node| u64::from(fit.pods(*node, group.count)));
        pods.fold(0, u64::saturating_add)
            .min(u64::from(group.count))
    }

    /// Amount of each resource that the gang needs on a node.
    fn room(&self, node: NodeIdx, room: Room) -> Vec<i64> {
        let total = self.shape.total.iter();
        total
            .map(|(resource, _)| {
                let column = self.nodes.column(*resource);
                column.map_or(0, |column| room.of(column, node))
            })
            .collect()
    }

    fn allows(&self, group: &GroupShape, node: NodeIdx) -> bool {
        allows(self.catalog, group, node) && !self.excluded.contains(&node)
    }

    /// Wakes the gang when a domain may hold it: where one resource alone is too
    /// little in every domain, only more of that can help, else any may.
    fn watch_domains(&self, must: &Must<'_>, wake: &mut Wake) {
        let level = &must.near.level;
        for group in self.groups(must) {
            for (resource, need) in group.demand.iter() {
                let places = |node: &NodeIdx| places(self.nodes, *resource, *need, *node);
                let holds = level.layout.domains(level.depth).any(|stretch| {
                    let among = level.layout.stretch(stretch).iter();
                    let allowed = among.filter(|node| self.allows(group, **node));
                    let all = allowed.map(places).fold(0, u64::saturating_add);
                    all >= u64::from(group.count)
                });
                if !holds {
                    wake.on(Signal::Freed(*resource), 1);
                    return;
                }
            }
        }
        for (resource, _) in &self.shape.total {
            wake.on(Signal::Freed(*resource), 1);
        }
    }
}

fn places(nodes: &Nodes, resource: crate::state::ResourceIdx, need: i64, node: NodeIdx) -> u64 {
    let free = nodes.free(resource, node).max(0);
    u64::try_from(free.checked_div(need).unwrap_or(0)).unwrap_or(0)
}

fn allows(catalog: &Catalog, group: &GroupShape, node: NodeIdx) -> bool {
    let signature = catalog.signature(group.signature);
    signature.is_some_and(|signature| signature.allows(node))
}

fn with_pods(shape: &Shape) -> usize {
    shape.groups.iter().filter(|g| g.count > 0).count()
}

/// The pods that must be in one domain: those of groups first, those of the gang last.
fn musts(close: &Closeness) -> Vec<Must<'_>> {
    let groups = close.groups.iter().enumerate();
    let own = groups.filter_map(|(at, near)| {
        let near = near.as_ref()?;
        Some(Must {
            group: Some(at),
            near,
        })
    });
    let gang = close.gang.iter().map(|near| Must { group: None, near });
    own.chain(gang)
        .filter(|must| must.near.is_required())
        .collect()
}
