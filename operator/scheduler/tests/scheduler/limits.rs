//! Tests of limits outside queue quota.

use crate::common::*;
use crate::flavors::offered::queue_with_flavors;
use crate::queues::flavor;
use trellis_scheduler::{
    Engine, FlavorName, Gang, LimitClosure, LimitDraw, LimitName, LimitUnit, QueueName,
    ResourceName, Time, WaitExplanation, WaitReason,
};

fn limit_name(name: &str) -> LimitName {
    LimitName::new(format!("quota policy \"p\", {name}"))
}

fn limit_draw(name: &str, of: LimitUnit, max: i64) -> LimitDraw {
    LimitDraw {
        limit: limit_name(name),
        of,
        max: Some(max),
        refuses: false,
    }
}

pub fn gpu_draw(max: i64) -> LimitDraw {
    let resource = ResourceName::new(GPU);
    let of = LimitUnit::Resource {
        resource,
        flavor: None,
    };
    limit_draw(GPU, of, max)
}

/// Returns a gang of this many pods of 8 GPUs.
fn drawing_gang(name: &str, pods: u32, draws: &[LimitDraw]) -> Gang {
    Gang {
        draws: draws.to_vec(),
        ..workers(name, pods, gpu(1, 8))
    }
}

fn limit_usage(engine: &Engine) -> Vec<(String, i128)> {
    let limits = engine.limit_usage();
    limits
        .map(|(limit, held)| (limit.as_str().replace("quota policy \"p\", ", ""), held))
        .collect()
}

fn explanation_text(engine: &mut Engine, gang: &str) -> String {
    let explanation: WaitExplanation = engine.explain(&id(gang), ms(0)).unwrap();
    assert_eq!(explanation.reason, WaitReason::QuotaPolicyExceeded);
    explanation.to_string()
}

#[test]
fn gang_past_a_limit_starts_when_another_gang_ends() {
    let mut engine = engine(gpu_nodes(8));
    for name in ["a", "b", "c"] {
        engine.apply_gang(drawing_gang(name, 2, &[gpu_draw(32)]));
    }
    engine.apply_gang(workers("free", 1, gpu(1, 8)));
    assert_eq!(
        cycle(&mut engine),
        ["+a", "+b", "+free", "-c QuotaPolicyExceeded"]
    );
    assert_eq!(limit_usage(&engine), [(GPU.to_owned(), 32)]);
    assert_eq!(
        explanation_text(&mut engine, "c"),
        "quota policy \"p\", nvidia.com/gpu: needs 16, 32 of 32 are held: 16 are missing; held by \
         2 gangs (\"team/a\" 16, \"team/b\" 16)"
    );
    engine.release_gang(&id("a"), Some(ms(1_000)));
    assert_eq!(cycle(&mut engine), ["+c", "-a BackingOff"]);
    engine.delete_gang(&id("b"));
    engine.delete_gang(&id("c"));
    assert_eq!(limit_usage(&engine), []);
}

#[test]
fn two_hundred_jobs_start_ten_at_a_time_under_a_limit() {
    let mut engine = engine(gpu_nodes(64));
    for n in 0..200 {
        let draws = [limit_draw("runningJobs", LimitUnit::Gangs, 10)];
        engine.apply_gang(drawing_gang(&format!("j{n:03}"), 1, &draws));
    }
    let mut ran = 0;
    while engine.pending_gang_count() > 0 {
        engine.cycle(ms(0));
        assert_eq!(limit_usage(&engine), [("runningJobs".to_owned(), 10)]);
        let waits: Vec<_> = engine.pending_gangs().cloned().collect();
        for n in 0..200 {
            let one = id(&format!("j{n:03}"));
            if engine.placement(&one).is_some() && !waits.contains(&one) {
                engine.delete_gang(&one);
                ran += 1;
                break;
            }
        }
    }
    assert_eq!((ran, engine.placed_gang_count()), (191, 9));
}

