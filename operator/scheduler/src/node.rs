//! Nodes, with the fields that placement uses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::NodeName;
use crate::resources::Resources;

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Resources that pods may use, including `pods`, the number of pods. A node that does not list
    /// `pods` gets no pods.
    pub allocatable: Resources,
    /// True if its Ready condition is True. The engine places no pod on a node that is not ready,
    /// even if the pod has tolerations.
    pub ready: bool,
    /// True if it is cordoned: the engine places only pods on it that tolerate
    /// `node.kubernetes.io/unschedulable:NoSchedule`.
    pub unschedulable: bool,
    /// The reason why the engine places no pod on it although it is ready. The text completes "a
    /// node with ...", such as `bad GPU condition GpuMemWatch`.
    pub unhealthy: Option<String>,
}

impl Node {
    /// Returns a node that is ready, without labels and taints.
    #[must_use]
    pub fn new(name: NodeName, allocatable: Resources) -> Self {
        Self {
            name,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            allocatable,
            ready: true,
            unschedulable: false,
            unhealthy: None,
        }
    }
}

/// A taint: it repels pods that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, or an empty text if it has none.
    pub value: String,
    /// The effect on pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// The effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    /// No pod is placed.
    NoSchedule,
    /// Pods are placed elsewhere if possible.
    PreferNoSchedule,
    /// No pod is placed, and running pods are evicted.
    NoExecute,
}

impl TaintEffect {
    /// Returns the name of the effect in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// The form of `kubectl`: `key=value:Effect`.
impl std::fmt::Display for Taint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let effect = self.effect.as_str();
        if self.value.is_empty() {
            write!(f, "{}:{effect}", self.key)
        } else {
            write!(f, "{}={}:{effect}", self.key, self.value)
        }
    }
}
