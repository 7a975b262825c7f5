//! Changes of a waiting gang's own request with which it would start now.

use crate::engine::{Engine, Snapshot};
use crate::gang::{Gang, TaskGroup};
use crate::ids::{FlavorName, GangId, GroupName};
use crate::time::Time;
use crate::topology::{Topology, TopologyRequest};

/// Maximum number of trials in a search.
const MAX_TRIES: usize = 16;

/// A change of one field of a gang's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestChange {
    /// The task groups whose field changes: one, or the parts of a merged group. Empty: the request
    /// of the gang as a whole.
    pub groups: Vec<GroupName>,
    /// The new value.
    pub value: ChangedRequest,
}

/// The new value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedRequest {
    /// The topology request.
    Topology(TopologyRequest),
    /// The slices are a preference.
    PreferredSlices,
    /// A flavor that the group did not name.
    Flavor(FlavorName),
}

/// Returns the changes with which a waiting gang would start now, without victims and new nodes. Each
/// suffices alone. For each topology request, it returns the change to the finest coarser level that
/// suffices, or else the change to a preference. `engine` is restored from `snapshot` and may have run
/// a cycle; it stays as it is. The order of the queue does not count, so the gang must be one that its
/// queue lets start. Empty: no change that was tried suffices, or the gang can start unchanged.
#[must_use]
pub fn find_request_changes(
    engine: &mut Engine,
    snapshot: &Snapshot,
    gang: &GangId,
) -> Vec<RequestChange> {
    let waiting = snapshot.gangs.iter().find(|known| known.gang.id == *gang);
    let Some(waiting) = waiting.filter(|waiting| waiting.place.is_none()) else {
        return Vec::new();
    };
    let gang = &waiting.gang;
    // Each list has changes of one field, the smallest first.
    let of_gang = weaker_topologies(None, gang.topology.as_ref(), snapshot);
    // A merged group has the request of the gang.
    let single = gang.groups.iter().filter(|group| group.parts.is_empty());
    let of_groups =
        single.map(|group| weaker_topologies(Some(&group.name), group.topology.as_ref(), snapshot));
    let mut lists: Vec<Vec<RequestChange>> = std::iter::once(of_gang).chain(of_groups).collect();
    let slices = gang.groups.iter().filter_map(weaker_slices);
    let flavors = gang
        .groups
        .iter()
        .flat_map(|group| other_flavors(group, snapshot));
    lists.extend(slices.chain(flavors).map(|change| vec![change]));
    let mut search = ChangeSearch {
        engine,
        now: snapshot.now,
        tries: 0,
    };
    if lists.iter().all(Vec::is_empty) || search.starts(gang) {
        return Vec::new();
    }
    let first = |list: Vec<RequestChange>| {
        let mut changes = list.into_iter();
        changes.find(|change| search.starts(&change.apply(gang)))
    };
    lists.into_iter().filter_map(first).collect()
}

struct ChangeSearch<'a> {
    engine: &'a mut Engine,
    now: Time,
    tries: usize,
}

impl ChangeSearch<'_> {
    fn starts(&mut self, gang: &Gang) -> bool {
        self.tries = self.tries.saturating_add(1);
        if self.tries > MAX_TRIES {
            return false;
        }
        self.engine.find_immediate_place(gang, self.now).is_some()
    }
}

impl RequestChange {
    /// Returns the gang with the change.
    fn apply(&self, gang: &Gang) -> Gang {
        let mut gang = gang.clone();
        let is_of_gang = self.groups.is_empty();
        if let (true, ChangedRequest::Topology(topology)) = (is_of_gang, &self.value) {
            gang.topology = Some(topology.clone());
        }
        let is_changed = |group: &TaskGroup| match is_of_gang {
            true => !group.parts.is_empty(),
            false => self.groups.iter().any(|name| group.stands_for(name)),
        };
        for group in gang.groups.iter_mut().filter(|group| is_changed(group)) {
            match &self.value {
                // A merged group without a request of its own follows the gang.
                ChangedRequest::Topology(_) if is_of_gang && group.topology.is_none() => {}
                ChangedRequest::Topology(topology) => group.topology = Some(topology.clone()),
                ChangedRequest::PreferredSlices => group.prefers_slices = true,
                ChangedRequest::Flavor(flavor) => group.flavors = vec![flavor.clone()],
            }
        }
        gang
    }
}

/// Returns the requests that are weaker than the request of a group, or of the gang: coarser required
/// levels, the finest first, then the preference.
fn weaker_topologies(
    group: Option<&GroupName>,
    request: Option<&TopologyRequest>,
    snapshot: &Snapshot,
) -> Vec<RequestChange> {
    let request = request.filter(|request| !request.is_node_level());
    let Some(required) = request.and_then(TopologyRequest::required_level) else {
        return Vec::new();
    };
    let has_level = |topology: &&Topology| {
        let mut levels = topology.levels.iter();
        levels.any(|level| level.name == required)
    };
    let topology = snapshot.topologies.iter().find(has_level);
    let levels = topology.into_iter().flat_map(|topology| &topology.levels);
    let coarser: Vec<&str> = levels
        .map(|level| level.name.as_str())
        .take_while(|level| *level != required)
        .collect();
    let coarser = coarser
        .into_iter()
        .rev()
        .map(|level| TopologyRequest::required_and_preferred(level, required));
    let all = coarser.chain([TopologyRequest::preferred(required)]);
    all.map(|topology| RequestChange {
        groups: group.cloned().into_iter().collect(),
        value: ChangedRequest::Topology(topology),
    })
    .collect()
}

fn weaker_slices(group: &TaskGroup) -> Option<RequestChange> {
    let is_required = !group.slices.is_empty() && !group.prefers_slices;
    is_required.then(|| RequestChange {
        groups: match group.parts.is_empty() {
            true => vec![group.name.clone()],
            false => Vec::new(),
        },
        value: ChangedRequest::PreferredSlices,
    })
}

/// Returns the flavors that a group does not name. A group that names none accepts all.
fn other_flavors<'s>(
    group: &'s TaskGroup,
    snapshot: &'s Snapshot,
) -> impl Iterator<Item = RequestChange> + 's {
    let flavors = snapshot.flavors.iter().map(|flavor| &flavor.name);
    let others = flavors.filter(|flavor| !group.flavors.contains(flavor));
    let others = others.filter(|_| !group.flavors.is_empty());
    others.map(|flavor| RequestChange {
        groups: group.members().map(|member| member.name.clone()).collect(),
        value: ChangedRequest::Flavor(flavor.clone()),
    })
}
