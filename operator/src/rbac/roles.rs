//! What people may do with our kinds: the chart's roles, which those of the cluster that are
//! called view, edit and admin take up.

use trellis_api::visibility::GROUP;

use super::{GENERATED_HEADER, RuleRow, render_file, render_role, render_rules};

/// Kinds that belong to no namespace.
const CLUSTER_SCOPED: &[&str] = &[
    "trainingqueues",
    "resourceflavors",
    "topologies",
    "runtimeprofiles",
    "quotapolicies",
    "clusterjobpolicies",
];

/// Namespaced kinds that tell how jobs stand.
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
    // Where a RoleBinding gives the role, these are not in it: they belong to no namespace.
    ("trellis.dev", CLUSTER_SCOPED, READ_VERBS),
    ("trellis.dev", LEDGERS, READ_VERBS),
    (GROUP, &["jobstates", "queuestates"], VIEW_VERBS),
    (GROUP, &["explanations"], GET_VERBS),
];

/// The operator's accounts, which belong to no namespace.
const LEDGERS: &[&str] = &["quotaledgers"];

/// Whoever may run pods may run jobs, and gangs of pods. PodGroups of jobs are the operator's,
/// which puts right what others do to them.
const EDIT: &[RuleRow] = &[("trellis.dev", &["trainingjobs", "podgroups"], WRITE_VERBS)];

/// A JobPolicy refuses jobs of its namespace, and allows none.
const ADMIN: &[RuleRow] = &[("trellis.dev", &["jobpolicies"], WRITE_VERBS)];

/// Kinds of the whole cluster, for those who look after it.
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
    // The operator writes ledgers; one that cannot be read is deleted, to begin with nothing burnt.
    ("trellis.dev", LEDGERS, &["get", "list", "watch", "delete"]),
    // Who holds a node is told with the names of jobs of all namespaces.
    (
        GROUP,
        &["jobstates", "queuestates", "nodestates"],
        VIEW_VERBS,
    ),
    (GROUP, &["explanations"], GET_VERBS),
];

/// What jobs name.
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
    (GROUP, &["queuestates"], VIEW_VERBS),
];

const READ_VERBS: &[&str] = &["get", "list", "watch"];
/// What is stored nowhere cannot be watched.
const VIEW_VERBS: &[&str] = &["get", "list"];
/// What is worked out for one job.
const GET_VERBS: &[&str] = &["get"];
const WRITE_VERBS: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];

/// The role of that name, which the cluster's roles take up that are named.
fn render_aggregated_role(name: &str, into: &[&str], rows: &[RuleRow]) -> String {
    let labels: String = into
        .iter()
        .map(|role| format!("    rbac.authorization.k8s.io/aggregate-to-{role}: \"true\"\n"))
        .collect();
    let labelled = format!("  labels:\n{labels}{}", render_rules(rows, None));
    render_role("ClusterRole", name, None, &labelled)
}

/// charts/trellis/files/roles.yaml: what people may do.
#[must_use]
pub fn render_user_roles() -> String {
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
    ])
}

/// charts/trellis/files/roles-everybody.yaml: what everybody may do who has logged in.
#[must_use]
pub fn render_authenticated_role() -> String {
    let name = "trellis-queues";
    let group = "system:authenticated";
    let binding = format!(
        "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {name}}}\n\
         subjects:\n- {{apiGroup: rbac.authorization.k8s.io, kind: Group, name: {group:?}}}\n"
    );
    render_file(&[
        render_role(
            "ClusterRole",
            name,
            None,
            &render_rules(AUTHENTICATED, None),
        ),
        render_role("ClusterRoleBinding", name, None, &binding),
    ])
}

/// charts/trellis/files/roles-metrics.yaml: who has it may read the operator's metrics.
#[must_use]
pub fn render_metrics_role() -> String {
    let rules = "rules:\n- nonResourceURLs: [\"/metrics\"]\n  verbs: [\"get\"]\n";
    let role = render_role("ClusterRole", "trellis-metrics-reader", None, rules);
    format!("{GENERATED_HEADER}{role}")
}
