//! Names, demands and constraints that are stored once.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::interner::Interner;
use super::shape::PodDemand;
use super::{
    ConstraintSignature, DemandIdx, GangShape, GroupShape, NodeTraits, Nodes, ResourceIdx,
    SignatureIdx,
};
use crate::constraints::Constraints;
use crate::gang::{Gang, TaskGroup};
use crate::ids::ResourceName;
use crate::resources::Resources;
use crate::topology::TopologyRequest;

/// Maximum number of unused signatures to keep, because successive gangs often have the same
/// constraints.
const UNUSED_SIGNATURES: usize = 64;

/// Every name, demand and signature that is in use.
#[derive(Debug)]
pub(crate) struct Catalog {
    resources: Interner<ResourceName>,
    /// Each pinned resource has one use that is never released.
    pinned: BTreeSet<ResourceIdx>,
    demands: Interner<Vec<(ResourceIdx, i64)>>,
    /// The last interned request: pods often follow pods with the same request.
    last_request: Option<(Resources, DemandIdx)>,
    constraints: Interner<Constraints>,
    signatures: Vec<Option<ConstraintSignature>>,
    /// Each entry holds one use of its constraints.
    unused: VecDeque<SignatureIdx>,
    traits: NodeTraits,
    cpu: ResourceIdx,
    pods: ResourceIdx,
    /// Resources that count thousandths of a device, with the device.
    shares: Vec<(ResourceIdx, ResourceIdx)>,
}

impl Default for Catalog {
    fn default() -> Self {
        let mut resources = Interner::default();
        let (cpu, _) = resources.acquire(ResourceName::new("cpu"));
        let (pods, _) = resources.acquire(ResourceName::new("pods"));
        Self {
            resources,
            pinned: [cpu, pods].map(ResourceIdx::of).into(),
            demands: Interner::default(),
            last_request: None,
            constraints: Interner::default(),
            signatures: Vec::new(),
            unused: VecDeque::new(),
            traits: NodeTraits::default(),
            cpu: ResourceIdx::of(cpu),
            pods: ResourceIdx::of(pods),
            shares: Vec::new(),
        }
    }
}

impl Catalog {
    /// Returns the index of `cpu`.
    pub(crate) fn cpu(&self) -> ResourceIdx {
        self.cpu
    }

    /// Returns the index of `pods`.
    pub(crate) fn pods(&self) -> ResourceIdx {
        self.pods
    }

    /// Returns the index of a resource and pins it, so that it is never reused. The engine pins
    /// resources that administrators name on nodes and in queues.
    pub(crate) fn pin(&mut self, resource: &ResourceName) -> ResourceIdx {
        let (at, _) = self.resources.acquire(resource.clone());
        let index = ResourceIdx::of(at);
        if !self.pinned.insert(index) {
            self.resources.release(at);
        }
        index
    }

    fn pin_share(&mut self, share: &ResourceName, device: &ResourceName) {
        let pair = (self.pin(share), self.pin(device));
        if !self.shares.contains(&pair) {
            self.shares.push(pair);
        }
    }

    /// Resources that count thousandths of a device, with the device, in the order in which they
    /// were first requested.
    pub(crate) fn shares(&self) -> &[(ResourceIdx, ResourceIdx)] {
        &self.shares
    }

    /// Returns the index of a resource that is in use.
    pub(crate) fn resource(&self, name: &ResourceName) -> Option<ResourceIdx> {
        self.resources.find(name).map(ResourceIdx::of)
    }

    /// Returns the name of a resource.
    pub(crate) fn name(&self, resource: ResourceIdx) -> ResourceName {
        self.resources
            .get(resource.at())
            .map_or_else(|| ResourceName::new(""), |name| (**name).clone())
    }

    /// True if a resource is a device.
    pub(crate) fn is_device(&self, resource: ResourceIdx) -> bool {
        self.resources
            .get(resource.at())
            .is_some_and(|name| name.is_device())
    }

    /// Interns the demand of one pod: its request, plus 1 of `pods`.
    pub(crate) fn acquire_demand(&mut self, request: &Resources) -> DemandIdx {
        if let Some((last, demand)) = &self.last_request
            && last == request
        {
            self.demands.retain(demand.at());
            return *demand;
        }
        let demand = self.intern_demand(request);
        self.last_request = Some((request.clone(), demand));
        demand
    }

    fn intern_demand(&mut self, request: &Resources) -> DemandIdx {
        let mut demand = vec![(self.pods, 1)];
        for (name, amount) in request.iter() {
            if amount == 0 || name.as_str() == "pods" {
                continue;
            }
            if let Some(device) = name.shared_device() {
                self.pin_share(name, &device);
            }
            let (at, _) = self.resources.acquire(name.clone());
            demand.push((ResourceIdx::of(at), amount));
        }
        demand.sort_unstable();
        let (at, new) = self.demands.acquire(demand.clone());
        if !new {
            self.release_resources(&demand);
        }
        DemandIdx::of(at)
    }

    /// Adds a use of a demand that is in use.
    pub(crate) fn retain_demand(&mut self, demand: DemandIdx) {
        self.demands.retain(demand.at());
    }

    pub(crate) fn release_demand(&mut self, demand: DemandIdx) {
        if let Some(demand) = self.demands.release(demand.at()) {
            // The number may be reused from now on.
            self.last_request = None;
            self.release_resources(&demand);
        }
    }

    fn release_resources(&mut self, demand: &PodDemand) {
        for (resource, _) in demand {
            if *resource != self.pods {
                self.resources.release(resource.at());
            }
        }
    }

