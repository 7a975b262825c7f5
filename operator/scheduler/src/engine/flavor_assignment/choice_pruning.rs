//! Drops flavor choices that can never work, for gangs with too many flavor assignments.

use super::super::Engine;
use crate::explain::can_never_fit;
use crate::gang::Gang;
use crate::queueing::FlavorChoice;

impl Engine {
    /// Drops choices with which a group alone could never start with these quotas and nodes, so
    /// that the engine can try most of the remaining combinations. A group without any possible
    /// choice keeps its first one, for the explanation. Returns true if each group has a choice
    /// that might work.
    ///
    /// Checks the kinds of nodes for each choice of each group, so the engine calls it only for
    /// gangs with too many flavor assignments.
    pub(in crate::engine) fn drop_impossible_choices(
        &mut self,
        gang: &Gang,
        choices: &mut [Vec<FlavorChoice>],
    ) -> bool {
        let mut hope = true;
        for (number, choices) in choices.iter_mut().enumerate() {
            let mut kept = Vec::with_capacity(choices.len());
            for choice in choices.iter() {
                if !self.is_impossible_choice(gang, number, choice) {
                    kept.push(choice.clone());
                }
            }
            if kept.is_empty() {
                hope = false;
                choices.truncate(1);
            } else {
                *choices = kept;
            }
        }
        hope
    }

    fn is_impossible_choice(&mut self, gang: &Gang, number: usize, choice: &FlavorChoice) -> bool {
        let Some(mut group) = gang.groups.get(number).cloned() else {
            return false;
        };
        if !self.add_flavor_constraints(&mut group, choice) {
            return true;
        }
        let alone = Gang {
            groups: vec![group],
            topology: None,
            ..gang.clone()
        };
        let shape = self.catalog.acquire_shape(&alone);
        let demand = self.queue_demand(&shape, std::slice::from_ref(choice));
        let queue = self.queues.leaf(&gang.queue);
        let tree = self.queues.tree();
        let quota = queue.is_none_or(|queue| tree.permanent_shortages(queue, &demand).is_empty());
        self.catalog.refresh(&shape, &self.nodes);
        self.catalog.count_kinds(&shape, &self.nodes);
        let mut groups = shape.groups.iter();
        let room = groups.all(|group| !can_never_fit(&self.nodes, &self.catalog, group));
        self.drop_shape(&shape);
        !(quota && room)
    }
}
