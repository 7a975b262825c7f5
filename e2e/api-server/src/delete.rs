//! Deletes: preconditions, grace periods, finalizers and propagation.

use std::sync::Arc;

use hyper::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::admission::{AdmissionRequest, Operation};
use crate::object::{Object, finalizers, is_deleting, items_at, metadata_mut, text_at};
use crate::read::{Keys, list_body, object_answer};
use crate::server::{ApiServer, Call, parse_selector};
use crate::status::{Status, bytes_answer, json_answer};
use crate::store::{key_range, object_key};
use crate::time::{parse_time, render_time};

type Answer = Result<http::Response<Bytes>, Status>;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The `DeleteOptions` of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    pub(crate) fn parse(value: &Value) -> Result<Self, Status> {
        let text = |pointer: &str| {
            value
                .pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let orphans = value["orphanDependents"].as_bool();
        let propagation = text("/propagationPolicy");
        let known = ["Orphan", "Background", "Foreground"];
        if let Some(policy) = propagation
            .as_deref()
            .filter(|policy| !known.contains(policy))
        {
            let message = format!(
                "Unsupported value: \"{policy}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
            );
            let cause =
                crate::status::Cause::new("FieldValueNotSupported", "propagationPolicy", message);
            return Err(Status::invalid_of(
                "meta.k8s.io",
                "DeleteOptions",
                "",
                &[cause],
            ));
        }
        let of_orphans = orphans.map(|orphans| if orphans { "Orphan" } else { "Background" });
        Ok(Self {
            uid: text("/preconditions/uid"),
            version: text("/preconditions/resourceVersion"),
            grace: value["gracePeriodSeconds"].as_i64(),
            propagation: propagation.or(of_orphans.map(str::to_owned)),
            dry_run: value["dryRun"] == json!(["All"]),
        })
    }

    pub(crate) fn parse_request(call: &Call<'_>) -> Result<Self, Status> {
        let mut options = if call.body.is_empty() {
            let query = &call.info.query;
            let mut value = json!({});
            for name in ["propagationPolicy"] {
                if !query.get(name).is_empty() {
                    value[name] = query.get(name).into();
                }
            }
            if let Ok(grace) = query.get("gracePeriodSeconds").parse::<i64>() {
                value["gracePeriodSeconds"] = grace.into();
            }
            Self::parse(&value)?
        } else {
            Self::parse(&call.parse_body()?)?
        };
        options.dry_run |= call.dry_run;
        Ok(options)
    }
}

/// Result of an accepted delete.
pub(crate) struct Deletion {
    /// The object as it is now, or as it was last.
    pub(crate) object: Arc<Object>,
    /// False: the object still has to stop, or to lose its finalizers.
    pub(crate) is_gone: bool,
}

/// The changes that a delete makes before the object disappears.
struct Preparation {
    value: Value,
    /// True if the object gets time to stop.
    is_graceful: bool,
    grace: i64,
}

