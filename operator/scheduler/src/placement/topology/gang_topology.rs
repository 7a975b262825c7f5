//! The topology requests of a gang, with their levels resolved.

use std::sync::Arc;

use super::super::request::PodRuns;
use super::slices::{ResolvedLayer, ResolvedSlices};
use crate::explain::MissingLevel;
use crate::state::{DomainLevel, GangShape, GroupShape, Layout, NodeIdx, Nodes, TopologyDomains};
use crate::topology::{SliceLayer, TopologyRequest};

/// A topology request with its resolved levels.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedRequest {
    /// The required level, or else the preferred level.
    pub(crate) level: DomainLevel,
    pub(crate) mode: RequestMode,
    /// True if the domains of the preferred level get equal numbers of pods, as far as possible.
    pub(crate) balanced: bool,
    /// The slices of the pods, in the same topology. Their levels are finer than the required one.
    pub(crate) slices: ResolvedSlices,
}

/// Strictness of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestMode {
    /// All pods are in one domain of the level. Within it, they are in as few domains as possible
    /// of the finer preferred level, given by its depth.
    Required { preferred: Option<usize> },
    /// As few domains of the level as possible.
    Preferred,
}

/// The slices of a group, in their topology.
#[derive(Clone, Copy)]
pub(crate) struct GroupSlices<'a> {
    pub(crate) layout: &'a Arc<Layout>,
    pub(crate) slices: &'a ResolvedSlices,
}

impl GroupSlices<'_> {
    /// True if a node is in a domain that may hold a slice.
    pub(crate) fn allows(&self, node: NodeIdx) -> bool {
        let finest = self.slices.finest();
        finest.is_none_or(|finest| self.layout.domain(finest, node).is_some())
    }

    /// Returns the request for the pods of one slice in its domain.
    pub(crate) fn request_within(&self, layer: ResolvedLayer) -> ResolvedRequest {
        let level = DomainLevel {
            layout: Arc::clone(self.layout),
            depth: layer.depth,
        };
        ResolvedRequest {
            level,
            mode: RequestMode::Preferred,
            balanced: false,
            slices: self.slices.within(layer.depth),
        }
    }

    /// Returns the size of the largest slice whose domain ends between two nodes that follow each
    /// other in the order of the topology. None: no domain ends there.
    pub(crate) fn ended_slice(&self, (before, after): (NodeIdx, NodeIdx)) -> Option<u32> {
        let mut layers = self.slices.layers().iter();
        let ended = layers.find(|layer| {
            let domain = |node| self.layout.domain(layer.depth, node);
            domain(before) != domain(after)
        });
        ended.map(|layer| layer.pods)
    }
}

/// The topology requests of a gang and its groups.
#[derive(Debug)]
pub(crate) struct GangTopology {
    pub(crate) gang: Option<ResolvedRequest>,
    /// The requests of the groups, in the order of the gang's groups.
    pub(crate) groups: Vec<Option<ResolvedRequest>>,
}

impl ResolvedRequest {
    /// Finds the levels of a request.
    ///
    /// # Errors
    ///
    /// A level is missing, or the preferred level is not finer than the required one.
    pub(crate) fn find(
        domains: &TopologyDomains,
        request: &TopologyRequest,
    ) -> Result<Self, MissingLevel> {
        let find = |level: &String, missing: fn(String) -> MissingLevel| {
            domains.find(level).ok_or_else(|| missing(level.clone()))
        };
        let (required, finer) = match request {
            TopologyRequest::Preferred { level } => {
                let level = find(level, MissingLevel::Preferred)?;
                return Ok(Self::new(level, RequestMode::Preferred));
            }
            TopologyRequest::Required { level, preferred } => (level, preferred),
        };
        let level = find(required, MissingLevel::Required)?;
        let Some(finer) = finer else {
            let mode = RequestMode::Required { preferred: None };
            return Ok(Self::new(level, mode));
        };
        find(finer, MissingLevel::Preferred)?;
        let depth = domains.find_in_same_topology(required, finer);
        let preferred = depth.filter(|depth| *depth > level.depth);
        if preferred.is_none() {
            return Err(MissingLevel::NotFiner {
                required: required.clone(),
                preferred: finer.clone(),
            });
        }
        let mode = RequestMode::Required { preferred };
        Ok(Self::new(level, mode))
    }

    fn new(level: DomainLevel, mode: RequestMode) -> Self {
        Self {
            level,
            mode,
            balanced: false,
            slices: ResolvedSlices::default(),
        }
    }

