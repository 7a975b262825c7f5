//! The door for writes: leadership is checked before each, those in flight are
//! bounded, and an error is told apart by what is to be done. Two kinds of
//! write go another way: the Lease (`leader`), which leadership comes from, and
//! events (`controller::story`), on which nothing rests and which may be lost.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ClusterResourceScope, NamespaceResourceScope, Request as KubeRequest, Status};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::leader::{Epoch, Leadership, NotLeading};
use crate::limiter::Limiter;

/// Why a write did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// We may not write any more.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// Someone else was faster, or something of that name is there.
    #[error("{0}")]
    Conflict(String),
    /// The object is gone.
    #[error("{0}")]
    NotFound(String),
    /// The API server will not take it, now or later, as it is.
    #[error("{message}")]
    Refused {
        /// HTTP code.
        code: u16,
        /// What the API server says.
        message: String,
    },
    /// A quota of the namespace has no room. The numbers may change, and say
    /// nothing about how the API server does.
    #[error("{0}")]
    Exhausted(String),
    /// The API server does not know us, or our roles. It may in a moment: one
    /// that has just started knows none yet.
    #[error("{0}")]
    Unauthorized(String),
    /// Nobody knows whether it was written, or it may succeed later.
    #[error("{0}")]
    Transient(String),
}

impl WriteError {
    /// True if the API server has more to do than it can: writes are to become fewer.
    #[must_use]
    pub fn is_push_back(&self) -> bool {
        matches!(self, Self::Transient(_))
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
            409 => Self::Conflict(message),
            // The authorizer's answer, unlike admission's, may be another in a moment.
            401 => Self::Unauthorized(message),
            403 if message.contains(" is forbidden: User \"") => Self::Unauthorized(message),
            403 if message.contains("exceeded quota") => Self::Exhausted(message),
            408 | 429 | 500 | 502 | 503 | 504 => Self::Transient(message),
            code => Self::Refused { code, message },
        }
    }
}

/// What an accepted delete means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The object goes: at once, or when its grace is over and its finalizers are gone.
    Begun,
    /// That incarnation was gone before.
    Gone,
}

/// What an eviction that was answered means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The pod goes when its grace is over; of a dry run: it would.
    Begun,
    /// That incarnation was gone before.
    Gone,
    /// A PodDisruptionBudget keeps it for now: what the API server says.
    Kept(String),
}

/// The door for writes.
#[derive(Clone)]
pub struct Commands {
    client: Client,
    leadership: Leadership,
    limiter: Arc<Limiter>,
}

impl Commands {
    /// Commands of a leader.
    #[must_use]
    pub fn new(client: Client, leadership: Leadership) -> Self {
        Self {
            client,
            leadership,
            limiter: Arc::new(Limiter::default()),
        }
    }

    /// Our term, if we still lead.
    ///
    /// # Errors
    /// If we do not.
    pub fn epoch(&self) -> Result<Epoch, NotLeading> {
        self.leadership.check()
    }

    /// Raises our term above one that has been seen in a journal.
    pub async fn lead_above(&self, seen: Epoch) {
        self.leadership.raise_above(seen).await;
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Runs one write under the limit, if we lead at the moment when its turn comes.
    async fn write<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        let permit = self.limiter.acquire().await;
        self.leadership.check()?;
        let result = request.await.map_err(WriteError::from);
        permit.report(result.as_ref().is_err_and(WriteError::is_push_back));
        result
    }

    /// Creates an object. The answer is decoded as `A`, which may be slimmer than what is sent.
    ///
    /// # Errors
    /// As [`WriteError`] tells.
    pub async fn create<K, A>(
        &self,
        namespace: &str,
        manager: &str,
        object: &K,
        dry_run: bool,
    ) -> Result<A, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize,
        A: DeserializeOwned,
    {
        let params = PostParams {
            dry_run,
            field_manager: Some(manager.to_owned()),
        };
        let path = K::url_path(&(), Some(namespace));
        let body = serde_json::to_vec(object).map_err(|e| WriteError::Transient(e.to_string()))?;
        let request = KubeRequest::new(path)
            .create(&params, body)
            .map_err(|e| WriteError::Transient(e.to_string()))?;
        self.write(self.client.request(request)).await
    }

    /// Changes an object by a merge patch. A `resourceVersion` in the patch
    /// makes it a compare-and-set. The answer is decoded as `A`.
    ///
    /// # Errors
    /// As [`WriteError`] tells.
    pub async fn patch_as<A: DeserializeOwned>(
        &self,
        path: &str,
        name: &str,
        manager: &str,
        patch: &serde_json::Value,
    ) -> Result<A, WriteError> {
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        let request = KubeRequest::new(path)
            .patch(name, &params, &Patch::Merge(patch))
            .map_err(|e| WriteError::Transient(e.to_string()))?;
        self.write(self.client.request(request)).await
    }

