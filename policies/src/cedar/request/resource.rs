//! The resource of a request: the object of its action.

use std::collections::HashMap;

use cedar_policy::RestrictedExpression as Value;
use trellis_api::job_policy::TestResource;

use crate::cedar::problem::PolicyProblem;

/// The resource of a request. Each kind of resource has a type in a file of its own.
pub(super) trait Resource {
    /// Reads the resource of a test in that namespace.
    fn from_test(namespace: &str, resource: &TestResource) -> Result<Self, InvalidTestRequest>
    where
        Self: Sized;

    /// The resource as Cedar sees it. None: the job itself.
    fn entity(&self) -> Result<Option<ResourceEntity<'_>>, RequestBuildError>;

    /// The longest text in it that users write.
    fn longest_text(&self) -> &str;

    /// The resource in words. `kind` is its kind in policies. None: the job itself.
    fn describe(&self, kind: &str) -> Option<String>;
}

/// The reason why a request cannot be built, so that nothing can be decided about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestBuildError(pub(crate) String);

impl<E: std::error::Error> From<E> for RequestBuildError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Values of an entity's attributes, by name.
pub(super) type AttributeValues = HashMap<String, Value>;

/// A resource as Cedar sees it.
pub(super) struct ResourceEntity<'a> {
    /// Id among the resources of its kind.
    pub(super) id: String,
    /// Its attributes.
    pub(super) attributes: AttributeValues,
    /// The namespace that it is in. None: no permit for the objects of a namespace covers it.
    pub(super) namespace: Option<&'a str>,
}

pub(super) fn string_value(value: &str) -> Value {
    Value::new_string(value.to_owned())
}

pub(super) fn collect_attributes<const N: usize>(
    pairs: [(&str, Option<Value>); N],
) -> AttributeValues {
    let present = pairs.into_iter().filter_map(|(k, v)| Some((k, v?)));
    present
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

pub(super) fn name_attribute(name: &str) -> AttributeValues {
    collect_attributes([("name", Some(string_value(name)))])
}

/// A test whose request cannot be built: the violated rule and the fix.
pub(crate) struct InvalidTestRequest(pub(super) String, pub(super) &'static str);

impl InvalidTestRequest {
    /// The problem at a field.
    pub(crate) fn into_problem(self, path: &str) -> PolicyProblem {
        PolicyProblem::new(path, self.0, self.1)
    }
}

/// The name that a test gives its resource.
pub(super) fn required_name(resource: &TestResource) -> Result<String, InvalidTestRequest> {
    let missing = "request.resource.name is missing";
    let missing = || InvalidTestRequest(missing.to_owned(), "name what is asked for");
    resource.name.clone().ok_or_else(missing)
}
