//! Who delivers an object from git. Whatever is deleted or changed by hand there comes back.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Who delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// An Application of Argo CD, by its name. It is told by the annotation that Argo CD tracks by
    /// since 3.0, or by the label that its documentation recommends in its place; the label
    /// `app.kubernetes.io/instance`, the default before, is also written by people and by Helm.
    ArgoCd(String),
    /// A Kustomization or a HelmRelease of Flux, by its name.
    Flux(String),
}

impl Delivery {
    /// As the metadata of an object says. None: nobody is known to.
    #[must_use]
    pub fn from_metadata(meta: &ObjectMeta) -> Option<Self> {
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        let label = |key: &str| meta.labels.as_ref().and_then(|all| all.get(key));
        // APPLICATION:GROUP/KIND:NAMESPACE/NAME
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
        for (meta, who) in [
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
            assert_eq!(delivery_of(meta.clone()).as_deref(), who, "{meta}");
        }
    }
}
