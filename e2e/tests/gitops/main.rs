//! GitOps: a real Argo CD delivers Trellis objects from git. Argo CD and kstatus, which Flux uses,
//! assess their state.
//!
//! These tests have their own harness. Argo CD takes minutes to build, and without it the tests
//! that need it count as ignored, with the reason.

mod changes;
mod chart;
mod documents;
mod hooks;
mod judged;
mod life;
mod scene;
mod scripts;
mod states;
mod tracking;
mod waves;

use std::process::ExitCode;

use libtest_mimic::{Arguments, run};
use scene::{by_label, of_files, on_bare_cluster, on_cluster, with_argocd, with_kstatus};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of them wait most of the time, and they share one Argo CD.
    arguments.test_threads = arguments.test_threads.or(Some(6));
    let trials = vec![
        on_cluster("a_job_is_in_sync_all_its_life", life::client_side),
        on_cluster(
            "a_job_is_in_sync_all_its_life_by_server_side_apply",
            life::server_side,
        ),
        on_cluster("an_application_is_as_its_job_is", states::states),
        on_cluster("a_refusal_is_told_in_our_words", states::refused),
        on_cluster("the_end_stays_the_end", states::ended),
        on_cluster("a_change_is_applied_or_refused", changes::commits),
        on_cluster("what_is_changed_by_hand_is_healed", changes::healed),
        on_cluster("what_is_cancelled_comes_again", changes::cancelled),
        on_cluster("what_leaves_git_is_pruned", changes::pruned),
        on_cluster("queues_and_policies_come_before_jobs", waves::order),
        on_cluster("a_held_queue_holds_up_no_sync", waves::held),
        on_cluster("a_hook_is_waited_for", hooks::waits),
        on_cluster("a_hook_that_fails_ends_the_sync", hooks::fails),
        on_cluster(
            "jobs_follow_each_other_by_waves_of_hooks",
            hooks::one_by_one,
        ),
        on_cluster("children_are_left_alone", tracking::left_alone),
        by_label("children_are_left_alone_under_labels", tracking::left_alone),
        on_cluster(
            "the_repositories_of_docs_are_delivered",
            documents::delivered,
        ),
        on_bare_cluster(
            "the_chart_is_in_sync_while_its_operator_runs",
            chart::client_side,
        ),
        on_bare_cluster(
            "the_chart_is_in_sync_by_server_side_apply",
            chart::server_side,
        ),
        with_argocd("each_state_has_its_health", scripts::jobs),
        with_argocd("a_job_of_another_manager_has_its_health", scripts::managed),
        with_argocd("other_kinds_have_their_health", scripts::others),
        with_kstatus("each_state_is_what_flux_takes_it_for", judged::jobs),
        with_kstatus("other_kinds_are_what_flux_takes_them_for", judged::others),
        of_files("argocd_cm_is_made_of_the_scripts", scripts::configuration),
        of_files("the_yaml_of_docs_is_in_its_repositories", documents::quoted),
    ];
    run(&arguments, trials).exit_code()
}
