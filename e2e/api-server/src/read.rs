//! Reads: get and list.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Map, Value};

use crate::object::Object;
use crate::request::View;
use crate::server::{ApiServer, Call, parse_selector};
use crate::status::{Status, bytes_answer};
use crate::store::key_range;
use crate::watch::partial_metadata;

type Answer = Result<http::Response<Bytes>, Status>;

impl ApiServer {
    pub(crate) fn get_object(&self, call: &Call<'_>) -> Answer {
        let object = self.store.get(call.kind_id, call.namespace(), call.name());
        let object = object.ok_or_else(|| call.not_found())?;
        Ok(object_answer(200, object, call.view))
    }

    /// Lists at the current revision, or continues the list of an earlier one.
    pub(crate) fn list_objects(&self, call: &Call<'_>) -> Answer {
        let selector = parse_selector(call)?;
        let query = &call.info.query;
        let limit = query
            .number("limit")
            .and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.filter(|limit| *limit > 0);
        let token = match query.get("continue") {
            "" => None,
            text => Some(ContinueToken::parse(text)?),
        };
        let version = self.list_version(call, token.as_ref())?;
        let snapshot;
        let objects = if self.store.has_changed_since(call.kind_id, version) {
            snapshot = self.store.snapshot(call.kind_id, version);
            &snapshot
        } else {
            self.store.objects(call.kind_id)
        };
        let (start, end) = key_range(call.namespace());
        let start = token.map_or(start, |token| Bound::Excluded(token.after_key));
        let mut selected = objects
            .range((start, end))
            .filter(|(_, object)| selector.matches(object));
        let page: Vec<(&String, &Arc<Object>)> = match limit {
            Some(limit) => selected.by_ref().take(limit).collect(),
            None => selected.by_ref().collect(),
        };
        let remaining = selected.count();
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), version.to_string().into());
        if let (Some((last, _)), true) = (page.last(), remaining > 0) {
            let token = ContinueToken {
                revision: version,
                after_key: (*last).clone(),
            };
            metadata.insert("continue".to_owned(), token.render().into());
            // As in a real server, the number is only known without selectors.
            if selector.is_everything() {
                metadata.insert("remainingItemCount".to_owned(), remaining.into());
            }
        }
        // Lists of custom objects always have this field.
        if call.kind.is_custom() && call.view == View::Whole {
            metadata.entry("continue").or_insert("".into());
        }
        let page = page.into_iter().map(|(_, object)| object);
        let body = list_body(call, &Value::Object(metadata), page);
        Ok(bytes_answer(200, body))
    }

    /// Returns the revision that a list shows.
    fn list_version(&self, call: &Call<'_>, token: Option<&ContinueToken>) -> Result<u64, Status> {
        let current = self.store.revision();
        if let Some(token) = token {
            // A token after a compaction, or of a time that a restore undid.
            if token.revision < self.store.compacted() || token.revision > current {
                let mut status = Status::expired(
                    "The provided continue parameter is too old to display a consistent list \
                     result. You can start a new list without the continue parameter, or use the \
                     continue token in this response to retrieve the remainder of the results. \
                     Continuing with the provided token results in an inconsistent list - objects \
                     that were created, modified, or deleted between the time the first chunk was \
                     returned and now may show up in the list.",
                );
                let token = ContinueToken {
                    revision: current,
                    after_key: token.after_key.clone(),
                };
                status.continue_token = Some(token.render());
                return Err(status);
            }
            return Ok(token.revision);
        }
        let query = &call.info.query;
        let text = query.get("resourceVersion");
        let rule = query.get("resourceVersionMatch");
        let version: u64 = match text {
            "" | "0" => return Ok(current),
            text => text.parse().map_err(|_| {
                let why = format!("invalid resource version: resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax");
                Status::bad_request(why)
            })?,
        };
        if version > current {
            let message =
                format!("Timeout: Too large resource version: {version}, current: {current}");
            let status = Status::new(504, "Timeout", message);
            let cause = "Too large resource version";
            return Err(status.with_cause("ResourceVersionTooLarge", cause, ""));
        }
        if rule == "Exact" {
            if version < self.store.compacted() {
                return Err(Status::expired(format!(
                    "The resourceVersion for the provided list is too old: {version}"
                )));
            }
            return Ok(version);
        }
        Ok(current)
    }
}

/// The place from which a list goes on: a revision, and the last key of the page before.
struct ContinueToken {
    revision: u64,
    after_key: String,
}

impl ContinueToken {
    fn render(&self) -> String {
        format!("{}:{}", self.revision, self.after_key)
            .bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    fn parse(text: &str) -> Result<Self, Status> {
        let bytes = text.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        let plain = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let parts = plain.as_deref().and_then(|plain| plain.split_once(':'));
        let token = parts.and_then(|(revision, key)| {
            Some(Self {
                revision: revision.parse().ok()?,
                after_key: key.to_owned(),
            })
        });
        token.ok_or_else(|| Status::bad_request("continue key is not valid: invalid encoding"))
    }
}

pub(crate) fn object_answer(code: u16, object: &Object, view: View) -> http::Response<Bytes> {
    let body = match view {
        View::Whole => object.bytes().clone(),
        View::Metadata => Bytes::from(partial_metadata(object).to_string()),
    };
    bytes_answer(code, body)
}

/// Writes a list. The items of a built-in kind have no `apiVersion` and `kind`, as in Go.
pub(crate) fn list_body<'o>(
    call: &Call<'_>,
    metadata: &Value,
    objects: impl Iterator<Item = &'o Arc<Object>>,
) -> Bytes {
    let kind = &call.kind;
    let (list_kind, api_version) = match call.view {
        View::Whole => (format!("{}List", kind.kind), kind.api_version()),
        View::Metadata => (
            "PartialObjectMetadataList".to_owned(),
            "meta.k8s.io/v1".to_owned(),
        ),
    };
    let mut body = format!(
        "{{\"kind\":\"{list_kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
    )
    .into_bytes();
    for (index, object) in objects.enumerate() {
        if index > 0 {
            body.push(b',');
        }
        match call.view {
            View::Metadata => body.extend(partial_metadata(object).to_string().into_bytes()),
            View::Whole if kind.is_custom() => body.extend_from_slice(object.bytes()),
            View::Whole => {
                body.push(b'{');
                // Drops the comma after the type.
                body.extend_from_slice(&object.bytes_without_type()[1..]);
            }
        }
    }
    body.extend_from_slice(b"]}");
    Bytes::from(body)
}

/// Objects of a collection that a delete shall remove, by their keys.
pub(crate) type Keys = BTreeMap<String, Arc<Object>>;
