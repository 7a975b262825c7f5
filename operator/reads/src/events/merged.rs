//! Merges events that have the same content. Pure.

use k8s_openapi::api::events::v1::Event;

use super::EventLine;

/// Greatest number of events in the output.
const MAX_EVENTS: usize = 10;

/// Returns the last events, the newest last.
/// Events with the same content are merged.
#[must_use]
pub(super) fn merge_events(events: &[Event], uid: Option<&str>) -> Vec<EventLine> {
    let mut lines: Vec<EventLine> = Vec::new();
    for event in events {
        let about = event.regarding.as_ref().and_then(|r| r.uid.as_deref());
        // This event belongs to an earlier job with the same name.
        if about.is_some() && uid.is_some() && about != uid {
            continue;
        }
        let Some(line) = to_line(event) else { continue };
        let is_same = |other: &&mut EventLine| {
            other.type_ == line.type_ && other.reason == line.reason && other.note == line.note
        };
        match lines.iter_mut().find(is_same) {
            Some(other) => {
                other.count = other.count.saturating_add(line.count);
                other.last = other.last.max(line.last);
            }
            None => lines.push(line),
        }
    }
    // The sort is stable: events with the same time keep the order of the API server.
    lines.sort_by_key(|line| line.last);
    let beyond = lines.len().saturating_sub(MAX_EVENTS);
    lines.split_off(beyond)
}

/// Returns None if the event has no time.
fn to_line(event: &Event) -> Option<EventLine> {
    let series = event.series.as_ref();
    let created = event.metadata.creation_timestamp.as_ref();
    let last = series
        .map(|series| series.last_observed_time.0)
        .or(event.deprecated_last_timestamp.as_ref().map(|time| time.0))
        .or(event.event_time.as_ref().map(|time| time.0))
        .or(created.map(|time| time.0))?;
    let count = series.map(|series| series.count);
    Some(EventLine {
        type_: event.type_.clone().unwrap_or_default(),
        reason: event.reason.clone().unwrap_or_default(),
        note: event.note.clone().unwrap_or_default(),
        count: count.or(event.deprecated_count).unwrap_or(1).max(1),
        last,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(fields: serde_json::Value) -> Event {
        let mut event = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Queued",
            "note": "waits", "eventTime": "2026-01-01T10:00:00.000000Z"});
        let fields = fields.as_object().unwrap().clone();
        event.as_object_mut().unwrap().extend(fields);
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn equal_events_merge_and_the_newest_is_last() {
        let series = json!({"count": 4, "lastObservedTime": "2026-01-01T10:09:00.000000Z"});
        let events = [
            event(json!({"series": series})),
            event(json!({"eventTime": "2026-01-01T10:05:00.000000Z"})),
            event(
                json!({"reason": "Placed", "note": "", "eventTime": "2026-01-01T10:06:00.000000Z"}),
            ),
            event(json!({"reason": "PodFailed", "regarding": {"uid": "earlier"}})),
        ];
        let lines = merge_events(&events, Some("own"));
        let reasons: Vec<_> = lines.iter().map(|l| (l.reason.as_str(), l.count)).collect();
        assert_eq!(reasons, [("Placed", 1), ("Queued", 5)]);
        assert_eq!(lines[1].last.to_string(), "2026-01-01T10:09:00Z");
    }

    #[test]
    fn at_most_ten_events_are_listed() {
        let events: Vec<_> = (10..25)
            .map(|minute| {
                let time = format!("2026-01-01T10:{minute}:00.000000Z");
                event(json!({"note": format!("{minute}"), "eventTime": time}))
            })
            .collect();
        let lines = merge_events(&events, None);
        assert_eq!((lines.len(), lines[0].note.as_str()), (10, "15"));
        assert_eq!(lines[9].note, "24");
    }
}
