//! Reasons to evict a running gang: only certain ones.

use super::*;

const NO_IMAGE: &str = "forbid(principal, action == Trellis::Action::\"UseImage\", resource);";
const ONLY_ADA: &str = "forbid(principal, action == Trellis::Action::\"Submit\", resource) \
    unless { context has requester && context.requester.user == \"ada\" };";

/// A job that runs, and one policy that stops what it forbids.
fn running_job(forbid: &str) -> BuildFixture {
    let mut case = BuildFixture::new(json!({}));
    case.add_plan(PodGroupPhase::Placed);
    let objects = vec![
        policy_object(None, "all", ALL, OnViolation::Report),
        policy_object(None, "no", forbid, OnViolation::Evict),
    ];
    case.context.cache.policies.replace(load_policies(objects));
    case
}

impl BuildFixture {
    /// The job bears the stamp of this user.
    fn set_stamp(&mut self, user: &str) {
        let mut job = self
            .context
            .cache
            .jobs
            .get(&key())
            .unwrap()
            .as_ref()
            .clone();
        job.metadata.resource_version = Some(self.next_version());
        let stamp = json!({"user": user}).to_string();
        let name = trellis_api::names::REQUESTED_BY.to_owned();
        job.metadata.annotations = Some([(name, stamp)].into());
        self.context.cache.jobs.insert_observed(key(), job);
    }

    /// The policies that stop it, whether its stamp is believed or not.
    fn evicting_policies(&self, builds: &BuildCache, is_believed: bool) -> Vec<String> {
        let mut seen = self.read_context();
        if !is_believed {
            seen.distrust_requester("nobody refuses forged ones".to_owned());
        }
        let build = builds.get_or_build(&key(), &mut seen, &Arc::default());
        let violated = build.policy.as_ref().and_then(|d| d.evicting.as_ref());
        let reasons = violated.map(|violated| violated.eviction_reasons(&seen));
        reasons.unwrap_or_default().into_keys().collect()
    }

    fn evicting_policies_now(&self) -> Vec<String> {
        self.evicting_policies(&BuildCache::default(), true)
    }
}

#[test]
fn policy_evicts_a_placed_gang_but_not_a_waiting_gang() {
    let mut case = running_job(NO_IMAGE);
    assert_eq!(case.evicting_policies_now(), ["no/0"]);
    for phase in [
        PodGroupPhase::Pending,
        PodGroupPhase::Nominated,
        PodGroupPhase::Unwinding,
        PodGroupPhase::Finished,
    ] {
        case.set_phase(phase);
        assert_eq!(
            case.evicting_policies_now(),
            Vec::<String>::new(),
            "{phase:?}"
        );
    }
    // The place is that of an attempt that is over.
    case.set_phase(PodGroupPhase::Placed);
    case.status(2, None);
    assert_eq!(case.evicting_policies_now(), Vec::<String>::new());
}

/// A build from before the placement applies to the placed gang.
#[test]
fn policy_evicts_a_gang_judged_before_its_placement() {
    let mut case = running_job(NO_IMAGE);
    let builds = BuildCache::default();
    case.set_phase(PodGroupPhase::Pending);
    assert_eq!(case.evicting_policies(&builds, true), Vec::<String>::new());
    case.set_phase(PodGroupPhase::Placed);
    assert_eq!(case.evicting_policies(&builds, true), ["no/0"]);
}

/// Unknown labels do not count as absent.
#[test]
fn policy_evicts_no_gang_in_an_unknown_namespace() {
    let case = running_job(NO_IMAGE);
    case.context
        .cache
        .namespaces
        .delete_observed(&Key::new("", "ns"), "ns");
    assert_eq!(case.evicting_policies_now(), Vec::<String>::new());
}

#[test]
fn untrusted_stamp_does_not_cause_an_eviction() {
    let mut case = running_job(ONLY_ADA);
    let builds = BuildCache::default();
    let mut stopped_as = |user: &str, is_believed| {
        case.set_stamp(user);
        !case.evicting_policies(&builds, is_believed).is_empty()
    };
    assert!(!stopped_as("ada", true));
    assert!(!stopped_as("ada", false), "she may be who it was");
    assert!(stopped_as("eve", true));
    assert!(stopped_as("eve", false), "whoever it was");
    let mut case = running_job(NO_IMAGE);
    case.set_stamp("ada");
    assert_eq!(
        case.evicting_policies(&builds, false),
        ["no/0"],
        "whoever it was"
    );
}

/// By an operator that cannot tell any more what it was compiled into.
#[test]
fn policy_does_not_evict_a_gang_compiled_with_another_profile() {
    let mut case = running_job(NO_IMAGE);
    case.status(
        1,
        Some(JobProfile {
            name: "p".to_owned(),
            hash: "old".to_owned(),
        }),
    );
    assert_eq!(
        case.evicting_policies_now(),
        ["no/0"],
        "it is what was planned"
    );
    case.profile("p", "new");
    assert_eq!(case.evicting_policies_now(), Vec::<String>::new());
    let other = BuildFixture::new(json!({}));
    other.profile("p", "new");
    let (now, _) = other.profile_and_children(&BuildCache::default());
    case.status(1, now);
    assert_eq!(
        case.evicting_policies_now(),
        ["no/0"],
        "it is the same profile"
    );
}

#[test]
fn policy_error_or_missing_permit_evicts_no_gang() {
    let overflow =
        "forbid(principal, action, resource) when { context.gpus * 9223372036854775807 > 8 };";
    assert_eq!(
        running_job(overflow).evicting_policies_now(),
        Vec::<String>::new()
    );
    let case = running_job(NO_IMAGE);
    case.context.cache.policies.replace(reporting_policies(&[]));
    let build =
        BuildCache::default().get_or_build(&key(), &mut case.read_context(), &Arc::default());
    assert!(build.result.is_err());
    assert_eq!(case.evicting_policies_now(), Vec::<String>::new());
}
