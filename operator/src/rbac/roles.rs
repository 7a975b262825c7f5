//! The chart's roles for users of our kinds.
//! The cluster's own roles view, edit and admin aggregate them.

use trellis_api::visibility::GROUP;

use super::{GENERATED_HEADER, RuleRow, render_file, render_role, render_rules};

/// Cluster-scoped kinds.
const CLUSTER_SCOPED: &[&str] = &[
    "trainingqueues",
    "resourceflavors",
    "topologies",
    "runtimeprofiles",
    "quotapolicies",
    "clusterjobpolicies",
];

/// Namespaced kinds that show the state of jobs.
const READ: &[RuleRow] = &[
    (
        "trellis.dev",
        &[
            "trainingjobs",
            "trainingjobs/status",
            "podgroups",
            "podgroups/status",
            "jobpolicies",
            "jobpolicies/status",
        ],
        READ_VERBS,
    ),
    // A RoleBinding does not grant access to these kinds, because they are cluster-scoped.
    ("trellis.dev", CLUSTER_SCOPED, READ_VERBS),
    ("trellis.dev", OPERATOR_RECORDS, READ_VERBS),
    (GROUP, &["jobstates", "queuestates"], READ_VERBS),
    (GROUP, &["explanations"], GET_VERBS),
    (GROUP, &["endedattempts"], LIST_VERBS),
];

/// The operator's records: used GPU time, and the term of the leader.
const OPERATOR_RECORDS: &[&str] = &["quotaledgers", "leaderterms"];

/// Users who may run pods may run jobs and gangs of pods.
/// The operator owns the PodGroups of jobs and reverts changes that other clients make to them.
const EDIT: &[RuleRow] = &[
    ("trellis.dev", &["trainingjobs", "podgroups"], WRITE_VERBS),
    // The answer is reduced to what the user may read.
    (GROUP, &["plans"], CREATE_VERBS),
];

/// A JobPolicy can only deny jobs of its namespace. It permits none.
const ADMIN: &[RuleRow] = &[("trellis.dev", &["jobpolicies"], WRITE_VERBS)];

/// Cluster-scoped kinds, for the administrators of the cluster.
const PLATFORM: &[RuleRow] = &[
    (
        "trellis.dev",
        CLUSTER_SCOPED,
        &[
            "get",
            "list",
            "watch",
            "create",
            "update",
            "patch",
            "delete",
            "deletecollection",
        ],
    ),
    // The operator writes its records. An administrator may delete an unreadable ledger, and usage
    // then starts again at zero. The leader writes a deleted term again.
    (
        "trellis.dev",
        OPERATOR_RECORDS,
        &["get", "list", "watch", "delete"],
    ),
    // The list of the jobs on a node contains names of jobs of all namespaces.
    (
        GROUP,
        &["jobstates", "queuestates", "nodestates"],
        READ_VERBS,
    ),
    (GROUP, &["explanations"], GET_VERBS),
    (GROUP, &["endedattempts"], LIST_VERBS),
    // The answer names jobs of all namespaces.
    (GROUP, &["forecasts"], CREATE_VERBS),
];

/// Kinds that jobs refer to by name.
const AUTHENTICATED: &[RuleRow] = &[
    (
        "trellis.dev",
        &[
            "trainingqueues",
            "resourceflavors",
            "topologies",
            "runtimeprofiles",
        ],
        READ_VERBS,
    ),
    (GROUP, &["queuestates"], READ_VERBS),
];

/// Rights of all users. Each user gets only the namespaces whose jobs the user may list.
const OWN_NAMESPACES: &[RuleRow] = &[(GROUP, &["visiblenamespaces"], LIST_ONLY_VERBS)];

const READ_VERBS: &[&str] = &["get", "list", "watch"];
/// Clients cannot watch these objects.
const LIST_VERBS: &[&str] = &["get", "list"];
/// The operator computes these objects for one user at a time.
const LIST_ONLY_VERBS: &[&str] = &["list"];
/// The operator computes these objects for one job at a time.
const GET_VERBS: &[&str] = &["get"];
/// These objects are questions, and nothing is stored.
const CREATE_VERBS: &[&str] = &["create"];
const WRITE_VERBS: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];

/// Renders a role that the cluster's roles in `into` aggregate.
fn render_aggregated_role(name: &str, into: &[&str], rows: &[RuleRow]) -> String {
    let labels: String = into
        .iter()
        .map(|role| format!("    rbac.authorization.k8s.io/aggregate-to-{role}: \"true\"\n"))
        .collect();
    let labelled = format!("  labels:\n{labels}{}", render_rules(rows, None));
    render_role("ClusterRole", name, None, &labelled)
}

/// Renders charts/trellis/files/roles.yaml, the roles of users.
#[must_use]
pub fn render_user_roles() -> String {
    let [own_namespaces, binding] =
        render_role_of_all_users("trellis-own-namespaces", OWN_NAMESPACES);
    render_file(&[
        render_aggregated_role("trellis-view", &["view", "edit", "admin"], READ),
        render_aggregated_role("trellis-edit", &["edit", "admin"], EDIT),
        render_aggregated_role("trellis-admin", &["admin"], ADMIN),
        render_role(
            "ClusterRole",
            "trellis-platform",
            None,
            &render_rules(PLATFORM, None),
        ),
        own_namespaces,
        binding,
    ])
}

/// Renders charts/trellis/files/roles-everybody.yaml, for all authenticated users.
#[must_use]
pub fn render_authenticated_role() -> String {
    render_file(&render_role_of_all_users("trellis-queues", AUTHENTICATED))
}

/// Renders a role, and its binding to all authenticated users.
fn render_role_of_all_users(name: &str, rows: &[RuleRow]) -> [String; 2] {
    let group = "system:authenticated";
    let binding = format!(
        "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {name}}}\n\
         subjects:\n- {{apiGroup: rbac.authorization.k8s.io, kind: Group, name: {group:?}}}\n"
    );
    [
        render_role("ClusterRole", name, None, &render_rules(rows, None)),
        render_role("ClusterRoleBinding", name, None, &binding),
    ]
}

/// Renders charts/trellis/files/roles-metrics.yaml, the role to read metrics.
#[must_use]
pub fn render_metrics_role() -> String {
    let rules = "rules:\n- nonResourceURLs: [\"/metrics\"]\n  verbs: [\"get\"]\n";
    let role = render_role("ClusterRole", "trellis-metrics-reader", None, rules);
    format!("{GENERATED_HEADER}{role}")
}
