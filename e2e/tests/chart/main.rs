//! The Helm chart and the image: what it renders, what a cluster makes of it, and what comes with
//! an install, an upgrade and an uninstall.
//!
//! A harness of its own: whether a machine can build an image shows only when it tries, and what
//! it cannot is counted as ignored, with the reason.

mod alerts;
mod asked;
mod cert_manager;
mod certificates;
mod firing;
mod flow;
mod golden;
mod image;
mod install;
mod kept;
mod labels;
mod nodes;
mod others;
mod promql;
mod reached;
mod real;
mod roles;
mod same;
mod says;
mod scene;
mod schema;
mod shown;
mod taken;
mod upgrade;
mod values;

use std::process::ExitCode;

use libtest_mimic::{Arguments, run};
use scene::{on_cluster, trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("helm_has_nothing_against_it", same::lint),
        trial("it_renders_to_the_same_bytes_twice", same::twice),
        trial("what_it_renders_is_what_its_plain_files_say", same::files),
        trial("an_unknown_value_is_refused_with_its_path", schema::unknown),
        trial("a_former_name_of_a_value_is_refused", schema::renamed),
        trial(
            "security_contexts_give_the_operator_no_privilege",
            schema::privileged,
        ),
        trial("its_roles_are_those_of_the_table", roles::operator),
        trial("no_role_has_a_wildcard_or_reads_secrets", roles::least),
        trial(
            "who_makes_no_certificate_has_no_right_to_one",
            roles::of_certificates,
        ),
        trial("people_have_roles_for_each_kind", roles::people),
        trial(
            "alerts_and_dashboard_ask_for_metrics_that_are_there",
            alerts::names,
        ),
        trial("each_alert_fires_where_it_is_to", firing::test),
        trial("what_it_renders_is_as_it_was_read", golden::rendered),
        trial("each_value_does_what_it_says", says::each),
        trial("no_value_takes_a_label_of_the_charts_own", labels::own),
        trial("the_nearest_of_two_labels_counts", labels::nearest),
        trial("each_value_is_in_the_table_of_docs", values::table),
        trial("no_rule_of_a_port_names_nobody", reached::by_network),
        trial(
            "the_api_server_trusts_whom_it_is_told_to",
            reached::by_api_servers,
        ),
        trial(
            "prometheus_checks_what_can_be_checked",
            reached::by_prometheus,
        ),
        on_cluster(
            "each_value_that_is_turned_gives_objects_that_are_taken",
            taken::toggles,
        ),
        on_cluster(
            "its_pods_are_as_restricted_namespaces_have_them",
            taken::restricted,
        ),
        on_cluster("it_is_installed_upgraded_and_uninstalled", install::life),
        on_cluster("an_upgrade_moves_no_gang_in_any_phase", upgrade::phases),
        on_cluster("the_api_server_keeps_its_share_for_it", flow::schemas),
        on_cluster("what_an_install_has_left_stays", kept::by_helm),
        on_cluster("what_an_install_of_helm_3_has_left_stays", kept::by_helm_3),
        on_cluster("an_older_helm_renders_it", kept::rendered_by_helm_3),
        on_cluster("crds_that_are_not_kept_go", install::nothing_is_kept),
        on_cluster("an_install_that_fails_is_taken_back", install::taken_back),
        on_cluster("readme_and_docs_install_it_by_helm", install::by_helm),
        on_cluster("docs_install_it_by_kubectl", install::by_kubectl),
        image::trial(),
        real::trial(),
        cert_manager::trial(),
    ];
    run(&arguments, trials).exit_code()
}
