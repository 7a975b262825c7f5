//! The requesting namespace, and facts of the job beside its requests.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::names;

/// The requesting namespace.
#[derive(Clone, Copy, Debug)]
pub struct RequestingNamespace<'a> {
    /// Its name.
    pub namespace: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
}

impl RequestingNamespace<'_> {
    /// Team of the namespace, from its label.
    pub(crate) fn team(&self) -> Option<&str> {
        let team = self.labels.get(names::TEAM).map(String::as_str);
        team.filter(|team| !team.is_empty())
    }
}

/// The user who submitted a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// The user's name.
    pub user: String,
    /// The user's groups.
    pub groups: BTreeSet<String>,
}

/// Facts of a job that policies may look at beside the request.
#[derive(Clone, Copy, Debug)]
pub struct JobAttributes<'a> {
    /// The job's name.
    pub job: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The user who submitted it. None: not known.
    pub requester: Option<&'a Requester>,
    /// Devices of all pods together.
    pub gpus: i64,
    /// Pods of all task groups.
    pub pods: i64,
    /// The framework, as the spec writes it.
    pub framework: &'static str,
    /// The job's priority.
    pub priority: i64,
    /// Longest running time, in seconds. None: no limit.
    pub runtime_seconds: Option<i64>,
    /// Name of the RuntimeProfile that it is compiled with. None: there is none.
    pub profile: Option<&'a str>,
    /// The attempt that it is about to make, from 1.
    pub attempt: i64,
}