impl ApiServer {
    pub(crate) fn delete(&mut self, call: &Call<'_>) -> Answer {
        let options = DeleteOptions::parse_request(call)?;
        let current = self.store.get(call.kind_id, call.namespace(), call.name());
        let current = current.cloned().ok_or_else(|| call.not_found())?;
        let deletion = self.delete_object(call, &current, &options)?;
        let shows_object = call.kind.rules.answers_deleted_object || !deletion.is_gone;
        if shows_object {
            return Ok(object_answer(200, &deletion.object, call.view));
        }
        let kind = &call.kind;
        let mut details = json!({"name": call.name()});
        if !kind.group.is_empty() {
            details["group"] = kind.group.as_str().into();
        }
        details["kind"] = kind.plural.as_str().into();
        details["uid"] = deletion.object.uid().into();
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": details,
        });
        Ok(json_answer(200, &status))
    }

    /// Deletes the objects of a collection that the selectors match.
    pub(crate) fn delete_collection(&mut self, call: &Call<'_>) -> Answer {
        let options = DeleteOptions::parse_request(call)?;
        let selector = parse_selector(call)?;
        let objects = self
            .store
            .objects(call.kind_id)
            .range(key_range(call.namespace()));
        let selected = objects.filter(|(_, object)| selector.matches(object));
        let selected: Keys = selected
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        let version = self.store.revision();
        for object in selected.values() {
            self.delete_object(call, object, &options)?;
        }
        let metadata = json!({"resourceVersion": version.to_string()});
        Ok(bytes_answer(
            200,
            list_body(call, &metadata, selected.values()),
        ))
    }

    /// Deletes an object, or begins to.
    pub(crate) fn delete_object(
        &mut self,
        call: &Call<'_>,
        current: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Result<Deletion, Status> {
        let is_namespace = call.kind.is_core("namespaces");
        check_preconditions(call, current, options, is_namespace)?;
        let request = AdmissionRequest::new(call, Operation::Delete, &self.store);
        let request = request
            .with_object(Some(current), None)
            .with_name(current.name());
        self.admission.validate(&request)?;
        if is_namespace && !is_deleting(current) {
            return Ok(self.terminate_namespace(call, current, options));
        }
        let unfinished = items_at(current, &["spec", "finalizers"]);
        if is_namespace && !unfinished.is_empty() {
            return Ok(Deletion {
                object: current.clone(),
                is_gone: false,
            });
        }
        let Some(preparation) = prepare(call, current, options) else {
            // The object already stops, and gets no less time.
            return Ok(Deletion {
                object: current.clone(),
                is_gone: false,
            });
        };
        let Preparation {
            mut value,
            is_graceful,
            grace,
        } = preparation;
        let changes_finalizers = set_propagation(&mut value, options);
        let has_finalizers = !finalizers(&value).is_empty();
        let mut last = current.clone();
        if is_graceful || has_finalizers || changes_finalizers {
            if !is_graceful && has_finalizers {
                mark_deleting(&mut value, call.now);
            }
            // Without grace and finalizers, nothing is stored before the object disappears.
            if is_graceful || has_finalizers {
                last = self.store_deletion(call, current, value, options);
            }
            if has_finalizers || is_graceful && grace > 0 {
                return Ok(Deletion {
                    object: last,
                    is_gone: false,
                });
            }
        }
        if !options.dry_run {
            let key = object_key(current.namespace(), current.name());
            self.store
                .commit(call.kind_id, key, None, call.user_name(), call.now);
            let gone = last.with_revision(self.store.revision());
            last = Arc::new(gone);
        }
        Ok(Deletion {
            object: last,
            is_gone: true,
        })
    }

    /// Stores the mark of a deletion.
    fn store_deletion(
        &mut self,
        call: &Call<'_>,
        current: &Arc<Object>,
        value: Value,
        options: &DeleteOptions,
    ) -> Arc<Object> {
        if options.dry_run || !crate::managed_fields::differ(current, &value) {
            return Arc::new(Object::new(call.kind.clone(), value, current.revision()));
        }
        let key = object_key(current.namespace(), current.name());
        let stored = self
            .store
            .commit(call.kind_id, key, Some(value), call.user_name(), call.now);
        stored.expect("a value was stored")
    }

    /// A namespace only begins to end. A controller empties it and removes `spec.finalizers`.
    fn terminate_namespace(
        &mut self,
        call: &Call<'_>,
        current: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Deletion {
        let mut value = current.value().clone();
        let now = render_time(call.now);
        metadata_mut(&mut value).insert("deletionTimestamp".to_owned(), now.into());
        value["status"]["phase"] = "Terminating".into();
        set_propagation(&mut value, options);
        Deletion {
            object: self.store_deletion(call, current, value, options),
            is_gone: false,
        }
    }
}

fn check_preconditions(
    call: &Call<'_>,
    current: &Object,
    options: &DeleteOptions,
    is_namespace: bool,
) -> Result<(), Status> {
    let (kind, name) = (&call.kind, current.name());
    let conflict = |why: String| {
        // The message names the kind here, not the resource.
        let resource = if is_namespace {
            &kind.plural
        } else {
            &kind.kind
        };
        Status::conflict_on(&kind.group, resource, name, &why)
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current.uid()) {
        let found = current.uid();
        return Err(conflict(if is_namespace {
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}")
        } else {
            format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
            )
        }));
    }
    let found = current.revision().to_string();
    if let Some(version) = options
        .version
        .as_deref()
        .filter(|version| *version != found)
    {
        return Err(conflict(if is_namespace {
            format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {found}"
            )
        } else {
            format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({found}). The object might have been modified"
            )
        }));
    }
    Ok(())
}

