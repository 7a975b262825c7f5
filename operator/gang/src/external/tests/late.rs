//! Bindings that take effect after their plan was rolled back.

use super::*;
use crate::external::plan;

/// A pod of gang "g" that a binding of this plan has put on node n.
fn bound_by(plan: &str) -> Value {
    let mut pod = by("n", plan, "q");
    pod["/metadata/annotations"]["trellis.dev/placed-with"] = json!("g");
    pod["/metadata/labels"] = json!({"trellis.dev/pod-group": "g"});
    pod
}

/// A journal that has rolled back these plans, one after the other.
fn undone(plans: &[&str]) -> PodGroupStatus {
    let mut journal = PodGroupStatus::default();
    for plan in plans {
        journal.phase = Some(PodGroupPhase::Unwinding);
        journal.plan = Some(Plan {
            hash: (*plan).to_owned(),
            ..Plan::default()
        });
        journal = plan::emptied(&journal).unwrap();
    }
    journal
}

#[test]
fn pod_that_an_undone_plan_binds_late_is_stopped() {
    let pods = [("a", bound_by("p")), ("b", json!({})), ("c", json!({}))];
    let mut scene = Scene::new(&pods);
    scene.journal = undone(&["p"]);
    assert_eq!(names(scene.next()), ["a"]);
    scene.journal = undone(&["p", "later"]);
    assert_eq!(names(scene.next()), ["a"], "two plans were undone since");
}

#[test]
fn pod_that_an_undone_plan_binds_late_is_no_part_of_the_next_place() {
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        let next = |name| {
            let mut pod = bound_by("p");
            pod["/metadata/annotations"]["trellis.dev/plan"] = json!(name);
            pod
        };
        let pods = [("a", next("p")), ("b", next("p")), ("late", next("undone"))];
        let mut scene = Scene::new(&pods).in_phase(phase, 60);
        let plan = scene.journal.plan.take();
        scene.journal = PodGroupStatus {
            phase: Some(phase),
            plan,
            ..undone(&["undone"])
        };
        assert_eq!(names(scene.next()), ["late"], "{phase:?}");
    }
}

/// The journal may have been deleted while its gang ran: that is no reason to tear the gang apart.
#[test]
fn pods_of_a_plan_that_no_journal_knows_stay() {
    let pods = [("a", bound_by("x")), ("b", bound_by("x"))];
    let mut scene = Scene::new(&pods);
    assert_eq!(scene.next(), Step::Adopt);
    scene.journal = undone(&["p"]);
    assert_eq!(scene.next(), Step::Adopt);
}

#[test]
fn journal_remembers_a_bounded_number_of_undone_plans() {
    let plans: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let plans: Vec<&str> = plans.iter().map(String::as_str).collect();
    let journal = serde_json::to_value(undone(&plans)).unwrap();
    let kept = journal["undonePlans"].as_array().unwrap();
    assert_eq!(kept.len(), 8);
    assert_eq!(kept.last().unwrap(), "99");
}
