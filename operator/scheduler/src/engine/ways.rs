//! Ways: the flavor assignments with which a gang may be placed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Engine;
use crate::explain::{Detail, Unfit};
use crate::gang::{Gang, TaskGroup};
use crate::ids::{FlavorName, GroupName};
use crate::placement::Runs;
use crate::queue::GroupFlavors;
use crate::queueing::{self, Blocked, Choice, NoWay, Signal, Wake};
use crate::quota::{Demand, FlavorResource};
use crate::state::{GangIdx, Shape};

/// A flavor assignment of a gang, with the shape and demand that follow from it.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The shape with the constraints of the flavors.
    pub(super) shape: Arc<Shape>,
    pub(super) demand: Demand,
    /// The flavors by task group.
    pub(super) choices: Vec<Choice>,
    /// The shape is a separate one in the catalog, and must be released.
    own_shape: bool,
}

/// The flavor assignments of a gang, the best first, or why it has none.
pub(super) type Ways = Result<Arc<WayList>, NoWay>;

/// Flavor assignments, the best first.
#[derive(Debug, Default)]
pub(super) struct WayList {
    list: Vec<Way>,
    /// There are too many to try them all. Choices that can never work were dropped, as of these
    /// versions of the nodes.
    pub(super) thinned: Option<(u64, u64)>,
    /// There are more that are not tried.
    pub(super) cut: bool,
}

impl std::ops::Deref for WayList {
    type Target = [Way];

    fn deref(&self) -> &[Way] {
        &self.list
    }
}

/// The flavor assignments of a gang, as of some version of queues and flavors.
#[derive(Debug)]
pub(super) struct KnownWays {
    pub(super) version: u64,
    pub(super) ways: Ways,
}

impl Way {
    /// The assignment of a gang that is already charged.
    pub(super) fn charged(shape: Arc<Shape>, demand: Demand, choices: Vec<Choice>) -> Self {
        Self {
            shape,
            demand,
            choices,
            own_shape: false,
        }
    }
}

impl Engine {
    /// The flavor assignments of a known gang.
    pub(super) fn ways(&mut self, at: GangIdx) -> Option<Ways> {
        let state = self.state(at)?;
        if let Some(known) = &state.ways
            && known.version == self.config
            && self.is_of_now(&known.ways)
        {
            return Some(known.ways.clone());
        }
        let (gang, shape) = (Arc::clone(&state.gang), Arc::clone(&state.shape));
        let ways = self.make_ways(&gang, &shape);
        let known = KnownWays {
            version: self.config,
            ways: ways.clone(),
        };
        let before = self.state_mut(at).and_then(|s| s.ways.replace(known));
        if let Some(before) = before {
            self.drop_ways(&before.ways);
        }
        Some(ways)
    }

    /// The flavor assignment of a gang that was placed on these nodes before this engine knew of
    /// it. `given` are its flavors, if they are known.
    pub(super) fn way_taken(
        &mut self,
        at: GangIdx,
        groups: &[Runs],
        given: &[GroupFlavors],
    ) -> Option<Way> {
        if !given.is_empty() {
            return self.way_in(at, given);
        }
        let ways = self.ways(at);
        let taken = match &ways {
            Some(Ok(ways)) => self.way_of(ways, groups),
            _ => None,
        };
        if taken.is_some() {
            return taken;
        }
        // Its queue offers it nothing any more, but it keeps what it holds.
        let shape = Arc::clone(&self.state(at)?.shape);
        Some(Way {
            demand: self.demand(&shape, &[]),
            shape,
            choices: Vec::new(),
            own_shape: false,
        })
    }

    /// The assignment of a placed gang with these flavors.
    fn way_in(&mut self, at: GangIdx, given: &[GroupFlavors]) -> Option<Way> {
        let state = self.state(at)?;
        let (gang, shape) = (Arc::clone(&state.gang), Arc::clone(&state.shape));
        let choice = |group: &TaskGroup| {
            let given = given.iter().find(|g| g.group == group.name);
            given.map(|g| g.flavors.clone()).unwrap_or_default()
        };
        let choices: Vec<Choice> = gang.groups.iter().map(choice).collect();
        Some(Way {
            demand: self.demand(&shape, &choices),
            shape,
            choices,
            own_shape: false,
        })
    }

