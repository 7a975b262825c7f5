//! Writes with the operator's account that the API server compares with the term of the leader.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt as _, ResourceExt as _};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{LEADER_TERM_NAME, LeaderTerm, PodGroup, TrainingJob};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, NAMESPACE, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_until_deleted};

use super::{start_candidate, wait_until_leading};
use crate::operator_program;

/// Asserts that the API server refuses a write because another replica leads.
fn assert_fenced<T: std::fmt::Debug>(write: &str, answer: kube::Result<T>) {
    match answer {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 403, "{write}: {}", status.message);
            assert!(
                status
                    .message
                    .contains("only the leader may write: its pod is leader"),
                "{write}: {}",
                status.message
            );
        }
        other => panic!("{write}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_server_refuses_each_write_of_a_replica_that_does_not_lead() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut leader = start_candidate(&control_plane, "leader").await;
    wait_until_leading(&control_plane, &leader.operator).await;
    let site = TestSite::new(&control_plane, "fenced", NodeTemplate::new(1).gpus(8)).await;
    site.submit("j", 1, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let pod = site.wait_for_whole_gang("j", 1).await.remove(0);
    let name = pod.metadata.name.clone().unwrap();

    operator::wait_until_refused(&control_plane, "standby", site.name())
        .await
        .unwrap();
    let standby = operator::client(&control_plane, "standby").await.unwrap();
    let place = site.name();
    let (dry_run, body) = operator::trial_pod().unwrap();
    let params = PatchParams::default();
    let status = json!({"status": {"message": "late"}});
    let status = Patch::Merge(&status);

    let jobs: Api<TrainingJob> = Api::namespaced(standby.clone(), place);
    assert_fenced(
        "status of a job",
        jobs.patch_status("j", &params, &status).await,
    );
    let groups: Api<PodGroup> = Api::namespaced(standby.clone(), place);
    assert_fenced(
        "journal of a gang",
        groups.patch_status("j", &params, &status).await,
    );
    assert_fenced(
        "deletion of a PodGroup",
        groups.delete("j", &DeleteParams::default()).await,
    );
    let pods: Api<Pod> = Api::namespaced(standby.clone(), place);
    assert_fenced(
        "deletion of a pod",
        pods.delete(&name, &DeleteParams::default()).await,
    );
    assert_fenced("creation of a pod", pods.create(&dry_run, &body).await);
    assert_fenced(
        "eviction of a pod",
        pods.evict(&name, &Default::default()).await,
    );
    assert_fenced("binding of a pod", bind(&standby, place, &name).await);

    // A token of no pod is no replica's.
    let other = control_plane
        .service_account_client(NAMESPACE, operator::SERVICE_ACCOUNT)
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(other, place);
    assert_fenced(
        "deletion without a pod",
        pods.delete(&name, &DeleteParams::default()).await,
    );

    // The term itself changes only with a higher epoch.
    let terms: Api<LeaderTerm> = Api::namespaced(control_plane.client(), NAMESPACE);
    for change in [json!({"epoch": 0}), json!({"identity": "earlier"})] {
        let patch = json!({"spec": change});
        let patch = Patch::Merge(&patch);
        let refused = terms.patch(LEADER_TERM_NAME, &params, &patch).await;
        let message = refused.unwrap_err().to_string();
        let rule = "rises with every change of the term";
        assert!(message.contains(rule), "{change}: {message}");
    }
    leader.operator.assert_runs();
}

/// The pod cannot tell the processes in it apart, but their journals have epochs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_journal_of_an_earlier_process_in_the_leaders_pod_is_refused() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut first = start_candidate(&control_plane, "leader").await;
    let site = TestSite::new(&control_plane, "restarts", NodeTemplate::new(1).gpus(8)).await;
    site.submit("j", 1, 1).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    first.operator.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    let next = start_candidate(&control_plane, "leader").await;
    wait_until_leading(&control_plane, &next.operator).await;

    // The journal still has the epoch of the first process, so its own rule admits the write.
    let late = operator::client(&control_plane, "leader").await.unwrap();
    let groups: Api<PodGroup> = Api::namespaced(late, site.name());
    let status = json!({"status": {"epoch": 1, "evictUntil": "2026-01-01T00:00:00Z"}});
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    eventually(SOON, || async {
        let patch = Patch::Merge(&status);
        match groups.patch_status("j", &dry_run, &patch).await {
            Err(kube::Error::Api(answer)) if answer.message.contains("its epoch is 2") => Ok(()),
            answer => anyhow::bail!("{answer:?}"),
        }
    })
    .await
    .unwrap();
}

/// The API server finds no pod in the token, for example of an operator outside the cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_outside_a_pod_is_not_locked_out() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut inside = start_candidate(&control_plane, "inside").await;
    let site = TestSite::new(&control_plane, "outside", NodeTemplate::new(1).gpus(8)).await;
    site.submit("first", 1, 1).await;
    site.wait_for_phase("first", JobPhase::Running).await;
    operator::wait_until_refused(&control_plane, "standby", site.name())
        .await
        .unwrap();
    inside.operator.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();

    let kubeconfig = control_plane
        .service_account_kubeconfig(NAMESPACE, operator::SERVICE_ACCOUNT)
        .await
        .unwrap();
    let mut outside =
        Operator::start_with_kubeconfig(&control_plane, operator_program(), &kubeconfig).unwrap();
    site.submit("second", 1, 1).await;
    site.wait_for_phase("second", JobPhase::Running).await;
    let terms: Api<LeaderTerm> = Api::namespaced(control_plane.client(), NAMESPACE);
    let term = terms.get(LEADER_TERM_NAME).await.unwrap().spec;
    assert_eq!((term.epoch, term.pod), (2, None));
    outside.assert_runs();
}

/// An upgrade may install the CRDs later than the operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_leads_without_the_kind_of_its_term() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let mut first = start_candidate(&control_plane, "first").await;
    let site = TestSite::new(&control_plane, "kindless", NodeTemplate::new(1).gpus(8)).await;
    site.submit("before", 1, 1).await;
    site.wait_for_phase("before", JobPhase::Running).await;
    operator::wait_until_refused(&control_plane, "next", site.name())
        .await
        .unwrap();
    first.operator.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    let crd = LeaderTerm::crd();
    let crds: Api<CustomResourceDefinition> = Api::all(control_plane.client());
    let name = crd.name_any();
    crds.delete(&name, &DeleteParams::default()).await.unwrap();
    wait_until_deleted(&crds, &name, SOON).await.unwrap();

    let mut next = start_candidate(&control_plane, "next").await;
    site.submit("after", 1, 1).await;
    site.wait_for_phase("after", JobPhase::Running).await;
    // The leader writes its term once the kind exists.
    crds.create(&PostParams::default(), &crd).await.unwrap();
    operator::wait_until_refused(&control_plane, "first", site.name())
        .await
        .unwrap();
    next.operator.assert_runs();
}

async fn bind(client: &Client, namespace: &str, pod: &str) -> kube::Result<Value> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    });
    let request = http::Request::post(format!(
        "/api/v1/namespaces/{namespace}/pods/{pod}/binding?dryRun=All"
    ))
    .header("content-type", "application/json")
    .body(binding.to_string().into_bytes())
    .map_err(|error| kube::Error::Service(Box::new(error)))?;
    client.request(request).await
}
