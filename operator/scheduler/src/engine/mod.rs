//! The engine: the live state, and what changes it.

mod admission;
mod beside;
mod by_node;
mod cluster;
mod cycle;
mod departures;
mod gangs;
mod heads;
mod hopeless;
mod keeping;
mod limits;
mod placed;
mod preempt;
mod quota_heads;
mod refusals;
mod reserving;
mod roster;
mod snapshot;
mod stages;
mod standing;
mod stopping;
mod trial;
mod ways;
mod withdrawing;
mod yielding;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::backfill::Backfill;
use crate::explain::{Certificate, WaitReason};
use crate::gang::Gang;
use crate::ids::{GangId, NodeName, PodKey, QueueName, ResourceName};
use crate::limits::{Ledger, Lines};
use crate::placement::{History, Packing, Placement};
use crate::queue::{GroupFlavors, QueueCounts};
use crate::queueing::{Parking, Queues, Signal, Waiting};
use crate::quota::Decay;
use crate::state::{Catalog, GangIdx, NodeIdx, Nodes, Pods, ResourceIdx, Shape};
use crate::time::Time;
use departures::Departures;
use keeping::Keeps;
use placed::Placed;
use refusals::Refusals;
use roster::Roster;
pub use snapshot::{
    ChargeSnapshot, DrawnSnapshot, GangSnapshot, KeepSnapshot, KeptPodSnapshot, LagSnapshot,
    PlaceSnapshot, PodSnapshot, Snapshot, StandingSnapshot, StoppingSnapshot,
};
pub use standing::{QueueMemory, QueueStanding, StandingLine, Totals};
use stopping::Stopping;
use ways::KnownWays;
use withdrawing::CyclePlacements;

/// The scheduling engine: a state machine over plain data.
///
/// Feed it what is there by `apply_*` and `delete_*`, in any order and as often
/// as you like: what is applied twice changes nothing. Ask [`Engine::cycle`]
/// what is to be done.
///
/// # What counts as used
///
/// Every pod counts once. A gang that gets its place is charged at once: its
/// pods are *assumed*. [`Engine::apply_pod`] of the same key confirms one: from
/// then on what has been seen counts, node and request. [`Engine::delete_pod`]
/// frees what was seen. Giving up a gang ([`Engine::release_gang`],
/// [`Engine::delete_gang`]) frees what is still assumed; pods that have been
/// seen count until they are gone, since a terminating pod holds its devices. Where a
/// place is kept ([`Engine::keep_gang`]), its room counts after that too. The quota and limits
/// of a gang that is gone ([`Engine::retire_gang`]) are held until the last of these is.
///
/// A pod that was there before the gang was placed, under the key of one of its
/// pods, does not confirm: both count until it is deleted. So a pod that is
/// replaced by another of its name must be deleted before the other is applied.
#[derive(Debug)]
pub struct Engine {
    catalog: Catalog,
    nodes: Nodes,
    pods: Pods,
    queues: Queues,
    limits: Ledger,
    lines: Lines,
    gangs: Roster,
    ids: BTreeMap<GangId, GangIdx>,
    /// Placed groups by `namespace/pod_prefix`: whose pod a pod is.
    families: HashMap<String, SmallVec<[(GangIdx, usize); 1]>>,
    waiting: Waiting,
    parking: Parking,
    refusals: Refusals,
    packing: Packing,
    backfill: Backfill,
    placed: usize,
    /// Gangs that follow others, who have not left yet.
    nominated: BTreeSet<GangIdx>,
    departures: Departures,
    stopping: Stopping,
    keeps: Keeps,
    /// Empty between cycles.
    cycle_placements: CyclePlacements,
    /// The latest time that the engine was told.
    now: Time,
    /// Which state of queues and flavors it is: what was worked out in another is worked out anew.
    config: u64,
    /// The nodes have changed since shares were last measured by what they have.
    capacity_changed: bool,
}

impl Default for Engine {
    fn default() -> Self {
        Self::with_decay(Decay::default())
    }
}

/// A gang and where it is.
#[derive(Debug)]
struct GangState {
    gang: Arc<Gang>,
    shape: Arc<Shape>,
    /// None: not worked out yet.
    ways: Option<KnownWays>,
    /// The back-off of the last release.
    not_before: Option<Time>,
    /// It had to leave its place for another, or since its queue was drained.
    preempted: bool,
    /// It has lost its place, and is not tried before it is applied again.
    idle: bool,
    /// The reason that a cycle last told.
    told: Option<WaitReason>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Why, when it was last looked at.
    Waiting(Option<Certificate>),
    Placed(Box<Placed>),
    /// It is gone, but for so many pods that still stop, and are to be gone by then.
    Stopping {
        pods: u32,
        by: Time,
    },
}

