//! Result of a task that writes for a gang. The scheduler reads it as an event.

use std::collections::BTreeMap;

use trellis_api::Reason;
use trellis_api::pod_group::NominatedVictim;
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::key::Key;
use trellis_gang::quota::namespace_quota::QuotaDemand;

use crate::commands::WriteError;

/// Result of a task.
#[derive(Debug)]
pub enum TaskOutcome {
    /// Done: read the journal again.
    Done,
    /// Admission changes the pods' requests, by group, so the gang needs another place.
    Replan(BTreeMap<String, AdmittedPod>),
    /// The gang cannot start, and nothing is promised yet.
    PutOff(Reason, String),
    /// The gang cannot start while a ResourceQuota of its namespace has no room for its request.
    /// Nothing is promised yet.
    OverQuota(QuotaDemand, String),
    /// A PodDisruptionBudget forbids the eviction of a victim. No victim has been asked to leave.
    VictimProtected(ProtectedVictim),
    /// Roll the plan back.
    RollBack(Reason, String),
    /// The inner outcome, and the nodes that caused it, which the gang should avoid.
    Avoid(Vec<String>, Box<Self>),
    /// The victims of a single external pod. The driver may now ask them to leave.
    Nominated(Vec<NominatedVictim>),
    /// Try again in a while.
    Retry(String),
}

impl TaskOutcome {
    /// Adds the node that may have caused the refusal of a pod.
    pub(crate) fn with_faulty_node(self, node: Option<String>) -> Self {
        match node {
            Some(node) => Self::Avoid(vec![node], Box::new(self)),
            None => self,
        }
    }
}

impl From<WriteError> for TaskOutcome {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Withdrawn => Self::Done,
            error => Self::Retry(error.to_string()),
        }
    }
}

/// A victim that a PodDisruptionBudget does not allow to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedVictim {
    /// The gang (the key of its job), or the surplus pod.
    pub victim: Key,
    /// Name of the budget, and its reason.
    pub message: String,
}
