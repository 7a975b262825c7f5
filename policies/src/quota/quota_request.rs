//! A job, as quota policies see it.

use std::collections::BTreeMap;

use trellis_api::QueueSpec;
use trellis_api::quantity::Amount;

/// A job that asks for quota: its owner and its requests.
#[derive(Clone, Copy, Debug)]
pub struct QuotaRequest<'a> {
    /// Name of the job's namespace.
    pub namespace: &'a str,
    /// Labels of that namespace.
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// Name of its queue.
    pub queue: &'a str,
    /// Spec of that queue.
    pub queue_spec: &'a QueueSpec,
    /// The ServiceAccount that its pods run as. None: the namespace's default.
    pub service_account: Option<&'a str>,
    /// The user who submitted it. None: not known.
    pub requester: Option<&'a str>,
    /// Resources that its pods request together, by name: CPU in cores, memory and disk in bytes,
    /// devices in pieces. None for a resource: the amount overflows.
    pub total: &'a BTreeMap<String, Option<Amount>>,
    /// Its pods.
    pub pods: i64,
    /// GPUs of all pods together.
    pub gpus: i64,
    /// Longest running time, in seconds. None: no limit.
    pub runtime_seconds: Option<i64>,
}
