//! Admission policies of a test: CEL rules that refuse or change pods created in a namespace. A
//! policy applies to one namespace, so it affects only the test that owns this namespace.

pub mod broken_webhook;
pub mod dry_run;
pub mod operator_webhook;
pub(super) mod probe_pod;

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::api::{ApiResource, DeleteParams, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::admission::probe_pod::PROBE_NAME;
use crate::binaries::KubernetesVersion;
use crate::control_plane::ControlPlane;
use crate::kubelet;

const GROUP: &str = "admissionregistration.k8s.io";
/// The age at which a new policy acts on every request, and the operator believes stamps.
const POLICY_PROPAGATION: Duration = Duration::from_secs(12);

/// The effect of a policy on a pod.
#[derive(Clone, Copy)]
enum PolicyEffect {
    Refuse,
    Change,
}

impl PolicyEffect {
    fn kind(self) -> &'static str {
        match self {
            Self::Refuse => "ValidatingAdmissionPolicy",
            Self::Change => "MutatingAdmissionPolicy",
        }
    }

    fn api_version(self) -> Result<&'static str> {
        Ok(match self {
            Self::Refuse => "v1",
            Self::Change => KubernetesVersion::chosen()?.mutating_policy_api(),
        })
    }
}

/// A policy for the pods of one namespace, with the name of the namespace. It remains when this
/// value is dropped, and matches nothing once the namespace is gone.
pub struct PodPolicy {
    effect: PolicyEffect,
    namespace: String,
    client: Client,
}

impl std::fmt::Debug for PodPolicy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("PodPolicy")
            .field(&self.namespace)
            .finish()
    }
}

impl PodPolicy {
    /// Refuses the pods for which `expression` is false, with `message`.
    ///
    /// # Errors
    /// If the API server refuses the policy, for example because `expression` is no CEL.
    pub async fn refuse_unless(
        control_plane: &ControlPlane,
        namespace: &str,
        expression: &str,
        message: &str,
    ) -> Result<Self> {
        let validation = json!({"expression": expression, "message": message});
        let probe = format!("!has(object.metadata.name) || object.metadata.name != '{PROBE_NAME}'");
        let probe = json!({"expression": probe, "message": "it is the probe"});
        let spec = json!({"validations": [validation, probe]});
        Self::enforce(control_plane, namespace, PolicyEffect::Refuse, spec).await
    }

    /// Patches the pods. `expression` returns a list of `JSONPatch`.
    ///
    /// # Errors
    /// If the API server refuses the policy: it is no CEL, say.
    pub async fn patch(
        control_plane: &ControlPlane,
        namespace: &str,
        expression: &str,
    ) -> Result<Self> {
        let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
        Self::mutate_pods(control_plane, namespace, mutation).await
    }

    /// Makes the kubelet of `node` refuse the pods for lack of GPUs ([`kubelet::REFUSE`]). Users
    /// may not set this annotation in a job.
    ///
    /// # Errors
    /// If the API server refuses the policy.
    pub async fn refuse_by_kubelet(
        control_plane: &ControlPlane,
        namespace: &str,
        node: &str,
    ) -> Result<Self> {
        let words = [
            (kubelet::REFUSE, "OutOfnvidia.com/gpu"),
            (kubelet::REFUSE_ON, node),
        ];
        Self::annotate_for_kubelets(control_plane, namespace, &words).await
    }

