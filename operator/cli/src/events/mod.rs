//! The events of a job, in order of time, in one format for all commands.

mod event_lines;

use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ListParams, ObjectMeta};
use serde::Serialize;

use crate::cluster::{ApiFailure, list};
use crate::output::sanitize;
use crate::output::{Cell, Table, Tone, format_age};
use crate::target::TargetNamespace;

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
    site: &TargetNamespace,
    kind: &str,
    meta: &ObjectMeta,
) -> Result<Vec<EventLine>, ApiFailure> {
    let events: Api<Event> = Api::namespaced(site.cluster.client().clone(), &site.namespace);
    let name = meta.name.as_deref().unwrap_or_default();
    let about = format!("regarding.kind={kind},regarding.name={name}");
    let events = list(&events, &ListParams::default().fields(&about)).await?;
    let uid = meta.uid.as_deref();
    Ok(event_lines::merge_events(&events.unwrap_or_default(), uid))
}

/// Formats the events as a table.
#[must_use]
pub fn build_table(events: &[EventLine], now: Timestamp) -> Table {
    let mut table = Table::new(["LAST", "TYPE", "REASON", "NOTE"]);
    for event in events {
        let times = match event.count {
            1 => String::new(),
            count => format!(" (x{count})"),
        };
        let tone = match event.type_.as_str() {
            "Warning" => Tone::Bad,
            _ => Tone::Plain,
        };
        table.push_row([
            format!("{}{times}", format_age(event.last, now)).into(),
            Cell::new(event.type_.as_str(), tone),
            event.reason.as_str().into(),
            sanitize(&event.note).into(),
        ]);
    }
    table
}
