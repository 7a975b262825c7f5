//! The users of the tests, as ServiceAccounts with tokens.

use std::path::Path;

use anyhow::Result;
use trellis_e2e::control_plane::ControlPlane;

/// Namespace of the accounts. No test shows its objects.
pub(crate) const ACCOUNTS: &str = "accounts";

/// Namespaces of the teams.
const TEAMS: [&str; 2] = ["team-a", "team-b"];

/// Right of a user: the user, the ClusterRole, the namespace (None: all), and the name of the
/// binding.
const RIGHTS: [(&str, &str, Option<&str>, &str); 6] = [
    ("viewer", "view", Some("team-a"), "viewer"),
    ("editor", "edit", Some("team-a"), "editor"),
    ("editor", "edit", Some("team-b"), "editor"),
    ("platform", "trellis-platform", None, "platform"),
    ("platform", "trellis-view", None, "platform-view"),
    ("revoked", "view", Some("team-a"), "revoked"),
];

/// All users. The stranger has no rights.
const USERS: [&str; 5] = ["viewer", "editor", "platform", "stranger", "revoked"];

/// Creates the users, and writes `<user>.yaml` for each into the folder.
pub(crate) async fn create(control_plane: &ControlPlane, folder: &Path) -> Result<()> {
    for namespace in TEAMS.into_iter().chain([ACCOUNTS]) {
        let namespace =
            format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n");
        control_plane.apply_yaml(&namespace).await?;
    }
    for user in USERS {
        let account = format!(
            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {user}, namespace: {ACCOUNTS}}}\n"
        );
        control_plane.apply_yaml(&account).await?;
    }
    for (user, role, namespace, name) in RIGHTS {
        let (kind, place) = match namespace {
            Some(namespace) => ("RoleBinding", format!(", namespace: {namespace}")),
            None => ("ClusterRoleBinding", String::new()),
        };
        let binding = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\n\
             kind: {kind}\n\
             metadata: {{name: {name}{place}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}\n\
             subjects: [{{kind: ServiceAccount, name: {user}, namespace: {ACCOUNTS}}}]\n"
        );
        control_plane.apply_yaml(&binding).await?;
    }
    for user in USERS {
        let written = control_plane
            .service_account_kubeconfig(ACCOUNTS, user)
            .await?;
        std::fs::copy(written, folder.join(format!("{user}.yaml")))?;
    }
    Ok(())
}
