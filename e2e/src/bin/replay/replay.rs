//! The simulated API server follows a real one: it takes over every write that other clients made,
//! and answers those of the operator.

use std::collections::{BTreeMap, BTreeSet};

use http::Request;
use hyper::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use trellis_api_server::{ApiServer, Kind, KindRef, Response, User};
use trellis_e2e::answers::{FieldDifference, Normalizer, list_differences};
use trellis_e2e::operator::OPERATOR_USER;
use trellis_verify::{AuditEvent, AuditedObject, is_removal};

/// Time around a write of one object in which the log does not show the order of its writes.
const CONCURRENCY: SignedDuration = SignedDuration::from_millis(500);

/// The results of all logs.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Writes whose answers were compared.
    pub(crate) compared: u64,
    /// Writes whose object another write changed at about the same time.
    pub(crate) concurrent: u64,
    /// Writes that the real server refused for a reason that the simulated server does not know.
    pub(crate) refused: u64,
    /// Writes that the real server accepted because a test had changed a CRD.
    pub(crate) other_crds: u64,
    pub(crate) differences: Vec<Difference>,
}

/// An answer that differs.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Verb and kind.
    pub(crate) request: String,
    /// Code of the simulated server.
    code: u16,
    /// The real server accepted the request, and the simulated one refuses it for what it has stored.
    is_about_stored_object: bool,
    /// The fields.
    pub(crate) lines: String,
}

/// Kind, namespace and name.
type ObjectKey = (String, String, String);

fn object_key(event: &AuditEvent) -> Option<ObjectKey> {
    let target = event.object_ref.as_ref()?;
    let answer = event.response_object.as_ref()?;
    let name = text_at(answer, "/metadata/name").unwrap_or(&target.name);
    Some((
        target.resource.clone(),
        target.namespace.clone(),
        name.to_owned(),
    ))
}

/// The simulated server, and what it has followed of the log.
pub(crate) struct Replay {
    server: ApiServer,
    /// When the writes of each object were answered.
    times: BTreeMap<ObjectKey, Vec<Timestamp>>,
    /// Revision of the last write of each object.
    revisions: BTreeMap<ObjectKey, u64>,
    /// Namespaces of which a request has deleted many objects at once. The log does not show which
    /// of them are gone.
    unclear_namespaces: BTreeSet<String>,
}

impl Replay {
    /// Creates a server with these kinds for a log.
    pub(crate) fn new(kinds: &[Kind], log: &[AuditEvent]) -> Self {
        let mut times: BTreeMap<ObjectKey, Vec<Timestamp>> = BTreeMap::new();
        for event in log.iter().filter(|event| event.has_succeeded()) {
            if let Some(key) = object_key(event) {
                times.entry(key).or_default().push(event.stage_timestamp);
            }
        }
        Self {
            server: ApiServer::new(kinds.iter().cloned()),
            times,
            revisions: BTreeMap::new(),
            unclear_namespaces: BTreeSet::new(),
        }
    }

    /// Takes in the next event of the log.
    pub(crate) fn take_in(&mut self, event: AuditEvent, totals: &mut Totals) {
        let (Some(target), Some(status), Some(answer)) = (
            &event.object_ref,
            &event.response_status,
            &event.response_object,
        ) else {
            return;
        };
        if event.verb == "deletecollection" {
            self.unclear_namespaces.insert(target.namespace.clone());
        }
        if self.unclear_namespaces.contains(&target.namespace) {
            return;
        }
        let Some(key) = object_key(&event) else {
            return;
        };
        let now = event.stage_timestamp;
        let revision = text_at(answer, "/metadata/resourceVersion");
        let revision: Option<u64> = revision.and_then(|revision| revision.parse().ok());
        let last_revision = self.revisions.get(&key).copied().unwrap_or_default();
        let is_overtaken = revision.is_some_and(|revision| revision < last_revision);
        let is_concurrent = is_overtaken || self.has_other_write(&key, now);
        if event.user.username == OPERATOR_USER {
            match status.code {
                401 | 403 | 422 | 500.. => totals.refused += 1,
                // The log lacks the write that this one met, if the version still fits.
                409 if version_precondition(&event).is_some() => totals.concurrent += 1,
                _ if !self.fits(&event) => totals.concurrent += 1,
                code => {
                    let difference = self.compare(&event, target, code, answer);
                    match difference {
                        // The log may have this write after one that happened later.
                        Some(_) if is_concurrent => totals.concurrent += 1,
                        // Quotas are charged by writes that the log does not have.
                        Some(Difference { code: 403, .. }) => totals.refused += 1,
                        // A test has deleted the CRD, or has replaced it by one with fewer rules.
                        Some(Difference {
                            is_about_stored_object: true,
                            ..
                        }) => totals.other_crds += 1,
                        difference => {
                            totals.compared += 1;
                            totals.differences.extend(difference);
                        }
                    }
                }
            }
        }
        if event.has_succeeded() && !event.is_dry_run() && !is_overtaken {
            self.follow(&event.verb, target, answer, now);
            self.revisions
                .insert(key, revision.unwrap_or(last_revision));
        }
    }

