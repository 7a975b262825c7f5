//! The compiled job that the children keep.

use trellis_api::job::Preemptibility;

use super::*;

impl BuildFixture {
    /// Returns the hash of the compiled job for the children.
    fn children_hash(&self, builds: &BuildCache) -> Option<String> {
        self.profile_and_children(builds).1
    }
}

#[test]
fn children_stay_unchanged_while_pods_may_exist() {
    let builds = BuildCache::default();
    let mut case = BuildFixture::new(json!({}));
    let original = case.children_hash(&builds);
    assert!(original.is_some());
    case.delete_queue("default");
    assert_eq!(case.build(&builds), Err(Reason::QueueNotFound));
    // The job waits and has no pods, so its children are not kept up to date.
    assert_eq!(case.children_hash(&builds), None);
    case.queue("default", json!({}));
    case.add_plan(PodGroupPhase::Placed);
    assert_eq!(case.children_hash(&builds), original);
    case.delete_queue("default");
    for phase in [PodGroupPhase::Placed, PodGroupPhase::Unwinding] {
        case.set_phase(phase);
        assert_eq!(case.build(&builds), Err(Reason::QueueNotFound));
        assert_eq!(case.children_hash(&builds), original, "{phase:?}");
    }
    builds.remove(&key());
    assert_eq!(
        case.children_hash(&builds),
        None,
        "the gang has no place any more"
    );
}

/// A new leader has no earlier build. The plan in the journal was allowed.
#[test]
fn new_leader_retains_the_planned_children() {
    let mut case = BuildFixture::new(json!({}));
    let original = case.children_hash(&BuildCache::default());
    case.add_plan(PodGroupPhase::Placed);
    case.delete_queue("default");
    assert_eq!(case.children_hash(&BuildCache::default()), original);
    // The job differs from the planned job, and policies have not allowed the new version.
    let mut job = case
        .context
        .cache
        .jobs
        .get(&key())
        .unwrap()
        .as_ref()
        .clone();
    job.spec.preemptibility = Some(Preemptibility::ProtectedWithinQuota);
    job.metadata.generation = Some(2);
    job.metadata.resource_version = Some(case.next_version());
    case.context.cache.jobs.insert_observed(key(), job);
    assert_eq!(case.children_hash(&BuildCache::default()), None);
}
