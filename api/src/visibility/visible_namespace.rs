//! A namespace whose jobs the caller may list.

use kube::api::{ObjectMeta, TypeMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ServedResource, resource};

/// A namespace in which the caller may list jobs. Kubernetes lists namespaces only to users who may
/// read all of them.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VisibleNamespace {
    /// Group, version and kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub types: TypeMeta,
    /// The name is that of the namespace.
    pub metadata: ObjectMeta,
    /// Number of TrainingJobs in the namespace that have not ended.
    pub jobs: i64,
    /// True if the caller may create TrainingJobs in the namespace.
    pub may_submit: bool,
}

resource!(
    VisibleNamespace,
    ClusterResourceScope,
    ServedResource {
        kind: "VisibleNamespace",
        plural: "visiblenamespaces",
        singular: "visiblenamespace",
        short_names: &["vns"],
        namespaced: false,
        verbs: &["list"],
    }
);