    /// Returns true if another write of the object was answered at about this time.
    fn has_other_write(&self, key: &ObjectKey, now: Timestamp) -> bool {
        let times = self.times.get(key).into_iter().flatten();
        times
            .filter(|time| **time != now)
            .any(|time| time.duration_since(now).abs() < CONCURRENCY)
    }

    /// Returns the kind of an object, if the simulated server knows it.
    fn kind(&self, target: &AuditedObject) -> Option<KindRef> {
        let mut kinds = self.server.kinds().iter();
        let kind =
            kinds.find(|kind| kind.group == target.api_group && kind.plural == target.resource)?;
        Some(KindRef::from(kind.as_ref()))
    }

    /// Returns true if the object is here in the version that the request names, if it names one.
    fn fits(&self, event: &AuditEvent) -> bool {
        let Some(target) = &event.object_ref else {
            return true;
        };
        let stored = self
            .kind(target)
            .and_then(|kind| self.server.get(&kind, &target.namespace, &target.name));
        if target.subresource == "binding" {
            // A kubelet may have started the pod before the binding was answered.
            return stored.is_some_and(|pod| pod["spec"]["nodeName"].is_null());
        }
        let wanted = version_precondition(event);
        let stored = stored.and_then(|object| text_at(object, "/metadata/resourceVersion"));
        wanted.is_none_or(|wanted| Some(wanted) == stored)
    }

    /// Sends a request of the operator. Returns how the answer differs.
    fn compare(
        &mut self,
        event: &AuditEvent,
        target: &AuditedObject,
        code: u16,
        answer: &Value,
    ) -> Option<Difference> {
        let user = User {
            name: event.user.username.clone(),
            groups: event.user.groups.clone(),
            ..User::default()
        };
        let request = request(event, target, answer);
        let Response::Answer(found) = self.server.handle(&user, &request, event.stage_timestamp)
        else {
            panic!("a write is no watch");
        };
        let found_body: Value = serde_json::from_slice(found.body()).unwrap_or_default();
        let normalize = |code: u16, body: &Value| {
            let mut normalizer = Normalizer::new(&target.namespace);
            if let Some(body) = &event.request_object {
                normalizer.notice_request(body);
            }
            let mut body = body.clone();
            remove_test_annotations(&mut body);
            json!({"code": code, "body": normalizer.normalize(body)})
        };
        let differences = list_differences(
            &normalize(code, answer),
            &normalize(found.status().as_u16(), &found_body),
        );
        let code = found.status().as_u16();
        let is_mutation = |field| event.verb == "create" && is_mutation(field, event);
        if differences.iter().all(is_mutation) {
            return None;
        }
        let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
        Some(Difference {
            is_about_stored_object: event.has_succeeded()
                && is_about_stored_object(event, &found_body),
            request: format!("{} {} {}", event.verb, target.resource, target.subresource),
            code,
            lines: format!("{}\n{}", event.request_uri, lines.join("\n")),
        })
    }

