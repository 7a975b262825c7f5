//! The topology requests of a gang, with their levels resolved.

use std::sync::Arc;

use super::super::request::PodRuns;
use crate::explain::MissingLevel;
use crate::state::{DomainLevel, GangShape, NodeIdx, Nodes, TopologyDomains};
use crate::topology::TopologyRequest;

/// A topology request with its resolved levels.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedRequest {
    /// The required level, or else the preferred level.
    pub(crate) level: DomainLevel,
    pub(crate) mode: RequestMode,
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
                return Ok(Self {
                    level,
                    mode: RequestMode::Preferred,
                });
            }
            TopologyRequest::Required { level, preferred } => (level, preferred),
        };
        let level = find(required, MissingLevel::Required)?;
        let Some(finer) = finer else {
            let mode = RequestMode::Required { preferred: None };
            return Ok(Self { level, mode });
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
        Ok(Self { level, mode })
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
        let (depth, mode) = match required {
            Some(depth) => (depth, RequestMode::Required { preferred }),
            None => (preferred?, RequestMode::Preferred),
        };
        let level = DomainLevel {
            depth,
            ..self.level.clone()
        };
        Some(Self { level, mode })
    }
}

impl GangTopology {
    /// Resolves the topology requests of a shape. None if no topology has a requested level.
    pub(crate) fn for_shape(nodes: &Nodes, shape: &GangShape) -> Option<Self> {
        let near = |request: &Option<TopologyRequest>| match request {
            Some(request) => ResolvedRequest::find(nodes.domains(), request)
                .ok()
                .map(Some),
            None => Some(None),
        };
        Some(Self {
            gang: near(&shape.topology)?,
            groups: shape
                .groups
                .iter()
                .map(|group| near(&group.topology))
                .collect::<Option<_>>()?,
        })
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
        own.all(|(near, runs)| near.allows(runs.iter()))
            && gang.is_none_or(|near| near.allows(groups.iter().flatten()))
    }

    /// Returns the request for a group once the gang's domain is chosen: its own request, else the
    /// preference of the gang's request.
    pub(super) fn request_within(&self, group: usize) -> Option<ResolvedRequest> {
        let own = self.group_request(group).cloned();
        own.or_else(|| self.gang.as_ref().map(ResolvedRequest::to_preferred))
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

/// True if a gang with pods, or one of its groups, has a topology request.
pub(crate) fn has_request(shape: &GangShape) -> bool {
    let asks = shape.topology.is_some() || shape.groups.iter().any(|g| g.topology.is_some());
    asks && shape.groups.iter().any(|g| g.count > 0)
}

/// Returns the runs of a group in order, each node once: neighbouring ranks on neighbouring nodes,
/// by domain if there is a topology request, then by name.
pub(crate) fn order_runs(
    nodes: &Nodes,
    near: Option<&ResolvedRequest>,
    mut runs: PodRuns,
) -> PodRuns {
    let place = |node: NodeIdx| match near {
        Some(near) => near.level.layout.position(node),
        None => nodes.position_by_name(node),
    };
    runs.sort_unstable_by_key(|(node, _)| place(*node));
    runs.dedup_by(|next, run| {
        let same = next.0 == run.0;
        if same {
            run.1 = run.1.saturating_add(next.1);
        }
        same
    });
    runs
}
