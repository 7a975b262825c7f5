//! Tests of limits outside queue quota.

use crate::common::*;
use crate::flavors_offered::flavored;
use crate::queues::flavor;
use trellis_scheduler::{
    Certificate, Closure, Draw, Drawn, Engine, FlavorName, Gang, LimitName, QueueName,
    ResourceName, Time, WaitReason,
};

fn limit(name: &str) -> LimitName {
    LimitName::new(format!("quota policy \"p\", {name}"))
}

fn draw(name: &str, of: Drawn, max: i64) -> Draw {
    Draw {
        limit: limit(name),
        of,
        max: Some(max),
        refuses: false,
    }
}

fn gpus(max: i64) -> Draw {
    let resource = ResourceName::new(GPU);
    let of = Drawn::Resource {
        resource,
        flavor: None,
    };
    draw(GPU, of, max)
}

/// A gang of this many pods of 8 GPUs.
fn drawing(name: &str, pods: u32, draws: &[Draw]) -> Gang {
    Gang {
        draws: draws.to_vec(),
        ..workers(name, pods, gpu(1, 8))
    }
}

fn held(engine: &Engine) -> Vec<(String, i128)> {
    let limits = engine.limits();
    limits
        .map(|(limit, held)| (limit.as_str().replace("quota policy \"p\", ", ""), held))
        .collect()
}

fn why(engine: &mut Engine, gang: &str) -> String {
    let certificate: Certificate = engine.explain(&id(gang), ms(0)).unwrap();
    assert_eq!(certificate.reason, WaitReason::QuotaPolicyExceeded);
    certificate.to_string()
}

#[test]
fn nothing_starts_past_a_limit_and_what_ends_lets_the_next_start() {
    let mut engine = engine(gpu_nodes(8));
    for name in ["a", "b", "c"] {
        engine.apply_gang(drawing(name, 2, &[gpus(32)]));
    }
    engine.apply_gang(workers("free", 1, gpu(1, 8)));
    assert_eq!(
        cycle(&mut engine),
        ["+a", "+b", "+free", "-c QuotaPolicyExceeded"]
    );
    assert_eq!(held(&engine), [(GPU.to_owned(), 32)]);
    assert_eq!(
        why(&mut engine, "c"),
        "quota policy \"p\", nvidia.com/gpu: needs 16, 32 of 32 are held: 16 are missing; held by \
         2 gangs (\"team/a\" 16, \"team/b\" 16)"
    );
    engine.release_gang(&id("a"), Some(ms(1_000)));
    assert_eq!(cycle(&mut engine), ["+c", "-a BackingOff"]);
    engine.delete_gang(&id("b"));
    engine.delete_gang(&id("c"));
    assert_eq!(held(&engine), []);
}

#[test]
fn two_hundred_jobs_on_a_limit_of_ten() {
    let mut engine = engine(gpu_nodes(64));
    for n in 0..200 {
        let draws = [draw("runningJobs", Drawn::Gangs, 10)];
        engine.apply_gang(drawing(&format!("j{n:03}"), 1, &draws));
    }
    let mut ran = 0;
    while engine.waiting_gangs() > 0 {
        engine.cycle(ms(0));
        assert_eq!(held(&engine), [("runningJobs".to_owned(), 10)]);
        let waits: Vec<_> = engine.waiting().cloned().collect();
        for n in 0..200 {
            let one = id(&format!("j{n:03}"));
            if engine.placement(&one).is_some() && !waits.contains(&one) {
                engine.delete_gang(&one);
                ran += 1;
                break;
            }
        }
    }
    assert_eq!((ran, engine.placed_gangs()), (191, 9));
}

#[test]
fn all_limits_must_have_room_and_what_all_lack_is_told() {
    let mut engine = engine(gpu_nodes(8));
    let draws = [gpus(8), draw("runningJobs", Drawn::Gangs, 1)];
    engine.apply_gang(drawing("a", 1, &draws));
    assert_eq!(cycle(&mut engine), ["+a"]);
    engine.apply_gang(drawing("b", 2, &draws));
    assert_eq!(cycle(&mut engine), ["-b QuotaPolicyExceeded"]);
    let says = why(&mut engine, "b");
    assert!(
        says.ends_with(
            "; it would fit with 16 more in quota policy \"p\", nvidia.com/gpu, 1 more in quota \
             policy \"p\", runningJobs"
        ),
        "{says}"
    );
    // The gang starts if the limits are raised by this much, and not with less.
    for (gpu, jobs, starts) in [(23, 2, false), (24, 1, false), (24, 2, true)] {
        let draws = [gpus(gpu), draw("runningJobs", Drawn::Gangs, jobs)];
        let fits = engine.trial(&drawing("c", 2, &draws), ms(0)).is_ok();
        assert_eq!(fits, starts, "{gpu} {jobs}");
    }
}

#[test]
fn who_needs_nothing_of_it_is_not_limited() {
    let mut engine = engine(gpu_nodes(1));
    engine.close_limit(limit("gpuHours"), burnt(None));
    let hours = draw("gpuHours", Drawn::Devices, i64::MAX);
    let none = Gang {
        draws: vec![gpus(0), hours],
        ..workers("w", 1, cpu(1))
    };
    engine.apply_gang(none);
    assert_eq!(cycle(&mut engine), ["+w"]);
    assert_eq!(held(&engine), []);
}

