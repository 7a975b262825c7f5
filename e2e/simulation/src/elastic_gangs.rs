//! How many elastic gangs a run had, and how often slices were replaced in them.

use std::fmt;
use std::ops::AddAssign;

use serde_json::Value;

/// Numbers of elastic gangs and of changes in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElasticCounts {
    /// Plans of gangs with surplus.
    pub plans: u64,
    /// Plans in which other slices became part of the gang.
    pub replacements: u64,
}

impl ElasticCounts {
    /// Counts a change of a PodGroup.
    pub(crate) fn observe(&mut self, before: Option<&Value>, after: Option<&Value>) {
        let elastic = |group: Option<&Value>| {
            let elastic = group?["status"]["plan"]["elastic"].as_array()?;
            let starts = elastic.iter().map(|group| group["sliceStarts"].clone());
            (!elastic.is_empty()).then(|| starts.collect::<Vec<Value>>())
        };
        let hash =
            |group: Option<&Value>| group.map(|group| group["status"]["plan"]["hash"].clone());
        let is_same_plan = hash(before) == hash(after);
        let (earlier, later) = (elastic(before), elastic(after));
        let Some(later) = later else { return };
        match earlier {
            Some(earlier) if is_same_plan => self.replacements += u64::from(earlier != later),
            _ => self.plans += 1,
        }
    }
}

impl AddAssign for ElasticCounts {
    fn add_assign(&mut self, other: Self) {
        self.plans += other.plans;
        self.replacements += other.replacements;
    }
}

impl fmt::Display for ElasticCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            plans,
            replacements,
        } = self;
        write!(
            formatter,
            "elastic gangs: {plans} placed, slices replaced {replacements} times"
        )
    }
}
