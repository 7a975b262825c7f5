//! The history of the past, from the audit log of a kube-apiserver.
//!
//! The log has each write with the object after it, if the audit policy records the watched kinds at
//! the level `RequestResponse`. It has no state at its start, so the rules leave out what they would
//! have to know of the time before.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::audit_event::{AuditEvent, AuditedObject, is_removal, text_at};
use crate::cluster_watch::change_queue::ChangeQueue;
use crate::judged_kinds::{JUDGED_KINDS, KindRow};
use crate::known_objects::{KindChange, KnownObjectsOfAnyKind};
use crate::{Change, Finding, Health, Verifier};

/// Time within which the API server writes the events of two concurrent requests. The order of
/// their revisions may be another.
const ORDERING_DELAY: SignedDuration = SignedDuration::from_secs(2);

/// Longest time that passes at once.
const STEP: SignedDuration = SignedDuration::from_secs(1);

/// An audit log cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum AuditFailure {
    /// A line is no audit event.
    #[error("line {number} is no event of audit.k8s.io/v1: {error}")]
    Line {
        /// The number of the line, from 1.
        number: u64,
        /// The error.
        error: serde_json::Error,
    },
}

/// Judges an audit log, line by line.
pub struct AuditJudge {
    /// None: no event of a watched kind was read yet.
    verifier: Option<Verifier>,
    queue: ChangeQueue,
    objects: ShownObjects,
    lines: u64,
    writes: u64,
    /// Numbers of writes without an object, by kind and audit level.
    unseen: BTreeMap<(&'static str, String), u64>,
    /// Namespaces of which a request has deleted many objects at once. The log does not show which
    /// of them are gone.
    unclear_namespaces: BTreeSet<String>,
    judged_until: Option<Timestamp>,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
}

impl Default for AuditJudge {
    fn default() -> Self {
        Self::new()
    }
}

impl AuditJudge {
    /// Creates a judge of a log.
    #[must_use]
    pub fn new() -> Self {
        Self {
            verifier: None,
            queue: ChangeQueue::default(),
            objects: ShownObjects::default(),
            lines: 0,
            writes: 0,
            unseen: BTreeMap::new(),
            unclear_namespaces: BTreeSet::new(),
            judged_until: None,
            start: None,
            end: None,
        }
    }

    /// Judges a line. Returns new findings.
    ///
    /// # Errors
    /// If the line is no audit event.
    pub fn read_line(&mut self, line: &str) -> Result<Vec<Finding>, AuditFailure> {
        self.lines = self.lines.saturating_add(1);
        if line.trim().is_empty() {
            return Ok(Vec::new());
        }
        let event: AuditEvent = serde_json::from_str(line).map_err(|error| AuditFailure::Line {
            number: self.lines,
            error,
        })?;
        if event.stage != "ResponseComplete" {
            return Ok(Vec::new());
        }
        let time = event.stage_timestamp;
        for change in self.changes(event) {
            self.queue.add(Change {
                time,
                revision: change.revision,
                object: change.object,
                is_listed: change.is_listed,
            });
        }
        if self.writes == 0 {
            return Ok(Vec::new());
        }
        self.start.get_or_insert(time);
        self.end = Some(self.end.map_or(time, |end| end.max(time)));
        Ok(self.judge_until(time, ORDERING_DELAY))
    }

    /// Judges the last changes of the log. Returns new findings.
    pub fn finish(&mut self) -> Vec<Finding> {
        match self.end {
            Some(end) => self.judge_until(end, SignedDuration::ZERO),
            None => Vec::new(),
        }
    }

    fn judge_until(&mut self, now: Timestamp, delay: SignedDuration) -> Vec<Finding> {
        let verifier = self.verifier.get_or_insert_with(|| {
            let mut verifier = Verifier::without_initial_state(now);
            verifier.start();
            verifier
        });
        let due = now.saturating_sub(delay).unwrap_or(now);
        for change in self.queue.take_until(due) {
            pass_time(verifier, self.judged_until, change.time);
            self.judged_until = Some(change.time);
            verifier.observe(&change);
        }
        pass_time(verifier, self.judged_until, due);
        self.judged_until = Some(due);
        let unclear = &self.unclear_namespaces;
        let mut findings = verifier.take_findings();
        findings.retain(|finding| !unclear.contains(&finding.object.name.namespace));
        findings
    }

