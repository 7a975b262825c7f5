//! Bindings that take effect after their plan was rolled back.

use super::*;
use crate::external::plan;

/// Returns the fields of a pod of gang "g" that this plan has bound to node n.
fn gang_pod_bound_by(plan: &str) -> Value {
    let mut pod = bound_by_plan("n", plan, "q");
    pod["/metadata/annotations"]["trellis.dev/placed-with"] = json!("g");
    pod["/metadata/labels"] = json!({"trellis.dev/pod-group": "g"});
    pod
}

/// Returns a journal in which these plans were rolled back, one after the other.
fn journal_with_rolled_back_plans(plans: &[&str]) -> PodGroupStatus {
    let mut journal = PodGroupStatus::default();
    for plan in plans {
        journal.phase = Some(PodGroupPhase::Unwinding);
        journal.plan = Some(Plan {
            hash: (*plan).to_owned(),
            ..Plan::default()
        });
        journal = plan::clear_place(&journal).unwrap();
    }
    journal
}

#[test]
fn pod_bound_late_by_a_rolled_back_plan_is_stopped() {
    let pods = [
        ("a", gang_pod_bound_by("p")),
        ("b", json!({})),
        ("c", json!({})),
    ];
    let mut scene = PodGroupScene::new(&pods);
    scene.journal = journal_with_rolled_back_plans(&["p"]);
    assert_eq!(removed_pod_names(scene.next_step()), ["a"]);
    scene.journal = journal_with_rolled_back_plans(&["p", "later"]);
    assert_eq!(
        removed_pod_names(scene.next_step()),
        ["a"],
        "a later plan was rolled back too"
    );
}

#[test]
fn pod_bound_late_by_a_rolled_back_plan_joins_no_place() {
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        let pod_of_plan = |plan| {
            let mut pod = gang_pod_bound_by("p");
            pod["/metadata/annotations"]["trellis.dev/plan"] = json!(plan);
            pod
        };
        let pods = [
            ("a", pod_of_plan("p")),
            ("b", pod_of_plan("p")),
            ("late", pod_of_plan("undone")),
        ];
        let mut scene = PodGroupScene::new(&pods).in_phase(phase, 60);
        let plan = scene.journal.plan.take();
        scene.journal = PodGroupStatus {
            phase: Some(phase),
            plan,
            ..journal_with_rolled_back_plans(&["undone"])
        };
        assert_eq!(removed_pod_names(scene.next_step()), ["late"], "{phase:?}");
    }
}

/// The journal may have been deleted while its gang ran. Then the gang keeps running.
#[test]
fn pods_of_a_plan_without_a_journal_are_adopted() {
    let pods = [("a", gang_pod_bound_by("x")), ("b", gang_pod_bound_by("x"))];
    let mut scene = PodGroupScene::new(&pods);
    assert_eq!(scene.next_step(), GangStep::Special(ExternalStep::Adopt));
    scene.journal = journal_with_rolled_back_plans(&["p"]);
    assert_eq!(scene.next_step(), GangStep::Special(ExternalStep::Adopt));
}

#[test]
fn journal_remembers_at_most_8_rolled_back_plans() {
    let plans: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let plans: Vec<&str> = plans.iter().map(String::as_str).collect();
    let journal = serde_json::to_value(journal_with_rolled_back_plans(&plans)).unwrap();
    let recorded = journal["undonePlans"].as_array().unwrap();
    assert_eq!(recorded.len(), 8);
    assert_eq!(recorded.last().unwrap(), "99");
}