    /// Sets these annotations, which instruct a simulated [`kubelet`], on the pods of a namespace.
    /// Users may not set them in a job.
    ///
    /// # Errors
    /// If the API server refuses the policy.
    pub async fn annotate_for_kubelets(
        control_plane: &ControlPlane,
        namespace: &str,
        words: &[(&str, &str)],
    ) -> Result<Self> {
        let words = words
            .iter()
            .map(|(key, value)| format!("'{key}': '{value}'"));
        let words = words.collect::<Vec<_>>().join(", ");
        let expression = format!("Object{{metadata: Object.metadata{{annotations: {{{words}}}}}}}");
        let mutation = json!({"patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": expression}});
        Self::mutate_pods(control_plane, namespace, mutation).await
    }

    async fn mutate_pods(
        control_plane: &ControlPlane,
        namespace: &str,
        mutation: Value,
    ) -> Result<Self> {
        let probe = format!(
            "has(object.metadata.name) && object.metadata.name == '{PROBE_NAME}' ? \
             [JSONPatch{{op: 'add', path: '/spec/schedulerName', value: '{PROBE_NAME}'}}] : []"
        );
        let probe = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": probe}});
        let spec = json!({"reinvocationPolicy": "Never", "mutations": [mutation, probe]});
        Self::enforce(control_plane, namespace, PolicyEffect::Change, spec).await
    }

    /// Creates the policy with its binding, and waits until the API server enforces it.
    async fn enforce(
        control_plane: &ControlPlane,
        namespace: &str,
        act: PolicyEffect,
        mut spec: Value,
    ) -> Result<Self> {
        spec["failurePolicy"] = json!("Fail");
        spec["matchConstraints"] = json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"]}],
        });
        let mut binding = json!({"policyName": namespace});
        if let PolicyEffect::Refuse = act {
            binding["validationActions"] = json!(["Deny"]);
        }
        let (kind, version) = (act.kind(), act.api_version()?);
        for (kind, spec) in [(kind.to_owned(), spec), (format!("{kind}Binding"), binding)] {
            let object = json!({
                "apiVersion": format!("{GROUP}/{version}"), "kind": kind,
                "metadata": {"name": namespace}, "spec": spec,
            });
            control_plane.apply_yaml(&object.to_string()).await?;
        }
        let policy = Self {
            effect: act,
            namespace: namespace.to_owned(),
            client: control_plane.client(),
        };
        policy.wait_until_active().await?;
        Ok(policy)
    }

    /// Waits until the API server enforces the policy on new pods. The policy refuses the probe
    /// pod, or sets the probe's name as the name of its scheduler.
    async fn wait_until_active(&self) -> Result<()> {
        // The API server names the policy that refuses the pod or whose rule fails.
        let name = format!("'{}'", self.namespace);
        probe_pod::probe_until(self.client.clone(), &self.namespace, |answer| {
            let pod = match answer {
                Ok(pod) => pod,
                Err(error) => return probe_pod::accept_refusal_by(&name, error),
            };
            let scheduler = pod.spec.and_then(|spec| spec.scheduler_name);
            let is_changed = scheduler.as_deref() == Some(PROBE_NAME);
            ensure!(
                is_changed,
                "the API server does not enforce the policy {name} yet"
            );
            Ok(())
        })
        .await
    }

    /// Deletes the policy. It may still act on some later requests.
    ///
    /// # Errors
    /// If the policy does not exist any more.
    pub async fn delete(self) -> Result<()> {
        let kind = format!("{}Binding", self.effect.kind());
        let plural = format!("{}s", kind.to_lowercase());
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(GROUP, self.effect.api_version()?, &kind),
            &plural,
        );
        let bindings: Api<DynamicObject> = Api::all_with(self.client, &resource);
        bindings
            .delete(&self.namespace, &DeleteParams::default())
            .await?;
        Ok(())
    }
}

/// Waits until the operator believes stamps of jobs that are created from now on.
///
/// # Panics
/// If the chart's admission policies are not installed.
pub async fn wait_for_stamping(control_plane: &ControlPlane) {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(control_plane.client());
    let binding = bindings.get("trellis-requested-by").await.unwrap();
    let created = binding.metadata.creation_timestamp.unwrap().0;
    let age = k8s_openapi::jiff::Timestamp::now().duration_since(created);
    let age = Duration::try_from(age).unwrap_or_default();
    tokio::time::sleep(POLICY_PROPAGATION.saturating_sub(age)).await;
}
