use proptest::prelude::*;
use trellis_api::condition::ConditionType;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Wait(i64),
    Commit,
    Place(PodPhase),
    Unwind,
    Preempt,
    Nominate,
    Clear,
    Pod(u32, PodPhase),
    Delete(u32),
    /// A pod that no plan names, or the awaited replacement of another pod.
    Join(u32, PodPhase),
    Lose(u32),
    Suspend(bool),
    Certify,
    Hold,
    Evict,
}

fn phase() -> impl Strategy<Value = PodPhase> {
    prop_oneof![
        Just(PodPhase::Pending),
        Just(PodPhase::Running),
        Just(PodPhase::Succeeded),
        Just(exit(1)),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..100_i64).prop_map(Event::Wait),
        Just(Event::Commit),
        phase().prop_map(Event::Place),
        Just(Event::Place(PodPhase::Running)),
        Just(Event::Unwind),
        Just(Event::Preempt),
        Just(Event::Nominate),
        Just(Event::Clear),
        (0..4_u32, phase()).prop_map(|(i, p)| Event::Pod(i, p)),
        (0..4_u32).prop_map(Event::Delete),
        (0..4_u32, phase()).prop_map(|(i, p)| Event::Join(i, p)),
        (0..2_u32).prop_map(Event::Lose),
        any::<bool>().prop_map(Event::Suspend),
        Just(Event::Certify),
        Just(Event::Hold),
        Just(Event::Evict),
    ]
}

fn happen(case: &mut Case, event: Event) {
    let attempt = case.attempt();
    match event {
        Event::Wait(seconds) => case.second += seconds,
        Event::Commit => case.commit(attempt),
        Event::Place(phase) => case.place(attempt, &phase),
        Event::Unwind => case.journal.phase = Some(PodGroupPhase::Unwinding),
        Event::Preempt => case.preempt(),
        Event::Nominate => {
            case.commit(attempt);
            case.journal.phase = Some(PodGroupPhase::Nominated);
        }
        Event::Clear => case.clear(),
        Event::Pod(index, phase) => {
            let name = format!("llm-{}-{index}", case.group());
            if let Some(pod) = case.pods.get_mut(&name) {
                pod.phase = phase;
            }
        }
        Event::Delete(index) => {
            case.pods.remove(&format!("llm-{}-{index}", case.group()));
        }
        Event::Join(index, phase) => {
            if let Some(first) = case.pods.values().next().cloned() {
                let awaited = case.status.internal.awaited_pods.as_ref();
                let group = case.group();
                let round = awaited.and_then(|a| Some(a.by_pod().of(&group, index)?.round));
                // A pod of the plan is on its planned node.
                let of_plan = case.pods.get(&format!("llm-{group}-{index}"));
                let node = of_plan.map_or(first.node.clone(), |pod| pod.node.clone());
                let pod = PodView {
                    node,
                    uid: format!("joined-{index}-{round:?}"),
                    index,
                    round: round.unwrap_or(0),
                    phase,
                    ..first
                };
                case.pods.insert(format!("llm-{group}-{index}"), pod);
            }
        }
        Event::Lose(index) => {
            case.lost.insert(format!("node-{index}"));
        }
        Event::Suspend(suspend) => case.spec.suspend = Some(suspend),
        Event::Certify => case.certify(Reason::InsufficientCapacity),
        Event::Evict => match case.evicted {
            None => case.evict(),
            Some(_) => case.allow(),
        },
        Event::Hold => {
            case.evicted = None;
            match case.standing {
                Standing::Runnable { .. } => case.hold(JobPhase::Waiting, Reason::QueueNotFound),
                Standing::Held(_) => case.allow(),
            }
        }
    }
}

/// Jobs that restart as a whole, by pod and by group; an elastic job; and a job with stages.
fn kinds() -> Vec<Case> {
    let of = |scope: Value| {
        let mut restart = json!({"limit": 2, "disruptionLimit": 2});
        if !scope.is_null() {
            restart["scope"] = scope;
        }
        Case::new(json!({"restart": restart}))
    };
    let mut elastic = of(Value::Null);
    let group = elastic.spec.task_groups.first_mut().unwrap();
    (group.replicas, group.min_replicas) = (Some(4), Some(2));
    vec![
        of(Value::Null),
        of(json!("Pod")),
        of(json!("Group")),
        elastic,
        stages::case(json!({"restart": {"limit": 2, "disruptionLimit": 2}})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens(kind in 0..5_usize, events in prop::collection::vec(event(), 1..60)) {
        let mut case = kinds().swap_remove(kind);
        for event in events {
            happen(&mut case, event);
            let before = case.status.clone();
            let first = case.step();
            let attempt = case.status.attempt.unwrap_or(1);
            prop_assert!(attempt >= before.attempt.unwrap_or(1));
            prop_assert!(attempt <= before.attempt.unwrap_or(1) + 1);
            let stage = |status: &TrainingJobStatus| status.stage.as_ref().map_or(1, |s| s.number);
            let (is, was) = (stage(&case.status), stage(&before));
            prop_assert!(is == was || (is == was + 1 && attempt > before.attempt.unwrap_or(1)));
            prop_assert!(case.status.restarts.unwrap_or(0) <= 2);
            prop_assert!(case.status.disruptions.unwrap_or(0) <= 2);
            if before.phase.is_some_and(JobPhase::is_terminal) {
                prop_assert_eq!(&case.status, &before);
            }
            if first.status.is_some() {
                let types: Vec<_> =
                    case.status.conditions.iter().map(|c| c.type_.as_str()).collect();
                prop_assert_eq!(types, ConditionType::ALL.map(ConditionType::as_str).to_vec());
            }
            // A second evaluation changes nothing, with two exceptions: a held job reports that
            // once its failure is written, and a job that continues or begins anew reports why it
            // waits.
            let written = case.status.clone();
            case.step();
            prop_assert_eq!(case.status.attempt, written.attempt);
            prop_assert_eq!(case.status.restarts, written.restarts);
            prop_assert_eq!(case.status.disruptions, written.disruptions);
            let resumed = before.phase == Some(JobPhase::Suspended) && first.wish == Wish::Wait;
            let anew = resumed || written.reason == Some(Reason::JournalLost);
            if matches!(case.standing, Standing::Runnable { .. }) && !anew {
                prop_assert_eq!(&case.status, &written);
            }
            let settled = case.status.clone();
            case.step();
            prop_assert_eq!(&case.status, &settled);
        }
    }
}
