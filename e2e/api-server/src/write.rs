//! Writes of whole objects and of their status: create, replace and patch.

use hyper::body::Bytes;
use serde_json::Value;

use crate::admission::{AdmissionRequest, Operation};
use crate::managed_fields;
use crate::names::generate_suffix;
use crate::object::{
    Object, at, finalizers, is_deleting, items_at, metadata_mut, take_field, text_at,
};
use crate::read::object_answer;
use crate::server::{ApiServer, Call};
use crate::status::{Cause, Status};
use crate::store::object_key;
use crate::strategy::{self, StatusWrite};
use crate::time::render_time;
use crate::{defaults, patch, validation};

type Answer = Result<http::Response<Bytes>, Status>;

impl ApiServer {
    pub(crate) fn create(&mut self, call: &Call<'_>) -> Answer {
        let mut object = decode_object(call, call.parse_body()?)?;
        let metadata = metadata_mut(&mut object);
        for field in SYSTEM_FIELDS {
            take_field(metadata, field);
        }
        ensure_namespace(call, &mut object)?;
        if !text_at(&object, &["metadata", "resourceVersion"]).is_empty() {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(500, "", why));
        }
        let stored = self.create_decoded(call, object)?;
        Ok(object_answer(201, &stored, call.view))
    }

    /// Creates an object: admission, system fields, validation, quota, then the store.
    fn create_decoded(&mut self, call: &Call<'_>, mut object: Value) -> Result<Object, Status> {
        managed_fields::carry_over(None, &mut object);
        let request = AdmissionRequest::new(call, Operation::Create, &self.store);
        self.admission.mutate(&request, &mut object)?;
        let generated = text_at(&object, &["metadata", "generateName"]).to_owned();
        let is_generated =
            text_at(&object, &["metadata", "name"]).is_empty() && !generated.is_empty();
        if is_generated {
            let name = self.generate_name(call, &generated);
            metadata_mut(&mut object).insert("name".to_owned(), name.into());
        }
        let uid = format!("00000000-0000-4000-8000-{:012x}", self.store.next_number());
        let metadata = metadata_mut(&mut object);
        metadata.insert("uid".to_owned(), uid.into());
        let created = render_time(call.now);
        metadata.insert("creationTimestamp".to_owned(), created.into());
        strategy::prepare_for_create(call, &mut object, &mut self.store);
        let causes = validation::validate_create(&call.kind, &object);
        let name = text_at(&object, &["metadata", "name"]).to_owned();
        if !causes.is_empty() {
            return Err(invalid(call, &name, &causes));
        }
        let request = AdmissionRequest::new(call, Operation::Create, &self.store)
            .with_object(None, Some(&object))
            .with_name(&name);
        self.admission.validate(&request)?;
        // A real server charges the quota before it finds that the name is taken, too.
        self.charge_quota(call, &object)?;
        if let Some(existing) = self.store.get(call.kind_id, call.namespace(), &name) {
            let mut status = Status::already_exists(&call.kind, &name);
            if existing.is_deleting() {
                status.message = format!("object is being deleted: {}", status.message);
            }
            return Err(status);
        }
        let (kind, subresource) = (&call.kind, call.subresource());
        managed_fields::record_write(
            None,
            &mut object,
            kind,
            &call.manager,
            subresource,
            call.now,
        );
        if call.dry_run {
            return Ok(Object::new(call.kind.clone(), object, 0));
        }
        let key = object_key(call.namespace(), &name);
        let (user, now) = (call.user_name(), call.now);
        let stored = self
            .store
            .commit(call.kind_id, key, Some(object), user, now);
        let stored = stored.expect("a value was stored");
        Ok(stored.with_revision(stored.revision()))
    }

    fn generate_name(&mut self, call: &Call<'_>, prefix: &str) -> String {
        loop {
            let name = format!("{prefix}{}", generate_suffix(self.store.next_number()));
            if self
                .store
                .get(call.kind_id, call.namespace(), &name)
                .is_none()
            {
                return name;
            }
        }
    }

    /// Replaces an object by a PUT.
    pub(crate) fn replace(&mut self, call: &Call<'_>) -> Answer {
        let mut object = decode_object(call, call.parse_body()?)?;
        ensure_namespace(call, &mut object)?;
        check_name(call, &object)?;
        let current = self.store.get(call.kind_id, call.namespace(), call.name());
        let uid = text_at(&object, &["metadata", "uid"]).to_owned();
        let creates = call.kind.rules.creates_on_update && call.subresource().is_empty();
        let Some(current) = current.cloned() else {
            if !creates {
                return Err(call.not_found());
            }
            if !uid.is_empty() {
                return Err(uid_conflict(call, &uid, ""));
            }
            let metadata = metadata_mut(&mut object);
            for field in SYSTEM_FIELDS.iter().chain(&["resourceVersion"]) {
                take_field(metadata, field);
            }
            let stored = self.create_decoded(call, object)?;
            return Ok(object_answer(201, &stored, call.view));
        };
        if !uid.is_empty() && uid != current.uid() {
            return Err(uid_conflict(call, &uid, current.uid()));
        }
        self.update(call, &current, object)
    }

    /// Changes an object by a patch.
    pub(crate) fn patch(&mut self, call: &Call<'_>) -> Answer {
        let kind = patch::PatchKind::parse(call)?;
        let body: Value = serde_json::from_slice(call.body)
            .map_err(|_| Status::bad_request("invalid JSON patch"))?;
        let current = self.store.get(call.kind_id, call.namespace(), call.name());
        let current = current.cloned().ok_or_else(|| call.not_found())?;
        let patched = kind.apply(current.value(), &body)?;
        let mut object = decode_patched(call, patched)?;
        ensure_namespace(call, &mut object)?;
        check_name(call, &object)?;
        self.update(call, &current, object)
    }

    /// Stores a new version: admission, preconditions, the rules of the kind, validation.
    fn update(&mut self, call: &Call<'_>, current: &Object, mut object: Value) -> Answer {
        managed_fields::carry_over(Some(current), &mut object);
        let request = AdmissionRequest::new(call, Operation::Update, &self.store);
        let request = request.with_object(Some(current), None);
        self.admission.mutate(&request, &mut object)?;
        self.check_version(call, current, &object)?;
        let subresource = match call.subresource() {
            "status" => StatusWrite::Status,
            "finalize" => StatusWrite::Finalize,
            _ => StatusWrite::Main,
        };
        strategy::prepare_for_update(&call.kind, &mut object, current, subresource);
        let causes = validation::validate_update(&call.kind, &object, current, subresource);
        if !causes.is_empty() {
            return Err(invalid(call, call.name(), &causes));
        }
        let request = AdmissionRequest::new(call, Operation::Update, &self.store);
        let request = request.with_object(Some(current), Some(&object));
        self.admission.validate(&request)?;
        if is_last_finalizer_removed(call, &object, current) {
            if !call.dry_run {
                let key = object_key(call.namespace(), call.name());
                let (user, now) = (call.user_name(), call.now);
                self.store.commit(call.kind_id, key, None, user, now);
            }
            let answer = Object::new(call.kind.clone(), object, current.revision());
            return Ok(object_answer(200, &answer, call.view));
        }
        let stored = self.store_update(call, current, object);
        Ok(object_answer(200, &stored, call.view))
    }

    /// Stores a new version if it differs.
    pub(crate) fn store_update(
        &mut self,
        call: &Call<'_>,
        current: &Object,
        mut object: Value,
    ) -> std::sync::Arc<Object> {
        let now = call.now;
        let revision = current.revision();
        if managed_fields::differ(current, &object) {
            let subresource = match call.subresource() {
                "status" => "status",
                _ => "",
            };
            let old = Some(current.value());
            let (kind, manager) = (&call.kind, &call.manager);
            managed_fields::record_write(old, &mut object, kind, manager, subresource, now);
            if !call.dry_run {
                let key = object_key(current.namespace(), current.name());
                let user = call.user_name();
                let stored = self
                    .store
                    .commit(call.kind_id, key, Some(object), user, now);
                return stored.expect("a value was stored");
            }
        }
        // Nothing is stored: the answer has the revision of before.
        std::sync::Arc::new(Object::new(call.kind.clone(), object, revision))
    }

    fn check_version(
        &self,
        call: &Call<'_>,
        current: &Object,
        object: &Value,
    ) -> Result<(), Status> {
        let version = at(object, &["metadata", "resourceVersion"]);
        let version = version.and_then(Value::as_str).unwrap_or_default();
        if version.is_empty() || version == "0" {
            if call.kind.rules.updates_unconditionally {
                return Ok(());
            }
            let why = "must be specified for an update";
            let cause = Cause::invalid("metadata.resourceVersion", &Value::from(0), why);
            let (group, plural) = (&call.kind.group, &call.kind.plural);
            return Err(Status::invalid_of(group, plural, call.name(), &[cause]));
        }
        if version.parse() == Ok(current.revision()) {
            return Ok(());
        }
        Err(Status::modified(&call.kind, call.name()))
    }
}

