//! `trellis plan` on a live cluster, for the current user or the user that `--as` names.

use std::process::Output;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use trellis_e2e::site::Site;

use super::scene::{about, active, apply, delete};
use super::{program, shared, site};

/// `trellis plan` of a job of the site's, with the kubeconfig of the control plane.
async fn plan(site: &Site, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.json");
    std::fs::write(&file, site.job("j", 1, 8).to_string()).unwrap();
    let mut command = tokio::process::Command::new(program());
    command.args(["plan", "-n", site.name(), "-f"]).arg(&file);
    command.arg("--kubeconfig").arg(shared().await.kubeconfig());
    command.args(more).output().await.unwrap()
}

/// Exit code, whether the plan is denied, and the note about the assumed requester. Other notes are
/// ignored, because other tests change policies at the same time.
fn said(output: &Output) -> (Option<i32>, bool, Option<String>) {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    let mut notes = err.lines().filter(|l| l.contains("who submits a job"));
    let note = notes.next().map(str::to_owned);
    (output.status.code(), out.contains("PolicyDenied"), note)
}

#[tokio::test]
async fn a_plan_is_for_who_asks_for_it_or_whom_it_names() {
    let control_plane = shared().await;
    let site = site("whose", 1).await;
    let api: Api<SelfSubjectReview> = Api::all(control_plane.client());
    let (params, question) = (PostParams::default(), SelfSubjectReview::default());
    let answer = api.create(&params, &question).await.unwrap();
    let me = answer.status.unwrap().user_info.unwrap();
    let me = me.username.unwrap();
    let only_me = format!(
        "forbid(principal, action == Trellis::Action::\"Submit\", resource) \
         unless {{ context has requester && context.requester.user == {me:?} }};"
    );
    apply(control_plane, &about(&site, &only_me, json!({}))).await;
    active(control_plane, site.name()).await;
    let note = format!(
        "note: policies or quota policies depend on the user who submits a job: assumed you, {me:?}; \
         name the user with --as"
    );
    assert_eq!(said(&plan(&site, &[]).await), (Some(0), false, Some(note)));
    let as_me = plan(&site, &["--as", &me]).await;
    assert_eq!(said(&as_me), (Some(0), false, None));
    let as_bob = plan(&site, &["--as", "bob", "--as-group", "ml"]).await;
    assert_eq!(said(&as_bob), (Some(1), true, None));
    delete(control_plane, site.name()).await;
}
