//! The events of a job, in order of time, in one format for all commands.

mod merged;

use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ListParams, ObjectMeta};
use serde::Serialize;

use crate::{ApiFailure, Reader, list};

/// An event that occurred once or several times.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EventLine {
    /// Normal or Warning.
    #[serde(rename = "type")]
    pub type_: String,
    /// A reason from docs/reasons.md.
    pub reason: String,
    /// The message of the event.
    pub note: String,
    /// Number of occurrences.
    pub count: i32,
    /// Time of the last occurrence.
    pub last: Timestamp,
}

/// Lists the last events of a job or another object of that kind, the newest last.
/// Events with the same content are merged.
///
/// # Errors
/// If the events cannot be read.
pub async fn list_events(
    reader: &Reader,
    kind: &str,
    meta: &ObjectMeta,
) -> Result<Vec<EventLine>, ApiFailure> {
    let events: Api<Event> = Api::namespaced(reader.client.clone(), &reader.namespace);
    let name = meta.name.as_deref().unwrap_or_default();
    let about = format!("regarding.kind={kind},regarding.name={name}");
    let events = list(&events, &ListParams::default().fields(&about)).await?;
    let uid = meta.uid.as_deref();
    Ok(merged::merge_events(&events.unwrap_or_default(), uid))
}