    /// The gang asks for nodes that belong to none of its flavors.
    pub(super) fn no_node_of_a_flavor(&self, gang: &Gang) -> Box<Blocked> {
        let offered = self.queues.offered(&gang.queue, &self.catalog);
        let flavors = offered
            .iter()
            .flat_map(|g| &g.flavors)
            .map(|f| f.flavor.clone())
            .collect();
        let why = NoWay::NoFlavor { group: 0, flavors };
        self.no_way(gang, &why)
    }

    /// Computes the flavor assignments of a gang. They must be released with [`Self::drop_ways`].
    pub(super) fn make_ways(&mut self, gang: &Gang, shape: &Arc<Shape>) -> Ways {
        let offered = self.queues.offered(&gang.queue, &self.catalog).into_owned();
        let any = gang.groups.iter().all(|g| g.flavors.is_empty());
        if offered.is_empty() && any {
            let way = Way {
                shape: Arc::clone(shape),
                demand: self.demand(shape, &[]),
                choices: Vec::new(),
                own_shape: false,
            };
            return Ok(Arc::new(WayList {
                list: vec![way],
                ..WayList::default()
            }));
        }
        let mut choices = queueing::choices(gang, &offered, self.queues.flavors())?;
        let (mut ways, mut cut) = queueing::combine(&choices);
        let mut thinned = None;
        if cut {
            thinned = Some(self.versions());
            let hope = self.drop_hopeless(gang, &mut choices);
            (ways, cut) = queueing::combine(&choices);
            // If a group has no choice that might work, no other assignment works either.
            cut &= hope;
        }
        let mut list = Vec::with_capacity(ways.len());
        for choices in ways {
            list.extend(self.make_way(gang, shape, choices));
        }
        Ok(Arc::new(WayList { list, thinned, cut }))
    }

    /// True if the assignments still match the nodes.
    fn is_of_now(&self, ways: &Ways) -> bool {
        let thinned = ways.as_ref().ok().and_then(|ways| ways.thinned);
        thinned.is_none_or(|versions| versions == self.versions())
    }

    /// The versions of node properties and kinds.
    fn versions(&self) -> (u64, u64) {
        (self.nodes.version(), self.nodes.kinds().version())
    }

    /// None: the gang asks for nodes that belong to none of the flavors.
    fn make_way(&mut self, gang: &Gang, shape: &Arc<Shape>, choices: Vec<Choice>) -> Option<Way> {
        let mut constrained = gang.clone();
        let mut changed = false;
        for (group, choice) in constrained.groups.iter_mut().zip(&choices) {
            let before = group.constraints.clone();
            if !self.constrain(group, choice) {
                return None;
            }
            changed |= before != group.constraints;
        }
        let shape = if changed {
            Arc::new(self.catalog.acquire_shape(&constrained))
        } else {
            Arc::clone(shape)
        };
        Some(Way {
            demand: self.demand(&shape, &choices),
            shape,
            choices,
            own_shape: changed,
        })
    }

    /// Adds the constraints of a choice's flavors. False: the group asks for other nodes.
    pub(super) fn constrain(&self, group: &mut TaskGroup, choice: &Choice) -> bool {
        let flavors: BTreeSet<&FlavorName> = choice.values().collect();
        let known = self.queues.flavors();
        let mut flavors = flavors.into_iter();
        flavors.all(|flavor| known.constrain(flavor, &mut group.constraints))
    }

    /// The charge of a gang. Resources without a chosen flavor are charged to the default one.
    pub(super) fn demand(&mut self, shape: &Shape, choices: &[Choice]) -> Demand {
        let mut amounts = Vec::new();
        for (number, group) in shape.groups.iter().enumerate() {
            for (resource, need) in group.demand.iter() {
                let name = self.catalog.name(*resource);
                let chosen = choices.get(number).and_then(|choice| choice.get(&name));
                let flavor = match chosen {
                    Some(flavor) => self.queues.flavors_mut().number(flavor),
                    None => self.queues.flavors_mut().number(&FlavorName::default()),
                };
                let all = i128::from(*need).saturating_mul(i128::from(group.count));
                let resource = *resource;
                amounts.push((FlavorResource { flavor, resource }, all));
            }
        }
        amounts.into_iter().collect()
    }

