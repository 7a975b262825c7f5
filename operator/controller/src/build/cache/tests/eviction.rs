//! Reasons to evict a running gang. Uncertain decisions evict no gang.

use super::*;

const NO_IMAGE: &str = "forbid(principal, action == Trellis::Action::\"UseImage\", resource);";
const ONLY_ADA: &str = "forbid(principal, action == Trellis::Action::\"Submit\", resource) \
    unless { context has requester && context.requester.user == \"ada\" };";

/// Returns a placed job, and a policy that evicts the gangs that it forbids.
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
    /// Sets the stamp of the job to this user.
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

    /// Returns the policies that evict the job. `is_trusted` tells whether its stamp is trusted.
    fn evicting_policies(&self, builds: &BuildCache, is_trusted: bool) -> Vec<String> {
        let mut job_context = self.read_context();
        if !is_trusted {
            job_context.distrust_requester("users may forge stamps".to_owned());
        }
        let build = builds.get_or_build(&key(), &mut job_context, &Arc::default());
        let evicting = build.policy.as_ref().and_then(|d| d.evicting.as_ref());
        let reasons = evicting.map(|evicting| evicting.eviction_reasons(&job_context));
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
    // The plan belongs to an attempt that has ended.
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

/// The labels of the namespace are unknown, so the decision is uncertain.
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
    let mut is_evicted = |user: &str, is_trusted| {
        case.set_stamp(user);
        !case.evicting_policies(&builds, is_trusted).is_empty()
    };
    assert!(!is_evicted("ada", true));
    assert!(!is_evicted("ada", false), "the requester may be ada");
    assert!(is_evicted("eve", true));
    assert!(is_evicted("eve", false), "no requester is allowed");
    let mut case = running_job(NO_IMAGE);
    case.set_stamp("ada");
    assert_eq!(
        case.evicting_policies(&builds, false),
        ["no/0"],
        "the policy forbids all requesters"
    );
}

/// The operator does not know the compiled job of the running gang.
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
        "the running gang is the planned gang"
    );
    case.profile("p", "new");
    assert_eq!(case.evicting_policies_now(), Vec::<String>::new());
    let other = BuildFixture::new(json!({}));
    other.profile("p", "new");
    let (current, _) = other.profile_and_children(&BuildCache::default());
    case.status(1, current);
    assert_eq!(
        case.evicting_policies_now(),
        ["no/0"],
        "the profile is the same"
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
