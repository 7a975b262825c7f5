//! Checks whether requester stamps are trusted, and whether anything writes them.
//!
//! A stamp is trusted if the chart's ValidatingAdmissionPolicy, which refuses a stamp of another
//! user than that of the request, has been in force since before the job's creation. The writer of
//! the stamps needs no trust. It is a MutatingAdmissionPolicy of the chart, or below Kubernetes
//! 1.36 the operator's webhook.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ObjectMeta;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;
use trellis_api::document;

/// Admission policies of the chart.
const CHART: [&str; 2] = [
    include_str!("../../../../charts/trellis/files/admission.yaml"),
    include_str!("../../../../charts/trellis/files/requester-policy.yaml"),
];

/// Name of each policy and binding.
const POLICY_NAME: &str = "trellis-requested-by";

/// Name of the configuration of the operator's webhooks.
const WEBHOOK_NAME: &str = "trellis-webhook";

/// Path at which the operator's webhook writes stamps.
pub const STAMP_PATH: &str = "/stamp";

/// Kinds of the objects that refuse forged stamps, one object of each.
const GUARD_KINDS: [&str; 2] = [
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Kinds of the objects that write stamps in the API server, one object of each.
const WRITER_KINDS: [&str; 2] = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"];

/// Kind of the object by which the operator's webhook writes stamps.
const WEBHOOK_KIND: &str = "MutatingWebhookConfiguration";

/// Longest time until every API server applies a new admission policy. API servers reload policies
/// once a second, and creation times are whole seconds.
const IN_FORCE_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// Specs of the chart's admission policies, by kind and name.
static SHIPPED: LazyLock<BTreeMap<(String, String), Value>> =
    LazyLock::new(|| load_shipped_specs().unwrap_or_default());

/// Returns the spec of the admission policy or binding of that name in the chart.
pub(super) fn shipped_spec(kind: &str, name: &str) -> Option<&'static Value> {
    SHIPPED.get(&(kind.to_owned(), name.to_owned()))
}

#[derive(Deserialize)]
struct ChartObject {
    metadata: ObjectMeta,
    spec: Value,
}

/// Loads the specs from the chart. None if the chart does not parse: then no object of the cluster
/// matches it.
fn load_shipped_specs() -> Option<BTreeMap<(String, String), Value>> {
    let mut parts = BTreeMap::new();
    for file in CHART {
        for document in document::split(file).ok()? {
            let part: ChartObject = document.decode().ok()?;
            parts.insert((document.kind, part.metadata.name?), part.spec);
        }
    }
    Some(parts)
}

/// An object as the watch has shown it.
#[derive(Clone, Debug)]
struct StampingPart {
    uid: String,
    created: Option<Timestamp>,
    /// True if it is as in the chart; of the webhook configuration, if it calls [`STAMP_PATH`].
    is_as_shipped: bool,
    is_as_created: bool,
}

type StampingParts = BTreeMap<&'static str, StampingPart>;

/// The objects that write and protect stamps, as the watches show them.
#[derive(Debug, Default)]
pub struct Stamping {
    parts: RwLock<StampingParts>,
    /// True if another component writes stamps and rejects forged ones (`--trust-requested-by`).
    is_trusted: AtomicBool,
}

/// Time since which every stamp is authentic, or why none is.
pub type AuthenticSince = Result<Timestamp, String>;

