//! Inputs that follow the present, and inputs that a placed gang keeps.

use k8s_openapi::api::scheduling::v1::PriorityClass;

use super::*;

impl Case {
    fn default_class(&mut self, value: i32) {
        let class: PriorityClass = serde_json::from_value(json!({
            "metadata": {"name": "standard", "resourceVersion": self.next()},
            "value": value, "globalDefault": true,
        }))
        .unwrap();
        let name = Key::new("", "standard");
        self.context.cache.priority_classes.observed(name, class);
    }
}

fn is(queue: &str, priority: i32) -> Result<(String, i32), Reason> {
    Ok((queue.to_owned(), priority))
}

#[test]
fn who_has_a_place_keeps_its_queue_and_priority_and_who_waits_does_not() {
    let builds = Builds::default();
    let mut case = Case::new(json!({}));
    assert_eq!(case.build(&builds), is("default", 0));
    case.plan(PodGroupPhase::Committing);
    // The first by name wins of two defaults that ask for as much.
    case.queue("a", json!({}));
    case.default_class(7);
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        case.becomes(phase);
        assert_eq!(case.build(&builds), is("default", 0), "{phase:?}");
    }
    for phase in [
        PodGroupPhase::Unwinding,
        PodGroupPhase::Pending,
        PodGroupPhase::Nominated,
    ] {
        case.becomes(phase);
        assert_eq!(case.build(&builds), is("a", 7), "{phase:?}");
    }
}

#[test]
fn what_the_job_names_itself_is_its_own() {
    let builds = Builds::default();
    let mut case = Case::new(json!({"queueName": "default"}));
    case.plan(PodGroupPhase::Placed);
    case.delete_queue("default");
    case.queue("a", json!({}));
    assert_eq!(case.build(&builds), Err(Reason::QueueNotFound));
}

#[test]
fn who_has_a_place_keeps_its_profile_and_the_next_attempt_has_that_of_now() {
    let builds = Builds::default();
    let mut case = Case::new(json!({}));
    case.profile("p", "old");
    let (old, children) = case.told(&builds);
    assert_eq!(old.as_ref().unwrap().name, "p");
    // A waiting job uses the present profile.
    case.profile("p", "new");
    let (new, other_children) = case.told(&builds);
    assert_ne!(old.as_ref().unwrap().hash, new.as_ref().unwrap().hash);
    assert_ne!(children, other_children);
    case.profile("p", "old");
    case.told(&builds);
    case.plan(PodGroupPhase::Committing);
    assert_eq!(case.told(&builds), (old.clone(), children.clone()));
    case.status(1, old.clone());
    case.profile("p", "new");
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        case.becomes(phase);
        assert_eq!(
            case.told(&builds),
            (old.clone(), children.clone()),
            "{phase:?}"
        );
    }
    // A deleted profile is kept, too.
    case.context.cache.profiles.remove("p", "p");
    assert_eq!(case.told(&builds), (old.clone(), children.clone()));
    case.profile("p", "new");
    // A new leader does not know the old profile's content, so it leaves the children as they are.
    assert_eq!(case.told(&Builds::default()), (old.clone(), None));
    case.status(2, old);
    assert_eq!(case.told(&builds), (new, other_children));
}
