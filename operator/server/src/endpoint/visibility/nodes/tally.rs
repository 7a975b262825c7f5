//! Sums up, for each node, what jobs and other pods hold.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_scheduler::{
    Gang, GangId, NodeName, PlaceSnapshot, PodKey, ResourceName, Resources, Snapshot,
    StandingSnapshot, Time,
};

use super::Tallies;

/// State of a job's pods on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Running,
    Starting,
    Stopping,
}

impl State {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Starting => "Starting",
            Self::Stopping => "Stopping",
        }
    }
}

/// A job, and the state of its pods. None for a reservation or a kept place, which has no pods yet.
pub(super) type Who = (Key, Option<State>);

/// Amounts held of each resource, in base units.
type Amounts<'s> = BTreeMap<&'s ResourceName, i128>;

/// Resources that a job holds.
#[derive(Debug, Default)]
pub(super) struct Hold<'s> {
    pub(super) pods: i64,
    pub(super) amounts: Amounts<'s>,
    pub(super) start: Option<Time>,
    pub(super) until: Option<Time>,
}

/// Resources that are held on a node.
#[derive(Debug, Default)]
pub(super) struct Tally<'s> {
    pub(super) jobs: BTreeMap<Who, Hold<'s>>,
    pub(super) by_jobs: Amounts<'s>,
    pub(super) by_others: Amounts<'s>,
    pub(super) other_pods: i64,
    pub(super) reserved: BTreeMap<Who, Hold<'s>>,
    pub(super) kept_for: BTreeMap<Who, Hold<'s>>,
    pub(super) kept: Amounts<'s>,
    pub(super) excluded_by: BTreeSet<Key>,
}

impl Tally<'_> {
    /// True if there is a pod on the node.
    pub(super) fn has_pods(&self) -> bool {
        !self.jobs.is_empty() || self.other_pods > 0
    }
}

fn add<'s>(amounts: &mut Amounts<'s>, request: &'s Resources) {
    for (name, amount) in request.iter() {
        let sum = amounts.entry(name).or_default();
        *sum = sum.saturating_add(i128::from(amount));
    }
}

impl<'s> Hold<'s> {
    fn add(&mut self, request: &'s Resources) {
        self.pods = self.pods.saturating_add(1);
        add(&mut self.amounts, request);
    }
}

/// Tallies of the nodes for which `wanted` holds.
pub(super) fn count<'s>(snapshot: &'s Snapshot, wanted: impl Fn(&NodeName) -> bool) -> Tallies<'s> {
    let mut counting = Counting {
        wanted,
        tallies: Tallies::default(),
        owners: HashMap::new(),
    };
    for told in &snapshot.gangs {
        if let Some(place) = &told.place {
            counting.place(place);
        }
        if let Some(kept) = &told.kept {
            let who = (engine::job_of(&kept.gang.id), None);
            for pod in kept.pods.iter().filter(|pod| pod.held) {
                let Some(tally) = counting.of(&pod.node) else {
                    continue;
                };
                add(&mut tally.kept, &pod.request);
                let hold = tally.kept_for.entry(who.clone()).or_default();
                hold.add(&pod.request);
                hold.until = Some(kept.until);
            }
        }
        for node in &told.gang.excluded_nodes {
            if let Some(tally) = counting.of(node) {
                tally.excluded_by.insert(engine::job_of(&told.gang.id));
            }
        }
    }
    for told in &snapshot.stopping {
        let job = engine::job_of(&told.gang.id);
        for pod in &told.pods {
            counting.owners.insert(pod.clone(), (job.clone(), true));
        }
    }
    for pod in &snapshot.pods {
        let owner = counting.owners.get(&pod.pod).cloned();
        let Some(tally) = counting.of(&pod.node) else {
            continue;
        };
        let Some((job, leaves)) = owner else {
            tally.other_pods = tally.other_pods.saturating_add(1);
            add(&mut tally.by_others, &pod.request);
            continue;
        };
        let state = match leaves || pod.leaves.is_some() {
            true => State::Stopping,
            false => State::Running,
        };
        add(&mut tally.by_jobs, &pod.request);
        tally
            .jobs
            .entry((job, Some(state)))
            .or_default()
            .add(&pod.request);
    }
    let gangs: HashMap<&GangId, &Gang> = snapshot
        .gangs
        .iter()
        .map(|told| (&told.gang.id, &told.gang))
        .collect();
    for reservation in &snapshot.reservations {
        let Some(waits) = gangs.get(&reservation.gang) else {
            continue;
        };
        let who = (engine::job_of(&reservation.gang), None);
        for (group, _, node) in reservation.placement.iter() {
            let group = waits.groups.iter().find(|of| of.name == *group);
            let Some(group) = group else { continue };
            let Some(tally) = counting.of(node) else {
                continue;
            };
            let hold = tally.reserved.entry(who.clone()).or_default();
            hold.add(&group.request);
            hold.start = reservation.start;
        }
    }
    counting.tallies
}

struct Counting<'s, W> {
    wanted: W,
    tallies: Tallies<'s>,
    /// Job of each existing pod, and whether the pod is leaving.
    owners: HashMap<PodKey, (Key, bool)>,
}

impl<'s, W: Fn(&NodeName) -> bool> Counting<'s, W> {
    /// None: the node is not wanted.
    fn of(&mut self, node: &'s NodeName) -> Option<&mut Tally<'s>> {
        (self.wanted)(node).then(|| self.tallies.entry(node).or_default())
    }

    /// Counts a placed gang. Its existing pods are counted from their own requests.
    fn place(&mut self, place: &'s PlaceSnapshot) {
        let job = engine::job_of(&place.gang.id);
        let leaves = matches!(place.standing, StandingSnapshot::Leaving { .. });
        let none = Vec::new();
        for (at, group) in place.gang.groups.iter().enumerate() {
            let of = |all: &'s [Vec<u32>]| -> BTreeSet<u32> {
                all.get(at).unwrap_or(&none).iter().copied().collect()
            };
            let (settled, gone) = (of(&place.settled), of(&place.gone));
            let runs = place.placement.runs(&group.name).unwrap_or_default();
            let nodes = runs.iter().flat_map(|(node, pods)| {
                let pods = usize::try_from(*pods).unwrap_or(usize::MAX);
                std::iter::repeat_n(node, pods)
            });
            for (index, node) in (0_u32..).zip(nodes) {
                if gone.contains(&index) || !(self.wanted)(node) {
                    continue;
                }
                if settled.contains(&index) {
                    let key = place.gang.pod_key(group, index);
                    self.owners.insert(key, (job.clone(), leaves));
                    continue;
                }
                let Some(tally) = self.of(node) else {
                    continue;
                };
                add(&mut tally.by_jobs, &group.request);
                let who = (job.clone(), Some(State::Starting));
                tally.jobs.entry(who).or_default().add(&group.request);
            }
        }
    }
}
