//! The queues themselves.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::amounts::FlavorResource;
use super::cell::Cell;
use super::decay::{Clock, Decay};
use super::member::Member;
use super::memory::Memory;
use super::misconfigured::Misconfigured;
use crate::ids::QueueName;
use crate::state::{ResourceIdx, Slots};
use crate::time::Time;

/// A queue, by number. It is the queue's own as long as the queue is there,
/// something is charged to it, or another names it as its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueIdx(usize);

/// A queue, or a name that others use for one.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: QueueName,
    /// None: there is no such queue (yet, or any more).
    pub(super) member: Option<Member>,
    /// The parent that it names.
    pub(super) named_parent: Option<QueueIdx>,
    /// The queues that name it as their parent.
    pub(super) named_by: BTreeSet<QueueIdx>,
    pub(super) fault: Option<Misconfigured>,
    /// 1 for a root; 0 where it does not count.
    pub(super) depth: usize,
    /// The parent that it counts to. None: it is a root, or does not count.
    pub(super) parent: Option<QueueIdx>,
    /// It names quotas that can be counted.
    pub(super) limits: bool,
    /// How many queues name quotas, from here down.
    pub(super) limiting: u32,
    pub(super) cells: BTreeMap<FlavorResource, Cell>,
    /// By resource, over all flavors: what its whole subtree holds and has held.
    pub(super) memory: BTreeMap<ResourceIdx, Memory>,
}

impl Node {
    fn new(name: QueueName) -> Self {
        Self {
            name,
            member: None,
            named_parent: None,
            named_by: BTreeSet::new(),
            fault: None,
            depth: 0,
            parent: None,
            limits: false,
            limiting: 0,
            cells: BTreeMap::new(),
            memory: BTreeMap::new(),
        }
    }

    /// Whether it is there and not misconfigured.
    pub(super) fn counts(&self) -> bool {
        self.member.is_some() && self.fault.is_none()
    }
}

/// All queues, what they hold and what they have held.
///
/// Whatever was applied, deleted and charged, in whatever order: the state is
/// that of a tree that was given only what is there now. What has been held in
/// the past is remembered by each queue for itself.
#[derive(Debug)]
pub(crate) struct Tree {
    /// `pods`, which queues need not name.
    pub(super) pods: ResourceIdx,
    /// Never gone through, so its order does not matter. The standard hasher,
    /// since users choose the names.
    numbers: HashMap<QueueName, QueueIdx>,
    nodes: Slots<Node>,
    pub(super) clock: Clock,
    pub(super) capacity: BTreeMap<ResourceIdx, i128>,
}

impl Tree {
    /// A tree without queues. `pods` is the resource that queues need not name.
    pub(crate) fn new(pods: ResourceIdx, decay: Decay) -> Self {
        Self {
            pods,
            numbers: HashMap::new(),
            nodes: Slots::default(),
            clock: Clock::new(decay),
            capacity: BTreeMap::new(),
        }
    }

    /// It is so late now: what follows happens at this time, and questions are
    /// answered for it. Time does not go back.
    pub(crate) fn advance(&mut self, now: Time) {
        self.clock.advance(now);
    }

    /// How usage is forgotten.
    pub(crate) fn decay(&self) -> Decay {
        self.clock.decay()
    }

    /// How much of a resource there is, in base units: what shares are measured
    /// by. Nobody's share grows by a resource of which there is nothing.
    pub(crate) fn set_capacity(&mut self, resource: ResourceIdx, capacity: i128) {
        if capacity > 0 {
            self.capacity.insert(resource, capacity);
        } else {
            self.capacity.remove(&resource);
        }
    }

    /// Takes a queue as it is now. Says whether anything changed.
    pub(crate) fn apply(&mut self, name: &QueueName, member: Member) -> bool {
        let at = self.hold(name);
        if self
            .node(at)
            .is_some_and(|n| n.member.as_ref() == Some(&member))
        {
            return false;
        }
        self.configure(at, Some(member));
        true
    }

