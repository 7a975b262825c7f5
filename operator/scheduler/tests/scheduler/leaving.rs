//! Tests of quota and limits of leaving gangs: no other gang has them before they have left.

use std::time::Duration;

use crate::common::*;
use crate::preemption::{LOWER, at, gone, of, preempts, seconds, see};
use crate::preemption_queues::small;
use crate::snapshots::twin;
use trellis_scheduler::{
    Detail, Draw, Drawn, Engine, Forecast, Gang, LimitName, NodeName, Queue, QueueName, Quota,
    ResourceName, Stop,
};

/// Nodes of 8 GPUs, and a queue `q` with this quota in which priority preempts.
fn limited(nodes: usize, gpus: i64) -> Engine {
    let mut engine = engine(gpu_nodes(nodes));
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..queue("q", Some(&[(GPU, gpus), ("cpu", 1 << 40)]))
    });
    engine
}

fn q(gang: Gang) -> Gang {
    Gang {
        queue: QueueName::new("q"),
        ..gang
    }
}

#[test]
fn what_a_victim_holds_beyond_what_it_is_asked_for_is_nobodys_until_it_has_left() {
    let mut engine = limited(4, 16);
    let low = Gang {
        grace: Duration::from_secs(600),
        ..q(of(0, "low", 2))
    };
    engine.apply_gang(low.clone());
    engine.cycle(seconds(0));
    see(&mut engine, &low);
    engine.apply_gang(q(of(5, "high", 1)));
    preempts(&mut engine, seconds(1));
    engine.apply_gang(q(of(0, "next", 1)));
    assert_eq!(at(&mut engine, seconds(2)), ["-next QuotaExceeded"]);
    // Its victim still holds the quota, as the explanation of the pending gang says.
    let told = engine.certificate(&id("next")).unwrap().to_string();
    assert!(told.contains("16 of 16") && told.contains("low"), "{told}");
    let mut again = twin(&engine).unwrap();
    for engine in [&mut engine, &mut again] {
        // Its pods have only begun to stop.
        engine.delete_pod(&worker("low", 0));
        assert!(at(engine, seconds(3)).is_empty());
        gone(engine, &low);
        engine.delete_gang(&id("low"));
        let said = at(engine, seconds(4));
        assert_eq!(said, ["+high", "+next"]);
    }
}

/// The time at which leaving quota becomes free is known: gangs that end before then may start, and
/// other gangs leave the quota to the one that waits for it.
#[test]
fn who_waits_for_it_knows_until_when() {
    let mut engine = limited(5, 24);
    let low = Gang {
        grace: Duration::from_secs(60),
        ..q(of(0, "low", 2))
    };
    engine.apply_gang(q(small("q", 9, "stays", 7)));
    engine.apply_gang(low.clone());
    engine.cycle(seconds(0));
    see(&mut engine, &low);
    let pinned = |gang: Gang| Gang {
        excluded_nodes: vec![NodeName::new("n03"), NodeName::new("n04")],
        ..gang
    };
    engine.apply_gang(pinned(q(of(5, "high", 1))));
    preempts(&mut engine, seconds(1));
    engine.apply_gang(q(small("q", 1, "next", 9)));
    assert_eq!(at(&mut engine, seconds(2)), ["-next QuotaExceeded"]);
    let one = |name: &str, runtime| Gang {
        runtime: Some(Duration::from_secs(runtime)),
        ..q(small("q", 0, name, 1))
    };
    engine.apply_gang(one("long", 600));
    assert_eq!(at(&mut engine, seconds(3)), ["-long Reserved"]);
    let told = &engine.certificate(&id("long")).unwrap().detail;
    let until = match &**told {
        Detail::QuotaReserved { start, .. } => *start,
        other => panic!("{other:?}"),
    };
    assert_eq!(until, Some(seconds(61)), "when the victim has left");
    engine.apply_gang(one("short", 50));
    assert_eq!(
        at(&mut engine, seconds(3)),
        ["+short", "-long QuotaExceeded"]
    );
}

#[test]
fn a_drained_gang_lends_nothing_before_it_has_left() {
    let mut engine = engine(gpu_nodes(2));
    engine.apply_queue(Queue::new(QueueName::new("all")));
    let team = |name: &str, gpus, stop| {
        let quota = |nominal| Quota {
            nominal,
            ..Quota::default()
        };
        let quotas = [
            (ResourceName::new(GPU), quota(gpus)),
            (ResourceName::new("cpu"), quota(1 << 40)),
        ];
        Queue {
            parent: Some(QueueName::new("all")),
            stop,
            ..Queue::new(QueueName::new(name)).with_quotas(quotas)
        }
    };
    engine.apply_queue(team("a", 8, Stop::None));
    engine.apply_queue(team("b", 0, Stop::None));
    let of = |queue: &str, name: &str| Gang {
        queue: QueueName::new(queue),
        ..of(0, name, 1)
    };
    engine.apply_gang(of("a", "drained"));
    engine.cycle(seconds(0));
    engine.apply_queue(team("a", 8, Stop::HoldAndDrain));
    engine.apply_gang(of("b", "borrows"));
    let said = at(&mut engine, seconds(1));
    assert_eq!(said, ["~drained", "-borrows QuotaExceeded"]);
    engine.release_gang(&id("drained"), None);
    let said = at(&mut engine, seconds(2));
    assert_eq!(said, ["+borrows", "-drained QueueStopped"]);
}

