//! The steps of a gang that restarts.

use trellis_api::Reason;
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};
use trellis_gang::journal::build_plan;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_machine::clock;
use trellis_scheduler::{GroupName, NodeName};

use super::*;
use crate::task_outcome::TaskOutcome;

/// Applies the job's status and the PodGroup's journal, then takes the gang's next step.
fn advance(
    driver: &mut Driver,
    sink: &WatchSink,
    desired: DesiredGang,
    (attempt, journal): (i64, PodGroupStatus),
) {
    let job = Key::new("team-a", "llm");
    sink.apply(
        job.clone(),
        decoded::<TrainingJob>(serde_json::json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "llm", "namespace": "team-a", "uid": "mine"},
            "spec": {"taskGroups": []},
            "status": {"attempt": attempt},
        })),
    );
    let journal = serde_json::to_value(journal).unwrap();
    sink.apply(job.clone(), pod_group(journal));
    let mut to_advance = BTreeSet::new();
    let mut events = driver.events.take_all();
    events.push(SchedulerEvent::DesiredGang(job.clone(), Some(desired)));
    for event in events {
        driver.handle_event(event, &mut to_advance);
    }
    // No API server answers the write. The next call applies the state that the write would have
    // stored.
    if let Some(gang) = driver.gangs.get_mut(&job) {
        gang.task = None;
    }
    driver.advance(&job);
}

/// Returns a driver whose gang "team-a/llm" restarts: its pods are gone, and its place is kept.
fn driver_with_restarting_gang() -> (Driver, Arc<WatchSink>) {
    let mut driver = driver();
    let sink = WatchSink::new(driver.committer.context());
    watch_node_and_queue(&sink);
    let run = desired_run(1);
    let runs = vec![(NodeName::new("n0"), 1)];
    let place = GangPlacement {
        placement: [(GroupName::new("worker"), runs)].into_iter().collect(),
        ..GangPlacement::default()
    };
    let plan = build_plan(run.attempt().unwrap(), &place, clock::now());
    let journal = |phase: PodGroupPhase, reason: Option<Reason>| PodGroupStatus {
        phase: Some(phase),
        reason,
        plan: Some(plan.clone()),
        ..PodGroupStatus::default()
    };
    let placed = journal(PodGroupPhase::Placed, None);
    advance(&mut driver, &sink, run, (1, placed));
    assert_eq!(engine_state(&driver), EngineState::Placed);
    let unwinding = journal(PodGroupPhase::Unwinding, Some(Reason::Restarting));
    let restart = DesiredGang::stop(Reason::Restarting);
    advance(&mut driver, &sink, restart, (2, unwinding));
    assert_eq!(engine_state(&driver), EngineState::Restarting);
    (driver, sink)
}

fn engine_state(driver: &Driver) -> EngineState {
    driver.gangs[&Key::new("team-a", "llm")].engine_state
}

/// Policies decide on the next attempt after the last pod of the previous attempt has left.
#[tokio::test]
async fn restarting_gang_keeps_its_place_while_policies_decide_on_its_attempt() {
    let (mut driver, sink) = driver_with_restarting_gang();
    let cleared = PodGroupStatus::default();
    let restart = DesiredGang::stop(Reason::Restarting);
    advance(&mut driver, &sink, restart, (2, cleared.clone()));
    assert_eq!(engine_state(&driver), EngineState::Restarting);
    // A job that may not run loses its place.
    advance(&mut driver, &sink, DesiredGang::Wait, (2, cleared));
    assert_eq!(engine_state(&driver), EngineState::Absent);
}

/// A queue changes just before the gang starts again, and then the write of its plan conflicts.
#[tokio::test]
async fn restarting_gang_keeps_its_place_until_its_next_plan_is_written() {
    let (mut driver, sink) = driver_with_restarting_gang();
    let job = Key::new("team-a", "llm");
    let id = trellis_gang::engine::gang_id(&job);
    let next_run = |driver: &mut Driver| {
        driver.gangs.get_mut(&job).unwrap().desired = None;
        advance(
            driver,
            &sink,
            desired_run(2),
            (2, PodGroupStatus::default()),
        );
        driver.decide();
    };
    next_run(&mut driver);
    assert_eq!(engine_state(&driver), EngineState::Restarting, "not judged");

    let event = judged(&driver, &job);
    driver.handle_event(event, &mut BTreeSet::new());
    next_run(&mut driver);
    assert_eq!(engine_state(&driver), EngineState::Placed);
    let conflict = TaskOutcome::Retry("the PodGroup has changed".to_owned());
    driver.handle_event(
        SchedulerEvent::TaskEnded(job.clone(), conflict),
        &mut BTreeSet::new(),
    );
    assert_eq!(engine_state(&driver), EngineState::Restarting, "conflict");
    assert!(
        driver.engine.queue_charge(&id).is_some(),
        "its quota is kept"
    );
    next_run(&mut driver);
    assert_eq!(engine_state(&driver), EngineState::Placed);
}
