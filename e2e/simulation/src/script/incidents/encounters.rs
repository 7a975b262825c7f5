//! Faults and acts that meet a gang at one moment.

use super::super::coincidences::{act_on_job, any_kind};
use super::super::{Act, ActScript, Fault, FaultScript, Script, WriteChoice, WriteFault};
use crate::random::RandomSequence;

pub(super) fn any_write(random: &mut RandomSequence) -> WriteChoice {
    let kind = any_kind(random);
    let number = *random.choose(&[1, 1, 2, 3, 4]);
    WriteChoice { kind, number }
}

/// Adds an act on the first job, and mostly a later one that takes it back. `write`: the write after
/// which it happens.
pub(super) fn add_act(
    random: &mut RandomSequence,
    at: u64,
    write: Option<WriteChoice>,
    acts: &mut Vec<ActScript>,
) {
    let (act, later) = match random.between(0, 5) {
        choice @ 0..=4 => act_on_job(choice, "job-0".to_owned()),
        _ => (Act::Quarantine(0), Some(Act::Release(0))),
    };
    let millis = random.log_uniform_millis(1, 15_000).as_millis() as u64;
    let pause = random.log_uniform_millis(100, 40_000).as_millis() as u64;
    let mut add = |act, millis| acts.push(ActScript::new(at, write, millis, act));
    add(act, millis);
    if let Some(later) = later {
        add(later, millis + pause);
    }
}

/// Adds nothing, a crash, or faults at one or two writes from this second on.
pub(super) fn add_fault(random: &mut RandomSequence, at: u64, script: &mut Script) {
    match random.between(0, 5) {
        0 => {}
        1 | 2 => {
            let crash = FaultScript {
                at: 1000 * at + random.log_uniform_millis(10, 10_000).as_millis() as u64,
                seconds: *random.choose(&[1, 4, 8, 30]),
                fault: Fault::Crash(0),
            };
            if random.chance(500) {
                // The next leader meets a fault, too.
                let restart = crash.at + 1000 * crash.seconds;
                let write = any_write(random);
                add_write_faults(random, restart, write, &mut script.faults);
            }
            script.faults.push(crash);
        }
        3 => {
            let (millis, kind) = (1000 * at, random.choose(&["pods", "podgroups"]).to_string());
            script.faults.push(FaultScript {
                at: millis,
                seconds: random.between(5, 60),
                fault: Fault::StallWatches(kind),
            });
            script.faults.push(FaultScript {
                at: millis + random.between(0, 1000),
                seconds: random.between(1, 10),
                fault: Fault::LoseAnswers(1000),
            });
        }
        _ => {
            for _ in 0..random.between(1, 2) {
                let write = any_write(random);
                add_write_faults(random, 1000 * at, write, &mut script.faults);
            }
        }
    }
}

/// Adds one to three faults of one write.
pub(super) fn add_write_faults(
    random: &mut RandomSequence,
    at: u64,
    write: WriteChoice,
    faults: &mut Vec<FaultScript>,
) {
    let seconds = *random.choose(&[4, 8, 30, 60]);
    let mut add = |fault| {
        faults.push(FaultScript {
            at,
            seconds,
            fault: Fault::OnWrite(write, fault),
        });
    };
    match random.between(0, 5) {
        0 => add(WriteFault::Deny),
        1 => add(WriteFault::LoseRequest),
        2 => add(WriteFault::LoseAnswer),
        3 => add(crash(random)),
        _ => {}
    }
    if random.chance(500) {
        // Longer than the operator waits for an answer, in most cases.
        add(WriteFault::Delay(random.between(100, 30_000)));
    }
    if random.chance(300) {
        let watched = match random.chance(700) {
            true => write.kind.watched(),
            false => "pods",
        };
        add(WriteFault::StallWatches(watched.to_owned()));
    }
}

pub(super) fn crash(random: &mut RandomSequence) -> WriteFault {
    match random.chance(500) {
        true => WriteFault::CrashBefore,
        false => WriteFault::CrashAfter,
    }
}