    /// Takes over the result of a write of the real server.
    fn follow(&mut self, verb: &str, target: &AuditedObject, answer: &Value, now: Timestamp) {
        let Some(kind) = self.kind(target) else {
            return;
        };
        let uid = text_at(answer, "/metadata/uid").or_else(|| text_at(answer, "/details/uid"));
        let stored = self.server.get(&kind, &target.namespace, &target.name);
        // An object of the same name may have come since.
        let is_same = stored.is_some_and(|stored| uid.is_none_or(|uid| uid == stored.uid()));
        match text_at(answer, "/kind") {
            // The deletion of an object that is gone at once.
            Some("Status") if verb == "delete" && is_same => {
                self.server
                    .unload(&kind, &target.namespace, &target.name, now);
            }
            // A binding or an eviction.
            Some("Status") => {}
            _ if is_removal(verb, answer) => {
                if is_same {
                    self.server
                        .unload(&kind, &target.namespace, &target.name, now);
                }
            }
            // The garbage collector asks for the metadata alone.
            Some("PartialObjectMetadata") => {
                if let Some(stored) = stored {
                    let mut object = stored.value().clone();
                    object["metadata"] = answer["metadata"].clone();
                    self.server.load(object, now);
                }
            }
            _ => {
                self.server.load(answer.clone(), now);
            }
        }
    }
}

/// Returns true if a field differs because an admission policy of a test has changed the object: the
/// simulated server has stored what the request says.
fn is_mutation(field: &FieldDifference, event: &AuditEvent) -> bool {
    let path = field.path.strip_prefix("/body").unwrap_or_default();
    let requested = event.request_object.as_ref();
    let requested = requested.and_then(|object| object.pointer(path));
    path.starts_with("/spec") && *requested.unwrap_or(&Value::Null) == field.simulated
}

/// Returns true if the simulated server refuses a request for what it has stored: an object with the
/// name of a new one, or fields that the request does not write.
fn is_about_stored_object(event: &AuditEvent, refusal: &Value) -> bool {
    let is_status = event
        .object_ref
        .as_ref()
        .is_some_and(|target| target.subresource == "status");
    match text_at(refusal, "/reason") {
        Some("AlreadyExists") => event.verb == "create",
        Some("Invalid") if is_status => {
            let causes = refusal.pointer("/details/causes").and_then(Value::as_array);
            let mut causes = causes.into_iter().flatten();
            causes.all(|cause| {
                let field = text_at(cause, "/field").unwrap_or_default();
                !field.starts_with("status")
            })
        }
        _ => false,
    }
}

/// Removes the annotations by which a policy of the tests tells the simulated kubelets what to do.
fn remove_test_annotations(object: &mut Value) {
    let annotations = object.pointer_mut("/metadata/annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !name.starts_with("test.trellis.dev/"));
    }
}

/// Builds the request again. The log does not have its headers: the operator sends merge patches,
/// and strategic ones for the conditions of pods. The answer shows whether it asked for the metadata
/// alone.
fn request(event: &AuditEvent, target: &AuditedObject, answer: &Value) -> Request<Bytes> {
    let (method, content_type) = match event.verb.as_str() {
        "create" => ("POST", "application/json"),
        "update" => ("PUT", "application/json"),
        "delete" => ("DELETE", "application/json"),
        _ if target.resource == "pods" && target.subresource == "status" => {
            ("PATCH", "application/strategic-merge-patch+json")
        }
        _ => ("PATCH", "application/merge-patch+json"),
    };
    let accept = match text_at(answer, "/kind") {
        Some("PartialObjectMetadata") => {
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        }
        _ => "application/json",
    };
    let body = event.request_object.as_ref().map(Value::to_string);
    Request::builder()
        .method(method)
        .uri(event.request_uri.as_str())
        .header("content-type", content_type)
        .header("accept", accept)
        .body(Bytes::from(body.unwrap_or_default()))
        .expect("a recorded request is valid")
}

fn text_at<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    value.pointer(path)?.as_str()
}

