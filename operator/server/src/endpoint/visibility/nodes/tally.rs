//! Sums up, for each node, the resources that jobs and other pods hold.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_scheduler::{
    Gang, GangId, NodeName, PlaceSnapshot, PlacedStateSnapshot, PodKey, ResourceName, Resources,
    Snapshot, Time,
};

use super::NodeTallies;

/// State of a job's pods on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HoldState {
    Running,
    Starting,
    Stopping,
}

impl HoldState {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Starting => "Starting",
            Self::Stopping => "Stopping",
        }
    }
}

/// A job, and the state of its pods. None for a reservation or a kept place, which has no pods yet.
pub(super) type HolderKey = (Key, Option<HoldState>);

/// Amounts held of each resource, in base units.
type ResourceAmounts<'s> = BTreeMap<&'s ResourceName, i128>;

/// Resources that a job holds.
#[derive(Debug, Default)]
pub(super) struct JobResources<'s> {
    pub(super) pods: i64,
    pub(super) amounts: ResourceAmounts<'s>,
    pub(super) start: Option<Time>,
    pub(super) until: Option<Time>,
}

/// Resources that are held on a node.
#[derive(Debug, Default)]
pub(super) struct NodeTally<'s> {
    pub(super) jobs: BTreeMap<HolderKey, JobResources<'s>>,
    pub(super) by_jobs: ResourceAmounts<'s>,
    pub(super) by_other_pods: ResourceAmounts<'s>,
    pub(super) other_pods: i64,
    pub(super) reservations: BTreeMap<HolderKey, JobResources<'s>>,
    pub(super) restart_holds: BTreeMap<HolderKey, JobResources<'s>>,
    pub(super) restart_amounts: ResourceAmounts<'s>,
    pub(super) excluded_by: BTreeSet<Key>,
}

impl NodeTally<'_> {
    /// Returns true if there is a pod on the node.
    pub(super) fn has_pods(&self) -> bool {
        !self.jobs.is_empty() || self.other_pods > 0
    }
}

fn add_amounts<'s>(amounts: &mut ResourceAmounts<'s>, request: &'s Resources) {
    for (name, amount) in request.iter() {
        let sum = amounts.entry(name).or_default();
        *sum = sum.saturating_add(i128::from(amount));
    }
}

impl<'s> JobResources<'s> {
    fn add_pod(&mut self, request: &'s Resources) {
        self.pods = self.pods.saturating_add(1);
        add_amounts(&mut self.amounts, request);
    }
}

/// Sums up the nodes for which `is_wanted` returns true.
pub(super) fn tally_nodes<'s>(
    snapshot: &'s Snapshot,
    is_wanted: impl Fn(&NodeName) -> bool,
) -> NodeTallies<'s> {
    let mut counting = TallyBuilder {
        is_wanted,
        tallies: NodeTallies::default(),
        owners: HashMap::new(),
    };
    for gang in &snapshot.gangs {
        if let Some(place) = &gang.place {
            counting.count_place(place);
        }
        if let Some(kept_place) = &gang.kept {
            let holder = (engine::job_key(&kept_place.gang.id), None);
            for pod in kept_place.pods.iter().filter(|pod| pod.held) {
                let Some(tally) = counting.tally_of(&pod.node) else {
                    continue;
                };
                add_amounts(&mut tally.restart_amounts, &pod.request);
                let hold = tally.restart_holds.entry(holder.clone()).or_default();
                hold.add_pod(&pod.request);
                hold.until = Some(kept_place.until);
            }
        }
        for node in &gang.gang.excluded_nodes {
            if let Some(tally) = counting.tally_of(node) {
                tally.excluded_by.insert(engine::job_key(&gang.gang.id));
            }
        }
    }
    for gang in &snapshot.stopping {
        let job = engine::job_key(&gang.gang.id);
        for pod in &gang.pods {
            counting.owners.insert(pod.clone(), (job.clone(), true));
        }
    }
    for pod in &snapshot.pods {
        let owner = counting.owners.get(&pod.pod).cloned();
        let Some(tally) = counting.tally_of(&pod.node) else {
            continue;
        };
        let Some((job, leaves)) = owner else {
            tally.other_pods = tally.other_pods.saturating_add(1);
            add_amounts(&mut tally.by_other_pods, &pod.request);
            continue;
        };
        let state = match leaves || pod.leaves.is_some() {
            true => HoldState::Stopping,
            false => HoldState::Running,
        };
        add_amounts(&mut tally.by_jobs, &pod.request);
        tally
            .jobs
            .entry((job, Some(state)))
            .or_default()
            .add_pod(&pod.request);
    }
    let gangs: HashMap<&GangId, &Gang> = snapshot
        .gangs
        .iter()
        .map(|gang| (&gang.gang.id, &gang.gang))
        .collect();
    for reservation in &snapshot.reservations {
        let Some(waits) = gangs.get(&reservation.gang) else {
            continue;
        };
        let holder = (engine::job_key(&reservation.gang), None);
        for (group, _, node) in reservation.placement.iter() {
            let Some((group, _)) = waits.member(group) else {
                continue;
            };
            let Some(tally) = counting.tally_of(node) else {
                continue;
            };
            let hold = tally.reservations.entry(holder.clone()).or_default();
            hold.add_pod(&group.request);
            hold.start = reservation.start;
        }
    }
    counting.tallies
}

struct TallyBuilder<'s, W> {
    is_wanted: W,
    tallies: NodeTallies<'s>,
    /// Job of each existing pod, and whether the pod is leaving.
    owners: HashMap<PodKey, (Key, bool)>,
}

impl<'s, W: Fn(&NodeName) -> bool> TallyBuilder<'s, W> {
    /// None: the node is not wanted.
    fn tally_of(&mut self, node: &'s NodeName) -> Option<&mut NodeTally<'s>> {
        (self.is_wanted)(node).then(|| self.tallies.entry(node).or_default())
    }

    /// Counts a placed gang. Existing pods of the gang count with their own requests instead.
    fn count_place(&mut self, place: &'s PlaceSnapshot) {
        let job = engine::job_key(&place.gang.id);
        let leaves = matches!(place.standing, PlacedStateSnapshot::Leaving { .. });
        let none = Vec::new();
        for (at, group) in place.gang.groups.iter().enumerate() {
            let of = |all: &'s [Vec<u32>]| -> BTreeSet<u32> {
                all.get(at).unwrap_or(&none).iter().copied().collect()
            };
            let (settled, gone) = (of(&place.settled), of(&place.gone));
            let nodes = place.placement.runs_of(group).flat_map(|(node, pods)| {
                let pods = usize::try_from(pods).unwrap_or(usize::MAX);
                std::iter::repeat_n(node, pods)
            });
            for (index, node) in (0_u32..).zip(nodes) {
                if gone.contains(&index) || !(self.is_wanted)(node) {
                    continue;
                }
                if settled.contains(&index) {
                    let key = place.gang.pod_key(group, index);
                    self.owners.insert(key, (job.clone(), leaves));
                    continue;
                }
                let Some(tally) = self.tally_of(node) else {
                    continue;
                };
                add_amounts(&mut tally.by_jobs, &group.request);
                let holder = (job.clone(), Some(HoldState::Starting));
                tally
                    .jobs
                    .entry(holder)
                    .or_default()
                    .add_pod(&group.request);
            }
        }
    }
}
