//! Histories that have led to faults before, with other numbers each time.

use super::super::{
    Act, ActScript, Fault, FaultScript, JobScript, Priority, Script, WriteChoice, WriteFault,
    WriteKind,
};
use super::encounters::add_write_faults;
use super::{GPUS, gang};
use crate::random::RandomSequence;

/// Second of the first job.
const BEGIN: u64 = 5;

/// Fills a script with one of the histories.
pub(super) fn recur(random: &mut RandomSequence, script: &mut Script) {
    let histories = [
        denied_creation,
        stop_during_creation,
        late_write,
        pod_deletion_before_answer,
        race_for_quota,
        creation_after_deletion,
        unanswered_deletions,
        late_plan_of_former_leader,
        crash_in_nomination,
    ];
    random.choose(&histories)(random, script);
}

fn first(kind: WriteKind) -> WriteChoice {
    WriteChoice { kind, number: 1 }
}

fn on_write(seconds: u64, write: WriteChoice, fault: WriteFault) -> FaultScript {
    FaultScript {
        at: 1000 * BEGIN,
        seconds,
        fault: Fault::OnWrite(write, fault),
    }
}

fn after_write(write: WriteChoice, millis: u64, act: Act) -> ActScript {
    ActScript::new(BEGIN, Some(write), millis, act)
}

fn job() -> String {
    "job-0".to_owned()
}

/// The API server denies the first creation while others are under way.
fn denied_creation(random: &mut RandomSequence, script: &mut Script) {
    script.network.request = *random.choose(&[5, 50]);
    script.network.watch = *random.choose(&[100, 3000, 20_000]);
    script.jobs.push(JobScript {
        gpus: 2,
        replicas: GPUS / 2,
        ..gang(random, "job-0", BEGIN, 20)
    });
    script.faults.push(on_write(
        30,
        first(WriteKind::PodCreation),
        WriteFault::Deny,
    ));
}

/// A user stops the job while the only creation is not answered.
fn stop_during_creation(random: &mut RandomSequence, script: &mut Script) {
    script.nodes = vec![GPUS];
    script.network.watch = *random.choose(&[3000, 20_000]);
    script.jobs.push(JobScript {
        gpus: GPUS,
        replicas: 1,
        ..gang(random, "job-0", BEGIN, 20)
    });
    let creation = first(WriteKind::PodCreation);
    let delay = random.between(300, 3000);
    for fault in [WriteFault::LoseAnswer, WriteFault::Delay(delay)] {
        script.faults.push(on_write(30, creation, fault));
    }
    let stop = random.between(1, delay);
    let resume = stop + random.between(10_000, 40_000);
    script.acts.extend([
        after_write(creation, stop, Act::Suspend(job())),
        after_write(creation, resume, Act::Resume(job())),
    ]);
}

/// A write that was repeated arrives after the writes that followed it.
fn late_write(random: &mut RandomSequence, script: &mut Script) {
    let run = random.between(2, 10);
    script.jobs.push(JobScript {
        grace_seconds: 1,
        ..gang(random, "job-0", BEGIN, run)
    });
    let kind = *random.choose(&[WriteKind::Journal, WriteKind::JobStatus]);
    let number = random.between(1, 3);
    let answer_time = 1000 * script.lease_seconds.min(15);
    let delay = random.between(answer_time, answer_time + 15_000);
    let write = WriteChoice { kind, number };
    script
        .faults
        .push(on_write(60, write, WriteFault::Delay(delay)));
}

/// A user deletes a pod before the operator has the answer to its creation.
fn pod_deletion_before_answer(random: &mut RandomSequence, script: &mut Script) {
    script.network.watch = *random.choose(&[5, 100]);
    script.kubelets.stop = 50;
    script.jobs.push(JobScript {
        grace_seconds: 1,
        ..gang(random, "job-0", BEGIN, 20)
    });
    script.faults.push(FaultScript {
        at: 1000 * BEGIN,
        seconds: 10,
        fault: Fault::Slow(random.between(1000, 3000)),
    });
    let millis = random.between(100, 1000);
    let creation = first(WriteKind::PodCreation);
    script
        .acts
        .push(after_write(creation, millis, Act::DeletePod(job())));
}

/// Two gangs come at the same time, and there is quota for one. Watches are late.
fn race_for_quota(random: &mut RandomSequence, script: &mut Script) {
    script.network.watch = *random.choose(&[3000, 20_000]);
    script.nodes.push(GPUS);
    script.queues[0].gpus = Some(GPUS);
    script.jobs.push(gang(random, "job-0", BEGIN, 30));
    let next = BEGIN + random.between(0, 2);
    script.jobs.push(gang(random, "job-1", next, 30));
}