    /// Returns the changes that an event shows.
    fn changes(&mut self, event: AuditEvent) -> Vec<KindChange> {
        let Some(target) = &event.object_ref else {
            return Vec::new();
        };
        let Some(kind) = judged_kind(target) else {
            return Vec::new();
        };
        let is_write = matches!(
            event.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        );
        // The kubelet's next status shows a binding, and the next status of the pod an eviction.
        let is_of_object = matches!(target.subresource.as_str(), "" | "status");
        if !is_write || !is_of_object || event.is_dry_run() || !event.has_succeeded() {
            return Vec::new();
        }
        self.writes = self.writes.saturating_add(1);
        if event.verb == "deletecollection" {
            self.unclear_namespaces.insert(target.namespace.clone());
            let objects = self.objects.of_kind(kind);
            return objects.remove_namespace(&target.namespace);
        }
        let Some(object) = event.response_object else {
            let key = (kind.plural, event.level);
            let count = self.unseen.entry(key).or_default();
            *count = count.saturating_add(1);
            return Vec::new();
        };
        self.objects.take_in(kind, &event.verb, target, object)
    }

    /// Returns the verifier, for its counts. None: the log has no write of a watched kind.
    #[must_use]
    pub fn verifier(&self) -> Option<&Verifier> {
        self.verifier.as_ref()
    }

    /// Returns the kinds of which the log has writes without the object, with the audit level and
    /// the number of these writes.
    pub fn unseen(&self) -> impl Iterator<Item = (&'static str, &str, u64)> {
        let unseen = self.unseen.iter();
        unseen.map(|((kind, level), count)| (*kind, level.as_str(), *count))
    }

    /// Returns the time between the first and the last write.
    #[must_use]
    pub fn duration(&self) -> SignedDuration {
        match (self.start, self.end) {
            (Some(start), Some(end)) => end.duration_since(start),
            _ => SignedDuration::ZERO,
        }
    }
}

/// Passes the time to the next write. A log without writes does not show that the API server is down.
/// The time counts as healthy until the leader has not renewed its Lease for too long.
fn pass_time(verifier: &mut Verifier, from: Option<Timestamp>, to: Timestamp) {
    let mut now = from.unwrap_or(to);
    while let Ok(next) = now.checked_add(STEP)
        && next < to
    {
        verifier.pass_time(next, Health::Healthy);
        now = next;
    }
    verifier.pass_time(to, Health::Healthy);
}

/// Returns the kind of an object, if the rules read the object.
fn judged_kind(target: &AuditedObject) -> Option<&'static KindRow> {
    JUDGED_KINDS.iter().find(|kind| {
        kind.plural == target.resource
            && (kind.group)() == target.api_group
            && kind.only.is_none_or(|name| name == target.name)
    })
}

/// The objects that the log has shown.
#[derive(Default)]
struct ShownObjects {
    by_kind: BTreeMap<&'static str, Box<dyn KnownObjectsOfAnyKind>>,
    /// Uids of all objects that the log has shown.
    uids: BTreeSet<String>,
}

impl ShownObjects {
    fn of_kind(&mut self, kind: &KindRow) -> &mut dyn KnownObjectsOfAnyKind {
        let objects = self.by_kind.entry(kind.plural);
        objects.or_insert_with(kind.known_objects).as_mut()
    }