/// Returns the version of the object that a request names, if it names one.
fn version_precondition(event: &AuditEvent) -> Option<&str> {
    let body = event.request_object.as_ref()?;
    match event.verb.as_str() {
        "create" => None,
        "delete" => text_at(body, "/preconditions/resourceVersion"),
        _ => text_at(body, "/metadata/resourceVersion"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the event of a write at a second, with its answer.
    fn write(second: i64, user: &str, verb: &str, answer: Value) -> AuditEvent {
        let path = "/api/v1/namespaces/ns/configmaps";
        let uri = match verb {
            "create" => path.to_owned(),
            _ => format!("{path}/c"),
        };
        serde_json::from_value(json!({
            "level": "RequestResponse", "stage": "ResponseComplete",
            "verb": verb, "requestURI": uri,
            "user": {"username": user, "groups": ["system:authenticated"]},
            "objectRef": {"resource": "configmaps", "namespace": "ns", "name": "c"},
            "responseStatus": {"code": if verb == "create" { 201 } else { 200 }},
            "requestObject": {"metadata": {"name": "c"}, "data": {"a": "1"}},
            "responseObject": answer,
            "stageTimestamp": Timestamp::from_second(second).unwrap(),
        }))
        .unwrap()
    }

    fn config_map(revision: u64, data: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {
            "name": "c", "namespace": "ns", "uid": "57a3b1c0-0000-4000-8000-000000000000",
            "resourceVersion": revision.to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
        }})
    }

    fn replay(events: Vec<AuditEvent>) -> Totals {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": "ns", "resourceVersion": "1",
        }});
        let kinds = Kind::with_crds(trellis_api::crds::all()).unwrap();
        let mut replay = Replay::new(&kinds, &events);
        assert!(replay.server.load(namespace, Timestamp::UNIX_EPOCH));
        let mut totals = Totals::default();
        for event in events {
            replay.take_in(event, &mut totals);
        }
        totals
    }

    #[test]
    fn answer_with_another_field_differs() {
        let totals = replay(vec![
            write(1, "admin", "create", config_map(7, json!({"b": "2"}))),
            write(
                3,
                OPERATOR_USER,
                "patch",
                config_map(8, json!({"a": "1", "b": "2"})),
            ),
        ]);
        assert_eq!((totals.compared, totals.differences.len()), (1, 0));
        let totals = replay(vec![
            write(1, "admin", "create", config_map(7, json!({"b": "2"}))),
            write(3, OPERATOR_USER, "patch", config_map(8, json!({"a": "1"}))),
        ]);
        assert_eq!(totals.compared, 1);
        assert_eq!(totals.differences[0].request, "patch configmaps ");
        assert!(
            totals.differences[0]
                .lines
                .contains("/body/data/b: real null")
        );
    }

    #[test]
    fn answer_that_met_another_write_is_not_compared() {
        let mut late = write(1, OPERATOR_USER, "patch", config_map(8, json!({"a": "1"})));
        late.stage_timestamp += SignedDuration::from_millis(10);
        let totals = replay(vec![
            write(1, "admin", "create", config_map(7, json!({"b": "2"}))),
            late,
        ]);
        assert_eq!((totals.compared, totals.concurrent), (0, 1));
    }

    /// The log lacks the write that changed the object.
    #[test]
    fn conflict_about_a_version_that_fits_is_not_compared() {
        let changed = config_map(7, json!({"a": "1"}));
        let mut refused = write(3, OPERATOR_USER, "patch", changed.clone());
        refused.request_object = Some(changed);
        refused.response_status.as_mut().unwrap().code = 409;
        let totals = replay(vec![
            write(1, "admin", "create", config_map(7, json!({"b": "2"}))),
            refused,
        ]);
        assert_eq!((totals.compared, totals.concurrent), (0, 1));
    }

    /// A test has deleted the CRD of the object, which the log does not show.
    #[test]
    fn object_whose_deletion_is_missing_in_the_log_is_not_compared() {
        let create = |second, revision| {
            let answer = config_map(revision, json!({"a": "1"}));
            write(second, OPERATOR_USER, "create", answer)
        };
        let totals = replay(vec![create(1, 7), create(3, 9)]);
        assert_eq!((totals.compared, totals.other_crds), (1, 1));
        assert!(totals.differences.is_empty());
    }
}