/// Fields of the metadata that only the server sets.
const SYSTEM_FIELDS: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

fn invalid(call: &Call<'_>, name: &str, causes: &[Cause]) -> Status {
    // Events have the internal type of the core group.
    let group = match call.kind.group.as_str() {
        "events.k8s.io" => "",
        group => group,
    };
    Status::invalid_of(group, &call.kind.kind, name, causes)
}

/// The storage of a real server refuses another uid with these words.
pub(crate) fn uid_conflict(call: &Call<'_>, wanted: &str, found: &str) -> Status {
    let key = format!(
        "/registry/{}/{}/{}",
        call.kind.plural,
        call.namespace(),
        call.name()
    );
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object \
         meta: {found}"
    );
    Status::conflict(&call.kind, call.name(), &why)
}

/// Decodes the body of a create or replace, with the defaults of its kind.
pub(crate) fn decode_object(call: &Call<'_>, mut value: Value) -> Result<Value, Status> {
    let kind = &call.kind;
    let (api_version, name) = (text_at(&value, &["apiVersion"]), text_at(&value, &["kind"]));
    let expected = kind.api_version();
    if !name.is_empty() && name != kind.kind {
        let why = format!(
            "{name} in version \"{}\" cannot be handled as a {}: converting ({api_version}, Kind={name}) is not supported",
            kind.version, kind.kind
        );
        return Err(Status::bad_request(why));
    }
    if !api_version.is_empty() && api_version != expected {
        let why = format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        );
        return Err(Status::bad_request(why));
    }
    if !value.is_object() {
        let why = format!(
            "the object provided is unrecognized (must be of type {})",
            kind.kind
        );
        return Err(Status::bad_request(why));
    }
    // The type of a custom object does not follow from its path.
    if kind.is_custom() && (name.is_empty() || api_version.is_empty()) {
        let field = if name.is_empty() {
            "Kind"
        } else {
            "apiVersion"
        };
        let why = format!(
            "the object provided is unrecognized (must be of type {}): Object '{field}' is missing in '{value}'",
            kind.kind
        );
        return Err(Status::bad_request(why));
    }
    value["apiVersion"] = expected.into();
    value["kind"] = kind.kind.as_str().into();
    decode_value(call, value).map_err(|why| {
        let (kind, version) = (&kind.kind, &kind.version);
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        ))
    })
}

