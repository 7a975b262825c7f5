//! Removes objects: by a delete, or by an eviction, which a PodDisruptionBudget may postpone.

use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::{ClusterResourceScope, NamespaceResourceScope, Request as KubeRequest, Status};
use serde::de::IgnoredAny;
use serde_json::json;

use super::{Commands, WriteError, namespace_of};

/// Result of an accepted delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionResult {
    /// The object disappears at once, or when its grace period is over and its finalizers are gone.
    Started,
    /// The incarnation with this uid was already gone.
    Gone,
}

/// Result of an eviction that the API server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionResult {
    /// The pod disappears when its grace period is over. For a dry run: it would disappear.
    Started,
    /// The incarnation with this uid was already gone.
    Gone,
    /// A PodDisruptionBudget forbids the eviction for now: the API server's message.
    Postponed(String),
}

impl Commands {
    /// Deletes one incarnation of an object. An object that is gone already is a success.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete<K>(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: Option<u32>,
    ) -> Result<(), WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.delete_and_report::<K>(namespace, name, uid, grace)
            .await?;
        Ok(())
    }

    /// Deletes one incarnation of an object, and reports whether it still existed.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn delete_and_report<K>(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: Option<u32>,
    ) -> Result<DeletionResult, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let path = K::url_path(&(), Some(namespace));
        self.delete_at(&path, name, uid, grace).await
    }

    /// Deletes one incarnation of a cluster-scoped object. An object that is gone already is a
    /// success.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete_cluster<K>(&self, name: &str, uid: &str) -> Result<(), WriteError>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        let path = K::url_path(&(), None);
        self.delete_at(&path, name, uid, None).await?;
        Ok(())
    }

    /// Deletes the objects with these labels. The garbage collector then deletes their dependents.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn delete_labelled<K>(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<(), WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let request = KubeRequest::new(K::url_path(&(), Some(namespace)));
        let labels = ListParams::default().labels(selector);
        let request = request.delete_collection(&DeleteParams::background(), &labels);
        let IgnoredAny = self.write(namespace, self.send_request(request)).await?;
        Ok(())
    }

    async fn delete_at(
        &self,
        path: &str,
        name: &str,
        uid: &str,
        grace: Option<u32>,
    ) -> Result<DeletionResult, WriteError> {
        let params = DeleteParams {
            grace_period_seconds: grace,
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            propagation_policy: Some(kube::api::PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let request = KubeRequest::new(path).delete(name, &params);
        // The answer is the object or a Status; either means success.
        match self
            .write(namespace_of(path), self.send_request(request))
            .await
        {
            Ok(IgnoredAny) => Ok(DeletionResult::Started),
            Err(error) if is_gone(&error) => Ok(DeletionResult::Gone),
            Err(error) => Err(error),
        }
    }

    /// Evicts one incarnation of a pod with this grace in seconds. None: the pod's own grace.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn evict(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: Option<u32>,
        dry_run: bool,
    ) -> Result<EvictionResult, WriteError> {
        let params = PostParams {
            dry_run,
            field_manager: None,
        };
        // kube's own `evict` sends `delete_options`, which the API server does not know.
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": uid}, "gracePeriodSeconds": grace},
        });
        let request = KubeRequest::new(Pod::url_path(&(), Some(namespace))).create_subresource(
            "eviction",
            name,
            &params,
            body.to_string().into_bytes(),
        );
        let request = async {
            match self.send_request(request).await {
                Ok(IgnoredAny) => Ok(EvictionResult::Started),
                Err(kube::Error::Api(status)) => match disruption_budget_message(&status) {
                    Some(message) => Ok(EvictionResult::Postponed(message)),
                    None => Err(kube::Error::Api(status)),
                },
                Err(error) => Err(error),
            }
        };
        match self.write(namespace, request).await {
            Err(error) if is_gone(&error) => Ok(EvictionResult::Gone),
            answer => answer,
        }
    }
}

/// Returns true if the incarnation to remove is gone: no object has its name, or an object with
/// another uid has it and the precondition fails.
fn is_gone(error: &WriteError) -> bool {
    match error {
        WriteError::NotFound(_) => true,
        WriteError::Conflict(message) => message.contains("UID in precondition"),
        _ => false,
    }
}

/// Returns the API server's message if a PodDisruptionBudget is the reason of its refusal. The API
/// server never evicts a pod that two budgets select (kube-apiserver, eviction.go).
fn disruption_budget_message(status: &Status) -> Option<String> {
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

    #[test]
    fn budget_refusal_differs_from_an_overloaded_api_server() {
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
            disruption_budget_message(&status(429, refused, Some("DisruptionBudget"))).as_deref(),
            Some("needs 2 healthy pods")
        );
        let several_budgets = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert_eq!(
            disruption_budget_message(&status(500, several_budgets, None)).as_deref(),
            Some(several_budgets)
        );
        assert_eq!(
            disruption_budget_message(&status(429, "too many requests", None)),
            None
        );
        assert_eq!(disruption_budget_message(&status(500, "etcd", None)), None);
    }
}
