//! Admission policies, their bindings, and webhook configurations, as stored in the cluster.

use std::borrow::Cow;
use std::marker::PhantomData;

use kube::Resource;
use kube::api::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::slim::slim;

/// An object of a kind of `admissionregistration.k8s.io` with its whole spec, because an unknown
/// field may change its effect.
#[derive(Deserialize, Clone, Debug)]
#[serde(bound = "")]
pub struct SlimAdmission<K> {
    /// Metadata.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Spec, or the webhooks of a webhook configuration.
    #[serde(default, alias = "webhooks")]
    pub spec: Value,
    #[serde(skip)]
    kind: PhantomData<fn() -> K>,
}

impl<K: Resource<DynamicType = ()>> Resource for SlimAdmission<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
