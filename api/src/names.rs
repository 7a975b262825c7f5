//! Labels, annotations and names of the objects that Trellis creates.

/// Label of every object that Trellis creates. Its value is [`MANAGER`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGER: &str = "trellis";
/// Value of `spec.managedBy` for jobs of this operator, the same as an absent field.
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
/// Annotation of a pod that was created while other pods of its attempt existed: its round, from 1.
pub const ROUND: &str = "trellis.dev/round";
/// Annotation of a pod outside the gang: epoch of the leader that created it.
pub const EPOCH: &str = "trellis.dev/epoch";
/// Annotation of a pod: key of the annotation in which the pod reports its last checkpoint.
pub const CHECKPOINT_ANNOTATION: &str = "trellis.dev/checkpoint-annotation";

/// `spec.schedulerName` of the pods that Trellis places.
pub const SCHEDULER: &str = "trellis";
/// Label of an external pod: name of its PodGroup.
pub const POD_GROUP: &str = "trellis.dev/pod-group";
/// Label of an external pod without a PodGroup: name of its TrainingQueue.
pub const QUEUE: &str = "trellis.dev/queue";

/// Annotation of a bound external pod: name of the TrainingQueue that its usage counts in. It
/// replaces the pod's labels, which the user may change.
pub const PLACED_IN: &str = "trellis.dev/placed-in";
/// Annotation of a bound external pod: the PodGroup whose gang it was bound with. It replaces the
/// pod's label, which the user may change.
pub const PLACED_WITH: &str = "trellis.dev/placed-with";
/// Annotation of a bound external pod: its flavors, as a JSON object from resource to
/// ResourceFlavor name. Absent: its queue gave it no flavor.
pub const FLAVORS: &str = "trellis.dev/flavors";

/// Label of an operator pod: [`LEADER`] if the pod leads.
pub const ROLE: &str = "trellis.dev/role";
/// Value of [`ROLE`].
pub const LEADER: &str = "leader";
/// Label of the objects of a node order: hash of the order. The Job controller copies the label to
/// pods, so it cannot be reserved for Trellis.
pub const NODE_ORDER: &str = "capacity.trellis.dev/order";
/// Label of these objects: the uid of the TrainingJob that waits for the nodes.
pub const ORDERING_JOB_UID: &str = "capacity.trellis.dev/job-uid";
/// Annotation of these objects: namespace and name of the TrainingJob.
pub const ORDERING_JOB: &str = "capacity.trellis.dev/job";
/// Label of ProvisioningRequests: the flavor whose nodes they ask for.
pub const ORDERED_FLAVOR: &str = "capacity.trellis.dev/flavor";
/// Scheduler name of placeholder pods. No scheduler has this name, so no pod is placed.
pub const PLACEHOLDER_SCHEDULER: &str = "trellis.dev-placeholder";
/// PriorityClass of placeholder pods, from the chart: its pods preempt no pod.
pub const PLACEHOLDER_PRIORITY: &str = "trellis-placeholder";

/// Label of a node that is dedicated to Trellis, with value [`DEDICATED_NODE_VALUE`], and key of
/// the taint that keeps other pods off the node. A node is dedicated only with both. Every pod of a
/// TrainingJob tolerates the taint.
pub const DEDICATED_NODE: &str = "trellis.dev/dedicated";
/// Value of the label and the taint [`DEDICATED_NODE`].
pub const DEDICATED_NODE_VALUE: &str = "true";

/// Field manager of the child objects that the compiler describes.
pub const COMPILER_MANAGER: &str = "trellis-compiler";
/// Field manager of `PodGroup.status` and of pods.
pub const SCHEDULER_MANAGER: &str = "trellis-scheduler";
/// Field manager of `TrainingJob.status`.
pub const STATUS_MANAGER: &str = "trellis-status";

/// Label with the name of its namespace, which the API server sets on every namespace
/// (`NamespaceDefaultLabelName`, stable since Kubernetes 1.22).
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Namespace label with the name of its team. Policies may refer to teams.
pub const TEAM: &str = "trellis.dev/team";
/// Annotation of a job: the user who wrote its spec, as JSON `{"user": ..., "groups": [...]}`.
pub const REQUESTED_BY: &str = "trellis.dev/requested-by";
/// Namespace label with the level that Pod Security enforces.
pub const POD_SECURITY_ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Longest DNS label, and so the longest hostname and Service name (RFC 1035).
pub const MAX_LABEL_LENGTH: usize = 63;

/// Name of the TrainingQueue of a fresh installation.
pub const DEFAULT_QUEUE: &str = "default";

/// Name and hostname of a pod. It depends only on job, group and index, so it is the same after
/// every restart.
///
/// ```
/// assert_eq!(trellis_api::names::pod_name("llm", "worker", 3), "llm-worker-3");
/// ```
#[must_use]
pub fn pod_name(job: &str, group: &str, index: u32) -> String {
    format!("{job}-{group}-{index}")
}

/// Name of the Service of a job's leader: the name of its pod without the index, so it is never too
/// long.
///
/// ```
/// assert_eq!(trellis_api::names::leader_service_name("llm", "head"), "llm-head");
/// ```
#[must_use]
pub fn leader_service_name(job: &str, group: &str) -> String {
    format!("{job}-{group}")
}

/// Name of the ConfigMap with a job's hostfile or scripts.
///
/// ```
/// assert_eq!(trellis_api::names::hosts_config_map_name("llm"), "llm-hosts");
/// ```
#[must_use]
pub fn hosts_config_map_name(job: &str) -> String {
    format!("{job}-hosts")
}

/// Returns the job whose [`hosts_config_map_name`] is this name.
#[must_use]
pub fn job_for_hosts_config_map(config_map: &str) -> Option<&str> {
    config_map.strip_suffix("-hosts")
}

/// Name of the Secret with the key of an MPI job. It contains the start of the job's uid: the
/// operator may not read Secrets, so it could not tell the Secret from one of an earlier job of
/// this name that is still being removed.
///
/// ```
/// let uid = "5f2c9a1e-0000-4000-8000-000000000001";
/// assert_eq!(trellis_api::names::ssh_secret_name("llm", uid), "llm-ssh-5f2c9a1e");
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
/// assert_eq!(trellis_api::names::external_secret_name("llm", "wandb"), "llm-wandb");
/// ```
#[must_use]
pub fn external_secret_name(job: &str, secret: &str) -> String {
    format!("{job}-{secret}")
}

/// True if a label or annotation key is reserved for Trellis or Kubernetes.
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
