//! Amounts of quota that a gang asks for.

use smallvec::SmallVec;

use crate::state::ResourceIdx;

/// The number of a flavor. The caller that builds the tree assigns the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlavorIdx(u32);

impl FlavorIdx {
    /// Returns the index of the flavor in an array.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the flavor at an index of an array.
    pub(crate) fn from_index(at: usize) -> Self {
        Self(u32::try_from(at).unwrap_or(u32::MAX))
    }
}

/// A resource of a flavor: the unit in which quota is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FlavorResource {
    pub(crate) flavor: FlavorIdx,
    pub(crate) resource: ResourceIdx,
}

/// The largest amount that a demand counts. All nominal quotas together stay far below it, so a
/// larger amount would fit no better. [`super::fair_share::memory`] can sum and weigh thousands of
/// these demands without overflow. So every release subtracts exactly the charged amount.
const MAX_AMOUNT: i128 = 1 << 80;

/// The needs of a gang, in base units. Each resource of each flavor occurs once, in order. Each
/// amount is more than 0 and at most 2^80.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Demand(SmallVec<[(FlavorResource, i128); 4]>);

impl Demand {
    /// Returns the demand for one resource of one flavor.
    pub(crate) fn single(what: FlavorResource, amount: i128) -> Self {
        std::iter::once((what, amount)).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FlavorResource, i128)> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the amount of one resource of one flavor.
    pub(crate) fn amount(&self, what: FlavorResource) -> i128 {
        let found = self.0.iter().find(|(w, _)| *w == what);
        found.map_or(0, |(_, amount)| *amount)
    }
}

/// Amounts of the same resource and flavor are summed; a negative amount counts as 0.
impl FromIterator<(FlavorResource, i128)> for Demand {
    fn from_iter<I: IntoIterator<Item = (FlavorResource, i128)>>(amounts: I) -> Self {
        let mut all: SmallVec<[(FlavorResource, i128); 4]> = amounts
            .into_iter()
            .map(|(what, amount)| (what, amount.clamp(0, MAX_AMOUNT)))
            .filter(|(_, amount)| *amount > 0)
            .collect();
        all.sort_unstable();
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1).min(MAX_AMOUNT);
            }
            same
        });
        Self(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_lists_each_resource_once_without_zeros() {
        let resource = ResourceIdx::of;
        let amounts = [
            (resource(2), 3),
            (resource(1), -1),
            (resource(0), 0),
            (resource(3), i128::MAX),
            (resource(2), 4),
            (resource(3), i128::MAX),
        ];
        let flavor = FlavorIdx::from_index(0);
        let what = |(resource, amount)| (FlavorResource { flavor, resource }, amount);
        let demand: Demand = amounts.into_iter().map(what).collect();
        let amounts: Vec<_> = demand.iter().map(|(what, n)| (what.resource, n)).collect();
        assert_eq!(amounts, [(resource(2), 7), (resource(3), MAX_AMOUNT)]);
    }
}
