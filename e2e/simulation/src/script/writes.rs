//! The writes of the operator at which faults and acts happen.

use http::Method;
use serde::{Deserialize, Serialize};

/// One write of the operator. Dry runs and renewals of the Lease are no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteChoice {
    /// The kind of write.
    pub kind: WriteKind,
    /// Its number among the writes of this kind, from 1.
    pub number: u64,
}

/// A kind of write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteKind {
    /// Every write.
    Any,
    /// The journal of a gang: a PodGroup or its status.
    Journal,
    /// The creation of a pod.
    PodCreation,
    /// The deletion of a pod.
    PodDeletion,
    /// The status of a job.
    JobStatus,
    /// A Job of placeholders, by which nodes are ordered: its creation, or the deletion of the Jobs of
    /// an order.
    NodeOrder,
}

impl WriteKind {
    /// Returns the plural of the kind of object whose watch shows the write.
    pub(super) fn watched(self) -> &'static str {
        match self {
            Self::Any | Self::PodCreation | Self::PodDeletion => "pods",
            Self::Journal => "podgroups",
            Self::JobStatus => "trainingjobs",
            Self::NodeOrder => "pods",
        }
    }

    /// Returns true if a request is a write of this kind. `target` is its path and query.
    #[must_use]
    pub fn includes(self, method: &Method, target: &str) -> bool {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if method == Method::GET || path.contains("/leases") || query.contains("dryRun=All") {
            return false;
        }
        match self {
            Self::Any => true,
            Self::Journal => path.contains("/podgroups") && method != Method::DELETE,
            Self::PodCreation => path.ends_with("/pods") && method == Method::POST,
            Self::PodDeletion => path.contains("/pods/") && method == Method::DELETE,
            Self::JobStatus => path.contains("/trainingjobs/") && path.ends_with("/status"),
            Self::NodeOrder => path.starts_with("/apis/batch/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_is_of_its_kind_and_of_any() {
        let pods = "/api/v1/namespaces/team/pods";
        let trellis = "/apis/trellis.dev/v1alpha1/namespaces/team";
        let journal = format!("{trellis}/podgroups/job-0/status?fieldManager=trellis");
        let job = format!("{trellis}/trainingjobs/job-0/status");
        let lease = "/apis/coordination.k8s.io/v1/namespaces/trellis/leases/leader";
        let kinds_of = |method: Method, target: &str| {
            let all = [
                WriteKind::Any,
                WriteKind::Journal,
                WriteKind::PodCreation,
                WriteKind::PodDeletion,
                WriteKind::JobStatus,
                WriteKind::NodeOrder,
            ];
            all.into_iter()
                .filter(|kind| kind.includes(&method, target))
                .collect::<Vec<_>>()
        };
        let any = WriteKind::Any;
        assert_eq!(kinds_of(Method::PATCH, &journal), [any, WriteKind::Journal]);
        assert_eq!(kinds_of(Method::PATCH, &job), [any, WriteKind::JobStatus]);
        assert_eq!(kinds_of(Method::POST, pods), [any, WriteKind::PodCreation]);
        let pod = format!("{pods}/job-0-worker-0");
        assert_eq!(
            kinds_of(Method::DELETE, &pod),
            [any, WriteKind::PodDeletion]
        );
        let placeholders = "/apis/batch/v1/namespaces/trellis-capacity/jobs";
        let order = [any, WriteKind::NodeOrder];
        assert_eq!(kinds_of(Method::POST, placeholders), order);
        assert_eq!(kinds_of(Method::PUT, lease), []);
        assert_eq!(kinds_of(Method::POST, &format!("{pods}?dryRun=All")), []);
        assert_eq!(kinds_of(Method::GET, pods), []);
    }
}
