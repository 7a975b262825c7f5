//! The Helm chart and the image: rendering, the behaviour in a cluster, and the effects of install,
//! upgrade and uninstall.
//!
//! These tests have their own harness: if this machine cannot run a test, the test counts as
//! ignored, with the reason.

mod access;
mod alerts;
mod api_acceptance;
mod availability;
mod certificates;
mod fixtures;
mod flow_control;
mod install;
mod operator_in_pods;
mod page;
mod real_cluster;
mod rendering;
mod roles;
mod upgrade;
mod values;

use std::process::ExitCode;

use fixtures::{cluster_trial, helm_3_trial, trial};
use libtest_mimic::{Arguments, run};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("helm_lint_accepts_the_chart", rendering::test_lint),
        trial(
            "chart_renders_the_same_bytes_twice",
            rendering::test_repeated_rendering,
        ),
        trial(
            "rendered_objects_equal_the_plain_files",
            rendering::test_plain_files,
        ),
        trial(
            "requester_stamp_is_written_by_what_the_version_has",
            rendering::test_requester_stamp,
        ),
        trial(
            "crds_for_kubernetes_1_33_lack_only_rules_about_amounts",
            rendering::test_crds_of_1_33,
        ),
        trial(
            "unknown_value_is_refused_with_its_path",
            values::schema::test_unknown_values,
        ),
        trial(
            "former_name_of_a_value_is_refused",
            values::schema::test_former_names,
        ),
        trial(
            "security_contexts_give_the_operator_no_privilege",
            values::schema::test_security_contexts,
        ),
        trial(
            "operator_roles_match_the_rights_table",
            roles::test_operator_roles,
        ),
        trial("verify_role_has_the_watched_kinds", roles::test_verify_role),
        trial("page_has_no_rights_and_no_token", page::test_no_rights),
        trial(
            "page_without_its_url_or_its_data_is_refused",
            page::test_required_values,
        ),
        trial(
            "no_role_has_a_wildcard_or_reads_secrets",
            roles::test_least_privilege,
        ),
        trial(
            "operator_without_own_certificates_has_no_right_to_their_secrets",
            roles::test_certificate_rights,
        ),
        trial("users_have_roles_for_each_kind", roles::test_user_roles),
        trial(
            "alerts_and_dashboard_use_exported_metrics",
            alerts::check_metric_names,
        ),
        trial(
            "each_alert_fires_only_on_its_condition",
            alerts::firing::test_alert_firing,
        ),
        trial(
            "rendered_objects_match_the_reviewed_copy",
            rendering::golden::test_rendered_objects,
        ),
        trial(
            "each_value_changes_its_objects",
            values::effects::test_each_value,
        ),
        trial(
            "values_cannot_override_labels_of_the_chart",
            rendering::labels::test_reserved_labels,
        ),
        trial(
            "most_specific_label_value_wins",
            rendering::labels::test_label_precedence,
        ),
        trial(
            "each_value_is_in_the_table_of_docs",
            values::test_table_of_docs,
        ),
        trial(
            "network_policy_port_rules_name_their_sources",
            access::test_network_policy_sources,
        ),
        trial(
            "api_service_has_the_configured_ca_bundle",
            access::test_ca_bundle,
        ),
        trial(
            "prometheus_verifies_certificates_of_known_authorities",
            access::test_prometheus_verification,
        ),
        cluster_trial(
            "api_server_accepts_the_objects_of_each_toggled_value",
            api_acceptance::test_toggled_values,
        ),
        cluster_trial(
            "operator_pods_pass_restricted_pod_security",
            api_acceptance::test_restricted_namespace,
        ),
        cluster_trial(
            "chart_is_installed_upgraded_and_uninstalled",
            install::test_lifecycle,
        ),
        cluster_trial(
            "upgrade_moves_no_gang_in_any_phase",
            upgrade::test_upgrade_in_every_phase,
        ),
        cluster_trial(
            "api_server_serves_the_operator_from_its_own_priority_level",
            flow_control::test_priority_level,
        ),
        cluster_trial(
            "reinstall_preserves_retained_objects",
            install::reinstall::test_reinstall_by_helm,
        ),
        helm_3_trial(
            "helm_3_reinstall_preserves_retained_objects",
            install::reinstall::test_reinstall_by_helm_3,
        ),
        helm_3_trial(
            "helm_3_renders_the_chart",
            install::reinstall::test_render_by_helm_3,
        ),
        cluster_trial(
            "uninstall_deletes_crds_without_the_keep_policy",
            install::test_uninstall_with_crds,
        ),
        cluster_trial(
            "failed_install_is_rolled_back",
            install::test_failed_install,
        ),
        cluster_trial(
            "readme_and_docs_install_trellis_by_helm",
            install::test_install_by_helm,
        ),
        cluster_trial(
            "docs_install_trellis_by_kubectl",
            install::test_install_by_kubectl,
        ),
        install::image::trial(),
        operator_in_pods::trial(),
        certificates::cert_manager::trial(),
    ];
    run(&arguments, trials).exit_code()
}
