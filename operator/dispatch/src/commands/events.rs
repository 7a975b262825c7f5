//! Writes events (events.k8s.io/v1).

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as EventObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::ObjectMeta;
use kube::runtime::events::{Event, EventType};
use serde::de::IgnoredAny;
use trellis_api::names;
use trellis_machine::clock;

use super::{Commands, WriteError};

/// The controller in the events of Trellis.
const REPORTER: &str = "trellis.dev/operator";
/// Namespace of the events of objects without a namespace, as of all clients of Kubernetes.
const DEFAULT_NAMESPACE: &str = "default";

impl Commands {
    /// Writes an event about an object. It is never merged with an earlier event: failures with the
    /// same reason have different notes.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn publish_event(
        &self,
        event: &Event,
        about: &ObjectReference,
    ) -> Result<(), WriteError> {
        let namespace = about.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let object = build_event(event, about, namespace);
        let IgnoredAny = self
            .create(namespace, names::STATUS_MANAGER, &object, false)
            .await?;
        Ok(())
    }
}

fn build_event(event: &Event, about: &ObjectReference, namespace: &str) -> EventObject {
    let name = about.name.as_deref().unwrap_or(names::MANAGER);
    let type_ = match event.type_ {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    EventObject {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            generate_name: Some(format!("{name}-")),
            ..ObjectMeta::default()
        },
        type_: Some(type_.to_owned()),
        action: Some(event.action.clone()),
        reason: Some(event.reason.clone()),
        note: event.note.clone(),
        regarding: Some(about.clone()),
        related: event.secondary.clone(),
        event_time: Some(MicroTime(clock::now())),
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some(REPORTER.to_owned()),
        ..EventObject::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server checks the prefix without its last dash as a name.
    #[test]
    fn name_prefix_of_an_event_is_a_valid_name_with_a_dash() {
        let event = Event {
            type_: EventType::Warning,
            reason: "InvalidSpec".to_owned(),
            note: None,
            action: "Waiting".to_owned(),
            secondary: None,
        };
        let about = ObjectReference {
            name: Some("resnet".to_owned()),
            ..ObjectReference::default()
        };
        let object = build_event(&event, &about, DEFAULT_NAMESPACE);
        assert_eq!(object.metadata.generate_name.as_deref(), Some("resnet-"));
        assert_eq!(object.type_.as_deref(), Some("Warning"));
    }
}
