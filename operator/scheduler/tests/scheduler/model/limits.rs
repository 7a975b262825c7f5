//! The usage of limits in the model.

use std::collections::BTreeMap;

use trellis_scheduler::{Gang, GangId, LimitName, LimitUnit, ResourceName, TaskGroup};

use crate::common::GPU;
use crate::model::{Model, ModelPlace};

impl Model {
    /// Returns the amounts that a gang with these pods draws on each limit of `draws`. There is one
    /// flavor.
    pub fn drawn_amounts(draws: &Gang, placed: &Gang) -> BTreeMap<LimitName, i128> {
        let all = |resource: &str| -> i128 {
            let groups = placed.groups.iter();
            let each = |g: &TaskGroup| g.request.get(&ResourceName::new(resource));
            groups
                .map(|g| i128::from(each(g)) * i128::from(g.count))
                .sum()
        };
        let amounts = draws.draws.iter().map(|draw| {
            let amount = match &draw.of {
                LimitUnit::Gangs => 1,
                LimitUnit::Waiting => 0,
                LimitUnit::Devices => all(GPU),
                LimitUnit::Resource { resource, .. } => all(resource.as_str()),
            };
            (draw.limit.clone(), amount)
        });
        amounts.filter(|(_, amount)| *amount > 0).collect()
    }

    /// Returns the usage of each limit by the gangs that count, and by gangs with a kept place.
    pub fn limit_usage_of(
        &self,
        counts: impl Fn(&ModelPlace) -> bool,
    ) -> BTreeMap<LimitName, i128> {
        let mut held = BTreeMap::new();
        let placed = self.places.iter().filter(|(_, place)| counts(place));
        let placed = placed.map(|(id, place)| (id, &place.gang));
        let kept = self.kept_places.iter().map(|(id, kept)| (id, &kept.gang));
        for (id, gang) in placed.chain(kept) {
            for (limit, amount) in Self::drawn_amounts(&self.gangs[id], gang) {
                *held.entry(limit).or_default() += amount;
            }
        }
        held
    }

    /// Returns the usage of each limit by running gangs. Leaving gangs still run, and their
    /// preemptors do not run yet.
    pub fn running_limit_usage(&self) -> BTreeMap<LimitName, i128> {
        let mut held = self.limit_usage_of(|place| place.victims.is_none());
        for (limit, amount) in self.stopping.iter().flat_map(|s| &s.drawn) {
            *held.entry(limit.clone()).or_default() += amount;
        }
        held
    }

    /// Returns the usage of each limit.
    pub fn limit_usage(&self) -> BTreeMap<LimitName, i128> {
        let mut held = self.limit_usage_of(|place| place.leaving.is_none());
        let waits = |id: &&GangId| !self.places.contains_key(*id) && !self.idle.contains(*id);
        for id in self.gangs.keys().filter(waits) {
            let draws = self.gangs[id].draws.iter();
            for draw in draws.filter(|draw| draw.of == LimitUnit::Waiting) {
                *held.entry(draw.limit.clone()).or_default() += 1;
            }
        }
        held
    }
}