#[test]
fn a_flavor_has_its_own_limit_and_the_next_flavor_is_taken() {
    let nodes = ["a", "b"].map(|of| label(gpu_node(of, 8), "gpu", of));
    let mut engine = engine(nodes);
    for name in ["a", "b"] {
        engine.apply_flavor(flavor(name));
    }
    engine.apply_queue(flavored("q", None, &[("a", 8), ("b", 8)]));
    let of = Drawn::Resource {
        resource: ResourceName::new(GPU),
        flavor: Some(FlavorName::new("a")),
    };
    let gang = |name| Gang {
        queue: QueueName::new("q"),
        draws: vec![draw("a", of.clone(), 4)],
        ..workers(name, 1, gpu(0, 4))
    };
    for name in ["1", "2", "3", "4"] {
        engine.apply_gang(gang(name));
    }
    // 4 of flavor `a` and 8 of flavor `b` are held: the nearest assignment is reported.
    assert_eq!(cycle(&mut engine), ["+1", "+2", "+3", "-4 QuotaExceeded"]);
    assert_eq!(held(&engine), [("a".to_owned(), 4)]);
}

#[test]
fn a_limit_that_is_lowered_stops_nobody_and_lets_nobody_in() {
    let mut engine = engine(gpu_nodes(8));
    engine.apply_gang(drawing("a", 2, &[gpus(64)]));
    assert_eq!(cycle(&mut engine), ["+a"]);
    engine.apply_gang(drawing("a", 2, &[gpus(8)]));
    engine.apply_gang(drawing("b", 1, &[gpus(8)]));
    assert_eq!(cycle(&mut engine), ["-b QuotaPolicyExceeded"]);
    assert!(why(&mut engine, "b").contains("16 of 8 are held: 16 are missing"));
    assert!(engine.placement(&id("a")).is_some());
    // A gang no longer counts for a limit that it does not draw on any more.
    engine.apply_gang(drawing("a", 2, &[]));
    assert_eq!(cycle(&mut engine), ["+b"]);
    assert_eq!(held(&engine), [(GPU.to_owned(), 8)]);
}

fn burnt(until: Option<Time>) -> Closure {
    Closure {
        why: "all 8 GPU hours are burnt".to_owned(),
        until,
    }
}

#[test]
fn from_a_limit_that_is_closed_nobody_draws_until_it_is_open() {
    let mut engine = engine(gpu_nodes(2));
    let hours = draw("gpuHours", Drawn::Devices, i64::MAX);
    let gang = |name| {
        let mut gang = drawing(name, 1, std::slice::from_ref(&hours));
        gang.groups[0].device = Some(ResourceName::new(GPU));
        gang
    };
    engine.apply_gang(gang("a"));
    assert_eq!(cycle(&mut engine), ["+a"]);
    assert_eq!(held(&engine), [("gpuHours".to_owned(), 8)]);
    engine.close_limit(limit("gpuHours"), burnt(Some(ms(0))));
    engine.apply_gang(gang("b"));
    assert_eq!(cycle(&mut engine), ["-b QuotaPolicyExceeded"]);
    assert_eq!(
        why(&mut engine, "b"),
        "quota policy \"p\", gpuHours: all 8 GPU hours are burnt, and nothing starts until \
         1970-01-01T00:00:00Z"
    );
    engine.close_limit(limit("gpuHours"), burnt(None));
    cycle(&mut engine);
    assert_eq!(
        why(&mut engine, "b"),
        "quota policy \"p\", gpuHours: all 8 GPU hours are burnt, and nothing starts before that \
         changes"
    );
    assert!(engine.placement(&id("a")).is_some(), "what runs goes on");
    // A limit that is only counted blocks no gang.
    let mut counted = gang("c");
    counted.draws[0].max = None;
    assert!(engine.trial(&counted, ms(0)).is_ok());
    engine.open_limit(&limit("gpuHours"));
    assert_eq!(cycle(&mut engine), ["+b"]);
}

#[test]
fn of_those_who_may_not_all_wait_the_first_do() {
    let mut engine = engine(gpu_nodes(1));
    let waiting = Draw {
        refuses: true,
        ..draw("queuedJobs", Drawn::Waiting, 2)
    };
    for (at, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let mut gang = drawing(name, 1, std::slice::from_ref(&waiting));
        gang.submitted = ms(i64::try_from(at).unwrap());
        gang.priority = i32::try_from(at).unwrap();
        engine.apply_gang(gang);
    }
    // A gang that starts makes room for one more pending gang.
    assert_eq!(cycle(&mut engine).first().map(String::as_str), Some("+b"));
    assert_eq!(held(&engine), [("queuedJobs".to_owned(), 4)]);
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
        why(&mut engine, "e"),
        "quota policy \"p\", queuedJobs: 3 wait already, and 2 may"
    );
    engine.delete_gang(&id("a"));
    engine.cycle(ms(5));
    assert_eq!(told(&mut engine, "d"), (room, false));
    assert_eq!(told(&mut engine, "e"), (limit, true));
}

#[test]
fn nobody_is_evicted_or_kept_waiting_for_a_limit() {
    let mut engine = engine(gpu_nodes(2));
    let mut queue = queue("default", Some(&[(GPU, 16), ("cpu", 1_000_000)]));
    queue.preemption.within_queue = trellis_scheduler::WithinQueue::LowerPriority;
    engine.apply_queue(queue);
    engine.apply_gang(drawing("low", 1, &[gpus(8)]));
    assert_eq!(cycle(&mut engine), ["+low"]);
    let high = Gang {
        priority: 9,
        ..drawing("high", 2, &[gpus(8)])
    };
    engine.apply_gang(high);
    assert_eq!(cycle(&mut engine), ["-high QuotaPolicyExceeded"]);
    // Neither room nor quota is reserved for the gang.
    engine.apply_gang(workers("other", 1, gpu(1, 8)));
    assert_eq!(cycle(&mut engine), ["+other"]);
}
