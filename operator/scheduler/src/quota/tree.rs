//! The tree of queues.

pub(super) mod links;
pub(super) mod queue_config;
pub(super) mod queue_fault;
pub(super) mod quota_arithmetic;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::amounts::FlavorResource;
use super::fair_share::decay::{DecayClock, UsageDecay};
use super::fair_share::memory::UsageMemory;
use super::tree::queue_config::QueueConfig;
use super::tree::queue_fault::QueueFault;
use super::tree::quota_arithmetic::QuotaCell;
use crate::ids::QueueName;
use crate::state::{QueueIdx, ResourceIdx, Slots};
use crate::time::Time;

/// A queue, or a name of a queue that does not exist but has charges or children.
#[derive(Debug)]
pub(super) struct TreeNode {
    pub(super) name: QueueName,
    /// None: the queue does not exist.
    pub(super) config: Option<QueueConfig>,
    /// The parent that it names.
    pub(super) named_parent: Option<QueueIdx>,
    /// The queues that name it as their parent.
    pub(super) named_by: BTreeSet<QueueIdx>,
    pub(super) fault: Option<QueueFault>,
    /// 1 for a root; 0 if the queue does not count.
    pub(super) depth: usize,
    /// The parent that the queue counts to. None: the queue is a root, or does not count.
    pub(super) parent: Option<QueueIdx>,
    /// True if the queue has valid quotas.
    pub(super) has_quotas: bool,
    /// The number of queues with quotas, from this queue down.
    pub(super) queues_with_quotas: u32,
    pub(super) cells: BTreeMap<FlavorResource, QuotaCell>,
    /// Current and past usage of its whole subtree, by resource, over all flavors.
    pub(super) memory: BTreeMap<ResourceIdx, UsageMemory>,
}

impl TreeNode {
    fn new(name: QueueName) -> Self {
        Self {
            name,
            config: None,
            named_parent: None,
            named_by: BTreeSet::new(),
            fault: None,
            depth: 0,
            parent: None,
            has_quotas: false,
            queues_with_quotas: 0,
            cells: BTreeMap::new(),
            memory: BTreeMap::new(),
        }
    }

    /// Returns true for `pods` in a queue with quotas: the queue is charged for pods only if it names
    /// them.
    pub(super) fn counts_only_if_named(&self, what: FlavorResource, pods: ResourceIdx) -> bool {
        what.resource == pods && self.has_quotas
    }

    /// Returns true if the queue exists and is not misconfigured.
    pub(super) fn is_counted(&self) -> bool {
        self.config.is_some() && self.fault.is_none()
    }
}

/// All queues, with their current and past usage.
///
/// The state does not depend on the order of events. It equals the state of a new tree with only
/// the current queues and charges. Each queue remembers its past usage separately.
#[derive(Debug)]
pub(crate) struct QuotaTree {
    /// `pods`, which queues need not name.
    pub(super) pods: ResourceIdx,
    /// Never iterated, so its order does not matter. It uses the standard hasher because users
    /// choose the names.
    numbers: HashMap<QueueName, QueueIdx>,
    nodes: Slots<TreeNode>,
    pub(super) clock: DecayClock,
    pub(super) capacity: BTreeMap<ResourceIdx, i128>,
}

impl QuotaTree {
    /// Returns a tree without queues. `pods` is the resource that queues need not name.
    pub(crate) fn new(pods: ResourceIdx, decay: UsageDecay) -> Self {
        Self {
            pods,
            numbers: HashMap::new(),
            nodes: Slots::default(),
            clock: DecayClock::new(decay),
            capacity: BTreeMap::new(),
        }
    }

    /// Advances the time of changes and answers. An earlier time has no effect.
    pub(crate) fn advance(&mut self, now: Time) {
        self.clock.advance(now);
    }

    /// Returns the decay of usage.
    pub(crate) fn decay(&self) -> UsageDecay {
        self.clock.decay()
    }

    /// Sets the capacity of a resource, in base units. A share is usage divided by capacity. A
    /// resource without capacity adds to no share.
    pub(crate) fn set_capacity(&mut self, resource: ResourceIdx, capacity: i128) {
        if capacity > 0 {
            self.capacity.insert(resource, capacity);
        } else {
            self.capacity.remove(&resource);
        }
    }

    /// Adds or replaces a queue. Returns true if the configuration changes.
    pub(crate) fn apply(&mut self, name: &QueueName, member: QueueConfig) -> bool {
        let at = self.get_or_insert(name);
        if self
            .node(at)
            .is_some_and(|n| n.config.as_ref() == Some(&member))
        {
            return false;
        }
        self.configure(at, Some(member));
        true
    }