    /// Forgets a queue; what is held of it stays charged to its name, and counts
    /// for no other queue. Says whether it was there.
    pub(crate) fn delete(&mut self, name: &QueueName) -> bool {
        let Some(at) = self.find(name) else {
            return false;
        };
        self.configure(at, None);
        self.forget_unless_needed(at);
        true
    }

    /// The number of a queue that is there.
    pub(crate) fn find(&self, name: &QueueName) -> Option<QueueIdx> {
        let at = *self.numbers.get(name)?;
        self.node(at)?.member.is_some().then_some(at)
    }

    pub(crate) fn name(&self, queue: QueueIdx) -> Option<&QueueName> {
        self.node(queue).map(|node| &node.name)
    }

    /// Why nothing of the queue is started.
    pub(crate) fn misconfigured(&self, queue: QueueIdx) -> Option<&Misconfigured> {
        self.node(queue)?.fault.as_ref()
    }

    /// Whether no queue names it as its parent: gangs go to leaves only.
    pub(crate) fn is_leaf(&self, queue: QueueIdx) -> bool {
        self.node(queue).is_some_and(|n| n.named_by.is_empty())
    }

    /// The root of the tree that a queue counts to: who lacks something is helped
    /// by what is given back below it, and by nothing else.
    pub(crate) fn root(&self, queue: QueueIdx) -> Option<&QueueName> {
        self.path(queue).last().map(|(_, node)| &node.name)
    }

    /// The queues above a queue, the nearest first.
    pub(crate) fn names_above(&self, queue: QueueIdx) -> impl Iterator<Item = &QueueName> {
        self.path(queue).skip(1).map(|(_, node)| &node.name)
    }

    /// How many levels of queues are below a queue. It costs a look at each of them.
    pub(super) fn height(&self, queue: QueueIdx) -> usize {
        let below = self.node(queue).into_iter().flat_map(|node| &node.named_by);
        // A queue that is part of a cycle does not count.
        let below = below.filter(|at| self.node(**at).is_some_and(Node::counts));
        let heights = below.map(|at| self.height(*at).saturating_add(1));
        heights.max().unwrap_or(0)
    }

    /// The lowest queue that both are below, or are. None: they share no root.
    pub(super) fn lowest_above_both(&self, one: QueueIdx, other: QueueIdx) -> Option<QueueIdx> {
        let above: Vec<QueueIdx> = self.path(one).map(|(at, _)| at).collect();
        let mut path = self.path(other).map(|(at, _)| at);
        path.find(|at| above.contains(at))
    }

    /// Every name, in no order.
    pub(super) fn names(&self) -> Vec<&QueueName> {
        self.numbers.keys().collect()
    }

    pub(super) fn node(&self, at: QueueIdx) -> Option<&Node> {
        self.nodes.get(at.0)
    }

    pub(super) fn node_mut(&mut self, at: QueueIdx) -> Option<&mut Node> {
        self.nodes.get_mut(at.0)
    }

    /// The number of whatever has that name: a queue, or what was or may become one.
    pub(super) fn number(&self, name: &QueueName) -> Option<QueueIdx> {
        self.numbers.get(name).copied()
    }

    /// The number of a name, from now on. To be forgotten where nothing comes of it.
    pub(super) fn hold(&mut self, name: &QueueName) -> QueueIdx {
        if let Some(at) = self.number(name) {
            return at;
        }
        let at = QueueIdx(self.nodes.insert(Node::new(name.clone())));
        self.numbers.insert(name.clone(), at);
        at
    }

    /// Forgets a name that is no queue's, holds nothing and is nobody's parent.
    pub(super) fn forget_unless_needed(&mut self, at: QueueIdx) {
        let unneeded =
            |n: &&Node| n.member.is_none() && n.named_by.is_empty() && n.cells.is_empty();
        if let Some(node) = self.node(at).filter(unneeded) {
            let name = node.name.clone();
            self.numbers.remove(&name);
            self.nodes.remove(at.0);
        }
    }

    /// A queue and those above it that it counts to, up to its root.
    pub(super) fn path(&self, queue: QueueIdx) -> impl Iterator<Item = (QueueIdx, &Node)> {
        std::iter::successors(Some(queue), |at| self.node(*at)?.parent)
            .filter_map(|at| Some((at, self.node(at)?)))
    }
}
