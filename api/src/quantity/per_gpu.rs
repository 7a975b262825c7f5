//! [`ResourcesPerGpu`]: CPU and memory of a task group for each of its GPUs.

use garde::Validate;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::{Quantity, rules};

/// CPU and memory for each GPU of a pod, for task groups that do not state their own. A GPU is one
/// device that `gpus` counts, under any `gpuResource`: a whole GPU or a MIG slice.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct ResourcesPerGpu {
    /// CPU for each GPU, in cores: `12`, `"1500m"`. At most 1000. Absent: not stated here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::cpu_per_gpu)))]
    #[x_kube(validation = rules::CPU_PER_GPU.to_cel_rule())]
    pub cpu: Option<Quantity>,
    /// Memory for each GPU, in bytes: `128Gi`. At most 16Ti. Absent: not stated here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::memory_per_gpu)))]
    #[x_kube(validation = rules::MEMORY_PER_GPU.to_cel_rule())]
    pub memory: Option<Quantity>,
}

impl ResourcesPerGpu {
    /// True if neither CPU nor memory is stated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none()
    }
}