fn decode_patched(call: &Call<'_>, mut value: Value) -> Result<Value, Status> {
    value["apiVersion"] = call.kind.api_version().into();
    value["kind"] = call.kind.kind.as_str().into();
    let shown = Value::from(value.to_string());
    decode_value(call, value).map_err(|why| {
        let cause = Cause::invalid("patch", &shown, &why);
        Status::invalid_of("", "", "", &[cause])
    })
}

fn decode_value(call: &Call<'_>, mut value: Value) -> Result<Value, String> {
    if let Some(decode) = call.kind.rules.decode {
        value = decode(value)?;
        defaults::apply(&call.kind, &mut value);
        return Ok(value);
    }
    decode_custom_metadata(&mut value)?;
    if let Some(schema) = &call.kind.schema {
        schema.prune(&mut value);
        schema.apply_defaults(&mut value);
    }
    Ok(value)
}

/// Decodes the metadata of a custom object as that of a built-in kind.
fn decode_custom_metadata(value: &mut Value) -> Result<(), String> {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    let metadata = value.get_mut("metadata").map(Value::take);
    let metadata = metadata.filter(|metadata| !metadata.is_null());
    let metadata = metadata.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let decoded: ObjectMeta =
        serde_json::from_value(metadata).map_err(|error| error.to_string())?;
    let mut metadata = serde_json::to_value(decoded).map_err(|error| error.to_string())?;
    crate::decode::drop_empty_fields(&mut metadata);
    value["metadata"] = metadata;
    Ok(())
}

/// Sets the namespace of the request, or refuses another.
fn ensure_namespace(call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
    let expected = call.namespace().to_owned();
    let metadata = metadata_mut(object);
    let found = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    if !found.is_empty() {
        let why =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(why));
    }
    metadata.insert("namespace".to_owned(), expected.into());
    Ok(())
}

fn check_name(call: &Call<'_>, object: &Value) -> Result<(), Status> {
    let (name, expected) = (text_at(object, &["metadata", "name"]), call.name());
    if name == expected {
        return Ok(());
    }
    if name.is_empty() {
        let why = format!(
            "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        );
        return Err(Status::bad_request(why));
    }
    let why =
        format!("the name of the object ({name}) does not match the name on the URL ({expected})");
    Err(Status::bad_request(why))
}

/// Returns true if the write ends an object whose deletion only waited for its finalizers.
fn is_last_finalizer_removed(call: &Call<'_>, object: &Value, current: &Object) -> bool {
    let grace = at(current, &["metadata", "deletionGracePeriodSeconds"]);
    let grace = grace.and_then(Value::as_i64).unwrap_or(0);
    let is_namespace = call.kind.is_core("namespaces");
    finalizers(object).is_empty()
        && is_deleting(current)
        && grace == 0
        && (!is_namespace || items_at(object, &["spec", "finalizers"]).is_empty())
}