    /// Returns the amounts of a demand.
    pub(crate) fn demand(&self, demand: DemandIdx) -> Arc<Vec<(ResourceIdx, i64)>> {
        self.demands
            .get(demand.at())
            .map_or_else(Arc::default, Arc::clone)
    }

    pub(crate) fn signature(&self, signature: SignatureIdx) -> Option<&ConstraintSignature> {
        self.signatures.get(signature.at())?.as_ref()
    }

    /// Brings the signatures of a shape up to date.
    pub(crate) fn refresh(&mut self, shape: &GangShape, nodes: &Nodes) {
        for group in &shape.groups {
            self.refresh_signature(group.signature, nodes);
        }
    }

    /// Brings a signature up to date.
    pub(crate) fn refresh_signature(&mut self, signature: SignatureIdx, nodes: &Nodes) {
        if let Some(Some(signature)) = self.signatures.get_mut(signature.at()) {
            signature.refresh(nodes, &mut self.traits);
        }
    }

    /// Counts the kinds of nodes that the groups of a shape may use.
    pub(crate) fn count_kinds(&mut self, shape: &GangShape, nodes: &Nodes) {
        for group in &shape.groups {
            if let Some(Some(signature)) = self.signatures.get_mut(group.signature.at()) {
                signature.count_kinds(nodes);
            }
        }
    }

    /// Adds a use of a demand and of constraints that are in use.
    pub(crate) fn retain(&mut self, demand: DemandIdx, signature: SignatureIdx) {
        self.retain_demand(demand);
        self.constraints.retain(signature.at());
    }

    /// Releases a use of a demand and of constraints.
    pub(crate) fn release(&mut self, demand: DemandIdx, signature: SignatureIdx) {
        self.release_demand(demand);
        self.release_signature(signature);
    }

    /// Interns constraints.
    pub(crate) fn acquire_constraints(&mut self, constraints: &Constraints) -> SignatureIdx {
        self.acquire_signature(constraints)
    }

    /// Returns the shape of a gang. The caller must release it.
    pub(crate) fn acquire_shape(&mut self, gang: &Gang) -> GangShape {
        let groups = gang.groups.iter().map(|g| self.acquire_group(g)).collect();
        let mut excluded = gang.excluded_nodes.clone();
        excluded.sort_unstable();
        excluded.dedup();
        GangShape::new(groups, excluded, gang.topology.clone())
    }

    /// Adds another owner of a shape.
    pub(crate) fn retain_shape(&mut self, shape: &GangShape) {
        for group in &shape.groups {
            self.retain(group.demand_idx, group.signature);
        }
    }

    pub(crate) fn release_shape(&mut self, shape: &GangShape) {
        for group in &shape.groups {
            self.release(group.demand_idx, group.signature);
        }
    }

    fn acquire_group(&mut self, group: &TaskGroup) -> GroupShape {
        let demand_idx = self.acquire_demand(&group.request);
        let demand = self.demand(demand_idx);
        let needs = |r: &ResourceIdx| demand.iter().any(|(d, _)| d == r);
        let device = match &group.device {
            Some(device) if device.is_device() => self.resource(device).filter(needs),
            Some(_) => None,
            None => group
                .request
                .iter()
                .filter(|(name, amount)| name.is_device() && *amount > 0)
                .find_map(|(name, _)| self.resource(name)),
        };
        let (slices, preferred_slices) = match group.prefers_slices {
            true => (Vec::new(), group.slices.clone()),
            false => (group.slices.clone(), Vec::new()),
        };
        GroupShape {
            count: group.count,
            demand,
            demand_idx,
            signature: self.acquire_signature(&group.constraints),
            device,
            topology: requested_topology(group),
            balanced: group.balanced,
            slices,
            preferred_slices,
        }
    }

    fn acquire_signature(&mut self, constraints: &Constraints) -> SignatureIdx {
        let (at, new) = self.constraints.acquire(constraints.clone());
        let index = SignatureIdx::of(at);
        if new && let Some(constraints) = self.constraints.get(at) {
            if self.signatures.len() <= at {
                self.signatures.resize_with(at.saturating_add(1), || None);
            }
            if let Some(slot) = self.signatures.get_mut(at) {
                *slot = Some(ConstraintSignature::new(Arc::clone(constraints)));
            }
        }
        index
    }

    fn release_signature(&mut self, signature: SignatureIdx) {
        // The use moves to the list of unused signatures instead of being released. A signature
        // that is used again in that time has one more use until it leaves the list.
        self.unused.push_back(signature);
        if self.unused.len() > UNUSED_SIGNATURES
            && let Some(oldest) = self.unused.pop_front()
            && self.constraints.release(oldest.at()).is_some()
            && let Some(slot) = self.signatures.get_mut(oldest.at())
        {
            *slot = None;
        }
    }
}

/// Returns the topology request of a group. Slices that are only preferred make the group prefer few
/// domains of their first layer.
fn requested_topology(group: &TaskGroup) -> Option<TopologyRequest> {
    let first = group.slices.first().filter(|_| group.prefers_slices);
    let level = first.map(|layer| &layer.level);
    match (&group.topology, level) {
        (None, Some(level)) => Some(TopologyRequest::preferred(level)),
        (
            Some(TopologyRequest::Required {
                level: required,
                preferred: None,
            }),
            Some(level),
        ) => Some(TopologyRequest::Required {
            level: required.clone(),
            preferred: Some(level.clone()),
        }),
        (request, _) => request.clone(),
    }
}
