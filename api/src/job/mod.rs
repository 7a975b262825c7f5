//! [`TrainingJob`]: the object that users apply.

mod accepted_flavors;
mod attempt_end;
mod awaited_pods;
mod checkpoint;
mod container;
mod finished_pods;
mod lifecycle;
mod network;
mod policy_verdict;
mod ranks;
mod restart;
mod secret;
mod spec;
mod stages;
mod status;
mod task_group;

pub use crate::framework::Framework;
pub use attempt_end::{ExcludedNode, LastFailure, LastPreemption};
pub use awaited_pods::{AwaitedGroup, AwaitedPodIndex, AwaitedPodOptions, AwaitedPods};
pub(crate) use checkpoint::DEFAULT_GRACE_SECONDS;
pub use checkpoint::{Checkpoint, CheckpointStatus};
pub use container::{
    ContainerPort, EmptyDir, EnvFromReference, EnvFromSource, EnvVar, EnvVarSource, FieldSelector,
    KeySelector, LocalReference, Mount, PullPolicy, ResourceClaim, ResourceRequirements,
};
pub use finished_pods::{FinishedGroup, FinishedPods, format_ranges, parse_ranges};
pub use lifecycle::{Cleanup, Deadlines, PodCleanup, Success, SuccessPolicy};
pub use network::{Network, NetworkPort, Protocol, TrafficRule};
pub use policy_verdict::{PolicyDecision, PolicyVerdict};
pub use restart::{LostNode, Restart, RestartAction, RestartRule, RestartScope};
pub use secret::{JobSecret, RemoteValue, SecretStore, SecretStoreKind};
pub use spec::{
    PlacementPolicy, PodMetadata, Preemptibility, SecurityContext, TrainingJob, TrainingJobSpec,
};
pub use status::{
    CompiledObject, InternalJobStatus, JobPhase, JobProfile, JobStage, LevelPlacement, PodCounts,
    TrainingJobStatus,
};
pub use task_group::{
    Affinity, Dependency, DependencyStatus, Membership, Role, TaskGroup, Toleration,
    TolerationEffect, TolerationOperator,
};
