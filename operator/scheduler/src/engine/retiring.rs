//! Gangs that are gone, but for pods of theirs that still stop. Until the last of these is gone
//! their quota and limits are nobody else's to run on: what others wait for is that end.

use super::{Engine, Stage};
use crate::gang::Gang;
use crate::ids::{GangId, PodKey};
use crate::state::GangIdx;

impl Engine {
    /// The gang is gone. As long as any pod of it is there that has been seen where it has its
    /// place, it is one that leaves: of its room each pod holds its own until it is gone, and all
    /// of its quota and limits is held until the last one is. Of what was planned and has not been
    /// seen nothing is held.
    ///
    /// Of one that waits, as [`Self::delete_gang`]. If it is applied or restored before its pods
    /// are gone, it is another gang, and they hold no quota any more; nothing else brings it back.
    pub fn retire_gang(&mut self, gang: &GangId) {
        let Some(&at) = self.ids.get(gang) else {
            return;
        };
        self.forgo_all(at);
        if self.is_empty(at) {
            self.delete_gang(gang);
            return;
        }
        if !self.is_leaving(at) {
            self.leave_since(at, self.now);
        }
        if let Some(state) = self.state_mut(at) {
            state.retired = true;
        }
    }

    /// Nothing is planned any more that has not been seen.
    fn forgo_all(&mut self, at: GangIdx) {
        let Some(Stage::Placed(placed)) = self.state(at).map(|state| &state.stage) else {
            return;
        };
        let groups = placed.groups.iter().enumerate();
        let assumed = groups.flat_map(|(number, group)| {
            let indexes = (0..group.count()).filter(|index| group.is_assumed(*index));
            indexes.map(move |index| (at, number, index))
        });
        for owner in assumed.collect::<Vec<_>>() {
            self.forgo(owner);
        }
    }

    /// Whether none of its pods holds anything.
    fn is_empty(&self, at: GangIdx) -> bool {
        match self.state(at).map(|state| &state.stage) {
            Some(Stage::Placed(placed)) => placed.parts(&self.pods).is_empty(),
            _ => true,
        }
    }

    /// Whose pod it is that goes now, if its gang is gone already.
    pub(super) fn retired_owner(&self, pod: &PodKey) -> Option<GangIdx> {
        let (at, ..) = self.owner(pod)?;
        self.is_retired(at).then_some(at)
    }

    pub(super) fn is_retired(&self, at: GangIdx) -> bool {
        self.state(at).is_some_and(|state| state.retired)
    }

    /// A pod of a gang that is gone is gone too: with the last of them all that it held.
    pub(super) fn pod_has_gone(&mut self, of: Option<GangIdx>) {
        let last = of.filter(|at| self.is_empty(*at));
        if let Some(gang) = last.and_then(|at| Some(self.state(at)?.gang.id.clone())) {
            self.delete_gang(&gang);
        }
    }

    /// A gang of that name comes while pods of the one before still stop: it is another.
    pub(super) fn succeed_retired(&mut self, gang: &Gang) {
        let at = self.ids.get(&gang.id).copied();
        if at.is_some_and(|at| self.is_retired(at)) {
            self.delete_gang(&gang.id);
        }
    }
}
