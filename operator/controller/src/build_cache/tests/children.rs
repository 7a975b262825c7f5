//! The compiled result that the children keep.

use trellis_api::job::Preemptibility;

use super::*;

impl BuildFixture {
    /// Hash of the compiled result that the children keep.
    fn children_hash(&self, builds: &BuildCache) -> Option<String> {
        self.profile_and_children(builds).1
    }
}

#[test]
fn children_stay_unchanged_while_pods_may_exist() {
    let builds = BuildCache::default();
    let mut case = BuildFixture::new(json!({}));
    let good = case.children_hash(&builds);
    assert!(good.is_some());
    case.delete_queue("default");
    assert_eq!(case.build(&builds), Err(Reason::QueueNotFound));
    // It waits: nothing of it is there that could do harm.
    assert_eq!(case.children_hash(&builds), None);
    case.queue("default", json!({}));
    case.add_plan(PodGroupPhase::Placed);
    assert_eq!(case.children_hash(&builds), good);
    case.delete_queue("default");
    for phase in [PodGroupPhase::Placed, PodGroupPhase::Unwinding] {
        case.set_phase(phase);
        assert_eq!(case.build(&builds), Err(Reason::QueueNotFound));
        assert_eq!(case.children_hash(&builds), good, "{phase:?}");
    }
    builds.remove(&key());
    assert_eq!(
        case.children_hash(&builds),
        None,
        "it holds no place any more"
    );
}

/// Nothing is remembered, and the journal tells what was allowed.
#[test]
fn new_leader_retains_the_planned_children() {
    let mut case = BuildFixture::new(json!({}));
    let good = case.children_hash(&BuildCache::default());
    case.add_plan(PodGroupPhase::Placed);
    case.delete_queue("default");
    assert_eq!(case.children_hash(&BuildCache::default()), good);
    // Another job than was planned: what it would become nobody has allowed.
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
