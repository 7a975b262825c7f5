//! The compiled result that the children keep.

use trellis_api::job::Preemptibility;

use super::*;

impl Case {
    /// Hash of the compiled result that the children keep.
    fn children(&self, builds: &Builds) -> Option<String> {
        self.told(builds).1
    }
}

#[test]
fn children_are_kept_as_they_were_while_there_may_be_pods() {
    let builds = Builds::default();
    let mut case = Case::new(json!({}));
    let good = case.children(&builds);
    assert!(good.is_some());
    case.delete_queue("default");
    assert_eq!(case.build(&builds), Err(Reason::QueueNotFound));
    // It waits: nothing of it is there that could do harm.
    assert_eq!(case.children(&builds), None);
    case.queue("default", json!({}));
    case.plan(PodGroupPhase::Placed);
    assert_eq!(case.children(&builds), good);
    case.delete_queue("default");
    for phase in [PodGroupPhase::Placed, PodGroupPhase::Unwinding] {
        case.becomes(phase);
        assert_eq!(case.build(&builds), Err(Reason::QueueNotFound));
        assert_eq!(case.children(&builds), good, "{phase:?}");
    }
    builds.forget(&key());
    assert_eq!(case.children(&builds), None, "it holds no place any more");
}

/// Nothing is remembered, and the journal tells what was allowed.
#[test]
fn a_new_operator_keeps_the_children_that_were_planned() {
    let mut case = Case::new(json!({}));
    let good = case.children(&Builds::default());
    case.plan(PodGroupPhase::Placed);
    case.delete_queue("default");
    assert_eq!(case.children(&Builds::default()), good);
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
    job.metadata.resource_version = Some(case.next());
    case.context.cache.jobs.observed(key(), job);
    assert_eq!(case.children(&Builds::default()), None);
}
