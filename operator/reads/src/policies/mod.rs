//! All policies with their effects, as far as the user may see them.

mod scoped_list;
mod state;
#[cfg(test)]
mod tests;

use serde::Serialize;
use trellis_api::quota_policy::QuotaPolicy;
use trellis_api::{ClusterJobPolicy, JobPolicy, TrainingJob};

pub use state::{JobPolicyState, JobVerdict, QuotaPolicyState};

use crate::{ReadError, ReadFailure, Reader};
use scoped_list::{KindRead, ListPlaces};

/// Most jobs in the answer. A policy may deny each of ten thousand jobs.
const MAX_JOBS: usize = 500;

/// Policies and their effects at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyReads {
    /// ClusterJobPolicies and JobPolicies, by kind, namespace and name.
    pub job_policies: Vec<JobPolicyState>,
    /// QuotaPolicies, by name.
    pub quota_policies: Vec<QuotaPolicyState>,
    /// Jobs that policies deny, warn, or have not decided on, by namespace and name. At most 500.
    pub jobs: Vec<JobVerdict>,
    /// Number of these jobs, including those not listed.
    pub job_count: usize,
    /// Plural names of the kinds that could not be read at all.
    pub unread: Vec<&'static str>,
    /// Facts that are missing from the output, with the reasons.
    pub notes: Vec<String>,
}

/// Reads the policies, and the jobs that they affect. With a namespace, JobPolicies and jobs are
/// those of this namespace; otherwise those of all namespaces, or of the reader's namespace if the
/// user may not see all of them.
///
/// # Errors
/// If the cluster does not know the user, or no kind can be read although the user may read some.
/// A kind that the user may not read is a note.
pub async fn read_policies(
    reader: &Reader,
    namespace: Option<&str>,
) -> Result<PolicyReads, ReadError> {
    let reader = match namespace {
        Some(namespace) => &reader.in_namespace(namespace),
        None => reader,
    };
    let (job_policies, jobs) = match namespace {
        Some(_) => (ListPlaces::own(reader), ListPlaces::own(reader)),
        None => (
            ListPlaces::all_or_own(reader),
            ListPlaces::all_or_own(reader),
        ),
    };
    let (cluster_job_policies, quota_policies) =
        (ListPlaces::cluster(reader), ListPlaces::cluster(reader));
    let (cluster, own, quota, jobs) = futures::join!(
        cluster_job_policies.read(reader, |policy: ClusterJobPolicy| Some(policy.into())),
        job_policies.read(reader, |policy: JobPolicy| Some(policy.into())),
        quota_policies.read(reader, |policy: QuotaPolicy| Some(policy.into())),
        jobs.read(reader, |job: TrainingJob| JobVerdict::of(&job)),
    );
    let mut missing = MissingKinds::default();
    let mut job_policies: Vec<JobPolicyState> = missing.take("clusterjobpolicies", cluster)?;
    job_policies.extend(missing.take("jobpolicies", own)?);
    let mut quota_policies: Vec<QuotaPolicyState> = missing.take("quotapolicies", quota)?;
    let mut jobs = missing.take("trainingjobs", jobs)?;
    if let Some(failure) = missing.take_total_failure() {
        return Err(failure);
    }
    job_policies.sort_by(|a, b| a.key().cmp(&b.key()));
    quota_policies.sort_by(|a, b| a.name.cmp(&b.name));
    jobs.sort_by(|a, b| a.key().cmp(&b.key()));
    let job_count = jobs.len();
    jobs.truncate(MAX_JOBS);
    Ok(PolicyReads {
        job_policies,
        quota_policies,
        jobs,
        job_count,
        unread: missing.unread,
        notes: missing.notes,
    })
}

/// Number of kinds that are read.
const KINDS: usize = 4;

/// The kinds that could not be read, or only in a part.
#[derive(Debug, Default)]
struct MissingKinds {
    unread: Vec<&'static str>,
    notes: Vec<String>,
    failures: Vec<ReadError>,
}

impl MissingKinds {
    /// Returns the objects of a kind. A failure is kept as a note.
    ///
    /// # Errors
    /// If the cluster does not know the user: then no other read can succeed.
    fn take<T>(
        &mut self,
        plural: &'static str,
        read: Result<KindRead<T>, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        match read {
            Ok(KindRead { parts, note }) => {
                self.notes.extend(note);
                Ok(parts)
            }
            Err(error) if error.failure == ReadFailure::Unauthorized => Err(error),
            Err(error) => {
                self.unread.push(plural);
                self.notes.push(error.to_string());
                self.failures.push(error);
                Ok(Vec::new())
            }
        }
    }

    /// Returns the first failure, if every kind has failed for another reason than a missing right.
    fn take_total_failure(&mut self) -> Option<ReadError> {
        let is_total = self.failures.len() == KINDS;
        let is_denied = self.failures.iter().any(ReadError::is_denied);
        match is_total && !is_denied {
            true => self.failures.drain(..).next(),
            false => None,
        }
    }
}
