//! The vocabulary of Trellis: its resource types, names, quantities, conditions, reasons and
//! validation. This crate contains plain data and pure functions; it never reads a clock, a file or
//! the network.
//!
//! A job takes this path: a [`TrainingJob`] comes from the API server or, through [`document`],
//! from a YAML file; [`ValidatedJob::try_from`] checks it against [`rules`]; [`ResolvedJob::new`]
//! gives every task group its CPU and memory; later steps report their findings in the words of
//! [`status`].

pub mod crds;
pub mod delivery;
pub mod document;
pub mod external_secret;
pub mod framework;
pub mod job;
pub mod job_policy;
pub mod kinds;
pub mod leader_term;
pub mod names;
pub mod owner;
pub mod pod_group;
pub mod pod_template;
pub mod quantity;
pub mod queue;
pub mod quota_ledger;
pub mod quota_policy;
pub mod reference;
pub mod resolved_job;
pub mod resource_flavor;
pub mod rules;
pub mod runtime_profile;
pub mod status;
pub mod topology;
pub mod validation;
pub mod visibility;

pub use delivery::Delivery;
pub use framework::Framework;
pub use job::{TrainingJob, TrainingJobSpec};
pub use job_policy::{
    ClusterJobPolicy, ClusterJobPolicySpec, Enforcement, JobPolicy, JobPolicySpec,
};
pub use leader_term::{LEADER_TERM_NAME, LeaderPod, LeaderTerm, LeaderTermSpec};
pub use pod_group::{PodGroup, PodGroupSpec};
pub use pod_template::PodTemplate;
pub use quantity::Quantity;
pub use quantity::per_gpu::ResourcesPerGpu;
pub use queue::{QueueSpec, TrainingQueue};
pub use quota_ledger::{QuotaLedger, QuotaLedgerSpec};
pub use quota_policy::{QuotaPolicy, QuotaPolicySpec};
pub use resolved_job::{ComputeResources, QueueResources, ResolvedJob};
pub use resource_flavor::{ResourceFlavor, ResourceFlavorSpec, ResourceFlavorStatus};
pub use runtime_profile::{RuntimeProfile, RuntimeProfileSpec, ValidatedProfile};
pub use status::reason::Reason;
pub use status::short_message::shorten_message;
pub use topology::{Topology, TopologySpec};
pub use validation::{ValidatedJob, Violation, Violations};

/// The API group of Trellis.
pub const GROUP: &str = "trellis.dev";
/// Version of the API group.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of the objects: group and version.
pub const API_VERSION: &str = "trellis.dev/v1alpha1";
