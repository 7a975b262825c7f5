//! Pod Security "restricted", but for `runAsNonRoot`.
//!
//! Source: <https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted>.

use k8s_openapi::api::core::v1::{
    Capabilities, PodSecurityContext, SeccompProfile, SecurityContext,
};
use trellis_api::job;

/// Defaults of a pod's security context. Most training images run as root, and a first job must
/// start, so non-root is required only if the job sets a user, or if the namespace would refuse the
/// pod otherwise.
pub(super) fn pod_defaults(
    asked: Option<&job::SecurityContext>,
    restricted: bool,
) -> PodSecurityContext {
    let user = asked.and_then(|context| context.run_as_user);
    let fs_group = asked.and_then(|context| context.fs_group);
    let non_root = restricted || user.is_some_and(|id| id != 0);
    PodSecurityContext {
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        run_as_non_root: non_root.then_some(true),
        // Else every start of every pod walks the whole data set to change its owner.
        fs_group_change_policy: fs_group.map(|_| "OnRootMismatch".to_owned()),
        ..PodSecurityContext::default()
    }
}

/// The security context that the job asks for.
pub(super) fn requested_context(asked: &job::SecurityContext) -> PodSecurityContext {
    PodSecurityContext {
        run_as_user: asked.run_as_user,
        fs_group: asked.fs_group,
        ..PodSecurityContext::default()
    }
}

/// Defaults of a container's security context.
pub(super) fn container_defaults() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            add: None,
            drop: Some(vec!["ALL".to_owned()]),
        }),
        ..SecurityContext::default()
    }
}
