//! `trellis plan` on a live cluster, for the current user or the user that `--as` names.

use std::process::Output;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use trellis_e2e::site::TestSite;

use crate::fixtures::{apply_policy, cluster_policy_for, delete_policy, wait_until_active};
use crate::{create_site, operator_program, shared_control_plane};

/// Runs `trellis plan` for a job of the site, with the kubeconfig of the control plane.
async fn run_plan(site: &TestSite, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.json");
    std::fs::write(&file, site.job("j", 1, 8).to_string()).unwrap();
    let mut command = tokio::process::Command::new(operator_program());
    command.args(["plan", "-n", site.name(), "-f"]).arg(&file);
    command
        .arg("--kubeconfig")
        .arg(shared_control_plane().await.kubeconfig());
    command.args(options).output().await.unwrap()
}

/// Returns the exit code, whether the plan is denied, and the note about the assumed requester.
/// Other notes are ignored, because other tests change policies at the same time.
fn plan_result(output: &Output) -> (Option<i32>, bool, Option<String>) {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    let mut notes = err.lines().filter(|l| l.contains("who submits a job"));
    let note = notes.next().map(str::to_owned);
    (output.status.code(), out.contains("PolicyDenied"), note)
}

#[tokio::test]
async fn plan_uses_the_current_user_or_the_user_of_as() {
    let control_plane = shared_control_plane().await;
    let site = create_site("whose", 1).await;
    let api: Api<SelfSubjectReview> = Api::all(control_plane.client());
    let (params, question) = (PostParams::default(), SelfSubjectReview::default());
    let answer = api.create(&params, &question).await.unwrap();
    let me = answer.status.unwrap().user_info.unwrap();
    let me = me.username.unwrap();
    let only_me = format!(
        "forbid(principal, action == Trellis::Action::\"Submit\", resource) \
         unless {{ context has requester && context.requester.user == {me:?} }};"
    );
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, &only_me, json!({})),
    )
    .await;
    wait_until_active(control_plane, site.name()).await;
    let note = format!(
        "note: policies or quota policies depend on the user who submits a job: assumed you, {me:?}; \
         name the user with --as"
    );
    assert_eq!(
        plan_result(&run_plan(&site, &[]).await),
        (Some(0), false, Some(note))
    );
    let as_me = run_plan(&site, &["--as", &me]).await;
    assert_eq!(plan_result(&as_me), (Some(0), false, None));
    let as_bob = run_plan(&site, &["--as", "bob", "--as-group", "ml"]).await;
    assert_eq!(plan_result(&as_bob), (Some(1), true, None));
    delete_policy(control_plane, site.name()).await;
}