/// A creation arrives after its job was deleted, and before the next job of the name creates its pod.
fn creation_after_deletion(random: &mut RandomSequence, script: &mut Script) {
    script.lease_seconds = 4;
    script.kubelets.stop = 50;
    script.kubelets.collect = 50;
    script.network.watch = *random.choose(&[5, 3000, 3000]);
    script.jobs.push(JobScript {
        grace_seconds: 1,
        ..gang(random, "job-0", BEGIN, 30)
    });
    let creation = first(WriteKind::PodCreation);
    let delay = 1000 * script.lease_seconds + random.between(500, 2000);
    script
        .faults
        .push(on_write(25, creation, WriteFault::Delay(delay)));
    if random.chance(500) {
        let stall = WriteFault::StallWatches("pods".to_owned());
        script.faults.push(on_write(15, creation, stall));
    }
    let deletion = random.between(100, 1000);
    let submission = delay + random.between(200, 1000);
    script.acts.extend([
        after_write(creation, deletion, Act::Delete(job())),
        after_write(creation, submission, Act::Submit(job())),
    ]);
}

/// The answers to deletions are lost, and the watch does not show them.
fn unanswered_deletions(random: &mut RandomSequence, script: &mut Script) {
    script.kubelets.stop = 60_000;
    script.jobs.push(JobScript {
        grace_seconds: 30,
        ..gang(random, "job-0", BEGIN, 60)
    });
    let (stop, resume) = (BEGIN + 15, BEGIN + 50);
    for (at, act) in [(stop, Act::Suspend(job())), (resume, Act::Resume(job()))] {
        script.acts.push(ActScript {
            at,
            after: None,
            act,
        });
    }
    let deletion = first(WriteKind::PodDeletion);
    for fault in [
        WriteFault::LoseAnswer,
        WriteFault::StallWatches("pods".to_owned()),
    ] {
        script.faults.push(FaultScript {
            at: 1000 * stop,
            ..on_write(random.between(5, 20), deletion, fault)
        });
    }
}

/// The plan of a leader that has crashed arrives when the next leader has given its place to another
/// gang.
fn late_plan_of_former_leader(random: &mut RandomSequence, script: &mut Script) {
    script.lacks_leader_policy = random.chance(700);
    script.lease_seconds = 4;
    script.network.request = 5;
    script.network.watch = 5;
    script.nodes = vec![4, 4];
    let at = 45;
    let mut add = |name: &str, priority, at, replicas, run| {
        script.jobs.push(JobScript {
            priority,
            replicas,
            gpus: 4,
            grace_seconds: 1,
            ..gang(random, name, at, run)
        });
    };
    // The first gang ends while no replica leads. The second one waits for all nodes.
    add("job-0", Priority::Normal, BEGIN, 1, at - BEGIN + 3);
    add("job-1", Priority::High, at - 5, 2, 60);
    add("job-2", Priority::Normal, at, 1, 30);
    let number = random.between(1, 2);
    let write = WriteChoice {
        kind: WriteKind::Journal,
        number,
    };
    let delay = random.between(12_000, 30_000);
    for (seconds, fault) in [
        (60, WriteFault::Delay(delay)),
        (random.between(1, 6), WriteFault::CrashAfter),
    ] {
        script.faults.push(FaultScript {
            at: 1000 * at,
            ..on_write(seconds, write, fault)
        });
    }
}

/// The leader crashes while victims stop. The next leader's first writes are late or lost.
fn crash_in_nomination(random: &mut RandomSequence, script: &mut Script) {
    script.lease_seconds = 4;
    script.nodes = vec![GPUS];
    script.kubelets.stop = 60_000;
    let victims = random.between(1, 2) as u32;
    for index in 0..victims {
        let grace_seconds = match index {
            0 => 90,
            _ => 1,
        };
        script.jobs.push(JobScript {
            gpus: GPUS / victims,
            replicas: 1,
            grace_seconds,
            ..gang(random, &format!("job-{index}"), BEGIN, 300)
        });
    }
    let at = 45;
    script.jobs.push(JobScript {
        priority: Priority::High,
        gpus: GPUS,
        replicas: 1,
        ..gang(random, "preemptor", at, 10)
    });
    let crash = 1000 * at + random.log_uniform_millis(30, 5000).as_millis() as u64;
    let seconds = random.between(1, 5);
    script.faults.push(FaultScript {
        at: crash,
        seconds,
        fault: Fault::Crash(0),
    });
    if random.chance(500) {
        let status = first(WriteKind::JobStatus);
        script.faults.push(FaultScript {
            at: 1000 * at,
            ..on_write(20, status, WriteFault::Delay(15_000))
        });
    }
    let write = WriteChoice {
        kind: *random.choose(&[WriteKind::Journal, WriteKind::JobStatus]),
        number: random.between(1, 3),
    };
    let restart = crash + 1000 * seconds;
    match random.chance(500) {
        true => script.faults.push(FaultScript {
            at: restart,
            ..on_write(20, write, WriteFault::Delay(random.between(50, 5000)))
        }),
        false => add_write_faults(random, restart, write, &mut script.faults),
    }
}
