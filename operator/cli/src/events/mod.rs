//! What happened to a job: its events, in order, as every command tells them.

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

/// What happened, once or several times.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EventLine {
    /// Normal or Warning.
    #[serde(rename = "type")]
    pub type_: String,
    /// A word of docs/reasons.md.
    pub reason: String,
    /// The same in words.
    pub note: String,
    /// How often.
    pub count: i32,
    /// When it last did.
    pub last: Timestamp,
}

/// The last events of a job or of another object of that kind, the newest last. Those that say the
/// same are one.
///
/// # Errors
/// If they cannot be read.
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

/// The same for people.
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