#[test]
fn gang_needs_room_in_all_limits_and_the_change_lists_each() {
    let mut engine = engine(gpu_nodes(8));
    let draws = [gpu_draw(8), limit_draw("runningJobs", LimitUnit::Gangs, 1)];
    engine.apply_gang(drawing_gang("a", 1, &draws));
    assert_eq!(cycle(&mut engine), ["+a"]);
    engine.apply_gang(drawing_gang("b", 2, &draws));
    assert_eq!(cycle(&mut engine), ["-b QuotaPolicyExceeded"]);
    let says = explanation_text(&mut engine, "b");
    assert!(
        says.ends_with(
            "; it would fit with 16 more in quota policy \"p\", nvidia.com/gpu, 1 more in quota \
             policy \"p\", runningJobs"
        ),
        "{says}"
    );
    // The gang starts if the limits are raised by these amounts. Smaller raises do not suffice.
    for (gpu, jobs, starts) in [(23, 2, false), (24, 1, false), (24, 2, true)] {
        let draws = [
            gpu_draw(gpu),
            limit_draw("runningJobs", LimitUnit::Gangs, jobs),
        ];
        let fits = engine
            .try_gang(&drawing_gang("c", 2, &draws), ms(0))
            .is_ok();
        assert_eq!(fits, starts, "{gpu} {jobs}");
    }
}

#[test]
fn gang_that_draws_nothing_is_not_limited() {
    let mut engine = engine(gpu_nodes(1));
    engine.close_limit(limit_name("gpuHours"), budget_closure(None));
    let hours = limit_draw("gpuHours", LimitUnit::Devices, i64::MAX);
    let none = Gang {
        draws: vec![gpu_draw(0), hours],
        ..workers("w", 1, cpu(1))
    };
    engine.apply_gang(none);
    assert_eq!(cycle(&mut engine), ["+w"]);
    assert_eq!(limit_usage(&engine), []);
}

#[test]
fn next_flavor_is_used_when_the_limit_of_one_is_full() {
    let nodes = ["a", "b"].map(|of| label(gpu_node(of, 8), "gpu", of));
    let mut engine = engine(nodes);
    for name in ["a", "b"] {
        engine.apply_flavor(flavor(name));
    }
    engine.apply_queue(queue_with_flavors("q", None, &[("a", 8), ("b", 8)]));
    let of = LimitUnit::Resource {
        resource: ResourceName::new(GPU),
        flavor: Some(FlavorName::new("a")),
    };
    let gang = |name| Gang {
        queue: QueueName::new("q"),
        draws: vec![limit_draw("a", of.clone(), 4)],
        ..workers(name, 1, gpu(0, 4))
    };
    for name in ["1", "2", "3", "4"] {
        engine.apply_gang(gang(name));
    }
    // Gangs hold 4 of flavor `a` and 8 of flavor `b`. The engine reports the assignment nearest to
    // a start.
    assert_eq!(cycle(&mut engine), ["+1", "+2", "+3", "-4 QuotaExceeded"]);
    assert_eq!(limit_usage(&engine), [("a".to_owned(), 4)]);
}

#[test]
fn lowered_limit_stops_no_running_gang_and_admits_none() {
    let mut engine = engine(gpu_nodes(8));
    engine.apply_gang(drawing_gang("a", 2, &[gpu_draw(64)]));
    assert_eq!(cycle(&mut engine), ["+a"]);
    engine.apply_gang(drawing_gang("a", 2, &[gpu_draw(8)]));
    engine.apply_gang(drawing_gang("b", 1, &[gpu_draw(8)]));
    assert_eq!(cycle(&mut engine), ["-b QuotaPolicyExceeded"]);
    assert!(explanation_text(&mut engine, "b").contains("16 of 8 are held: 16 are missing"));
    assert!(engine.placement(&id("a")).is_some());
    // A gang no longer counts for a limit that it does not draw on any more.
    engine.apply_gang(drawing_gang("a", 2, &[]));
    assert_eq!(cycle(&mut engine), ["+b"]);
    assert_eq!(limit_usage(&engine), [(GPU.to_owned(), 8)]);
}

fn budget_closure(until: Option<Time>) -> LimitClosure {
    LimitClosure {
        why: "all 8 GPU hours are used".to_owned(),
        until,
    }
}

