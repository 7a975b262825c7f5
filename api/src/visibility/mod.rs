//! Resources of the API group [`GROUP`], computed by the engine for each request and stored nowhere
//! (docs/endpoint.md). The API server serves them to authorized callers. The server fills these
//! types, and the command line reads them.
//!
//! Each resource has its own file.

mod amount;
mod ended_attempt;
mod explanation;
mod forecast;
mod gang_name;
mod job_ref;
mod job_state;
mod node_state;
mod plan;
mod queue_state;
mod schema;
mod small_moves;
mod visible_namespace;

pub use amount::Amount;
pub use ended_attempt::EndedAttempt;
pub use explanation::{
    Candidate, ExcludedNodes, Explanation, FreedOn, HeldBy, MovableJob, OtherJobs, Preempted,
    Protected, RaisedLimit, RaisedQuota, RequestChange, Shortage, SmallestChange, TaskGroupNodes,
};
pub use forecast::{
    AddedJob, AddedNodes, AddedTaskGroup, ChangedJob, ChangedQueue, ChangedQuota, ExpectedTimes,
    Forecast, ForecastChange, ForecastEffect, ForecastSpec, ForecastStatus, MovedJob, NamedNode,
};
pub use gang_name::GangName;
pub use job_ref::JobRef;
pub use job_state::{JobState, QuotaHold};
pub use node_state::{NodeDomain, NodeHold, NodeReason, NodeResource, NodeState};
pub use plan::{
    Plan, PlanSpec, PlanStatus, PlanVerdict, PlannedClaim, PlannedJob, PlannedTaskGroup, PodsOnNode,
};
pub use queue_state::{QueueResource, QueueState};
pub use schema::schemas;
pub use small_moves::{is_same_estimate, is_same_usage};
pub use visible_namespace::VisibleNamespace;

use serde::{Deserialize, Serialize};

/// API group of the computed resources.
pub const GROUP: &str = "visibility.trellis.dev";
/// Version of the API group.
pub const VERSION: &str = "v1alpha1";
/// Service whose only endpoint is the leader.
pub const SERVICE: &str = "trellis-visibility";
/// APIService that registers the group with the API server.
pub const API_SERVICE: &str = "v1alpha1.visibility.trellis.dev";

/// A resource of the group, as in API discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedResource {
    /// Kind of the resource.
    pub kind: &'static str,
    /// Plural name, as in paths.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// True if the resource is namespaced.
    pub namespaced: bool,
    /// Verbs that the resource supports.
    pub verbs: &'static [&'static str],
}

/// All resources of the group.
pub const ALL_RESOURCES: &[ServedResource] = &[
    JobState::SERVED,
    QueueState::SERVED,
    NodeState::SERVED,
    Explanation::SERVED,
    EndedAttempt::SERVED,
    Forecast::SERVED,
    Plan::SERVED,
    VisibleNamespace::SERVED,
];

/// A list in the API server's format.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VisibilityList<T> {
    /// `visibility.trellis.dev/v1alpha1`.
    pub api_version: String,
    /// Kind of the items, followed by `VisibilityList`.
    pub kind: String,
    /// Metadata of the list: its version.
    pub metadata: ListMeta,
    /// Items of the list.
    pub items: Vec<T>,
}

/// Metadata of a list.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    /// Version of the list. A watch may begin here for some minutes.
    #[serde(default)]
    pub resource_version: String,
}

/// Implements the traits of a served resource for a type.
macro_rules! resource {
    ($type:ident, $scope:ident, $served:expr) => {
        impl $type {
            /// Names and verbs of the resource.
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

/// Returns `visibility.trellis.dev/v1alpha1`.
#[must_use]
pub fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_resources_have_unique_names_and_store_nothing() {
        let mut names = std::collections::BTreeSet::new();
        for served in ALL_RESOURCES {
            for name in [served.plural, served.singular]
                .iter()
                .chain(served.short_names)
            {
                assert!(names.insert(*name), "{name} is two things");
            }
            // A resource with the verb delete would be listed whenever a namespace is deleted. `create`
            // asks a question, as with a SelfSubjectAccessReview: nothing is stored.
            for verb in served.verbs {
                let is_read = ["get", "list", "watch"].contains(verb);
                assert!(
                    is_read || served.verbs == ["create"],
                    "{}: {verb}",
                    served.plural
                );
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
