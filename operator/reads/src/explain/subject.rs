//! The object to explain, as the cluster stores it: a TrainingJob or external pods.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ObjectMeta;
use serde::Serialize;
use trellis_api::job::TrainingJobStatus;
use trellis_api::visibility::GangName;
use trellis_api::{PodGroup, Reason, TrainingJob, names, owner};

use crate::{ApiFailure, ReadError, Reader, get_optional};

/// The object to explain.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ExplainedObject {
    /// A TrainingJob.
    Job(Box<TrainingJob>),
    /// A PodGroup of external pods.
    PodGroup(Box<PodGroup>),
    /// A single external pod.
    Pod(Box<Pod>),
}

impl ExplainedObject {
    /// Reads the object. Returns None if the object does not exist.
    ///
    /// # Errors
    /// If the object cannot be read, or another object explains it. The error names that object.
    pub async fn get(reader: &Reader, name: &GangName) -> Result<Option<Self>, ReadError> {
        let client = || reader.client.clone();
        let subject = match name {
            GangName::Job(name) => {
                let job = reader.get_job(name).await?;
                job.map(|job| Self::Job(Box::new(job)))
            }
            GangName::PodGroup(name) => {
                let api = Api::<PodGroup>::namespaced(client(), &reader.namespace);
                let denied =
                    |error: ApiFailure| reader.read_error(error, "get podgroups.trellis.dev");
                let group = get_optional(&api, name).await.map_err(denied)?;
                group.map(|group| Self::PodGroup(Box::new(group)))
            }
            GangName::Pod(name) => {
                let api = Api::<Pod>::namespaced(client(), &reader.namespace);
                let denied = |error: ApiFailure| ReadError {
                    failure: error.kind(),
                    message: reader.explain_core(error, "get pods"),
                };
                let pod = get_optional(&api, name).await.map_err(denied)?;
                pod.map(|pod| Self::Pod(Box::new(pod)))
            }
        };
        match subject.as_ref().and_then(Self::unexplained_reason) {
            Some(reason) => Err(ReadError::elsewhere(format!("{name}: {reason}"))),
            None => Ok(subject),
        }
    }

    /// The metadata of the object.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Job(job) => &job.metadata,
            Self::PodGroup(group) => &group.metadata,
            Self::Pod(pod) => &pod.metadata,
        }
    }

    /// The name of the gang that this object is.
    #[must_use]
    pub fn gang_name(&self) -> GangName {
        let name = self.metadata().name.clone().unwrap_or_default();
        match self {
            Self::Job(_) => GangName::Job(name),
            Self::PodGroup(_) => GangName::PodGroup(name),
            Self::Pod(_) => GangName::Pod(name),
        }
    }

    /// The names by which the engine may know this gang, in order of preference.
    /// The engine knows a pod as its own gang or as part of the gang of its PodGroup.
    #[must_use]
    pub fn gang_names(&self) -> Vec<GangName> {
        let group = match self {
            Self::Pod(pod) => pod_label(pod, names::POD_GROUP),
            _ => None,
        };
        let group = group.map(|group| GangName::PodGroup(group.to_owned()));
        std::iter::once(self.gang_name()).chain(group).collect()
    }

    /// The kind, as in the events.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Job(_) => "TrainingJob",
            Self::PodGroup(_) => "PodGroup",
            Self::Pod(_) => "Pod",
        }
    }

    /// The status of a TrainingJob.
    #[must_use]
    pub fn job_status(&self) -> Option<&TrainingJobStatus> {
        match self {
            Self::Job(job) => job.status.as_ref(),
            _ => None,
        }
    }

    /// The reason and the message that the status of the object contains.
    #[must_use]
    pub fn stored_reason(&self) -> Option<(Option<Reason>, String)> {
        match self {
            Self::Job(_) => {
                let status = self.job_status()?;
                Some((status.reason, status.full_message().to_owned()))
            }
            Self::PodGroup(group) => {
                let status = group.status.as_ref()?;
                let message = status.message.clone().unwrap_or_default();
                status.reason.map(|reason| (Some(reason), message))
            }
            Self::Pod(pod) => {
                let conditions = pod.status.as_ref()?.conditions.as_ref()?;
                let condition = conditions.iter().find(|c| c.type_ == "PodScheduled")?;
                let message = condition
                    .message
                    .as_deref()
                    .filter(|_| condition.status == "False")?;
                Some(match Reason::leading(message) {
                    Some((reason, rest)) => (Some(reason), rest.to_owned()),
                    None => (None, message.to_owned()),
                })
            }
        }
    }

    /// Returns true for a pod that has no node and may get one.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        let Self::Pod(pod) = self else {
            return false;
        };
        let spec = pod.spec.as_ref();
        let is_bound = spec.is_some_and(|spec| spec.node_name.is_some());
        let gates = spec.and_then(|spec| spec.scheduling_gates.as_ref());
        let is_gated = gates.is_some_and(|gates| !gates.is_empty());
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        let is_over = matches!(phase, Some("Succeeded" | "Failed"));
        !(is_bound || is_gated || is_over || pod.metadata.deletion_timestamp.is_some())
    }

    /// Returns why this command does not explain the object, and the command that does.
    fn unexplained_reason(&self) -> Option<String> {
        let job = match self {
            Self::Job(_) => None,
            Self::PodGroup(group) => {
                let job = owner::controlling_job(&group.metadata);
                job.map(|job| job.name.as_str())
            }
            Self::Pod(pod) => pod_label(pod, names::JOB),
        };
        if let Some(job) = job {
            return Some(format!(
                "it belongs to TrainingJob {job:?}: run `trellis explain {job}`"
            ));
        }
        let Self::Pod(pod) = self else {
            return None;
        };
        let scheduler = pod.spec.as_ref()?.scheduler_name.as_deref()?;
        (scheduler != names::SCHEDULER).then(|| {
            format!(
                "scheduler {scheduler:?} places it (schedulerName), not Trellis: see `kubectl describe pod`"
            )
        })
    }
}

fn pod_label<'p>(pod: &'p Pod, key: &str) -> Option<&'p str> {
    let labels = pod.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}