    /// Finds the levels of the request of a group and of its slices. `balanced` applies to the
    /// preferred level of `request`. `gang` is the request of the gang. The slices are in the
    /// topology of the request, if that has their level. None: the group has neither.
    ///
    /// # Errors
    ///
    /// As [`ResolvedRequest::find`]; also if the slices have a missing level, a level that is not
    /// finer than a required one, or levels of a topology other than that of the request.
    pub(crate) fn find_for_group(
        domains: &TopologyDomains,
        (gang, request): (Option<&TopologyRequest>, Option<&TopologyRequest>),
        (slices, balanced): (&[SliceLayer], bool),
    ) -> Result<Option<Self>, MissingLevel> {
        let outer = request.or(gang).map(TopologyRequest::level);
        let own = request
            .map(|request| Self::find(domains, request))
            .transpose()?
            .map(|own| Self { balanced, ..own });
        let Some((level, slices)) = ResolvedSlices::find(domains, outer, slices)? else {
            return Ok(own);
        };
        for required in [request, gang].into_iter().flatten() {
            slices.check_within(domains, &level, required.required_level())?;
        }
        let Some(mut own) = own else {
            // Without a request, the slices are in as few domains of their level as possible.
            let mode = RequestMode::Preferred;
            return Ok(Some(Self {
                level,
                mode,
                balanced: false,
                slices,
            }));
        };
        if !Arc::ptr_eq(&own.level.layout, &level.layout) {
            return Err(MissingLevel::SlicesElsewhere {
                level: domains.level_name(&level),
                outer: outer.unwrap_or_default().to_owned(),
            });
        }
        own.slices = slices;
        Ok(Some(own))
    }

    /// Returns the preference of the request: as few domains as possible of the preferred level, or
    /// of the required level if none is preferred.
    pub(super) fn to_preferred(&self) -> Self {
        Self {
            level: DomainLevel {
                depth: self.preferred_depth().unwrap_or(self.level.depth),
                ..self.level.clone()
            },
            mode: RequestMode::Preferred,
            balanced: self.balanced,
            slices: self.slices.clone(),
        }
    }

    /// Returns the depth of the level at which the pods use as few domains as possible.
    pub(super) fn preferred_depth(&self) -> Option<usize> {
        match self.mode {
            RequestMode::Required { preferred } => preferred,
            RequestMode::Preferred => Some(self.level.depth),
        }
    }

    /// Returns the depth of the level at which all pods must be in one domain.
    fn required_depth(&self) -> Option<usize> {
        self.is_required().then_some(self.level.depth)
    }

    /// True if the request is required.
    pub(crate) fn is_required(&self) -> bool {
        self.mode != RequestMode::Preferred
    }

    /// True if these nodes are in one domain, unless the request is only a preference.
    fn allows<'r>(&self, mut runs: impl Iterator<Item = &'r (NodeIdx, u32)>) -> bool {
        let domain = |node| self.level.layout.domain(self.level.depth, node);
        let Some((first, _)) = runs.next().filter(|_| self.is_required()) else {
            return true;
        };
        let first = domain(*first);
        first.is_some() && runs.all(|(node, _)| domain(*node) == first)
    }

    /// Combines two requests for the same pods, if both are for one topology: takes the finer
    /// required level, and within it the coarser preferred level. `Pack` considers the finer levels
    /// anyway.
    fn combine(&self, other: &Self) -> Option<Self> {
        if !Arc::ptr_eq(&self.level.layout, &other.level.layout) {
            return None;
        }
        let both = [self, other];
        let required = both.iter().filter_map(|near| near.required_depth()).max();
        let preferred = both.iter().filter_map(|near| near.preferred_depth());
        let preferred = preferred.filter(|depth| required.is_none_or(|must| *depth > must));
        let preferred = preferred.min();
        let asks = |near: &&Self| near.balanced && near.preferred_depth() == preferred;
        let balanced = both.iter().any(asks);
        let (depth, mode) = match required {
            Some(depth) => (depth, RequestMode::Required { preferred }),
            None => (preferred?, RequestMode::Preferred),
        };
        let level = DomainLevel {
            depth,
            ..self.level.clone()
        };
        // Only groups have slices.
        let slices = match self.slices.is_empty() {
            true => other.slices.clone(),
            false => self.slices.clone(),
        };
        Some(Self {
            level,
            mode,
            balanced,
            slices,
        })
    }
}

impl GangTopology {
    /// Resolves the topology requests of a shape. None if no topology has a requested level.
    pub(crate) fn for_shape(nodes: &Nodes, shape: &GangShape) -> Option<Self> {
        Self::resolve(nodes, shape, |group| &group.slices)
    }

    /// Does the same with the first `layers` layers of the slices that groups prefer, as if they were
    /// required.
    pub(super) fn with_preferred_slices(
        nodes: &Nodes,
        shape: &GangShape,
        layers: usize,
    ) -> Option<Self> {
        Self::resolve(nodes, shape, |group| {
            let preferred = &group.preferred_slices;
            match group.slices.is_empty() {
                true => preferred.get(..layers).unwrap_or(preferred),
                false => &group.slices,
            }
        })
    }

