//! Reads of one user in one namespace.

use std::time::Duration;

use anyhow::anyhow;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::{Api, Client};
use trellis_api::TrainingJob;

use crate::{ApiFailure, ErrorHints, ReadError, get_optional};

/// Reads a cluster with the rights of one user.
#[derive(Clone)]
pub struct Reader {
    /// The client of the user.
    pub client: Client,
    /// The selected namespace.
    pub namespace: String,
    /// Timeout for an answer of the scheduler. None: no timeout.
    pub scheduler_timeout: Option<Duration>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// The same reader for another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// The API of the TrainingJobs in this namespace.
    #[must_use]
    pub fn jobs(&self) -> Api<TrainingJob> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Gets a TrainingJob, if it exists.
    ///
    /// # Errors
    /// If the job cannot be read.
    pub async fn get_job(&self, name: &str) -> Result<Option<TrainingJob>, ReadError> {
        let job = get_optional(&self.jobs(), name).await;
        job.map_err(|error| self.read_error(error, "get trainingjobs.trellis.dev"))
    }

    /// The error for a failed read.
    /// `right` is the right that the user needs.
    #[must_use]
    pub fn read_error(&self, error: ApiFailure, right: &str) -> ReadError {
        error.into_read_error(&self.hints(right))
    }

    /// The error message for a failed request.
    /// `right` is the right that the user needs.
    #[must_use]
    pub fn explain(&self, error: ApiFailure, right: &str) -> anyhow::Error {
        error.explain(&self.hints(right))
    }

    fn hints(&self, right: &str) -> ErrorHints {
        ErrorHints {
            rights: format!(
                "the ClusterRoles trellis-view and trellis-edit, which view and edit include, have it: {right} in namespace {:?}",
                self.namespace
            ),
            without_cluster: None,
        }
    }

    /// The error message if core objects cannot be read.
    /// `right` is the missing right.
    #[must_use]
    pub fn explain_core(&self, error: ApiFailure, right: &str) -> anyhow::Error {
        error.explain(&ErrorHints {
            rights: format!(
                "the ClusterRole view has it: {right} in namespace {:?}",
                self.namespace
            ),
            without_cluster: None,
        })
    }

    /// The error message for a job that does not exist.
    #[must_use]
    pub fn not_found_error(&self, name: &str) -> anyhow::Error {
        anyhow!(
            "there is no TrainingJob {name:?} in namespace {:?}: `kubectl get tj -A` lists all; for external pods, `trellis explain podgroup/NAME` or pod/NAME shows why they are pending",
            self.namespace
        )
    }

    /// Returns the user's name as the API server knows it.
    ///
    /// # Errors
    /// If the API server does not answer, or refuses the user.
    pub async fn user_name(&self) -> Result<String, ApiFailure> {
        let api = Api::<SelfSubjectReview>::all(self.client.clone());
        let review = api
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await;
        let review =
            review.map_err(|error| ApiFailure::new::<SelfSubjectReview>("create", error))?;
        let user = review.status.and_then(|status| status.user_info?.username);
        Ok(user.unwrap_or_default())
    }
}
