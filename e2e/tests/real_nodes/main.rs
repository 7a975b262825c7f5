//! Gangs on real nodes: kubelet, containerd and runc run the very pods that Trellis makes, and
//! real training in them. GPUs alone are simulated, by a real device plugin.
//!
//! A harness of its own: whether a machine can have real nodes shows only when it tries, and
//! what it cannot have is counted as ignored, with the reason.

mod containers;
mod ephemeral;
mod faults;
mod gang;
mod gpus;
mod jax;
mod kubelet;
mod leftovers;
mod logs;
mod mpi;
mod pytorch;
mod scene;
mod suspend;

use std::process::ExitCode;

use libtest_mimic::{Arguments, run};
use scene::Weather::{Calm, Storm};
use scene::trial;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One test waits for minutes until a dead node is lost. The others run meanwhile, one by one:
    // two cores train no faster for having more to do.
    arguments.test_threads = Some(2);
    let trials = vec![
        trial(
            "a_gang_leaves_a_kubelet_that_refuses_it",
            Storm,
            faults::refusal,
        ),
        trial("a_gang_finds_its_peers_by_name", Calm, gang::peers),
        trial("what_pods_print_is_told_by_rank", Calm, logs::printed),
        trial(
            "a_gang_goes_on_while_its_kubelet_is_away",
            Storm,
            kubelet::restart,
        ),
        trial(
            "what_a_kubelet_says_of_containers_is_understood",
            Calm,
            containers::reasons,
        ),
        trial(
            "a_gang_goes_on_with_a_gpu_that_turns_unhealthy",
            Storm,
            gpus::under,
        ),
        trial(
            "the_example_that_resumes_has_its_grace",
            Calm,
            suspend::example,
        ),
        trial(
            "a_gang_that_fails_with_an_unhealthy_gpu_starts_without_it",
            Storm,
            gpus::fails,
        ),
        trial("mpirun_reaches_its_workers_by_ssh", Calm, mpi::allreduce),
        trial(
            "a_gang_that_needs_all_gpus_waits_for_an_unhealthy_one",
            Storm,
            gpus::all,
        ),
        trial("jax_adds_over_processes", Calm, jax::psum),
        trial(
            "each_pod_has_a_volume_of_its_own_where_it_is",
            Calm,
            ephemeral::scratch,
        ),
        trial("a_gang_leaves_a_node_that_dies", Storm, faults::crash),
        trial(
            "torchrun_loses_a_rank_and_ends_with_the_same_loss",
            Calm,
            pytorch::ddp,
        ),
        trial(
            "nothing_is_left_of_nodes_whose_test_is_killed",
            Calm,
            leftovers::killed,
        ),
    ];
    run(&arguments, trials).exit_code()
}
