//! What pods of others say for themselves, and their PodGroup: they have no TrainingJob that would.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, Reason};

use crate::cache::Cache;
use crate::gang::external;
use crate::gang::external::Unit;
use crate::gang::key::Key;
use crate::gang::observed::{ExternalPod, PodPhase};

/// What is said of who has a place once others have left it.
pub(in crate::server::endpoint) const NOMINATED: &str =
    "it has its place, and starts when those have left that make room";

/// A gang of pods that others have made.
#[derive(Clone, Debug, Default)]
pub(in crate::server::endpoint::visibility) struct ExternalGang {
    /// Its PodGroup, if it has one.
    group: Option<Arc<PodGroup>>,
    /// Its pods.
    pods: Vec<Arc<ExternalPod>>,
}

impl ExternalGang {
    /// What is known of a gang of that name. None: it is a job.
    pub(in crate::server::endpoint::visibility) fn find(cache: &Cache, unit: &Key) -> Option<Self> {
        Some(match external::unit(unit)? {
            Unit::Group(group) => Self {
                pods: cache.external_pods.of_group(&group).into_values().collect(),
                group: cache.pod_groups.get(&group),
            },
            Unit::Pod(pod) => Self {
                group: None,
                pods: cache.external_pods.get(&pod).into_iter().collect(),
            },
        })
    }

    /// When it was created.
    pub(in crate::server::endpoint::visibility) fn created(&self) -> Option<Time> {
        match &self.group {
            Some(group) => group.metadata.creation_timestamp.clone(),
            None => self
                .pods
                .iter()
                .filter_map(|pod| pod.created)
                .min()
                .map(Time),
        }
    }

    /// One word for its state. `placed`: it holds its place.
    pub(super) fn phase(&self, placed: bool) -> JobPhase {
        let mut held = self.pods.iter().filter(|pod| pod.is_bound()).peekable();
        let some = held.peek().is_some();
        match placed && some && held.all(|pod| pod.phase == PodPhase::Running) {
            true => JobPhase::Running,
            false if placed => JobPhase::Starting,
            false => JobPhase::Queued,
        }
    }

    /// Why it waits, and that in words: as its PodGroup says, or the pod that is in none. That
    /// others are leaving for a pod alone (`is_nominated`) is written nowhere: it was told why it
    /// waited before.
    pub(in crate::server::endpoint::visibility) fn reason(
        &self,
        is_nominated: bool,
    ) -> Option<(Reason, String)> {
        if let Some(group) = &self.group {
            let journal = group.status.as_ref()?;
            return Some((journal.reason?, journal.message.clone().unwrap_or_default()));
        }
        if is_nominated {
            return Some((Reason::Preempting, NOMINATED.to_owned()));
        }
        let said = self.pods.iter().find_map(|pod| pod.told.as_ref());
        let (reason, message) = Reason::leading(&said?.1)?;
        Some((reason, message.to_owned()))
    }
}
