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
        let earlier = before.and_then(elastic_plan);
        match (earlier, after.and_then(elastic_plan)) {
            (_, None) => {}
            (Some((hash, earlier)), Some((same, later))) if hash == same => {
                self.replacements += u64::from(earlier != later);
            }
            (_, Some(_)) => self.plans += 1,
        }
    }
}

/// Returns the hash of the plan of a gang with surplus, and the slices of each group in the gang.
fn elastic_plan(group: &Value) -> Option<(&Value, Vec<&Value>)> {
    let plan = &group["status"]["plan"];
    let elastic = plan["elastic"]
        .as_array()
        .filter(|groups| !groups.is_empty())?;
    let starts = elastic.iter().map(|group| &group["sliceStarts"]);
    Some((&plan["hash"], starts.collect()))
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