    /// Releases what the flavor assignments of a gang hold.
    pub(super) fn drop_ways(&mut self, ways: &Ways) {
        for way in ways.iter().flat_map(|ways| ways.iter()) {
            if way.own_shape {
                self.drop_shape(&way.shape);
            }
        }
    }

    /// The assignment of a gang that was placed on these nodes: the first whose flavors match their
    /// labels. If none does, the first one, because labels may have changed since.
    fn way_of(&self, ways: &[Way], groups: &[Runs]) -> Option<Way> {
        let fits = |way: &&Way| {
            way.choices.iter().zip(groups).all(|(choice, runs)| {
                choice.values().all(|flavor| {
                    runs.iter().all(|(node, _)| {
                        self.nodes
                            .facts(*node)
                            .is_none_or(|facts| self.queues.flavors().is_on(flavor, &facts.labels))
                    })
                })
            })
        };
        ways.iter().find(fits).or_else(|| ways.first()).cloned()
    }

    /// Names the flavor that asks for a label that nodes lack. The explanation of a shape has no
    /// flavor, because gangs of other queues may have the same shape.
    pub(super) fn name_flavors(&self, gang: &Gang, way: &Way, blocked: &mut Blocked) {
        let detail = &mut blocked.certificate.detail;
        let Detail::NoMatchingNodes { group, exclusions } = detail.as_ref() else {
            return;
        };
        let at = gang
            .groups
            .iter()
            .position(|g| group.as_ref().is_none_or(|name| g.name == *name))
            .unwrap_or(0);
        let (Some(own), Some(choice)) = (gang.groups.get(at), way.choices.get(at)) else {
            return;
        };
        let own = &own.constraints.node_selector;
        let mut exclusions = exclusions.clone();
        for label in &mut exclusions.labels {
            if !own.contains_key(&label.key) {
                let flavors = self.queues.flavors();
                let mut chosen = choice.values();
                label.flavor = chosen
                    .find(|flavor| flavors.asks_for(flavor, &label.key))
                    .cloned();
            }
        }
        let group = group.clone();
        *detail = Arc::new(Detail::NoMatchingNodes { group, exclusions });
    }

    /// The reason why a group may not use a flavor.
    fn unfit(&self, flavor: &FlavorName, group: Option<&TaskGroup>) -> Unfit {
        let flavors = self.queues.flavors();
        if !flavors.exists(flavor) {
            Unfit::Undefined
        } else if group.is_some_and(|group| !flavors.accepts(flavor, group)) {
            Unfit::Untolerated
        } else {
            Unfit::Elsewhere
        }
    }

    /// The explanation of a gang without a flavor assignment.
    pub(super) fn no_way(&self, gang: &Gang, why: &NoWay) -> Box<Blocked> {
        let mut wake = Wake::default();
        wake.on(Signal::Queues, 1);
        let detail = match why {
            NoWay::NotOffered { group, resource } => {
                let needs = gang.groups.get(*group).map_or(0, |g| {
                    i128::from(g.request.get(resource)).saturating_mul(i128::from(g.count))
                });
                Detail::NotOffered {
                    queue: gang.queue.clone(),
                    resource: resource.clone(),
                    needs,
                    offers: self.queues.resources_offered(&gang.queue, &self.catalog),
                }
            }
            NoWay::NoFlavor { group, flavors } => Detail::FlavorNotFound {
                queue: gang.queue.clone(),
                group: name_of(gang, *group),
                flavors: flavors
                    .iter()
                    .map(|flavor| (flavor.clone(), self.unfit(flavor, gang.groups.get(*group))))
                    .collect(),
            },
            NoWay::NotOfferedFlavor { group, offers } => Detail::FlavorNotOffered {
                queue: gang.queue.clone(),
                group: name_of(gang, *group),
                flavors: gang
                    .groups
                    .get(*group)
                    .map_or_else(Vec::new, |g| g.flavors.clone()),
                offers: offers.clone(),
            },
        };
        Blocked::new(detail, wake)
    }
}

/// The name of a task group, where there are several.
fn name_of(gang: &Gang, group: usize) -> Option<GroupName> {
    let group = gang.groups.get(group).filter(|_| gang.groups.len() > 1);
    group.map(|g| g.name.clone())
}
