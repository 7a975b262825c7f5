//! Layers below a task group's own fields: the profile and the group's template.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trellis_api::Quantity;
use trellis_api::pod_template::MAIN_CONTAINER;

use super::{non_empty, scheduling};
use crate::HashedProfile;
use crate::environment::user_variable;

/// Layers that pods are made of beside the fields of their job and task group.
#[derive(Clone, Copy)]
pub(crate) struct TemplateLayers<'a> {
    pub profile: Option<&'a HashedProfile>,
    pub template: Option<&'a PodTemplateSpec>,
}

type StringMap = BTreeMap<String, String>;

impl TemplateLayers<'_> {
    /// Specs, each to be laid over those before: the profile's template, its short
    /// fields, and the group's template.
    pub(crate) fn pod_specs(&self) -> impl Iterator<Item = PodSpec> {
        let of = |template: &PodTemplateSpec| template.spec.clone();
        let below = self.profile.and_then(|p| p.validated().template());
        let profile = self.profile.map(short_fields_spec);
        [below.and_then(of), profile, self.template.and_then(of)]
            .into_iter()
            .flatten()
    }

    /// Labels, the last word on each key taken.
    pub fn labels(&self) -> StringMap {
        let short = self.profile.and_then(|p| p.spec().pod_metadata.as_ref());
        self.merged_map(
            |meta| meta.labels.as_ref(),
            short.map(|short| &short.labels),
        )
    }

    /// Annotations, the last word on each key taken.
    pub fn annotations(&self) -> StringMap {
        let short = self.profile.and_then(|p| p.spec().pod_metadata.as_ref());
        self.merged_map(
            |meta| meta.annotations.as_ref(),
            short.map(|short| &short.annotations),
        )
    }

    fn merged_map<'m>(
        &'m self,
        of: impl Fn(&'m ObjectMeta) -> Option<&'m StringMap>,
        short: Option<&'m StringMap>,
    ) -> StringMap {
        let of = |template: Option<&'m PodTemplateSpec>| of(template?.metadata.as_ref()?);
        let below = of(self.profile.and_then(|p| p.validated().template()));
        let layers = [below, short, of(self.template)];
        let mut all = StringMap::new();
        for layer in layers.into_iter().flatten() {
            all.extend(layer.clone());
        }
        all
    }

    /// Size of /dev/shm of a group that names none.
    pub fn shared_memory(&self) -> Option<&Quantity> {
        self.profile?.spec().shared_memory.as_ref()
    }

    /// True if there are, or may be, containers beside the main one.
    pub(crate) fn has_template(&self) -> bool {
        self.template.is_some()
            || self
                .profile
                .is_some_and(|p| p.validated().template().is_some())
    }
}

/// The short fields of a profile.
fn short_fields_spec(profile: &HashedProfile) -> PodSpec {
    let spec = profile.spec();
    let main = Container {
        name: MAIN_CONTAINER.to_owned(),
        env: non_empty(spec.env.iter().map(user_variable).collect()),
        ..Container::default()
    };
    PodSpec {
        node_selector: (!spec.node_selector.is_empty()).then(|| spec.node_selector.clone()),
        affinity: scheduling::affinity(spec.affinity.as_ref()),
        tolerations: non_empty(
            spec.tolerations
                .iter()
                .map(scheduling::toleration)
                .collect(),
        ),
        runtime_class_name: spec.runtime_class_name.clone(),
        containers: vec![main],
        ..PodSpec::default()
    }
}
