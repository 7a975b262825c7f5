//! What the operator may do: one table of watches and writes, from which the
//! chart's ClusterRole is generated. A missing permission fails a test.

use std::fmt::Write;

/// One row: an API group, its resources, and what is done with them.
type Row = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// What is done with objects of one name alone: that of the webhook's.
const WEBHOOK: &str = crate::webhook::NAME;

/// Whom API servers are to trust is written there.
const CLUSTER_WEBHOOK: &[Row] = &[(
    "admissionregistration.k8s.io",
    &["validatingwebhookconfigurations"],
    &["get", "patch"],
)];

/// Where its certificate is kept.
const NAMESPACED_WEBHOOK: &[Row] = &[("", &["secrets"], &["get", "update"])];

const CLUSTER: &[Row] = &[
    (
        "trellis.dev",
        &["trainingjobs"],
        &["get", "list", "watch", "delete"],
    ),
    ("trellis.dev", &["trainingjobs/status"], &["patch"]),
    // OwnerReferencesPermissionEnforcement asks for it where it is on.
    ("trellis.dev", &["trainingjobs/finalizers"], &["update"]),
    // By this the chart's admission policies know who may write what is Trellis' own.
    ("trellis.dev", &["trainingjobs/pods"], &["create"]),
    (
        "trellis.dev",
        &["podgroups"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    ("trellis.dev", &["podgroups/status"], &["patch"]),
    (
        "trellis.dev",
        &["queues", "resourceflavors", "topologies", "runtimeprofiles"],
        &["list", "watch"],
    ),
    (
        "trellis.dev",
        &["queues/status", "runtimeprofiles/status"],
        &["patch"],
    ),
    (
        "trellis.dev",
        &[
            "clusterauthorizationpolicies",
            "authorizationpolicies",
            "quotapolicies",
        ],
        &["list", "watch"],
    ),
    (
        "trellis.dev",
        &[
            "clusterauthorizationpolicies/status",
            "authorizationpolicies/status",
            "quotapolicies/status",
        ],
        &["patch"],
    ),
    ("", &["pods"], &["get", "list", "watch", "create", "delete"]),
    ("", &["pods/eviction"], &["create"]),
    ("policy", &["poddisruptionbudgets"], &["list"]),
    (
        "",
        &["services"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    (
        "",
        &["namespaces", "nodes", "resourcequotas"],
        &["list", "watch"],
    ),
    // A claim is bound where its first pod is placed: a volume is given to it, or asked for.
    (
        "",
        &["persistentvolumeclaims", "persistentvolumes"],
        &["list", "watch", "patch"],
    ),
    // Whether they are there, of their metadata.
    ("", &["configmaps", "serviceaccounts"], &["get"]),
    ("apps", &["daemonsets"], &["list", "watch"]),
    ("storage.k8s.io", &["storageclasses"], &["list", "watch"]),
    ("resource.k8s.io", &["deviceclasses"], &["list", "watch"]),
    (
        "networking.k8s.io",
        &["networkpolicies"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    (
        "",
        &["configmaps"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    // Keys of jobs. They are made here, and read by nobody but their pods.
    ("", &["secrets"], &["create"]),
    (
        "external-secrets.io",
        &["externalsecrets"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    (
        "scheduling.k8s.io",
        &["priorityclasses"],
        &["list", "watch"],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ],
        &["list", "watch"],
    ),
    ("events.k8s.io", &["events"], &["create", "patch"]),
    // Who asks the read-only endpoint, and whether they may.
    ("authentication.k8s.io", &["tokenreviews"], &["create"]),
    (
        "authorization.k8s.io",
        &["subjectaccessreviews"],
        &["create"],
    ),
];

const NAMESPACED: &[Row] = &[(
    "coordination.k8s.io",
    &["leases"],
    &["get", "create", "update"],
)];

fn rules(rows: &[Row], name: Option<&str>, out: &mut String) {
    for (group, resources, verbs) in rows {
        let quoted = |words: &[&str]| {
            words
                .iter()
                .map(|w| format!("{w:?}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "- apiGroups: [{group:?}]\n  resources: [{}]\n  verbs: [{}]",
            quoted(resources),
            quoted(verbs)
        );
        if let Some(name) = name {
            let _ = writeln!(out, "  resourceNames: [{name:?}]");
        }
    }
}

/// charts/trellis/templates/rbac.yaml.
#[must_use]
pub fn yaml() -> String {
    let mut out = String::from(
        "# Generated by `trellis crds --rbac` from the operator's watches and writes: do not edit.\n",
    );
    out.push_str(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: trellis-operator\nrules:\n",
    );
    rules(CLUSTER, None, &mut out);
    rules(CLUSTER_WEBHOOK, Some(WEBHOOK), &mut out);
    out.push_str(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata:\n  name: trellis-operator\n\
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: trellis-operator}\n\
         subjects:\n- {kind: ServiceAccount, name: trellis-operator, namespace: trellis-system}\n",
    );
    out.push_str(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: trellis-operator\n  namespace: trellis-system\nrules:\n",
    );
    rules(NAMESPACED, None, &mut out);
    rules(NAMESPACED_WEBHOOK, Some(WEBHOOK), &mut out);
    out.push_str(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata:\n  name: trellis-operator\n  namespace: trellis-system\n\
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: trellis-operator}\n\
         subjects:\n- {kind: ServiceAccount, name: trellis-operator, namespace: trellis-system}\n\
         ---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: trellis-operator\n  namespace: trellis-system\n",
    );
    out
}