    /// Patches an object's status. A `resourceVersion` in the patch makes it a compare-and-set.
    ///
    /// # Errors
    /// As [`WriteError`] tells.
    pub async fn patch_status<K>(
        &self,
        namespace: &str,
        name: &str,
        manager: &str,
        patch: &serde_json::Value,
    ) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        self.patch_status_in(&self.api(namespace), name, manager, patch)
            .await
    }

    /// Patches the status of an object without a namespace, as [`Self::patch_status`] does.
    ///
    /// # Errors
    /// As [`WriteError`] tells.
    pub async fn patch_cluster_status<K>(
        &self,
        name: &str,
        manager: &str,
        patch: &serde_json::Value,
    ) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        self.patch_status_in(&Api::all(self.client.clone()), name, manager, patch)
            .await
    }

    async fn patch_status_in<K>(
        &self,
        api: &Api<K>,
        name: &str,
        manager: &str,
        patch: &serde_json::Value,
    ) -> Result<K, WriteError>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(patch);
        self.write(api.patch_status(name, &params, &patch)).await
    }

    /// Deletes one incarnation of an object. What is gone already is a success.
    ///
    /// # Errors
    /// As [`WriteError`] tells.
    pub async fn delete<K>(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: Option<u32>,
    ) -> Result<(), WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        self.delete_as::<K>(namespace, name, uid, grace).await?;
        Ok(())
    }

    /// Deletes one incarnation of an object, and tells whether it was still there.
    ///
    /// # Errors
    /// As [`WriteError`] tells.
    pub async fn delete_as<K>(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: Option<u32>,
    ) -> Result<Deletion, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api = self.api::<K>(namespace);
        let params = DeleteParams {
            grace_period_seconds: grace,
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            propagation_policy: Some(kube::api::PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self.write(api.delete(name, &params)).await {
            Ok(_) => Ok(Deletion::Begun),
            Err(WriteError::NotFound(_)) => Ok(Deletion::Gone),
            // The precondition does not hold: it is another incarnation.
            Err(WriteError::Conflict(message)) if message.contains("UID in precondition") => {
                Ok(Deletion::Gone)
            }
            Err(error) => Err(error),
        }
    }

    /// Evicts one incarnation of a pod, with its own grace.
    ///
    /// # Errors
    /// As [`WriteError`] tells.
    pub async fn evict(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        dry_run: bool,
    ) -> Result<Eviction, WriteError> {
        let params = PostParams {
            dry_run,
            field_manager: None,
        };
        // kube's own `evict` sends `delete_options`, which the API server does not know.
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let request = KubeRequest::new(Pod::url_path(&(), Some(namespace)))
            .create_subresource("eviction", name, &params, body.to_string().into_bytes())
            .map_err(|e| WriteError::Transient(e.to_string()))?;
        let request = async {
            match self.client.request::<serde_json::Value>(request).await {
                Ok(_) => Ok(Eviction::Begun),
                Err(kube::Error::Api(status)) => match kept(&status) {
                    Some(message) => Ok(Eviction::Kept(message)),
                    None => Err(kube::Error::Api(status)),
                },
                Err(error) => Err(error),
            }
        };
        match self.write(request).await {
            Err(WriteError::NotFound(_)) => Ok(Eviction::Gone),
            Err(WriteError::Conflict(message)) if message.contains("UID in precondition") => {
                Ok(Eviction::Gone)
            }
            answer => answer,
        }
    }

    /// Reads the objects of a namespace now, from the API server and no cache.
    ///
    /// # Errors
    /// As [`WriteError`] tells.
    pub async fn list<K>(&self, namespace: &str, params: &ListParams) -> Result<Vec<K>, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        Ok(self.api::<K>(namespace).list(params).await?.items)
    }

    /// Reads one object now, from the API server and no cache.
    ///
    /// # Errors
    /// As [`WriteError`] tells.
    pub async fn get<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        Ok(self.api::<K>(namespace).get_opt(name).await?)
    }
}

/// What the API server says where a budget is the reason of its refusal. A pod
/// that two budgets speak of is never evicted (kube-apiserver, eviction.go).
fn kept(status: &Status) -> Option<String> {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    let budget = causes.find(|cause| cause.reason == "DisruptionBudget");
    match (status.code, budget) {
        (429, Some(cause)) if !cause.message.is_empty() => Some(cause.message.clone()),
        (429, Some(_)) => Some(status.message.clone()),
        (500, _) if status.message.contains("more than one PodDisruptionBudget") => {
            Some(status.message.clone())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u16, message: &str) -> WriteError {
        let mut status = Status::failure(message, "");
        status.code = code;
        WriteError::from(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn an_error_is_told_apart_by_what_is_to_be_done() {
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
        // What concerns one namespace, or our rights, must slow nobody down.
        for (code, message) in [(401, "Unauthorized"), (403, rbac)] {
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
    fn a_budget_that_keeps_a_pod_is_told_from_an_api_server_that_has_too_much_to_do() {
        let status = |code: u16, message: &str, cause: Option<&str>| -> Status {
            let causes = cause.map(|c| json!([{"reason": c, "message": "needs 2 healthy pods"}]));
            serde_json::from_value(json!({
                "status": "Failure", "code": code, "message": message,
                "details": {"causes": causes.unwrap_or_else(|| json!([]))},
            }))
            .unwrap()
        };
        let refused = "Cannot evict pod as it would violate the pod's disruption budget.";
        assert_eq!(
            kept(&status(429, refused, Some("DisruptionBudget"))).as_deref(),
            Some("needs 2 healthy pods")
        );
        let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert_eq!(kept(&status(500, two, None)).as_deref(), Some(two));
        assert_eq!(kept(&status(429, "too many requests", None)), None);
        assert_eq!(kept(&status(500, "etcd", None)), None);
    }
}
