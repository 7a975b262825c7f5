//! The expectations of a scenario for one time.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// The expectations for one time. Jobs are named as in `metadata.name`, with the namespace before
/// a slash if several jobs have the same name.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioExpectations {
    /// Jobs that are placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<JobList>,
    /// Jobs that are pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<JobList>,
    /// Jobs that were preempted at or before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempted: Option<JobList>,
    /// The nodes of the running pods, by job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<BTreeMap<String, Vec<String>>>,
    /// The number of running pods, including surplus pods, by job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<BTreeMap<String, u32>>,
    /// The flavors whose quota a job holds, by job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavors: Option<BTreeMap<String, Vec<String>>>,
    /// The number of nodes, by flavor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<BTreeMap<String, u32>>,
}

/// Jobs, or a number of jobs.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(untagged)]
pub enum JobList {
    /// Exactly these jobs. An empty list: none.
    All(Vec<String>),
    /// A number of these jobs.
    Count(JobCount),
}

/// A number of jobs. At least one of the three numbers is set.
#[derive(Deserialize, Serialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobCount {
    /// Exact number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exactly: Option<usize>,
    /// Least number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// Largest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
    /// The jobs that are counted.
    pub of: Vec<String>,
}

impl JobList {
    /// Returns the named jobs.
    #[must_use]
    pub fn names(&self) -> &[String] {
        match self {
            Self::All(names) => names,
            Self::Count(count) => &count.of,
        }
    }
}

struct JobListVisitor;

impl<'de> Visitor<'de> for JobListVisitor {
    type Value = JobList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of jobs, or {exactly: 2, of: [a, b, c]}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<JobList, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element()? {
            names.push(name);
        }
        Ok(JobList::All(names))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JobList, A::Error> {
        let count = JobCount::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        let JobCount {
            exactly,
            at_least,
            at_most,
            of,
        } = &count;
        if exactly.or(*at_least).or(*at_most).is_none() {
            let message = "must have a number: add exactly, atLeast or atMost";
            return Err(A::Error::custom(message));
        }
        for (field, minimum) in [("exactly", exactly), ("atLeast", at_least)] {
            let all = of.len();
            if minimum.is_some_and(|minimum| minimum > all) {
                let message =
                    format!("must have at most {all} as {field}: \"of\" names {all} jobs");
                return Err(A::Error::custom(message));
            }
        }
        Ok(JobList::Count(count))
    }
}

impl<'de> Deserialize<'de> for JobList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JobListVisitor)
    }
}
