//! Errors of writes, classified by the right reaction.

use crate::leader::NotLeading;

/// Why a write did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// This replica may not write any more.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// Nothing was written, because the caller withdrew the write before its turn came.
    #[error("the write is no longer needed")]
    Withdrawn,
    /// An object with this name exists already.
    #[error("{0}")]
    AlreadyExists(String),
    /// Another writer was faster to change the object, or the quota that admission charges it to.
    #[error("{0}")]
    Conflict(String),
    /// The object is gone.
    #[error("{0}")]
    NotFound(String),
    /// The API server refuses the object as it is, now and later.
    #[error("{message}")]
    Refused {
        /// HTTP code.
        code: u16,
        /// Message of the API server.
        message: String,
    },
    /// A ResourceQuota of the namespace has no room. Its numbers may change, and it is no sign that
    /// the API server is overloaded.
    #[error("{0}")]
    Exhausted(String),
    /// The API server does not know this client or its roles, or that this replica leads. This may
    /// pass: an API server that has just started has not loaded them yet, and learns of a new leader
    /// by a watch.
    #[error("{0}")]
    Unauthorized(String),
    /// An admission webhook does not answer, or answers wrongly. The failure concerns only the
    /// objects that the webhook handles, mostly in one namespace. It is no sign that the API server
    /// is overloaded.
    #[error("{0}")]
    Webhook(String),
    /// No answer came in time, so the object may or may not have been written.
    #[error("{0}")]
    Unanswered(String),
    /// The object may or may not have been written, or the write may succeed later.
    #[error("{0}")]
    Transient(String),
}

impl WriteError {
    /// Returns the label of the error in metrics, in one word.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::NotLeading(_) => "not_leading",
            Self::Withdrawn => "not_wanted",
            Self::AlreadyExists(_) => "already_exists",
            Self::Conflict(_) => "conflict",
            Self::NotFound(_) => "not_found",
            Self::Refused { .. } => "refused",
            Self::Exhausted(_) => "quota_exhausted",
            Self::Unauthorized(_) => "unauthorized",
            Self::Webhook(_) => "webhook",
            Self::Unanswered(_) => "unanswered",
            Self::Transient(_) => "transient",
        }
    }

    /// Returns true if the API server is overloaded and the limiter has to reduce writes.
    #[must_use]
    pub(crate) fn is_push_back(&self) -> bool {
        matches!(self, Self::Transient(_) | Self::Unanswered(_))
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Transient(error.to_string());
        };
        let message = status.message.clone();
        match status.code {
            404 => Self::NotFound(message),
            409 if status.reason == "AlreadyExists" => Self::AlreadyExists(message),
            // The API server also answers this for quotas: "Operation cannot be fulfilled on
            // resourcequotas".
            409 => Self::Conflict(message),
            // Unlike admission, the authorizer may soon answer differently.
            401 => Self::Unauthorized(message),
            403 if message.contains(" is forbidden: User \"") => Self::Unauthorized(message),
            403 if message.contains(LEADER_POLICY) => Self::Unauthorized(message),
            403 if message.contains("exceeded quota") => Self::Exhausted(message),
            // A webhook may refuse with any code (apiserver, webhook/errors).
            code if is_denied(&message) => Self::Refused { code, message },
            500 if message.contains("failed calling webhook") => Self::Webhook(message),
            408 | 429 | 500 | 502 | 503 | 504 => Self::Transient(message),
            code => Self::Refused { code, message },
        }
    }
}

/// How the API server names the admission policy of the chart by which only the leader writes.
const LEADER_POLICY: &str = "ValidatingAdmissionPolicy 'trellis-leader'";

/// Returns true for a webhook's own refusal.
fn is_denied(message: &str) -> bool {
    message.starts_with("admission webhook ") && message.contains(" denied the request")
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn error(code: u16, message: &str) -> WriteError {
        let mut status = Status::failure(message, "");
        status.code = code;
        WriteError::from(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn write_error_is_classified_by_the_required_reaction() {
        let rbac =
            r#"pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods""#;
        let pod_security =
            r#"pods "j-worker-0" is forbidden: violates PodSecurity "restricted:latest""#;
        let policy =
            r#"pods "j-worker-0" is forbidden: ValidatingAdmissionPolicy 'p' denied request"#;
        let quota = r#"pods "j-worker-0" is forbidden: exceeded quota: small"#;
        for (code, message) in [(408, ""), (429, ""), (500, ""), (503, "")] {
            let error = error(code, message);
            assert!(matches!(error, WriteError::Transient(_)), "{code}");
            assert!(error.is_push_back(), "{code}");
        }
        let webhook = r#"Internal error occurred: failed calling webhook "pods.example": failed to call webhook: Post "https://down.x.svc:443/?timeout=10s": context deadline exceeded"#;
        let webhook_error = error(500, webhook);
        assert!(matches!(webhook_error, WriteError::Webhook(_)));
        assert!(!webhook_error.is_push_back());
        for code in [400, 403, 429, 500, 503] {
            let denied = error(
                code,
                r#"admission webhook "x" denied the request: not today"#,
            );
            assert!(matches!(denied, WriteError::Refused { .. }), "{code}");
        }
        // Errors of one namespace, or of this client's own rights, must not slow down other writes.
        let leader = r#"pods "j-worker-0" is forbidden: ValidatingAdmissionPolicy 'trellis-leader' with binding 'trellis-leader' denied request: only the replica that holds the Lease may write"#;
        for (code, message) in [(401, "Unauthorized"), (403, rbac), (403, leader)] {
            let error = error(code, message);
            assert!(matches!(error, WriteError::Unauthorized(_)), "{code}");
            assert!(!error.is_push_back(), "{code}");
        }
        assert!(matches!(error(403, quota), WriteError::Exhausted(_)));
        assert!(!error(403, quota).is_push_back());
        for (code, message) in [
            (403, pod_security),
            (403, policy),
            (422, "invalid"),
            (400, ""),
        ] {
            assert!(
                matches!(error(code, message), WriteError::Refused { .. }),
                "{code} {message}"
            );
        }
        assert!(matches!(error(409, ""), WriteError::Conflict(_)));
        assert!(matches!(error(404, ""), WriteError::NotFound(_)));
    }

    #[test]
    fn already_exists_is_recognized_by_the_reason_alone() {
        let message = r#"secrets "already exists" is in the way"#;
        let error_with_reason = |reason: &str| {
            let mut status = Status::failure(message, reason);
            status.code = 409;
            WriteError::from(kube::Error::Api(Box::new(status)))
        };
        assert!(matches!(
            error_with_reason("AlreadyExists"),
            WriteError::AlreadyExists(_)
        ));
        // An example is a conflict on a quota that another writer has just updated.
        for reason in ["Conflict", ""] {
            assert!(
                matches!(error_with_reason(reason), WriteError::Conflict(_)),
                "{reason}"
            );
        }
    }
}
