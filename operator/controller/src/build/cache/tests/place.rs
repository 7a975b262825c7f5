//! Inputs of a waiting job are current. A placed gang keeps the inputs of its placement.

use k8s_openapi::api::scheduling::v1::PriorityClass;

use super::*;

impl BuildFixture {
    fn default_class(&mut self, value: i32) {
        let class: PriorityClass = serde_json::from_value(json!({
            "metadata": {"name": "standard", "resourceVersion": self.next_version()},
            "value": value, "globalDefault": true,
        }))
        .unwrap();
        let name = Key::new("", "standard");
        self.context
            .cache
            .priority_classes
            .insert_observed(name, class);
    }
}

fn queue_and_priority(queue: &str, priority: i32) -> Result<(String, i32), Reason> {
    Ok((queue.to_owned(), priority))
}

#[test]
fn placed_job_retains_its_queue_and_priority() {
    let builds = BuildCache::default();
    let mut case = BuildFixture::new(json!({}));
    assert_eq!(case.build(&builds), queue_and_priority("default", 0));
    case.add_plan(PodGroupPhase::Committing);
    // The first queue by name is now the default.
    case.queue("a", json!({}));
    case.default_class(7);
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        case.set_phase(phase);
        assert_eq!(
            case.build(&builds),
            queue_and_priority("default", 0),
            "{phase:?}"
        );
    }
    for phase in [
        PodGroupPhase::Unwinding,
        PodGroupPhase::Pending,
        PodGroupPhase::Nominated,
    ] {
        case.set_phase(phase);
        assert_eq!(case.build(&builds), queue_and_priority("a", 7), "{phase:?}");
    }
}

#[test]
fn placed_job_with_a_deleted_named_queue_is_not_built() {
    let builds = BuildCache::default();
    let mut case = BuildFixture::new(json!({"queueName": "default"}));
    case.add_plan(PodGroupPhase::Placed);
    case.delete_queue("default");
    case.queue("a", json!({}));
    assert_eq!(case.build(&builds), Err(Reason::QueueNotFound));
}

#[test]
fn placed_job_retains_its_profile_until_the_next_attempt() {
    let builds = BuildCache::default();
    let mut case = BuildFixture::new(json!({}));
    case.profile("p", "old");
    let (old_profile, children) = case.profile_and_children(&builds);
    assert_eq!(old_profile.as_ref().unwrap().name, "p");
    // A waiting job uses the current profile.
    case.profile("p", "new");
    let (new_profile, other_children) = case.profile_and_children(&builds);
    assert_ne!(
        old_profile.as_ref().unwrap().hash,
        new_profile.as_ref().unwrap().hash
    );
    assert_ne!(children, other_children);
    case.profile("p", "old");
    case.profile_and_children(&builds);
    case.add_plan(PodGroupPhase::Committing);
    assert_eq!(
        case.profile_and_children(&builds),
        (old_profile.clone(), children.clone())
    );
    case.status(1, old_profile.clone());
    case.profile("p", "new");
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        case.set_phase(phase);
        assert_eq!(
            case.profile_and_children(&builds),
            (old_profile.clone(), children.clone()),
            "{phase:?}"
        );
    }
    // The gang keeps a deleted profile, too.
    case.context.cache.profiles.remove("p", "p");
    assert_eq!(
        case.profile_and_children(&builds),
        (old_profile.clone(), children.clone())
    );
    case.profile("p", "new");
    // A new leader does not know the old profile's content, so it leaves the children as they are.
    assert_eq!(
        case.profile_and_children(&BuildCache::default()),
        (old_profile.clone(), None)
    );
    case.status(2, old_profile);
    assert_eq!(
        case.profile_and_children(&builds),
        (new_profile, other_children)
    );
}