impl Stamping {
    /// Records an object that was created or changed. Returns true if that changes whether stamps
    /// are trusted or written.
    pub fn apply(&self, kind: &str, meta: &ObjectMeta, spec: &Value) -> bool {
        let Some(part) = find_part(kind, meta.name.as_deref()) else {
            return false;
        };
        let seen = StampingPart {
            uid: meta.uid.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|at| at.0),
            is_as_shipped: match part {
                WEBHOOK_KIND => calls_stamp_path(spec),
                _ => shipped_spec(part, POLICY_NAME) == Some(spec),
            },
            is_as_created: meta.generation == Some(1),
        };
        self.change(|parts| {
            parts.insert(part, seen);
        })
    }

    /// Records that an object was deleted. Returns true if that changes whether stamps are trusted
    /// or written.
    pub fn delete(&self, kind: &str, name: &str, uid: &str) -> bool {
        let Some(part) = find_part(kind, Some(name)) else {
            return false;
        };
        self.change(|parts| {
            if parts.get(part).is_some_and(|seen| seen.uid == uid) {
                parts.remove(part);
            }
        })
    }

    fn change(&self, change: impl FnOnce(&mut StampingParts)) -> bool {
        let state = |parts: &StampingParts| (authentic_since(parts), are_stamps_written(parts));
        let mut parts = self.parts.write();
        let before = state(&parts);
        change(&mut parts);
        before != state(&parts)
    }

    /// Returns the time since which every stamp is authentic.
    ///
    /// # Errors
    /// The reason why no stamp is authentic.
    pub fn authentic_since(&self) -> AuthenticSince {
        authentic_since(&self.parts.read())
    }

    /// Trusts all stamps, even without the admission policies.
    pub fn trust_all(&self) {
        self.is_trusted.store(true, Ordering::Relaxed);
    }

    /// Returns true if all stamps are trusted, even without the admission policies.
    pub fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Relaxed)
    }

    /// Returns why the requesters of new jobs are unknown. None if they are known.
    #[must_use]
    pub fn unknown_reason(&self) -> Option<String> {
        if self.is_trusted() {
            return None;
        }
        let parts = self.parts.read();
        authentic_since(&parts).err().or_else(|| {
            let reason = "nothing writes the annotation trellis.dev/requested-by: install the chart \
                          with admission.requesterStamp=policy (Kubernetes 1.36) or webhook";
            (!are_stamps_written(&parts)).then(|| reason.to_owned())
        })
    }

    /// Returns true if stamps that are written from now on are trusted.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        self.is_trusted() || self.authentic_since().is_ok()
    }

    /// Returns why the stamp of an object may be forged. None if the policies have been in force
    /// since the object's creation.
    #[must_use]
    pub fn forgery_doubt(&self, meta: &ObjectMeta) -> Option<String> {
        if self.is_trusted() {
            return None;
        }
        let created = meta.creation_timestamp.as_ref().map(|at| at.0);
        match self.authentic_since() {
            Ok(since) if created.is_some_and(|created| created >= since) => None,
            Ok(since) => Some(format!(
                "the job is from before {since}, since when stamps cannot be forged: create it anew"
            )),
            Err(why) => Some(why),
        }
    }
}

fn find_part(kind: &str, name: Option<&str>) -> Option<&'static str> {
    let policy_kinds = GUARD_KINDS.into_iter().chain(WRITER_KINDS);
    let kind = policy_kinds
        .chain([WEBHOOK_KIND])
        .find(|part| *part == kind)?;
    let expected_name = match kind {
        WEBHOOK_KIND => WEBHOOK_NAME,
        _ => POLICY_NAME,
    };
    (name == Some(expected_name)).then_some(kind)
}

/// Returns true if one of these webhooks is that of the operator for stamps.
fn calls_stamp_path(webhooks: &Value) -> bool {
    let mut webhooks = webhooks.as_array().into_iter().flatten();
    webhooks.any(|webhook| {
        let text = |pointer: &str| webhook.pointer(pointer).and_then(Value::as_str);
        let url = text("/clientConfig/url");
        text("/clientConfig/service/path") == Some(STAMP_PATH)
            || url.is_some_and(|url| url.ends_with(STAMP_PATH))
    })
}

/// Returns true if the policy or the webhook writes a stamp on each new job.
fn are_stamps_written(parts: &StampingParts) -> bool {
    let is_there = |kind: &str| parts.get(kind).is_some_and(|seen| seen.is_as_shipped);
    WRITER_KINDS.into_iter().all(is_there) || is_there(WEBHOOK_KIND)
}