/// Two gangs that hold the whole quota: 12 and 4, the second of higher priority.
fn slow_and_quick() -> (Engine, Gang, Gang) {
    let mut engine = limited(6, 16);
    let (slow, quick) = (q(small("q", 0, "slow", 12)), q(small("q", 1, "quick", 4)));
    for gang in [&slow, &quick] {
        engine.apply_gang(gang.clone());
        engine.cycle(seconds(0));
        see(&mut engine, gang);
    }
    (engine, slow, quick)
}

/// Requires other nodes than those: there is room, and only quota is missing.
fn elsewhere(gang: Gang) -> Gang {
    Gang {
        excluded_nodes: vec![NodeName::new("n00"), NodeName::new("n01")],
        ..gang
    }
}

/// The first victim stops slowly. The second preemptor counts on what that victim leaves beyond the
/// needs of its own preemptor. So the second one must wait for it, though its own victim has left.
#[test]
fn who_follows_one_waits_for_the_quota_that_another_holds_still() {
    let (mut engine, slow, quick) = slow_and_quick();
    engine.apply_gang(elsewhere(q(small("q", 9, "one", 4))));
    let (_, victims) = preempts(&mut engine, seconds(1));
    assert_eq!(victims[0].gang, id("slow"));
    engine.apply_gang(elsewhere(q(small("q", 8, "two", 10))));
    let (_, victims) = preempts(&mut engine, seconds(2));
    assert_eq!(victims[0].gang, id("quick"));
    gone(&mut engine, &quick);
    engine.delete_gang(&id("quick"));
    assert_eq!(
        at(&mut engine, seconds(3)),
        ["+one"],
        "12 + 10 are more than 16"
    );
    gone(&mut engine, &slow);
    engine.delete_gang(&id("slow"));
    assert_eq!(at(&mut engine, seconds(4)), ["+two"]);
}

/// The preemptors were given the quota of this gang.
#[test]
fn who_counts_on_one_that_stays_after_all_waits_again() {
    let (mut engine, _, quick) = slow_and_quick();
    engine.apply_gang(elsewhere(q(small("q", 9, "one", 4))));
    preempts(&mut engine, seconds(1));
    engine.apply_gang(elsewhere(q(small("q", 8, "two", 10))));
    let (_, victims) = preempts(&mut engine, seconds(2));
    assert_eq!(victims.len(), 1, "it counts on what the first leaves, too");
    engine.stay(&id("slow"), seconds(100));
    gone(&mut engine, &quick);
    engine.delete_gang(&id("quick"));
    let said = at(&mut engine, seconds(3));
    assert_eq!(said, ["+one", "-two QuotaExceeded"], "12 + 4 of 16");
}

/// Quota of pods that stop belongs to no other gang before they have stopped, however they were
/// stopped.
#[test]
fn a_gang_that_is_gone_holds_its_quota_until_its_last_pod_is() {
    let mut engine = limited(4, 16);
    let (first, next) = (q(of(0, "first", 2)), q(of(0, "next", 1)));
    engine.apply_gang(first.clone());
    engine.cycle(seconds(0));
    engine.apply_pod(
        first.pod_key(&first.groups[0], 0),
        NodeName::new("n00"),
        gpu(0, 8),
    );
    engine.apply_pod(
        first.pod_key(&first.groups[0], 1),
        NodeName::new("n01"),
        gpu(0, 8),
    );
    engine.apply_gang(next);
    assert_eq!(at(&mut engine, seconds(1)), ["-next QuotaExceeded"]);
    engine.retire_gang(&id("first"));
    let mut again = twin(&engine).unwrap();
    for engine in [&mut engine, &mut again] {
        engine.retire_gang(&id("first"));
        assert_eq!(at(engine, seconds(2)), [""; 0]);
        let told = engine.certificate(&id("next")).unwrap().to_string();
        assert!(
            told.contains("16 of 16") && told.contains("first"),
            "{told}"
        );
        engine.delete_pod(&worker("first", 0));
        assert_eq!(at(engine, seconds(3)), [""; 0]);
        engine.stay(&id("first"), seconds(100));
        engine.lose_pod(&worker("first", 1));
        assert_eq!(at(engine, seconds(4)), ["+next"]);
        assert!(engine.placement(&id("first")).is_none());
    }
}

#[test]
fn of_a_gang_that_is_gone_what_was_never_seen_is_free_at_once() {
    let mut engine = limited(2, 16);
    engine.apply_gang(q(of(0, "first", 2)));
    engine.cycle(seconds(0));
    engine.apply_gang(q(of(0, "next", 2)));
    at(&mut engine, seconds(1));
    engine.retire_gang(&id("first"));
    assert_eq!(at(&mut engine, seconds(2)), ["+next"]);
}

