//! A queue as a resource.

use cedar_policy::RestrictedExpression as Value;
use trellis_api::job_policy::TestResource;

use super::resource::{
    InvalidTestRequest, RequestBuildError, Resource, ResourceEntity, collect_attributes,
    required_name, string_value,
};

/// A queue, and its selection of the job's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueUse {
    /// Name of the queue.
    pub queue: String,
    /// True if the queue's `namespaceSelector` selects the job's namespace.
    pub selects_namespace: bool,
}

impl QueueUse {
    /// How a job avoids the request.
    pub(super) fn remedy(&self) -> String {
        if self.selects_namespace {
            return "name another queue".to_owned();
        }
        crate::authorize::queue_remedy(&self.queue)
    }
}

impl Resource for QueueUse {
    fn from_test(_: &str, resource: &TestResource) -> Result<Self, InvalidTestRequest> {
        Ok(Self {
            queue: required_name(resource)?,
            selects_namespace: resource.selects_namespace.unwrap_or(true),
        })
    }

    fn entity(&self) -> Result<Option<ResourceEntity<'_>>, RequestBuildError> {
        let selects = Value::new_bool(self.selects_namespace);
        Ok(Some(ResourceEntity {
            id: self.queue.clone(),
            attributes: collect_attributes([
                ("name", Some(string_value(&self.queue))),
                ("selectsNamespace", Some(selects)),
            ]),
            namespace: None,
        }))
    }

    fn longest_text(&self) -> &str {
        &self.queue
    }

    fn describe(&self, kind: &str) -> Option<String> {
        Some(format!("{kind} {:?}", self.queue))
    }
}
