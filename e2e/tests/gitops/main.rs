//! GitOps: a real Argo CD delivers Trellis objects from git. Argo CD and kstatus, which Flux uses,
//! assess their state.
//!
//! These tests have their own harness. Argo CD takes minutes to build, and without it the tests
//! that need it count as ignored, with the reason.

mod application_health;
mod changes;
mod chart;
mod documents;
mod fixtures;
mod health_scripts;
mod hooks;
mod job_lifetime;
mod kstatus;
mod sync_waves;
mod tracking;

use std::process::ExitCode;

use fixtures::{
    argocd_trial, bare_cluster_trial, cluster_trial, files_trial, kstatus_trial,
    label_tracking_trial,
};
use libtest_mimic::{Arguments, run};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // These tests wait most of the time, and share one Argo CD.
    arguments.test_threads = arguments.test_threads.or(Some(6));
    let trials = vec![
        cluster_trial(
            "job_stays_in_sync_for_its_lifetime",
            job_lifetime::test_client_side_sync,
        ),
        cluster_trial(
            "job_stays_in_sync_for_its_lifetime_with_server_side_apply",
            job_lifetime::test_server_side_sync,
        ),
        cluster_trial(
            "application_health_follows_its_jobs",
            application_health::test_job_states,
        ),
        cluster_trial(
            "refused_job_is_degraded_with_the_message_of_trellis",
            application_health::test_refused_job,
        ),
        cluster_trial(
            "finished_job_is_not_changed_by_a_commit",
            application_health::test_ended_job,
        ),
        cluster_trial(
            "committed_change_is_applied_or_refused",
            changes::test_commits,
        ),
        cluster_trial("manual_change_is_reverted", changes::test_self_heal),
        cluster_trial(
            "cancelled_job_is_created_again",
            changes::test_cancelled_job,
        ),
        cluster_trial("object_removed_from_git_is_pruned", changes::test_pruning),
        cluster_trial(
            "queues_and_policies_come_before_jobs",
            sync_waves::test_wave_order,
        ),
        cluster_trial(
            "stopped_queue_does_not_block_a_sync",
            sync_waves::test_stopped_queue,
        ),
        cluster_trial("sync_waits_for_its_hook", hooks::test_hook_wait),
        cluster_trial("failed_hook_ends_the_sync", hooks::test_hook_failure),
        cluster_trial("hook_jobs_run_in_wave_order", hooks::test_hook_waves),
        cluster_trial(
            "children_are_not_tracked_by_annotation",
            tracking::test_untracked_children,
        ),
        label_tracking_trial(
            "children_are_not_tracked_by_label",
            tracking::test_untracked_children,
        ),
        cluster_trial(
            "repositories_of_docs_are_delivered",
            documents::test_delivery,
        ),
        bare_cluster_trial(
            "chart_stays_in_sync_while_its_operator_runs",
            chart::test_client_side_sync,
        ),
        bare_cluster_trial(
            "chart_stays_in_sync_with_server_side_apply",
            chart::test_server_side_sync,
        ),
        argocd_trial(
            "each_job_phase_has_its_argo_cd_health",
            health_scripts::test_job_phases,
        ),
        argocd_trial(
            "externally_managed_job_has_its_argo_cd_health",
            health_scripts::test_externally_managed_job,
        ),
        argocd_trial(
            "other_kinds_have_their_argo_cd_health",
            health_scripts::test_other_kinds,
        ),
        kstatus_trial("each_job_phase_has_its_kstatus", kstatus::test_job_phases),
        kstatus_trial("other_kinds_have_their_kstatus", kstatus::test_other_kinds),
        files_trial(
            "argocd_cm_is_generated_from_the_scripts",
            health_scripts::test_generated_configuration,
        ),
        files_trial(
            "yaml_blocks_of_docs_equal_their_repository_files",
            documents::test_quoted_yaml,
        ),
    ];
    run(&arguments, trials).exit_code()
}
