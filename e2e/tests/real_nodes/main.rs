//! Gangs on real nodes: kubelet, containerd and runc run the pods that Trellis creates, with real
//! training programs. Only the GPUs are simulated, by a real device plugin.
//!
//! These tests have their own harness: if this machine lacks a requirement of a test, the test
//! counts as ignored, with the reason.

mod containers;
mod ephemeral_claims;
mod faults;
mod fixtures;
mod gang;
mod jax;
mod kubelet_restart;
mod leftovers;
mod logs;
mod mpi;
mod pytorch;
mod ray;
mod replica_groups;
mod resume_example;
mod unhealthy_gpus;

use std::process::ExitCode;

use fixtures::NodePair::{Faulty, Undisturbed};
use fixtures::trial;
use libtest_mimic::{Arguments, run};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One test waits for minutes until a dead node counts as lost. The others run during this time,
    // one after the other, because two cores are busy with one of them.
    arguments.test_threads = Some(2);
    let trials = vec![
        trial(
            "gang_moves_when_a_kubelet_refuses_its_pod",
            Faulty,
            faults::test_kubelet_refusal,
        ),
        trial(
            "ranks_find_their_peers_by_name",
            Undisturbed,
            gang::test_peer_names,
        ),
        trial("logs_are_printed_by_rank", Undisturbed, logs::test_logs),
        trial(
            "gang_runs_on_while_its_kubelet_is_down",
            Faulty,
            kubelet_restart::test_kubelet_restart,
        ),
        trial(
            "container_states_of_a_kubelet_are_reported",
            Undisturbed,
            containers::test_failure_reasons,
        ),
        trial(
            "gang_runs_on_when_a_gpu_turns_unhealthy",
            Faulty,
            unhealthy_gpus::test_running_gang,
        ),
        trial(
            "resume_example_saves_within_its_grace_period",
            Undisturbed,
            resume_example::test_resume_example,
        ),
        trial(
            "failed_gang_restarts_without_its_unhealthy_gpu",
            Faulty,
            unhealthy_gpus::test_restarted_gang,
        ),
        trial(
            "mpirun_reaches_its_workers_by_ssh",
            Undisturbed,
            mpi::test_allreduce,
        ),
        trial(
            "gang_that_needs_all_gpus_waits_for_an_unhealthy_gpu",
            Faulty,
            unhealthy_gpus::test_pending_gang,
        ),
        trial("jax_sums_over_all_processes", Undisturbed, jax::test_psum),
        trial(
            "ray_driver_uses_the_gpus_of_all_workers",
            Undisturbed,
            ray::test_driver,
        ),
        trial(
            "replica_group_fails_alone_and_takes_the_state_of_another",
            Undisturbed,
            replica_groups::test_failed_group,
        ),
        trial(
            "each_pod_has_its_own_volume_on_its_node",
            Undisturbed,
            ephemeral_claims::test_scratch_volumes,
        ),
        trial(
            "gang_moves_when_its_node_dies",
            Faulty,
            faults::test_node_crash,
        ),
        trial(
            "torchrun_ends_with_the_same_loss_after_a_rank_dies",
            Undisturbed,
            pytorch::test_rank_loss,
        ),
        trial(
            "real_nodes_leave_nothing_when_their_test_is_killed",
            Undisturbed,
            leftovers::test_killed_process,
        ),
    ];
    run(&arguments, trials).exit_code()
}
