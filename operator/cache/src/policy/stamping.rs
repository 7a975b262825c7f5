//! Checks whether requester stamps are trusted. A stamp is trusted if the chart's admission
//! policies, which write stamps and reject forged ones, have been in force since before the job's
//! creation.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ObjectMeta;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;
use trellis_api::document;

const CHART: &str = include_str!("../../../../charts/trellis/files/admission.yaml");

/// Name of each policy and binding.
const POLICY_NAME: &str = "trellis-requested-by";

/// Kinds of the objects that stamping needs, one object of each.
const KINDS: [&str; 4] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

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
    for document in document::split(CHART).ok()? {
        let part: ChartObject = document.decode().ok()?;
        parts.insert((document.kind, part.metadata.name?), part.spec);
    }
    Some(parts)
}

/// A policy or binding as the watch has shown it.
#[derive(Clone, Debug)]
struct StampingPart {
    uid: String,
    created: Option<Timestamp>,
    is_as_shipped: bool,
    is_as_created: bool,
}

/// The policies and bindings, as the watches show them.
#[derive(Debug, Default)]
pub struct Stamping {
    parts: RwLock<BTreeMap<&'static str, StampingPart>>,
    /// True if another component writes stamps and rejects forged ones (`--trust-requested-by`).
    is_trusted: AtomicBool,
}

/// Time since which every stamp is authentic, or why none is.
pub type AuthenticSince = Result<Timestamp, String>;

impl Stamping {
    /// Records a policy or binding that was created or changed. Returns the new state if it
    /// differs.
    pub fn apply(&self, kind: &str, meta: &ObjectMeta, spec: &Value) -> Option<AuthenticSince> {
        let part = find_part(kind, meta.name.as_deref())?;
        let seen = StampingPart {
            uid: meta.uid.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|at| at.0),
            is_as_shipped: shipped_spec(part, POLICY_NAME) == Some(spec),
            is_as_created: meta.generation == Some(1),
        };
        self.change(|parts| {
            parts.insert(part, seen);
        })
    }

    /// Records that a policy or binding was deleted. Returns the new state if it differs.
    pub fn delete(&self, kind: &str, name: &str, uid: &str) -> Option<AuthenticSince> {
        let part = find_part(kind, Some(name))?;
        self.change(|parts| {
            if parts.get(part).is_some_and(|seen| seen.uid == uid) {
                parts.remove(part);
            }
        })
    }

    fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<&'static str, StampingPart>),
    ) -> Option<AuthenticSince> {
        let mut parts = self.parts.write();
        let before = authentic_since(&parts);
        change(&mut parts);
        let after = authentic_since(&parts);
        (before != after).then_some(after)
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
    let part = KINDS.into_iter().find(|part| *part == kind);
    part.filter(|_| name == Some(POLICY_NAME))
}

fn authentic_since(parts: &BTreeMap<&'static str, StampingPart>) -> AuthenticSince {
    let mut latest = Timestamp::UNIX_EPOCH;
    for kind in KINDS {
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

    /// Returns stamping with all objects, created one second apart from second 100 on.
    fn in_force() -> Stamping {
        let stamping = Stamping::default();
        for (second, kind) in (100..).zip(KINDS) {
            stamping.apply(
                kind,
                &meta(POLICY_NAME, second),
                shipped_spec(kind, POLICY_NAME).unwrap(),
            );
        }
        stamping
    }

    #[test]
    fn chart_policies_share_variables_and_match_constraints() {
        let of = |kind: &str, field: &str| shipped_spec(kind, POLICY_NAME).unwrap()[field].clone();
        assert!(
            KINDS
                .iter()
                .all(|part| shipped_spec(part, POLICY_NAME).is_some())
        );
        for field in ["variables", "matchConstraints", "failurePolicy"] {
            let (mutating, validating) = (of(KINDS[0], field), of(KINDS[2], field));
            assert_eq!(mutating, validating, "{field}");
            assert!(!mutating.is_null());
        }
    }

    #[test]
    fn stamp_is_trusted_when_all_parts_are_in_force() {
        let stamping = in_force();
        assert_eq!(stamping.authentic_since(), Ok(at(113)));
        assert_eq!(stamping.forgery_doubt(&meta("job", 113)), None);
        let result = "the job is from before 1970-01-01T00:01:53Z, since when stamps cannot be \
                    forged: create it anew";
        assert_eq!(
            stamping.forgery_doubt(&meta("job", 112)).as_deref(),
            Some(result)
        );
        assert!(stamping.forgery_doubt(&ObjectMeta::default()).is_some());
    }

    #[test]
    fn stamp_is_doubted_when_a_part_is_missing_or_changed() {
        for kind in KINDS {
            let job = meta("job", 1_000_000);
            let stamping = in_force();
            assert_eq!(stamping.delete(kind, POLICY_NAME, "another"), None);
            assert_eq!(stamping.delete(kind, "another", "a"), None);
            let result = stamping
                .delete(kind, POLICY_NAME, "a")
                .unwrap()
                .unwrap_err();
            assert!(
                result.ends_with("is not there") && result.contains(kind),
                "{result}"
            );
            assert!(stamping.forgery_doubt(&job).is_some());
            // The chart's policy is back. Stamps written in between may be forged.
            let result = stamping.apply(
                kind,
                &meta(POLICY_NAME, 500),
                shipped_spec(kind, POLICY_NAME).unwrap(),
            );
            assert_eq!(result, Some(Ok(at(510))));

            let mut other = shipped_spec(kind, POLICY_NAME).unwrap().clone();
            other["failurePolicy"] = json!("Ignore");
            let result = stamping.apply(kind, &meta(POLICY_NAME, 500), &other);
            let result = result.unwrap().unwrap_err();
            assert!(
                result.contains("another than that of this version"),
                "{result}"
            );
            assert!(stamping.forgery_doubt(&job).is_some());

            let mut changed = meta(POLICY_NAME, 500);
            changed.generation = Some(3);
            let result = stamping.apply(kind, &changed, shipped_spec(kind, POLICY_NAME).unwrap());
            let result = result.unwrap().unwrap_err();
            assert!(
                result.contains("was changed after it was created"),
                "{result}"
            );
            assert!(stamping.forgery_doubt(&job).is_some());

            let mut timeless = meta(POLICY_NAME, 500);
            timeless.creation_timestamp = None;
            stamping.apply(kind, &timeless, shipped_spec(kind, POLICY_NAME).unwrap());
            assert!(stamping.forgery_doubt(&job).is_some());
        }
    }

    #[test]
    fn other_admission_policies_are_ignored() {
        let stamping = in_force();
        let kind = KINDS[0];
        assert_eq!(
            stamping.apply(kind, &meta("another", 900), &json!({})),
            None
        );
        assert_eq!(
            stamping.apply("Pod", &meta(POLICY_NAME, 900), &json!({})),
            None
        );
        let again = stamping.apply(
            kind,
            &meta(POLICY_NAME, 100),
            shipped_spec(kind, POLICY_NAME).unwrap(),
        );
        assert_eq!(again, None, "nothing is new");
    }
}
