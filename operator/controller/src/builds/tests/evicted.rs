//! Reasons to evict a running gang: only certain ones.

use super::*;

const NO_IMAGE: &str = "forbid(principal, action == Trellis::Action::\"UseImage\", resource);";
const ONLY_ADA: &str = "forbid(principal, action == Trellis::Action::\"Submit\", resource) \
    unless { context has requester && context.requester.user == \"ada\" };";

/// A job that runs, and one policy that stops what it forbids.
fn running(forbid: &str) -> Case {
    let mut case = Case::new(json!({}));
    case.plan(PodGroupPhase::Placed);
    let objects = vec![
        object(None, "all", ALL, OnViolation::Report),
        object(None, "no", forbid, OnViolation::Evict),
    ];
    case.context.cache.policies.replace(loaded(objects));
    case
}

impl Case {
    /// The job bears the stamp of this user.
    fn stamp(&mut self, user: &str) {
        let mut job = self
            .context
            .cache
            .jobs
            .get(&key())
            .unwrap()
            .as_ref()
            .clone();
        job.metadata.resource_version = Some(self.next());
        let stamp = json!({"user": user}).to_string();
        let name = trellis_api::names::REQUESTED_BY.to_owned();
        job.metadata.annotations = Some([(name, stamp)].into());
        self.context.cache.jobs.observed(key(), job);
    }

    /// The policies that stop it, whether its stamp is believed or not.
    fn stopped_by(&self, builds: &Builds, is_believed: bool) -> Vec<String> {
        let mut seen = self.look();
        if !is_believed {
            seen.doubt("nobody refuses forged ones".to_owned());
        }
        let build = builds.of(&key(), &mut seen, &Arc::default());
        let violated = build.decided.as_ref().and_then(|d| d.violated.as_ref());
        let reasons = violated.map(|violated| violated.eviction_reasons(&seen));
        reasons.unwrap_or_default().into_keys().collect()
    }

    fn stopped(&self) -> Vec<String> {
        self.stopped_by(&Builds::default(), true)
    }
}

#[test]
fn what_has_its_place_is_stopped_and_what_waits_is_not() {
    let mut case = running(NO_IMAGE);
    assert_eq!(case.stopped(), ["no/0"]);
    for phase in [
        PodGroupPhase::Pending,
        PodGroupPhase::Nominated,
        PodGroupPhase::Unwinding,
        PodGroupPhase::Finished,
    ] {
        case.becomes(phase);
        assert_eq!(case.stopped(), Vec::<String>::new(), "{phase:?}");
    }
    // The place is that of an attempt that is over.
    case.becomes(PodGroupPhase::Placed);
    case.status(2, None);
    assert_eq!(case.stopped(), Vec::<String>::new());
}

/// A build from before the placement applies to the placed gang.
#[test]
fn what_was_judged_before_it_was_placed_is_stopped_once_it_is() {
    let mut case = running(NO_IMAGE);
    let builds = Builds::default();
    case.becomes(PodGroupPhase::Pending);
    assert_eq!(case.stopped_by(&builds, true), Vec::<String>::new());
    case.becomes(PodGroupPhase::Placed);
    assert_eq!(case.stopped_by(&builds, true), ["no/0"]);
}

/// Unknown labels do not count as absent.
#[test]
fn of_a_namespace_that_is_not_known_nothing_is_stopped() {
    let case = running(NO_IMAGE);
    case.context
        .cache
        .namespaces
        .deleted(&Key::new("", "ns"), "ns");
    assert_eq!(case.stopped(), Vec::<String>::new());
}

#[test]
fn who_asks_is_not_stopped_for_a_stamp_that_nobody_can_believe() {
    let mut case = running(ONLY_ADA);
    let builds = Builds::default();
    let mut stopped_as = |user: &str, is_believed| {
        case.stamp(user);
        !case.stopped_by(&builds, is_believed).is_empty()
    };
    assert!(!stopped_as("ada", true));
    assert!(!stopped_as("ada", false), "she may be who it was");
    assert!(stopped_as("eve", true));
    assert!(stopped_as("eve", false), "whoever it was");
    let mut case = running(NO_IMAGE);
    case.stamp("ada");
    assert_eq!(case.stopped_by(&builds, false), ["no/0"], "whoever it was");
}

/// By an operator that cannot tell any more what it was compiled into.
#[test]
fn what_is_compiled_with_another_profile_is_not_what_runs() {
    let mut case = running(NO_IMAGE);
    case.status(
        1,
        Some(JobProfile {
            name: "p".to_owned(),
            hash: "old".to_owned(),
        }),
    );
    assert_eq!(case.stopped(), ["no/0"], "it is what was planned");
    case.profile("p", "new");
    assert_eq!(case.stopped(), Vec::<String>::new());
    let other = Case::new(json!({}));
    other.profile("p", "new");
    let (now, _) = other.told(&Builds::default());
    case.status(1, now);
    assert_eq!(case.stopped(), ["no/0"], "it is the same profile");
}

#[test]
fn an_error_and_what_is_not_permitted_stop_nothing() {
    let overflow =
        "forbid(principal, action, resource) when { context.gpus * 9223372036854775807 > 8 };";
    assert_eq!(running(overflow).stopped(), Vec::<String>::new());
    let case = running(NO_IMAGE);
    case.context.cache.policies.replace(set(&[]));
    let build = Builds::default().of(&key(), &mut case.look(), &Arc::default());
    assert!(build.result.is_err());
    assert_eq!(case.stopped(), Vec::<String>::new());
}
