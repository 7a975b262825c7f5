//! The table of events.

use k8s_openapi::jiff::Timestamp;
use trellis_reads::events::EventLine;

use crate::output::{Cell, Table, Tone, format_age, sanitize};

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