    /// Removes a queue. The quota that its gangs hold stays charged to its name, and does not count
    /// for other queues. Returns true if the queue existed.
    pub(crate) fn delete(&mut self, name: &QueueName) -> bool {
        let Some(at) = self.find(name) else {
            return false;
        };
        self.configure(at, None);
        self.forget_unless_needed(at);
        true
    }

    /// Returns the number of a queue that exists.
    pub(crate) fn find(&self, name: &QueueName) -> Option<QueueIdx> {
        let at = *self.numbers.get(name)?;
        self.node(at)?.config.is_some().then_some(at)
    }

    pub(crate) fn name(&self, queue: QueueIdx) -> Option<&QueueName> {
        self.node(queue).map(|node| &node.name)
    }

    /// Returns the reason why no gang of the queue starts.
    pub(crate) fn fault(&self, queue: QueueIdx) -> Option<&QueueFault> {
        self.node(queue)?.fault.as_ref()
    }

    /// Returns true if no queue names it as its parent. Only leaves have gangs.
    pub(crate) fn is_leaf(&self, queue: QueueIdx) -> bool {
        self.node(queue).is_some_and(|n| n.named_by.is_empty())
    }

    /// Returns the root of the tree that a queue counts to. Only quota that gangs below this root
    /// give back can help the queue.
    pub(crate) fn root(&self, queue: QueueIdx) -> Option<&QueueName> {
        self.path(queue).last().map(|(_, node)| &node.name)
    }

    /// Returns the queues above a queue, the nearest first.
    pub(crate) fn names_above(&self, queue: QueueIdx) -> impl Iterator<Item = &QueueName> {
        self.path(queue).skip(1).map(|(_, node)| &node.name)
    }

    /// Returns how many levels of queues are below a queue. Visits each of these queues.
    pub(super) fn height(&self, queue: QueueIdx) -> usize {
        let below = self.node(queue).into_iter().flat_map(|node| &node.named_by);
        // A queue that is part of a cycle does not count.
        let below = below.filter(|at| self.node(**at).is_some_and(TreeNode::is_counted));
        let heights = below.map(|at| self.height(*at).saturating_add(1));
        heights.max().unwrap_or(0)
    }

    /// Returns the lowest queue that is above or equal to both. None: they have different roots.
    pub(super) fn lowest_above_both(&self, one: QueueIdx, other: QueueIdx) -> Option<QueueIdx> {
        let above: Vec<QueueIdx> = self.path(one).map(|(at, _)| at).collect();
        let mut path = self.path(other).map(|(at, _)| at);
        path.find(|at| above.contains(at))
    }

    /// Returns all names, in no order.
    pub(super) fn names(&self) -> Vec<&QueueName> {
        self.numbers.keys().collect()
    }

    pub(super) fn node(&self, at: QueueIdx) -> Option<&TreeNode> {
        self.nodes.get(at.at())
    }

    pub(super) fn node_mut(&mut self, at: QueueIdx) -> Option<&mut TreeNode> {
        self.nodes.get_mut(at.at())
    }

    /// Returns the number of a name. The queue need not exist.
    pub(super) fn number(&self, name: &QueueName) -> Option<QueueIdx> {
        self.numbers.get(name).copied()
    }

    /// Returns the number of a name, assigned at the first call. The caller must call
    /// [`Self::forget_unless_needed`] if the name stays unused.
    pub(super) fn get_or_insert(&mut self, name: &QueueName) -> QueueIdx {
        if let Some(at) = self.number(name) {
            return at;
        }
        let at = QueueIdx::of(self.nodes.insert(TreeNode::new(name.clone())));
        self.numbers.insert(name.clone(), at);
        at
    }

    /// Removes a name that has no queue, no charge and no children.
    pub(super) fn forget_unless_needed(&mut self, at: QueueIdx) {
        let unneeded =
            |n: &&TreeNode| n.config.is_none() && n.named_by.is_empty() && n.cells.is_empty();
        if let Some(node) = self.node(at).filter(unneeded) {
            let name = node.name.clone();
            self.numbers.remove(&name);
            self.nodes.remove(at.at());
        }
    }

    /// Returns a queue and the queues above it that it counts to, up to its root.
    pub(super) fn path(&self, queue: QueueIdx) -> impl Iterator<Item = (QueueIdx, &TreeNode)> {
        std::iter::successors(Some(queue), |at| self.node(*at)?.parent)
            .filter_map(|at| Some((at, self.node(at)?)))
    }
}
