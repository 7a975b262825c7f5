//! Faults and acts that meet at one write of the operator.

use super::{Act, ActScript, Fault, FaultScript, JobScript, WriteChoice, WriteFault, WriteKind};
use crate::random::RandomSequence;

/// Adds faults and acts that all meet one write or its neighbours, because a second check mends most
/// faults that come alone.
pub(super) fn add_coincidence(
    random: &mut RandomSequence,
    jobs: &[JobScript],
    acts: &mut Vec<ActScript>,
    faults: &mut Vec<FaultScript>,
) {
    let job = random.choose(jobs);
    // The writes that follow the submission of a job, or its end.
    let at = match random.chance(700) {
        true => job.at,
        false => job.at + job.run_seconds[0],
    };
    let kind = *random.choose(&[
        WriteKind::Journal,
        WriteKind::Journal,
        WriteKind::PodCreation,
        WriteKind::PodCreation,
        WriteKind::PodDeletion,
        WriteKind::JobStatus,
    ]);
    let number = random.between(1, 4);
    let seconds = *random.choose(&[10, 30, 60, 120]);
    for _ in 0..random.between(2, 4) {
        let number = number + random.between(0, 1);
        let write = WriteChoice { kind, number };
        let mut add_fault = |fault| {
            faults.push(FaultScript {
                at: 1000 * at,
                seconds,
                fault: Fault::OnWrite(write, fault),
            });
        };
        if random.chance(600) {
            let watched = match random.chance(700) {
                true => kind.watched(),
                false => *random.choose(&["pods", "podgroups", "trainingjobs"]),
            };
            let fault = write_fault(random, watched);
            // The late write of a former leader.
            if matches!(fault, WriteFault::Delay(_)) && random.chance(300) {
                add_fault(WriteFault::CrashAfter);
            }
            add_fault(fault);
            continue;
        }
        let name = match random.chance(800) {
            true => job.name.clone(),
            false => random.choose(jobs).name.clone(),
        };
        let (act, later) = act_on_job(random.between(0, 4), name);
        let millis = random.log_uniform_millis(1, 10_000).as_millis() as u64;
        let pause = random.log_uniform_millis(1, 20_000).as_millis() as u64;
        let mut add = |act, millis| acts.push(ActScript::new(at, Some(write), millis, act));
        add(act, millis);
        if let Some(later) = later {
            add(later, millis + pause);
        }
    }
}

/// Returns a kind of write in the life of a gang.
pub(super) fn any_kind(random: &mut RandomSequence) -> WriteKind {
    *random.choose(&[
        WriteKind::Journal,
        WriteKind::Journal,
        WriteKind::PodCreation,
        WriteKind::PodDeletion,
        WriteKind::JobStatus,
    ])
}

/// Returns an act on a job, and the act that takes it back. `choice`: from 0 to 4.
pub(super) fn act_on_job(choice: u64, job: String) -> (Act, Option<Act>) {
    match choice {
        0 => (Act::Delete(job.clone()), Some(Act::Submit(job))),
        1 | 2 => (Act::Suspend(job.clone()), Some(Act::Resume(job))),
        3 => (Act::DeletePod(job), None),
        _ => (Act::DeletePodGroup(job), None),
    }
}

/// Returns a fault of a write. `kind`: the plural of the objects whose watch may stall.
pub(super) fn write_fault(random: &mut RandomSequence, kind: &str) -> WriteFault {
    match random.between(0, 7) {
        0 => WriteFault::LoseRequest,
        1 => WriteFault::Deny,
        2 => WriteFault::LoseAnswer,
        3 => WriteFault::StallWatches(kind.to_owned()),
        4 => WriteFault::CrashBefore,
        5 => WriteFault::Delay(random.log_uniform_millis(10, 30_000).as_millis() as u64),
        _ => WriteFault::CrashAfter,
    }
}
