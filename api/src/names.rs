//! Labels, annotations and names that Trellis gives to what it makes.

/// Label of everything that we make; its value is [`MANAGER`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGER: &str = "trellis";
/// `spec.managedBy` of a job that Trellis sees to, as one that names nobody.
pub const OPERATOR: &str = "trellis.dev/operator";
/// Label: name of the TrainingJob.
pub const JOB: &str = "trellis.dev/job";
/// Label: uid of the TrainingJob. NetworkPolicies select by it.
pub const JOB_UID: &str = "trellis.dev/job-uid";
/// Label of a pod: its task group.
pub const GROUP: &str = "trellis.dev/group";
/// Label of a pod: its index within its task group, from 0.
pub const INDEX: &str = "trellis.dev/index";
/// Label of a pod: the attempt that it belongs to, from 1.
pub const ATTEMPT: &str = "trellis.dev/attempt";
/// Annotation of a pod: hash of the plan that placed it.
pub const PLAN: &str = "trellis.dev/plan";
/// Annotation of a pod that was created while others of its attempt were there: its round, from 1.
pub const ROUND: &str = "trellis.dev/round";
/// Annotation of a pod that is not part of the gang: term of the leader that created it.
pub const EPOCH: &str = "trellis.dev/epoch";
/// Annotation of a pod: the annotation by which it says when its last checkpoint was complete.
pub const CHECKPOINT_ANNOTATION: &str = "trellis.dev/checkpoint-annotation";

/// `spec.schedulerName` of the pods that Trellis places.
pub const SCHEDULER: &str = "trellis";
/// Label of a pod that its user has made: name of its PodGroup.
pub const POD_GROUP: &str = "trellis.dev/pod-group";
/// Label of a pod that its user has made and that is in no PodGroup: name of its TrainingQueue.
pub const QUEUE: &str = "trellis.dev/queue";

/// Annotation of a pod that its user has made and that Trellis has bound: name of the TrainingQueue
/// in which it counts. Its labels, which the user may change, say it no more.
pub const PLACED_IN: &str = "trellis.dev/placed-in";
/// Annotation of such a pod: the PodGroup whose gang it was bound as part of. Its label, which the
/// user may change, makes it no part of another.
pub const PLACED_WITH: &str = "trellis.dev/placed-with";
/// Annotation of such a pod: the flavors that it was given there, a JSON object of names of
/// ResourceFlavors by resource. Absent: its queue gave it none.
pub const FLAVORS: &str = "trellis.dev/flavors";

/// Label of an operator's pod: [`LEADER`] if it leads.
pub const ROLE: &str = "trellis.dev/role";
/// Value of [`ROLE`].
pub const LEADER: &str = "leader";

/// Label of a node that is Trellis' own, value [`DEDICATED_NODE_VALUE`], and key of
/// the taint that keeps other pods off it: both together make it one. Every pod
/// of a TrainingJob tolerates the taint.
pub const DEDICATED_NODE: &str = "trellis.dev/dedicated";
/// Value of the label and the taint [`DEDICATED_NODE`].
pub const DEDICATED_NODE_VALUE: &str = "true";

/// Field manager of the children that the compiler describes.
pub const COMPILER_MANAGER: &str = "trellis-compiler";
/// Field manager of `PodGroup.status` and of pods.
pub const SCHEDULER_MANAGER: &str = "trellis-scheduler";
/// Field manager of `TrainingJob.status`.
pub const STATUS_MANAGER: &str = "trellis-status";

/// The label that marks what every namespace is called
/// (`NamespaceDefaultLabelName`, stable since Kubernetes 1.22).
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// The namespace label that names its team: policies may speak of teams.
pub const TEAM: &str = "trellis.dev/team";
/// Annotation of a job: who wrote its spec, as JSON `{"user": ..., "groups": [...]}`.
pub const REQUESTED_BY: &str = "trellis.dev/requested-by";
/// The namespace label that makes Pod Security enforce a level.
pub const POD_SECURITY_ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Longest DNS label, and so the longest hostname and Service name (RFC 1035).
pub const MAX_LABEL_LENGTH: usize = 63;

/// Name of the TrainingQueue that a fresh install has.
pub const DEFAULT_QUEUE: &str = "default";

/// Name and hostname of a pod: a function of job, group and index alone, so
/// that it is the same after every restart.
///
/// ```
/// assert_eq!(trellis_api::names::pod("llm", "worker", 3), "llm-worker-3");
/// ```
#[must_use]
pub fn pod_name(job: &str, group: &str, index: u32) -> String {
    format!("{job}-{group}-{index}")
}

/// Name of the ConfigMap with a job's hostfile.
///
/// ```
/// assert_eq!(trellis_api::names::hosts("llm"), "llm-hosts");
/// ```
#[must_use]
pub fn hosts_config_map_name(job: &str) -> String {
    format!("{job}-hosts")
}

/// The job whose [`hosts_config_map_name`] a ConfigMap of this name would be.
#[must_use]
pub fn job_for_hosts_config_map(config_map: &str) -> Option<&str> {
    config_map.strip_suffix("-hosts")
}

/// Name of the Secret with the key of an MPI job. The start of the job's uid is in it: the
/// operator may not read Secrets, and would else take that of an earlier job of this name,
/// which is just being removed, for its own.
///
/// ```
/// let uid = "5f2c9a1e-0000-4000-8000-000000000001";
/// assert_eq!(trellis_api::names::ssh("llm", uid), "llm-ssh-5f2c9a1e");
/// ```
#[must_use]
pub fn ssh_secret_name(job: &str, uid: &str) -> String {
    let start: String = uid.chars().take_while(|c| *c != '-').collect();
    if start.is_empty() {
        format!("{job}-ssh")
    } else {
        format!("{job}-ssh-{start}")
    }
}

/// Name of the ExternalSecret of one of a job's Secrets.
///
/// ```
/// assert_eq!(trellis_api::names::external_secret("llm", "wandb"), "llm-wandb");
/// ```
#[must_use]
pub fn external_secret_name(job: &str, secret: &str) -> String {
    format!("{job}-{secret}")
}

/// True if a label or annotation key is reserved: ours, or Kubernetes' own.
///
/// ```
/// use trellis_api::names::is_reserved_key;
/// assert!(is_reserved_key("trellis.dev/job"));
/// assert!(is_reserved_key("app.kubernetes.io/managed-by"));
/// assert!(!is_reserved_key("team"));
/// assert!(!is_reserved_key("app.kubernetes.io/name"));
/// ```
#[must_use]
pub fn is_reserved_key(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    let kubernetes = domain == "kubernetes.io"
        || domain == "k8s.io"
        || domain.ends_with(".kubernetes.io")
        || domain.ends_with(".k8s.io");
    domain == "trellis.dev"
        || domain.ends_with(".trellis.dev")
        || key == MANAGED_BY
        || (kubernetes && domain != "app.kubernetes.io")
}