impl Engine {
    /// An engine that knows of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An engine that forgets usage in another time than 7 days.
    #[must_use]
    pub fn with_decay(decay: Decay) -> Self {
        let catalog = Catalog::default();
        Self {
            queues: Queues::new(&catalog, decay),
            catalog,
            nodes: Nodes::default(),
            limits: Ledger::default(),
            lines: Lines::default(),
            pods: Pods::default(),
            gangs: Roster::default(),
            ids: BTreeMap::new(),
            families: HashMap::new(),
            waiting: Waiting::default(),
            parking: Parking::default(),
            refusals: Refusals::default(),
            packing: Packing::default(),
            backfill: Backfill::default(),
            placed: 0,
            nominated: BTreeSet::new(),
            departures: Departures::default(),
            stopping: Stopping::default(),
            keeps: Keeps::default(),
            cycle_placements: CyclePlacements::default(),
            now: Time::default(),
            config: 0,
            capacity_changed: false,
        }
    }

    /// Why a gang waits, as of when it was last looked at. It is looked at again
    /// when something changes that could let it start or changes the reason, so
    /// the reason is that of now while the numbers may be older; for those of
    /// now see [`Engine::explain`]. None where it does not wait, or no cycle has
    /// looked at it yet.
    #[must_use]
    pub fn certificate(&self, gang: &GangId) -> Option<&Certificate> {
        match &self.state(*self.ids.get(gang)?)?.stage {
            Stage::Waiting(certificate) => certificate.as_ref(),
            Stage::Placed(_) | Stage::Stopping { .. } => None,
        }
    }

    /// The place of a waiting gang in the order of its queue: 1 is the first.
    /// Costs as much as there are gangs before it.
    #[must_use]
    pub fn position(&self, gang: &GangId) -> Option<usize> {
        self.waiting
            .position(&self.state(*self.ids.get(gang)?)?.gang)
    }

    /// Where the pods of a placed gang go.
    #[must_use]
    pub fn placement(&self, gang: &GangId) -> Option<Placement> {
        match &self.state(*self.ids.get(gang)?)?.stage {
            Stage::Waiting(_) | Stage::Stopping { .. } => None,
            Stage::Placed(placed) => Some(placed.placement(&self.nodes)),
        }
    }

    /// Labels that identify the domain of `level` that the node is in. None: no topology has the
    /// level, or the node lacks one of its labels.
    #[must_use]
    pub fn domain_labels(&self, level: &str, node: &NodeName) -> Option<BTreeMap<String, String>> {
        self.nodes.domain_labels(level, node)
    }

    /// The flavors that a placed gang is charged to: of each of its task groups, by
    /// resource. A group whose queue offers what the nodes have is charged to none.
    #[must_use]
    pub fn flavors(&self, gang: &GangId) -> Option<Vec<GroupFlavors>> {
        let Stage::Placed(placed) = &self.state(*self.ids.get(gang)?)?.stage else {
            return None;
        };
        Some(placed::given(&placed.gang, &placed.choices))
    }

    /// What is free on a node of each resource that it lists, in base units;
    /// negative where it shrank below what is used. None where there is no such node.
    #[must_use]
    pub fn free(&self, node: &NodeName) -> Option<BTreeMap<ResourceName, i64>> {
        let at = self.nodes.find(node)?;
        self.nodes.facts(at)?;
        let offers = self.nodes.offers(at).iter();
        Some(
            offers
                .map(|r| (self.catalog.name(*r), self.nodes.free(*r, at)))
                .collect(),
        )
    }

    /// What placed gangs hold of a queue's quota, in base units; a gang is
    /// charged whole. Empty where none holds any.
    #[must_use]
    pub fn queue_usage(&self, queue: &QueueName) -> BTreeMap<ResourceName, i128> {
        self.queues
            .usage(queue)
            .into_iter()
            .map(|(resource, used)| (self.catalog.name(resource), used))
            .collect()
    }

    /// How many gangs of each queue wait and hold a place; what is surplus is not
    /// counted. Queues that no gang waits in or holds anything of are left out.
    #[must_use]
    pub fn queue_counts(&self) -> BTreeMap<QueueName, QueueCounts> {
        let mut counts: BTreeMap<QueueName, QueueCounts> = BTreeMap::new();
        for (queue, pending) in self.waiting.by_queue() {
            counts.entry(queue.clone()).or_default().pending = pending;
        }
        let holders = self.queues.holders();
        for (queue, admitted) in holders {
            counts.entry(queue.clone()).or_default().admitted = admitted;
        }
        for (_, keep) in self.keeps.iter().filter(|(_, keep)| !keep.gang.surplus) {
            // It is charged, and has no place.
            if let Some(counts) = counts.get_mut(&keep.gang.queue) {
                counts.admitted = counts.admitted.saturating_sub(1);
            }
        }
        counts.retain(|_, counts| *counts != QueueCounts::default());
        counts
    }

    /// The gangs that wait, by name.
    pub fn waiting(&self) -> impl Iterator<Item = &GangId> {
        let waits = |at: &GangIdx| {
            let state = self.state(*at);
            state.is_some_and(|state| matches!(state.stage, Stage::Waiting(_)))
        };
        let all = self.ids.iter();
        all.filter(move |(_, at)| waits(at)).map(|(id, _)| id)
    }