/// A preemptor has not started yet: a quota that was lowered meanwhile no longer lets it in.
#[test]
fn a_quota_that_was_lowered_meanwhile_lets_in_what_fits_it() {
    let mut engine = limited(2, 16);
    engine.apply_gang(q(of(0, "low", 1)));
    engine.apply_gang(q(of(0, "other", 1)));
    engine.cycle(seconds(0));
    engine.apply_gang(q(of(5, "high", 1)));
    preempts(&mut engine, seconds(1));
    engine.apply_gang(q(of(6, "higher", 1)));
    preempts(&mut engine, seconds(1));
    engine.apply_queue(Queue {
        preemption: LOWER,
        ..queue("q", Some(&[(GPU, 8), ("cpu", 1 << 40)]))
    });
    engine.delete_gang(&id("other"));
    engine.delete_gang(&id("low"));
    let said = at(&mut engine, seconds(2));
    assert_eq!(said, ["+higher", "-high QuotaExceeded"]);
}

#[test]
fn a_limit_is_held_until_the_victim_has_left() {
    let mut engine = limited(3, 24);
    let jobs = |gang: Gang| Gang {
        draws: vec![Draw {
            limit: LimitName::new("jobs"),
            of: Drawn::Gangs,
            max: Some(1),
            refuses: false,
        }],
        ..gang
    };
    let low = q(jobs(of(0, "low", 3)));
    engine.apply_gang(low.clone());
    engine.cycle(seconds(0));
    see(&mut engine, &low);
    // The preemptor draws on no limit, so the victim's limit does not pass to it.
    engine.apply_gang(q(of(5, "high", 1)));
    preempts(&mut engine, seconds(1));
    engine.apply_node(gpu_node("n09", 8));
    engine.apply_gang(jobs(of(0, "next", 1)));
    assert_eq!(at(&mut engine, seconds(2)), ["-next QuotaPolicyExceeded"]);
    let told = engine.certificate(&id("next")).unwrap().to_string();
    assert!(told.contains("low"), "{told}");
    let mut again = twin(&engine).unwrap();
    for engine in [&mut engine, &mut again] {
        gone(engine, &low);
        engine.delete_gang(&id("low"));
        assert_eq!(at(engine, seconds(3)), ["+high", "+next"]);
    }
}

/// It is known when pods that stop are gone, and when the gang that waits for them starts.
#[test]
fn who_waits_for_what_stops_knows_until_when() {
    let mut engine = limited(4, 16);
    let first = Gang {
        grace: Duration::from_secs(60),
        ..q(of(0, "first", 2))
    };
    engine.apply_gang(first.clone());
    engine.cycle(seconds(0));
    see(&mut engine, &first);
    engine.apply_gang(q(of(0, "next", 2)));
    assert_eq!(at(&mut engine, seconds(1)), ["-next QuotaExceeded"]);
    engine.retire_gang(&id("first"));
    engine.delete_pod(&worker("first", 0));
    assert_eq!(at(&mut engine, seconds(2)), [""; 0]);
    let forecast = Forecast::of(&engine.snapshot(), |_| true);
    assert_eq!(forecast.starts.get(&id("next")), Some(&seconds(61)));
}

/// A new gang with the name of one whose pods still stop is another gang.
#[test]
fn a_gang_of_the_same_name_is_another() {
    let mut engine = limited(4, 16);
    let first = q(of(0, "first", 1));
    engine.apply_gang(first.clone());
    engine.cycle(seconds(0));
    see(&mut engine, &first);
    engine.retire_gang(&id("first"));
    engine.apply_gang(q(of(0, "first", 2)));
    assert_eq!(
        at(&mut engine, seconds(1)),
        ["-first QuotaExceeded"],
        "8 + 16"
    );
    engine.lose_pod(&worker("first", 0));
    assert_eq!(at(&mut engine, seconds(2)), ["+first"]);
    engine.delete_gang(&id("first"));
    let node = NodeName::new("n00");
    assert_eq!(engine.free(&node).unwrap()[&ResourceName::new(GPU)], 8);
}

/// A kept place holds its quota for as long as it is kept, and while its pods stop.
#[test]
fn a_place_that_is_kept_no_longer_holds_its_quota_until_its_pods_are_gone() {
    for over in [false, true] {
        let mut engine = limited(3, 8);
        let first = Gang {
            grace: Duration::from_secs(600),
            ..q(of(0, "first", 1))
        };
        engine.apply_gang(first.clone());
        engine.cycle(seconds(0));
        see(&mut engine, &first);
        assert!(engine.keep_gang(&id("first"), &[], seconds(120)));
        engine.apply_gang(q(of(0, "next", 1)));
        assert_eq!(at(&mut engine, seconds(1)), ["-next QuotaExceeded"]);
        let now = if over {
            seconds(200)
        } else {
            engine.retire_gang(&id("first"));
            seconds(2)
        };
        assert_eq!(at(&mut engine, now), [""; 0], "{over}");
        engine.lose_pod(&worker("first", 0));
        let said = at(&mut engine, now.plus(Duration::from_secs(1)));
        assert_eq!(said, ["+next"], "{over}");
    }
}