#[test]
fn closed_limit_admits_no_gang_until_it_is_open() {
    let mut engine = engine(gpu_nodes(2));
    let hours = limit_draw("gpuHours", LimitUnit::Devices, i64::MAX);
    let gang = |name| {
        let mut gang = drawing_gang(name, 1, std::slice::from_ref(&hours));
        gang.groups[0].device = Some(ResourceName::new(GPU));
        gang
    };
    engine.apply_gang(gang("a"));
    assert_eq!(cycle(&mut engine), ["+a"]);
    assert_eq!(limit_usage(&engine), [("gpuHours".to_owned(), 8)]);
    engine.close_limit(limit_name("gpuHours"), budget_closure(Some(ms(0))));
    engine.apply_gang(gang("b"));
    assert_eq!(cycle(&mut engine), ["-b QuotaPolicyExceeded"]);
    assert_eq!(
        explanation_text(&mut engine, "b"),
        "quota policy \"p\", gpuHours: all 8 GPU hours are used, and nothing starts until \
         1970-01-01T00:00:00Z"
    );
    engine.close_limit(limit_name("gpuHours"), budget_closure(None));
    cycle(&mut engine);
    assert_eq!(
        explanation_text(&mut engine, "b"),
        "quota policy \"p\", gpuHours: all 8 GPU hours are used, and nothing starts before that \
         changes"
    );
    assert!(engine.placement(&id("a")).is_some(), "what runs goes on");
    // A limit that only counts blocks no gang.
    let mut counted = gang("c");
    counted.draws[0].max = None;
    assert!(engine.try_gang(&counted, ms(0)).is_ok());
    engine.open_limit(&limit_name("gpuHours"));
    assert_eq!(cycle(&mut engine), ["+b"]);
}

#[test]
fn pending_limit_admits_the_first_submitted_gangs() {
    let mut engine = engine(gpu_nodes(1));
    let waiting = LimitDraw {
        refuses: true,
        ..limit_draw("queuedJobs", LimitUnit::Waiting, 2)
    };
    for (at, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let mut gang = drawing_gang(name, 1, std::slice::from_ref(&waiting));
        gang.submitted = ms(i64::try_from(at).unwrap());
        gang.priority = i32::try_from(at).unwrap();
        engine.apply_gang(gang);
    }
    // A gang that starts makes room for one more pending gang.
    assert_eq!(cycle(&mut engine).first().map(String::as_str), Some("+b"));
    assert_eq!(limit_usage(&engine), [("queuedJobs".to_owned(), 4)]);
    let told = |engine: &mut Engine, gang: &str| {
        let told = engine.explain(&id(gang), ms(5)).unwrap();
        (told.reason, told.detail.is_refusal())
    };
    let (room, limit) = (
        WaitReason::InsufficientCapacity,
        WaitReason::QuotaPolicyExceeded,
    );
    assert_eq!(told(&mut engine, "a"), (room, false));
    assert_eq!(told(&mut engine, "c"), (room, false));
    assert_eq!(told(&mut engine, "d"), (limit, true));
    assert_eq!(
        explanation_text(&mut engine, "e"),
        "quota policy \"p\", queuedJobs: 3 wait already, and 2 may"
    );
    engine.delete_gang(&id("a"));
    engine.cycle(ms(5));
    assert_eq!(told(&mut engine, "d"), (room, false));
    assert_eq!(told(&mut engine, "e"), (limit, true));
}

#[test]
fn full_limit_causes_no_eviction_and_no_reservation() {
    let mut engine = engine(gpu_nodes(2));
    let mut queue = queue("default", Some(&[(GPU, 16), ("cpu", 1_000_000)]));
    queue.preemption.within_queue = trellis_scheduler::WithinQueuePolicy::LowerPriority;
    engine.apply_queue(queue);
    engine.apply_gang(drawing_gang("low", 1, &[gpu_draw(8)]));
    assert_eq!(cycle(&mut engine), ["+low"]);
    let high = Gang {
        priority: 9,
        ..drawing_gang("high", 2, &[gpu_draw(8)])
    };
    engine.apply_gang(high);
    assert_eq!(cycle(&mut engine), ["-high QuotaPolicyExceeded"]);
    // The engine reserves neither room nor quota for the gang.
    engine.apply_gang(workers("other", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["+other"]);
}
