//! What people may do with our kinds: the chart's roles, which those of the cluster that are
//! called view, edit and admin take up.

use trellis_api::visibility::GROUP;

use super::{GENERATED, Row, file, role, rules};

/// Kinds that belong to no namespace.
const OF_THE_CLUSTER: &[&str] = &[
    "trainingqueues",
    "resourceflavors",
    "topologies",
    "runtimeprofiles",
    "quotapolicies",
    "clusterjobpolicies",
];

/// Namespaced kinds that tell how jobs stand.
const READ: &[Row] = &[
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
        READS,
    ),
    // Where a RoleBinding gives the role, these are not in it: they belong to no namespace.
    ("trellis.dev", OF_THE_CLUSTER, READS),
    ("trellis.dev", LEDGERS, READS),
    (GROUP, &["jobstates", "queuestates"], SEES),
    (GROUP, &["explanations"], ASKS),
];

/// The operator's accounts, which belong to no namespace.
const LEDGERS: &[&str] = &["quotaledgers"];

/// Whoever may run pods may run jobs, and gangs of pods. PodGroups of jobs are the operator's, which
/// puts right what others do to them.
const EDIT: &[Row] = &[("trellis.dev", &["trainingjobs", "podgroups"], WRITES)];

/// A JobPolicy refuses jobs of its namespace, and allows none.
const ADMIN: &[Row] = &[("trellis.dev", &["jobpolicies"], WRITES)];

/// Kinds of the whole cluster, for those who look after it.
const PLATFORM: &[Row] = &[
    (
        "trellis.dev",
        OF_THE_CLUSTER,
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
    (GROUP, &["jobstates", "queuestates", "nodestates"], SEES),
    (GROUP, &["explanations"], ASKS),
];

/// What jobs name.
const EVERYBODY: &[Row] = &[
    (
        "trellis.dev",
        &[
            "trainingqueues",
            "resourceflavors",
            "topologies",
            "runtimeprofiles",
        ],
        READS,
    ),
    (GROUP, &["queuestates"], SEES),
];

const READS: &[&str] = &["get", "list", "watch"];
/// What is stored nowhere cannot be watched.
const SEES: &[&str] = &["get", "list"];
/// What is worked out for one job.
const ASKS: &[&str] = &["get"];
const WRITES: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];

/// The role of that name, which the cluster's roles take up that are named.
fn aggregated(name: &str, into: &[&str], rows: &[Row]) -> String {
    let labels: String = into
        .iter()
        .map(|role| format!("    rbac.authorization.k8s.io/aggregate-to-{role}: \"true\"\n"))
        .collect();
    let labelled = format!("  labels:\n{labels}{}", rules(rows, None));
    role("ClusterRole", name, None, &labelled)
}

/// charts/trellis/files/roles.yaml: what people may do.
#[must_use]
pub fn people() -> String {
    file(&[
        aggregated("trellis-view", &["view", "edit", "admin"], READ),
        aggregated("trellis-edit", &["edit", "admin"], EDIT),
        aggregated("trellis-admin", &["admin"], ADMIN),
        role(
            "ClusterRole",
            "trellis-platform",
            None,
            &rules(PLATFORM, None),
        ),
    ])
}

/// charts/trellis/files/roles-everybody.yaml: what everybody may do who has logged in.
#[must_use]
pub fn everybody() -> String {
    let name = "trellis-queues";
    let group = "system:authenticated";
    let binding = format!(
        "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {name}}}\n\
         subjects:\n- {{apiGroup: rbac.authorization.k8s.io, kind: Group, name: {group:?}}}\n"
    );
    file(&[
        role("ClusterRole", name, None, &rules(EVERYBODY, None)),
        role("ClusterRoleBinding", name, None, &binding),
    ])
}

/// charts/trellis/files/roles-metrics.yaml: who has it may read the operator's metrics.
#[must_use]
pub fn metrics() -> String {
    let rules = "rules:\n- nonResourceURLs: [\"/metrics\"]\n  verbs: [\"get\"]\n";
    let role = role("ClusterRole", "trellis-metrics-reader", None, rules);
    format!("{GENERATED}{role}")
}
