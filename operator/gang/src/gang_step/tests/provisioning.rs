//! A gang that waits for new nodes.

use trellis_api::pod_group::JournaledOrder;

use super::*;
use crate::journal::build_provisioning;

fn order_for(desired: &DesiredGang) -> JournaledOrder {
    let run = desired.attempt().unwrap();
    let times = (second(0), second(600));
    build_provisioning(run, Vec::new(), Vec::new(), times)
}

/// Returns the step of a gang with an order for attempt 1, which this author wrote.
fn ordered_step(desired: &DesiredGang, author: Option<PlanAuthor>) -> Step {
    let journal = PodGroupStatus {
        phase: Some(PodGroupPhase::Provisioning),
        provisioning: Some(order_for(&desired_run(1))),
        ..PodGroupStatus::default()
    };
    let pods = BTreeMap::new();
    let mut gang = gang(desired, &journal, &pods);
    gang.author = author;
    gang.next_step()
}

#[test]
fn order_goes_on_only_for_the_attempt_that_it_was_made_for() {
    let ours = Some(PlanAuthor::ThisLeader);
    let step = |desired: &DesiredGang| describe_step(&ordered_step(desired, ours));
    assert_eq!(step(&desired_run(1)), "Enqueue");
    for other in [
        desired_run(2),
        desired_run_with(
            1,
            serde_json::json!({"preemptibility": "ProtectedWithinQuota"}),
        ),
        DesiredGang::Wait,
        DesiredGang::stop(Reason::Suspended),
    ] {
        assert_eq!(step(&other), "EndProvisioning", "{other:?}");
    }
}

#[test]
fn new_leader_takes_over_an_inherited_order_and_ends_that_of_a_stale_one() {
    let step = |author| describe_step(&ordered_step(&desired_run(1), author));
    assert_eq!(step(Some(PlanAuthor::Predecessor)), "TakeOver");
    assert_eq!(step(Some(PlanAuthor::Stale)), "EndProvisioning");
    assert_eq!(step(None), "StandBy");
}
