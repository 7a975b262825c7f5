//! Resources that are known by their name alone.

use trellis_api::job_policy::TestResource;

use super::resource::{
    InvalidTestRequest, RequestBuildError, Resource, ResourceEntity, name_attribute, required_name,
};

/// The job itself, which submits itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobItself;

impl Resource for JobItself {
    fn from_test(_: &str, _: &TestResource) -> Result<Self, InvalidTestRequest> {
        Ok(Self)
    }

    fn entity(&self) -> Result<Option<ResourceEntity<'_>>, RequestBuildError> {
        Ok(None)
    }

    fn longest_text(&self) -> &str {
        ""
    }

    fn describe(&self, _: &str) -> Option<String> {
        None
    }
}

/// The name of an object without a namespace.
impl Resource for String {
    fn from_test(_: &str, resource: &TestResource) -> Result<Self, InvalidTestRequest> {
        required_name(resource)
    }

    fn entity(&self) -> Result<Option<ResourceEntity<'_>>, RequestBuildError> {
        Ok(Some(ResourceEntity {
            id: self.clone(),
            attributes: name_attribute(self),
            namespace: None,
        }))
    }

    fn longest_text(&self) -> &str {
        self
    }

    fn describe(&self, kind: &str) -> Option<String> {
        Some(format!("{kind} {self:?}"))
    }
}

/// An object of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamespacedName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Resource for NamespacedName {
    fn from_test(namespace: &str, resource: &TestResource) -> Result<Self, InvalidTestRequest> {
        let own = || namespace.to_owned();
        Ok(Self {
            namespace: resource.namespace.clone().unwrap_or_else(own),
            name: required_name(resource)?,
        })
    }

    fn entity(&self) -> Result<Option<ResourceEntity<'_>>, RequestBuildError> {
        Ok(Some(ResourceEntity {
            id: format!("{}/{}", self.namespace, self.name),
            attributes: name_attribute(&self.name),
            namespace: Some(&self.namespace),
        }))
    }

    fn longest_text(&self) -> &str {
        &self.name
    }

    fn describe(&self, kind: &str) -> Option<String> {
        Some(format!(
            "{kind} {:?}",
            format!("{}/{}", self.namespace, self.name)
        ))
    }
}
