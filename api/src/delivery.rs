//! The GitOps tool that delivers an object. The tool reverts manual deletions and changes.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The GitOps tool that delivers an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// An Argo CD Application, by name. The operator recognizes the tracking annotation that is the
    /// default since Argo CD 3.0, and the label that Argo CD's documentation recommends in its
    /// place. The operator ignores the earlier default label `app.kubernetes.io/instance`, since
    /// users and Helm write it too.
    ArgoCd(String),
    /// A Flux Kustomization or HelmRelease, by name.
    Flux(String),
}

impl Delivery {
    /// Reads the tool from an object's metadata. Returns None if the metadata names no tool.
    #[must_use]
    pub fn from_metadata(meta: &ObjectMeta) -> Option<Self> {
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        let label = |key: &str| meta.labels.as_ref().and_then(|all| all.get(key));
        // Format: APPLICATION:GROUP/KIND:NAMESPACE/NAME
        let tracked = annotation("argocd.argoproj.io/tracking-id");
        let tracked = tracked.and_then(|id| id.split(':').next().map(str::to_owned));
        let argo = tracked.or_else(|| label("argocd.argoproj.io/instance").cloned());
        let flux = label("kustomize.toolkit.fluxcd.io/name")
            .or_else(|| label("helm.toolkit.fluxcd.io/name"));
        argo.map(Self::ArgoCd)
            .or_else(|| flux.cloned().map(Self::Flux))
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ArgoCd(name) => write!(formatter, "Argo CD ({name})"),
            Self::Flux(name) => write!(formatter, "Flux ({name})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn delivery_of(meta: Value) -> Option<String> {
        let meta: ObjectMeta = serde_json::from_value(meta).unwrap();
        Delivery::from_metadata(&meta).map(|delivery| delivery.to_string())
    }

    #[test]
    fn delivery_is_recognized_by_its_labels_and_annotations() {
        for (meta, delivery) in [
            (
                json!({"annotations": {"argocd.argoproj.io/tracking-id": "team-a:trellis.dev/TrainingJob:ns/j"}}),
                Some("Argo CD (team-a)"),
            ),
            (
                json!({"labels": {"argocd.argoproj.io/instance": "team-a"}}),
                Some("Argo CD (team-a)"),
            ),
            (
                json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "jobs"}}),
                Some("Flux (jobs)"),
            ),
            (
                json!({"labels": {"helm.toolkit.fluxcd.io/name": "jobs"}}),
                Some("Flux (jobs)"),
            ),
            (json!({"labels": {"app.kubernetes.io/instance": "x"}}), None),
            (json!({}), None),
        ] {
            assert_eq!(delivery_of(meta.clone()).as_deref(), delivery, "{meta}");
        }
    }
}