fn authentic_since(parts: &StampingParts) -> AuthenticSince {
    let mut latest = Timestamp::UNIX_EPOCH;
    for kind in GUARD_KINDS {
        let Some(seen) = parts.get(kind) else {
            return Err(format!("the {kind} {POLICY_NAME:?} is not there"));
        };
        if !seen.is_as_shipped {
            return Err(format!(
                "the {kind} {POLICY_NAME:?} is another than that of this version: delete it, and apply the chart's"
            ));
        }
        // A changed policy may have admitted forged stamps before its last change.
        if !seen.is_as_created {
            return Err(format!(
                "the {kind} {POLICY_NAME:?} was changed after it was created: delete it, and apply the chart's"
            ));
        }
        let created = seen.created;
        latest = created.map_or(Timestamp::MAX, |created| created.max(latest));
    }
    Ok(latest.checked_add(IN_FORCE_AFTER).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn meta(name: &str, created: i64) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            uid: Some("a".to_owned()),
            generation: Some(1),
            creation_timestamp: Some(Time(at(created))),
            ..ObjectMeta::default()
        }
    }

    fn apply_as_shipped(stamping: &Stamping, kind: &str, created: i64) -> bool {
        let spec = shipped_spec(kind, POLICY_NAME).unwrap();
        stamping.apply(kind, &meta(POLICY_NAME, created), spec)
    }

    /// Returns stamping with the policies of the chart, created one second apart from second 100
    /// on.
    fn in_force() -> Stamping {
        let stamping = Stamping::default();
        let kinds = GUARD_KINDS.into_iter().chain(WRITER_KINDS);
        for (second, kind) in (100..).zip(kinds) {
            apply_as_shipped(&stamping, kind, second);
        }
        stamping
    }

    #[test]
    fn chart_policies_share_variables_and_match_constraints() {
        let of = |kind: &str, field: &str| shipped_spec(kind, POLICY_NAME).unwrap()[field].clone();
        for field in ["variables", "matchConstraints", "failurePolicy"] {
            let (mutating, validating) = (of(WRITER_KINDS[0], field), of(GUARD_KINDS[0], field));
            assert_eq!(mutating, validating, "{field}");
            assert!(!mutating.is_null());
        }
    }

    #[test]
    fn stamps_are_written_by_the_policy_or_by_the_webhook() {
        let stamping = in_force();
        assert_eq!(stamping.unknown_reason(), None);
        for kind in WRITER_KINDS {
            assert!(stamping.delete(kind, POLICY_NAME, "a"));
            let reason = stamping.unknown_reason().unwrap();
            assert!(reason.contains("requesterStamp=policy"), "{reason}");
            assert!(
                stamping.is_in_force(),
                "a stamp cannot be forged without its writer"
            );

            let hook = |config: Value| json!([{"name": "x", "clientConfig": config}]);
            let webhook = meta(WEBHOOK_NAME, 500);
            let other = hook(json!({"service": {"path": "/validate"}}));
            assert!(!stamping.apply(WEBHOOK_KIND, &webhook, &other));
            for config in [
                json!({"service": {"path": "/stamp"}}),
                json!({"url": "https://127.0.0.1:9443/stamp"}),
            ] {
                assert!(stamping.apply(WEBHOOK_KIND, &webhook, &hook(config)));
                assert_eq!(stamping.unknown_reason(), None);
                assert!(stamping.delete(WEBHOOK_KIND, WEBHOOK_NAME, "a"));
            }
            assert!(apply_as_shipped(&stamping, kind, 500));
        }
        stamping.delete(WRITER_KINDS[0], POLICY_NAME, "a");
        stamping.trust_all();
        assert_eq!(stamping.unknown_reason(), None);
    }

    #[test]
    fn stamp_is_trusted_when_all_parts_are_in_force() {
        let stamping = in_force();
        assert_eq!(stamping.authentic_since(), Ok(at(111)));
        assert_eq!(stamping.forgery_doubt(&meta("job", 111)), None);
        let result = "the job is from before 1970-01-01T00:01:51Z, since when stamps cannot be \
                    forged: create it anew";
        assert_eq!(
            stamping.forgery_doubt(&meta("job", 110)).as_deref(),
            Some(result)
        );
        assert!(stamping.forgery_doubt(&ObjectMeta::default()).is_some());
    }

    #[test]
    fn stamp_is_doubted_when_a_part_of_its_guard_is_missing_or_changed() {
        for kind in GUARD_KINDS {
            let job = meta("job", 1_000_000);
            let stamping = in_force();
            let expect_doubt = |words: &str| {
                let doubt = stamping.forgery_doubt(&job).unwrap();
                assert!(doubt.contains(words) && doubt.contains(kind), "{doubt}");
                assert_eq!(stamping.unknown_reason(), Some(doubt));
            };
            assert!(!stamping.delete(kind, POLICY_NAME, "another"));
            assert!(!stamping.delete(kind, "another", "a"));
            assert!(stamping.delete(kind, POLICY_NAME, "a"));
            expect_doubt("is not there");
            // The chart's policy is back. Stamps written in between may be forged.
            assert!(apply_as_shipped(&stamping, kind, 500));
            assert_eq!(stamping.authentic_since(), Ok(at(510)));

            let shipped = shipped_spec(kind, POLICY_NAME).unwrap();
            let mut other = shipped.clone();
            other["failurePolicy"] = json!("Ignore");
            assert!(stamping.apply(kind, &meta(POLICY_NAME, 500), &other));
            expect_doubt("another than that of this version");

            let mut changed = meta(POLICY_NAME, 500);
            changed.generation = Some(3);
            assert!(stamping.apply(kind, &changed, shipped));
            expect_doubt("was changed after it was created");

            let mut timeless = meta(POLICY_NAME, 500);
            timeless.creation_timestamp = None;
            stamping.apply(kind, &timeless, shipped);
            assert!(stamping.forgery_doubt(&job).is_some());
        }
    }

    #[test]
    fn other_admission_objects_are_ignored() {
        let stamping = in_force();
        let kind = WRITER_KINDS[0];
        assert!(!stamping.apply(kind, &meta("another", 900), &json!({})));
        assert!(!stamping.apply("Pod", &meta(POLICY_NAME, 900), &json!({})));
        assert!(!stamping.apply(WEBHOOK_KIND, &meta(POLICY_NAME, 900), &json!([])));
        assert!(!apply_as_shipped(&stamping, kind, 100), "nothing is new");
    }
}
