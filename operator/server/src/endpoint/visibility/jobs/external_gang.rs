//! Status of external gangs, from their pods and PodGroup, because they have no TrainingJob.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, Reason};
use trellis_cache::Cache;
use trellis_gang::external;
use trellis_gang::external::ExternalGangRef;
use trellis_gang::key::Key;
use trellis_gang::observed::{ExternalPod, PodPhase};

/// Message of a nominated gang.
pub(in crate::endpoint) const NOMINATED_MESSAGE: &str =
    "it has its place, and starts when those have left that make room";

/// A gang of external pods.
#[derive(Clone, Debug, Default)]
pub(in crate::endpoint::visibility) struct ExternalGang {
    /// PodGroup of the gang, if it has one.
    group: Option<Arc<PodGroup>>,
    /// Pods of the gang.
    pods: Vec<Arc<ExternalPod>>,
}

impl ExternalGang {
    /// Returns the external gang with this name. None: the name is that of a job.
    pub(in crate::endpoint::visibility) fn find(cache: &Cache, unit: &Key) -> Option<Self> {
        Some(match external::parse_gang_key(unit)? {
            ExternalGangRef::Group(group) => Self {
                pods: cache
                    .external_pods
                    .pods_of_group(&group)
                    .into_values()
                    .collect(),
                group: cache.pod_groups.get(&group),
            },
            ExternalGangRef::Pod(pod) => Self {
                group: None,
                pods: cache.external_pods.get(&pod).into_iter().collect(),
            },
        })
    }

    /// Creation time of the gang.
    pub(in crate::endpoint::visibility) fn creation_time(&self) -> Option<Time> {
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

    /// Returns the phase of the gang. `placed`: the gang holds its place.
    pub(super) fn phase(&self, placed: bool) -> JobPhase {
        let mut bound = self.pods.iter().filter(|pod| pod.is_bound()).peekable();
        let some = bound.peek().is_some();
        match placed && some && bound.all(|pod| pod.phase == PodPhase::Running) {
            true => JobPhase::Running,
            false if placed => JobPhase::Starting,
            false => JobPhase::Queued,
        }
    }

    /// Returns why the gang waits, from its PodGroup or its single pod. The API server has no
    /// record of a single pod's nomination (`is_nominated`): the pod's condition still shows the
    /// earlier reason.
    pub(in crate::endpoint::visibility) fn reason(
        &self,
        is_nominated: bool,
    ) -> Option<(Reason, String)> {
        if let Some(group) = &self.group {
            let journal = group.status.as_ref()?;
            return Some((journal.reason?, journal.message.clone().unwrap_or_default()));
        }
        if is_nominated {
            return Some((Reason::Preempting, NOMINATED_MESSAGE.to_owned()));
        }
        let condition = self
            .pods
            .iter()
            .find_map(|pod| pod.unscheduled_condition.as_ref());
        let (reason, message) = Reason::leading(&condition?.1)?;
        Some((reason, message.to_owned()))
    }
}
