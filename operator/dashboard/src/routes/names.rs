//! Names in requests, checked before they become part of a path of the API server.

use trellis_api::rules;
use trellis_api::visibility::GangName;

use crate::answer::Refusal;

/// Checks the namespace of a query or a body.
pub(super) fn check_namespace(namespace: Option<String>) -> Result<Option<String>, Refusal> {
    let Some(namespace) = namespace else {
        return Ok(None);
    };
    match rules::namespace(&namespace) {
        Ok(()) => Ok(Some(namespace)),
        Err(error) => Err(Refusal::invalid(format!(
            "namespace: {namespace:?} {error}"
        ))),
    }
}

/// Checks the namespace and the name of a path.
pub(super) fn parse_names(namespace: &str, name: &str) -> Result<(String, GangName), Refusal> {
    let gang = GangName::from_object_name(name);
    let own = match &gang {
        GangName::Job(name) | GangName::PodGroup(name) | GangName::Pod(name) => name,
    };
    for name in [namespace, own] {
        if rules::object_name(name, &()).is_err() {
            return Err(Refusal::not_found(format!(
                "{name:?} is no name of an object"
            )));
        }
    }
    Ok((namespace.to_owned(), gang))
}