    /// How many gangs wait.
    #[must_use]
    pub fn waiting_gangs(&self) -> usize {
        self.waiting.count()
    }

    /// How many gangs have their place.
    #[must_use]
    pub fn placed_gangs(&self) -> usize {
        self.placed
    }

    /// How many pods have been seen.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.pods.len()
    }

    /// The next time at which a cycle is worth running though nothing has been
    /// applied or deleted: the end of the first back-off, when something is past its
    /// end that a reservation counts on, or when a place has been kept long enough.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        let alarm = self.parking.next_alarm();
        let times = [alarm, self.backfill.expires(), self.keeps.first_end()];
        times.into_iter().flatten().min()
    }

    /// What has been learned about the tasks that come, from every gang that was
    /// applied and is not surplus: packing keeps nodes useful for the likes of them.
    #[must_use]
    pub fn history(&self) -> History {
        self.packing.export(&self.catalog)
    }

    /// Takes what another engine has learned in the place of what this one has:
    /// with the same cluster and gangs it then decides the same.
    pub fn restore_history(&mut self, history: &History) {
        self.packing.restore(&mut self.catalog, history);
        self.refusals.clear();
        self.backfill.disturb();
    }

    fn state(&self, at: GangIdx) -> Option<&GangState> {
        self.gangs.get(at.at())
    }

    fn state_mut(&mut self, at: GangIdx) -> Option<&mut GangState> {
        self.gangs.get_mut(at.at())
    }

    fn placed_mut(&mut self, at: GangIdx) -> Option<&mut Placed> {
        match &mut self.state_mut(at)?.stage {
            Stage::Placed(placed) => Some(placed),
            Stage::Waiting(_) | Stage::Stopping { .. } => None,
        }
    }

    /// Charges pods to a node, and tells whoever waits for that.
    fn take(&mut self, node: NodeIdx, demand: &[(ResourceIdx, i64)], pods: u32, held: bool) {
        self.nodes.know_shares(&self.catalog);
        self.nodes.charge(node, demand, i64::from(pods), held);
        self.tell(demand, pods, Signal::Taken);
    }

    /// Takes the charge of pods back, and tells whoever waits for that.
    fn give(&mut self, node: NodeIdx, demand: &[(ResourceIdx, i64)], pods: u32, held: bool) {
        let times = i64::from(pods).saturating_neg();
        self.nodes.charge(node, demand, times, held);
        self.tell(demand, pods, Signal::Freed);
    }

    fn tell(
        &mut self,
        demand: &[(ResourceIdx, i64)],
        pods: u32,
        signal: impl Fn(ResourceIdx) -> Signal,
    ) {
        self.refusals.clear();
        self.backfill.disturb();
        let all = |need: i64| i128::from(need).saturating_mul(i128::from(pods));
        self.raise(demand.iter().map(|(r, need)| (*r, all(*need))), signal);
    }

    /// So much of resources has been taken, or freed.
    fn raise(
        &mut self,
        amounts: impl Iterator<Item = (ResourceIdx, i128)>,
        signal: impl Fn(ResourceIdx) -> Signal,
    ) {
        for (resource, amount) in amounts {
            self.parking.raise(&signal(resource), amount);
            if let Some((along, amount)) = self.nodes.along(resource, amount) {
                self.parking.raise(&signal(along), amount);
            }
        }
    }

    /// The group and index that a pod has in a placed gang: one that is still
    /// assumed where several gangs claim the name.
    fn owner(&self, pod: &PodKey) -> Option<(GangIdx, usize, u32)> {
        let (family, digits) = pod.as_str().rsplit_once('-')?;
        let canonical = digits == "0" || !digits.starts_with(['0', '+']);
        let number: u32 = digits.parse().ok().filter(|_| canonical)?;
        let claims = self.families.get(family)?;
        // Whose it is, and whether it is assumed.
        let claim = |(gang, group): &(GangIdx, usize)| {
            let Stage::Placed(placed) = &self.state(*gang)?.stage else {
                return None;
            };
            let first = placed.gang.groups.get(*group)?.first;
            let index = number.checked_sub(first)?;
            let planned = placed.groups.get(*group)?;
            let owner = (*gang, *group, index);
            (index < planned.count()).then(|| (owner, planned.is_assumed(index)))
        };
        let mut claims = claims.iter().filter_map(claim);
        let (first, is_assumed) = claims.next()?;
        match is_assumed {
            true => Some(first),
            false => Some(claims.find(|c| c.1).map_or(first, |(owner, _)| owner)),
        }
    }

    fn placed_group(&self, gang: GangIdx, group: usize) -> Option<&placed::PlacedGroup> {
        match &self.state(gang)?.stage {
            Stage::Placed(placed) => placed.groups.get(group),
            Stage::Waiting(_) | Stage::Stopping { .. } => None,
        }
    }
}
