//! What the engine alone knows, as the API server serves it to whoever may read it: the
//! resources of the group [`GROUP`], read-only, worked out when they are asked for and stored
//! nowhere (docs/endpoint.md). The server fills these types, and the command line reads them.
//!
//! One file for each resource.

mod amount;
mod explanation;
mod gang_name;
mod job_ref;
mod job_state;
mod node_state;
mod queue_state;
mod schema;

pub use amount::Amount;
pub use explanation::{
    Candidate, ExcludedNodes, Explanation, FreedOn, HeldBy, OtherJobs, Preempted, Protected,
    RaisedLimit, RaisedQuota, Shortage, SmallestChange, TaskGroupNodes,
};
pub use gang_name::GangName;
pub use job_ref::JobRef;
pub use job_state::JobState;
pub use node_state::{NodeDomain, NodeHold, NodeReason, NodeResource, NodeState};
pub use queue_state::{QueueResource, QueueState};
pub use schema::schemas;

use serde::{Deserialize, Serialize};

/// The API group of what is served and stored nowhere.
pub const GROUP: &str = "visibility.trellis.dev";
/// Its one version.
pub const VERSION: &str = "v1alpha1";
/// The Service that the leader alone is behind.
pub const SERVICE: &str = "trellis-visibility";
/// The APIService by which the API server knows the group.
pub const API_SERVICE: &str = "v1alpha1.visibility.trellis.dev";

/// A resource of the group, as discovery tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedResource {
    /// Its kind.
    pub kind: &'static str,
    /// What it is called in paths.
    pub plural: &'static str,
    /// What one of it is called.
    pub singular: &'static str,
    /// What people may write in its place.
    pub short_names: &'static [&'static str],
    /// Whether it is in a namespace.
    pub namespaced: bool,
    /// What may be asked of it.
    pub verbs: &'static [&'static str],
}

/// All resources of the group.
pub const ALL_RESOURCES: &[ServedResource] = &[
    JobState::SERVED,
    QueueState::SERVED,
    NodeState::SERVED,
    Explanation::SERVED,
];

/// A list, as the API server sends it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VisibilityList<T> {
    /// `visibility.trellis.dev/v1alpha1`.
    pub api_version: String,
    /// The kind of what is in it, and `VisibilityList`.
    pub kind: String,
    /// When this was so.
    pub metadata: ListMeta,
    /// What there is.
    pub items: Vec<T>,
}

/// What is said of a list as a whole.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    /// The moment of which it tells, in milliseconds since 1970: nothing of it can be watched.
    #[serde(default)]
    pub resource_version: String,
}

/// Makes a type a resource of the group.
macro_rules! resource {
    ($type:ident, $scope:ident, $served:expr) => {
        impl $type {
            /// How it is served.
            pub const SERVED: $crate::visibility::ServedResource = $served;
        }

        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = kube::core::$scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                Self::SERVED.kind.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $crate::visibility::GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $crate::visibility::VERSION.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                Self::SERVED.plural.into()
            }

            fn meta(&self) -> &kube::api::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::api::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
use resource;

/// `visibility.trellis.dev/v1alpha1`.
#[must_use]
pub fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_resources_have_unique_names_and_are_read_only() {
        let mut names = std::collections::BTreeSet::new();
        for served in ALL_RESOURCES {
            for name in [served.plural, served.singular]
                .iter()
                .chain(served.short_names)
            {
                assert!(names.insert(*name), "{name} is two things");
            }
            // What can be deleted is looked for by whoever deletes a namespace.
            for verb in served.verbs {
                assert!(["get", "list"].contains(verb), "{}: {verb}", served.plural);
            }
            assert!(!served.verbs.is_empty(), "{}", served.plural);
            assert_eq!(served.plural, served.plural.to_lowercase());
        }
    }

    #[test]
    fn api_service_name_is_version_and_group() {
        assert_eq!(API_SERVICE, format!("{VERSION}.{GROUP}"));
    }
}
