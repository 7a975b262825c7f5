//! Parses the query of a request. Pure.

use std::time::Duration;

use serde::Deserialize;

/// How to watch objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchOptions {
    /// The first event.
    pub(super) start: WatchStart,
    /// True: bookmarks tell the version of rows without changes.
    pub(super) bookmarks: bool,
    /// True: a bookmark ends the initial rows (KEP-3157).
    pub(super) ends_initial_events: bool,
    /// Longest duration. None: that of the server.
    pub(super) timeout: Option<Duration>,
}

/// The first event of a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WatchStart {
    /// All rows of now, and then the changes.
    #[default]
    Rows,
    /// The first change from now on.
    Now,
    /// The first change after the list of this version.
    Version(i64),
}

/// Parameters of a query. The parser ignores those that would only make the answer smaller or
/// later, as the API allows, such as `limit`. It also ignores those of a stored object, such as
/// `fieldManager`: nothing is stored. kubectl sends both.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct RequestQuery {
    watch: Option<String>,
    r#continue: Option<String>,
    label_selector: Option<String>,
    field_selector: Option<String>,
    resource_version_match: Option<String>,
    pub(super) include_object: Option<String>,
    resource_version: Option<String>,
    allow_watch_bookmarks: Option<String>,
    send_initial_events: Option<String>,
    timeout_seconds: Option<String>,
    #[serde(rename = "fieldManager")]
    _field_manager: Option<String>,
    #[serde(rename = "fieldValidation")]
    _field_validation: Option<String>,
    #[serde(rename = "dryRun")]
    _dry_run: Option<String>,
    #[serde(rename = "limit")]
    _limit: Option<String>,
    #[serde(rename = "pretty")]
    _pretty: Option<String>,
    #[serde(rename = "timeout")]
    _timeout: Option<String>,
}

/// A namespace and a name that a field selector names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SelectedFields {
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
}

/// Returns true if a parameter of a query is set, as kube-apiserver reads it.
fn is_true(parameter: &Option<String>) -> bool {
    parameter
        .as_deref()
        .is_some_and(|value| !matches!(value, "false" | "0"))
}

impl RequestQuery {
    pub(super) fn is_watch(&self) -> bool {
        is_true(&self.watch)
    }

    /// Parses how to watch objects.
    pub(super) fn watch_options(&self) -> Result<WatchOptions, String> {
        let sends_initial_events = is_true(&self.send_initial_events);
        let start = match self.resource_version.as_deref() {
            _ if sends_initial_events => WatchStart::Rows,
            None | Some("" | "0") if self.send_initial_events.is_some() => WatchStart::Now,
            None | Some("" | "0") => WatchStart::Rows,
            Some(version) => match version.parse() {
                Ok(version) => WatchStart::Version(version),
                Err(_) => {
                    return Err(format!(
                        "resourceVersion {version:?} is no number: take that of a list"
                    ));
                }
            },
        };
        let seconds = self
            .timeout_seconds
            .as_deref()
            .filter(|text| !text.is_empty());
        let seconds = seconds.map(|text| {
            let seconds = text.parse::<u32>();
            seconds.map_err(|_| format!("timeoutSeconds {text:?} is no number of seconds"))
        });
        let seconds = seconds.transpose()?.filter(|seconds| *seconds > 0);
        Ok(WatchOptions {
            start,
            bookmarks: is_true(&self.allow_watch_bookmarks),
            ends_initial_events: sends_initial_events,
            timeout: seconds.map(|seconds| Duration::from_secs(seconds.into())),
        })
    }

    /// Returns the namespace and the name that the field selector names.
    pub(super) fn selected_fields(&self) -> Result<SelectedFields, String> {
        let mut selected = SelectedFields::default();
        let selector = self.field_selector.as_deref().unwrap_or_default();
        for term in selector.split(',').filter(|term| !term.is_empty()) {
            let pair = term.split_once("==").or_else(|| term.split_once('='));
            let field = match pair {
                Some(("metadata.name", _)) => &mut selected.name,
                Some(("metadata.namespace", _)) => &mut selected.namespace,
                _ => {
                    return Err(format!(
                        "fieldSelector {term:?} is not served: select by metadata.name=NAME or metadata.namespace=NAME, or select from the whole list"
                    ));
                }
            };
            let value = pair.map(|(_, value)| value.to_owned());
            if field.is_some() && *field != value {
                return Err(format!(
                    "fieldSelector {selector:?} selects two values of one field: no object has both"
                ));
            }
            *field = value;
        }
        Ok(selected)
    }

    /// Returns why the query is not supported. None: it is supported.
    pub(super) fn unsupported_parameter(&self) -> Option<String> {
        let is_given = |value: &Option<String>| value.as_deref().is_some_and(|v| !v.is_empty());
        if is_given(&self.label_selector) {
            return Some("labelSelector is not served: these objects have no labels; list them and select from what comes".to_owned());
        }
        if is_given(&self.r#continue) {
            return Some("continue is not served: a list is always whole, and none has given this; ask without it".to_owned());
        }
        if self.resource_version_match.as_deref() == Some("Exact") {
            return Some(
                "resourceVersionMatch=Exact is not served: old lists are not kept; ask without it"
                    .to_owned(),
            );
        }
        None
    }
}