    fn resolve(
        nodes: &Nodes,
        shape: &GangShape,
        slices: impl Fn(&GroupShape) -> &[SliceLayer],
    ) -> Option<Self> {
        let domains = nodes.domains();
        let gang = shape.topology.as_ref();
        let gang = gang.map(|request| ResolvedRequest::find(domains, request));
        let gang = gang.transpose().ok()?;
        let near = |group: &GroupShape| {
            let request = group.topology.as_ref();
            let requests = (shape.topology.as_ref(), request);
            let split = (slices(group), group.balanced);
            ResolvedRequest::find_for_group(domains, requests, split).ok()
        };
        Some(Self {
            groups: shape.groups.iter().map(near).collect::<Option<_>>()?,
            gang,
        })
    }

    /// Returns the slices of a group that has pods, and their topology.
    pub(crate) fn slices(&self, shape: &GangShape, group: usize) -> Option<GroupSlices<'_>> {
        let pods = shape.groups.get(group)?.count;
        let near = self.group_request(group).filter(|_| pods > 0)?;
        (!near.slices.is_empty()).then_some(GroupSlices {
            layout: &near.level.layout,
            slices: &near.slices,
        })
    }

    /// Returns the slices of each group, in the order of the gang's groups. Empty: no group has
    /// slices. None: the groups have slices in several topologies.
    pub(super) fn all_slices(&self, shape: &GangShape) -> Option<Vec<Option<GroupSlices<'_>>>> {
        let groups = (0..shape.groups.len()).map(|at| self.slices(shape, at));
        let groups: Vec<Option<GroupSlices<'_>>> = groups.collect();
        let mut layouts = groups.iter().flatten().map(|split| split.layout);
        let Some(first) = layouts.next() else {
            return Some(Vec::new());
        };
        let is_one = layouts.all(|other| Arc::ptr_eq(other, first));
        is_one.then_some(groups)
    }

    /// True if the counts of pods decide whether a gang of one group fits on all nodes: it need not
    /// be in one domain, except for its slices.
    pub(crate) fn is_decided_by_counts(&self, shape: &GangShape) -> bool {
        let single = self.single_request(shape);
        single.is_some_and(|(_, near)| !near.is_required())
    }

    /// Returns the request of a group itself.
    pub(crate) fn group_request(&self, group: usize) -> Option<&ResolvedRequest> {
        self.groups.get(group)?.as_ref()
    }

    /// True if a place meets the required levels. `groups` are the runs of each group.
    pub(crate) fn allows(&self, groups: &[PodRuns]) -> bool {
        let own = groups.iter().zip(&self.groups);
        let mut own = own.filter_map(|(runs, near)| Some((near.as_ref()?, runs)));
        let gang = self.gang.as_ref();
        own.all(|(near, runs)| {
            let is_sliced = near.slices.allows(&near.level.layout, runs.iter());
            is_sliced && near.allows(runs.iter())
        }) && gang.is_none_or(|near| near.allows(groups.iter().flatten()))
    }

    /// Returns the request for a group once the gang's domain is chosen: its own request, else the
    /// preference of the gang's request.
    pub(super) fn request_within(&self, group: usize) -> Option<ResolvedRequest> {
        let preference = || self.gang.as_ref().map(ResolvedRequest::to_preferred);
        let Some(own) = self.group_request(group) else {
            return preference();
        };
        let both = || own.combine(&preference()?);
        let is_split = !own.slices.is_empty();
        Some(is_split.then(both).flatten().unwrap_or_else(|| own.clone()))
    }

    /// Returns the request by whose topology the pods of a group are numbered.
    pub(crate) fn numbering_request(&self, group: usize) -> Option<&ResolvedRequest> {
        let own = self.group_request(group);
        let split = own.filter(|near| !near.slices.is_empty());
        split.or(self.gang.as_ref()).or(own)
    }

    /// Returns the only request, if only one group has pods and all requests are for one topology.
    pub(crate) fn single_request(&self, shape: &GangShape) -> Option<(usize, ResolvedRequest)> {
        let mut with_pods = (0..).zip(&shape.groups).filter(|(_, g)| g.count > 0);
        let ((group, _), None) = (with_pods.next()?, with_pods.next()) else {
            return None;
        };
        let near = match (&self.gang, self.group_request(group)) {
            (Some(gang), Some(own)) => gang.combine(own)?,
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => return None,
        };
        Some((group, near))
    }
}

/// True if a gang with pods, or one of its groups, has a topology request or slices.
pub(crate) fn has_request(shape: &GangShape) -> bool {
    let asks = |group: &GroupShape| group.topology.is_some() || !group.slices.is_empty();
    let asks = shape.topology.is_some() || shape.groups.iter().any(asks);
    asks && shape.groups.iter().any(|g| g.count > 0)
}