/// Returns the object with the grace that it gets (`BeforeDelete`). None: nothing changes, because
/// it already stops in less time.
fn prepare(call: &Call<'_>, current: &Object, options: &DeleteOptions) -> Option<Preparation> {
    let mut value = current.value().clone();
    let asked = options.grace.map(|grace| if grace < 0 { 1 } else { grace });
    let at_once = |value| {
        Some(Preparation {
            value,
            is_graceful: false,
            grace: 0,
        })
    };
    // Only pods have a grace.
    if !call.kind.is_core("pods") {
        return at_once(value);
    }
    if is_deleting(current) {
        let remaining = current["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or(0);
        if remaining == 0 {
            return at_once(value);
        }
        let mut grace = asked?;
        if grace >= remaining {
            return None;
        }
        let end = parse_time(text_at(current, &["metadata", "deletionTimestamp"]))?;
        let mut end = end + SignedDuration::from_secs(grace - remaining);
        if end < call.now {
            end = call.now;
            grace = grace.min(1);
        }
        set_deletion(&mut value, end, grace);
        return Some(Preparation {
            value,
            is_graceful: true,
            grace,
        });
    }
    let own = current["spec"]["terminationGracePeriodSeconds"].as_i64();
    let phase = text_at(current, &["status", "phase"]);
    let is_unscheduled = text_at(current, &["spec", "nodeName"]).is_empty();
    // Nothing runs that needs time to stop.
    let grace = if is_unscheduled || matches!(phase, "Failed" | "Succeeded") {
        0
    } else {
        asked.or(own).unwrap_or(0).max(0)
    };
    set_deletion(
        &mut value,
        call.now + SignedDuration::from_secs(grace),
        grace,
    );
    raise_generation(&mut value);
    Some(Preparation {
        value,
        is_graceful: true,
        grace,
    })
}

fn set_deletion(value: &mut Value, end: Timestamp, grace: i64) {
    let metadata = metadata_mut(value);
    metadata.insert("deletionTimestamp".to_owned(), render_time(end).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
}

/// Marks an object that waits for its finalizers (`markAsDeleting`).
fn mark_deleting(value: &mut Value, now: Timestamp) {
    if !is_deleting(value) {
        raise_generation(value);
    }
    let end = parse_time(text_at(value, &["metadata", "deletionTimestamp"]));
    let end = end.filter(|end| *end <= now).unwrap_or(now);
    set_deletion(value, end, 0);
}

fn raise_generation(value: &mut Value) {
    let metadata = metadata_mut(value);
    let generation = metadata.get("generation").and_then(Value::as_i64);
    if let Some(generation) = generation.filter(|generation| *generation > 0) {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
}

/// Sets the finalizers for the garbage collector. Returns true if they change.
fn set_propagation(value: &mut Value, options: &DeleteOptions) -> bool {
    let before = finalizers(value).to_vec();
    let has = |name: &str| before.iter().any(|finalizer| finalizer == name);
    let (orphans, is_foreground) = match options.propagation.as_deref() {
        Some("Orphan") => (true, false),
        Some("Foreground") => (false, true),
        Some(_) => (false, false),
        None => (has(ORPHAN), has(FOREGROUND)),
    };
    let mut after: Vec<Value> = before
        .iter()
        .filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND)
        .cloned()
        .collect();
    if orphans {
        after.push(ORPHAN.into());
    }
    if is_foreground {
        after.push(FOREGROUND.into());
    }
    let is_same = after.len() == before.len() && after.iter().all(|f| before.contains(f));
    if is_same {
        return false;
    }
    if after.is_empty() {
        crate::object::take_field(metadata_mut(value), "finalizers");
    } else {
        metadata_mut(value).insert("finalizers".to_owned(), after.into());
    }
    true
}