    /// Takes in the object of a response.
    fn take_in(
        &mut self,
        kind: &KindRow,
        verb: &str,
        target: &AuditedObject,
        object: Value,
    ) -> Vec<KindChange> {
        let object = match text_at(&object, "/kind") {
            // The answer to the deletion of an object that is gone at once.
            Some("Status") => json!({"metadata": {
                "namespace": target.namespace, "name": target.name,
                "uid": text_at(&object, "/details/uid"),
            }}),
            _ => object,
        };
        let is_gone = is_removal(verb, &object);
        let uid = text_at(&object, "/metadata/uid").unwrap_or_default();
        let is_new = self.uids.insert(uid.to_owned());
        // The object existed before the log began.
        let is_listed = is_new && verb != "create";
        let changes = self
            .of_kind(kind)
            .take_in_value(object, is_gone)
            .into_iter();
        changes
            .map(|change| KindChange {
                is_listed,
                ..change
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rule;

    /// Returns the event of a write at this second.
    fn event(second: i64, verb: &str, resource: &str, object: &Value) -> Value {
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse",
            "auditID": "1", "stage": "ResponseComplete", "requestURI": "/", "verb": verb,
            "objectRef": {
                "resource": resource, "apiGroup": "trellis.dev",
                "namespace": object["metadata"]["namespace"].as_str().unwrap_or_default(),
                "name": object["metadata"]["name"],
            },
            "responseStatus": {"code": 200},
            "responseObject": object,
            "stageTimestamp": Timestamp::from_second(second).unwrap().to_string(),
        })
    }

    fn job(version: i64, uid: &str, restarts: i64) -> Value {
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {
                "name": "j", "namespace": "ns", "uid": uid, "resourceVersion": version.to_string(),
            },
            "spec": {"taskGroups": [{"name": "worker", "image": "registry.example/train:1.0"}]},
            "status": {"restarts": restarts},
        })
    }

    /// Judges the events, and returns the broken rules.
    fn judge(judge: &mut AuditJudge, events: &[Value]) -> Vec<Rule> {
        let mut findings = Vec::new();
        for event in events {
            findings.extend(judge.read_line(&event.to_string()).unwrap());
        }
        findings.extend(judge.finish());
        findings.iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn writes_are_judged_in_the_order_of_their_revisions() {
        let events = [
            event(1, "create", "trainingjobs", &job(10, "u", 0)),
            // The log has the later write first.
            event(2, "patch", "trainingjobs", &job(12, "u", 2)),
            event(2, "patch", "trainingjobs", &job(11, "u", 1)),
        ];
        assert_eq!(judge(&mut AuditJudge::new(), &events), []);
        let fallen = event(5, "patch", "trainingjobs", &job(13, "u", 1));
        let events: Vec<Value> = events.into_iter().chain([fallen]).collect();
        assert_eq!(judge(&mut AuditJudge::new(), &events), [Rule::Backwards]);
    }

    #[test]
    fn refused_writes_dry_runs_and_other_stages_do_not_count() {
        let fallen = event(5, "patch", "trainingjobs", &job(13, "u", 0));
        let mut refused = fallen.clone();
        refused["responseStatus"]["code"] = json!(409);
        let mut dry_run = fallen.clone();
        dry_run["requestURI"] = json!("/apis/x?dryRun=All");
        let mut received = fallen.clone();
        received["stage"] = json!("RequestReceived");
        let mut events = vec![event(1, "create", "trainingjobs", &job(10, "u", 3))];
        events.extend([refused, dry_run, received]);
        assert_eq!(judge(&mut AuditJudge::new(), &events), []);
    }

    #[test]
    fn job_that_was_created_again_does_not_fall_back() {
        let gone = json!({"kind": "Status", "metadata": {}, "details": {"name": "j", "uid": "u"}});
        let mut deletion = event(2, "delete", "trainingjobs", &gone);
        deletion["objectRef"]["namespace"] = json!("ns");
        deletion["objectRef"]["name"] = json!("j");
        let events = [
            event(1, "create", "trainingjobs", &job(10, "u", 3)),
            deletion,
            event(3, "create", "trainingjobs", &job(12, "v", 0)),
        ];
        assert_eq!(judge(&mut AuditJudge::new(), &events), []);
    }

    #[test]
    fn log_without_objects_names_the_kinds_and_their_level() {
        let mut written = event(1, "create", "trainingjobs", &job(10, "u", 3));
        written["level"] = json!("Metadata");
        written.as_object_mut().unwrap().remove("responseObject");
        let mut audit = AuditJudge::new();
        assert_eq!(judge(&mut audit, &[written]), []);
        let unseen: Vec<_> = audit.unseen().collect();
        assert_eq!(unseen, [("trainingjobs", "Metadata", 1)]);
        assert!(audit.read_line("no event").is_err());
    }

    #[test]
    fn time_between_two_renewals_of_the_lease_is_healthy() {
        let lease = |second: i64| {
            let object = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {
                    "name": "trellis-operator", "namespace": "trellis-system", "uid": "l",
                    "resourceVersion": (100 + second).to_string(),
                },
                "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
            });
            let mut event = event(second, "update", "leases", &object);
            event["objectRef"]["apiGroup"] = json!("coordination.k8s.io");
            event
        };
        let mut audit = AuditJudge::new();
        // The leader is away for a minute.
        let events: Vec<Value> = [0, 15, 30, 45, 60, 120].into_iter().map(lease).collect();
        assert_eq!(judge(&mut audit, &events), []);
        let healthy = audit.verifier().unwrap().healthy_time();
        // From the second 30 until 18 seconds after the last renewal.
        assert_eq!(healthy, SignedDuration::from_secs(48 + 1));
    }
}
