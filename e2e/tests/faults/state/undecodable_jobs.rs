//! TrainingJobs that do not decode: stored with a looser schema than the current one, or with a
//! time in `managedFields` that the operator cannot parse.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GetParams, ListParams, Patch, PatchParams,
    PostParams, Request,
};
use kube::{Api, Client, Resource as _};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::proxy::{Proxy, TrafficTotals};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_until_deleted};

use crate::operator_program;

const CRD_NAME: &str = "trainingjobs.trellis.dev";

/// Sets another schema in the CRD of TrainingJobs, and returns the previous one.
pub(crate) async fn set_schema(client: &Client, schema: &Value) -> Value {
    let kind =
        kube::core::GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let crds: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let crd = crds.get(CRD_NAME).await.unwrap();
    let mut versions = crd.data["spec"]["versions"].clone();
    let before = versions[0]["schema"].take();
    versions[0]["schema"] = schema.clone();
    let patch = json!({"spec": {"versions": versions}});
    crds.patch(CRD_NAME, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    before
}

fn untyped_jobs(client: Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<TrainingJob>(&()))
}

/// Objects that a looser schema accepted, by name.
fn broken_jobs(site: &TestSite) -> [(&'static str, Value); 3] {
    let mut no_list = site.job("no-list", 1, 1);
    no_list["spec"]["taskGroups"] = json!("worker");
    let mut no_number = site.job("no-number", 1, 1);
    no_number["spec"]["taskGroups"][0]["replicas"] = json!("many");
    let mut no_spec = site.job("no-spec", 1, 1);
    no_spec["spec"] = Value::Null;
    [
        ("no-list", no_list),
        ("no-number", no_number),
        ("no-spec", no_spec),
    ]
}

/// Stores the broken jobs with a schema that accepts everything. Returns the current schema.
async fn store_broken_jobs(control_plane: &ControlPlane, site: &TestSite) -> Value {
    let client = control_plane.client();
    let anything = json!({"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    }});
    let today = set_schema(&client, &anything).await;
    let jobs = untyped_jobs(client, site.name());
    for (name, object) in broken_jobs(site) {
        // A changed schema takes effect after a moment.
        eventually(SOON, || async {
            let object: DynamicObject = serde_json::from_value(object.clone())?;
            let stored = jobs.create(&PostParams::default(), &object).await;
            stored.with_context(|| format!("store {name}"))
        })
        .await
        .unwrap();
    }
    today
}

/// Sets the current schema again, and waits until the API server refuses a new broken job.
async fn restore_schema(control_plane: &ControlPlane, site: &TestSite, today: &Value) {
    set_schema(&control_plane.client(), today).await;
    let jobs = untyped_jobs(control_plane.client(), site.name());
    eventually(SOON, || async {
        let mut object = broken_jobs(site)[0].1.clone();
        object["metadata"]["name"] = json!("probe");
        let object: DynamicObject = serde_json::from_value(object)?;
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        ensure!(jobs.create(&dry_run, &object).await.is_err());
        Ok(())
    })
    .await
    .unwrap();
}

/// Waits for an event with the reason of the refusal of a job.
async fn wait_for_refusal_event(site: &TestSite, name: &str) {
    let events: Api<Event> = site.api();
    eventually(SOON, || async {
        let all = events.list(&ListParams::default()).await?;
        let about = |e: &&Event| e.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(name);
        let event = all.iter().find(about);
        let event = event.with_context(|| format!("no event tells of {name}"))?;
        let note = event.note.as_deref().unwrap_or_default();
        ensure!(event.reason.as_deref() == Some("InvalidSpec"), "{event:?}");
        ensure!(event.type_.as_deref() == Some("Warning"), "{event:?}");
        ensure!(note.contains("does not decode"), "{note}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Counts the writes of some seconds after all states are reported.
async fn count_later_writes(proxy: &Proxy) -> TrafficTotals {
    // The operator writes the status of queues every two seconds.
    proxy.wait_until_quiet(Duration::from_secs(3)).await;
    proxy.reset_counts();
    tokio::time::sleep(Duration::from_secs(4)).await;
    proxy
        .counts()
        .sum(|key| key.is_write() && !key.resource.starts_with("leases"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undecodable_job_does_not_disturb_other_jobs() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "broken", NodeTemplate::new(1).gpus(8)).await;
    let today = store_broken_jobs(&control_plane, &site).await;
    restore_schema(&control_plane, &site, &today).await;
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    let (mut operator, proxy) =
        Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
            .await
            .unwrap();

    // Valid jobs run to the end.
    site.submit("good", 2, 1).await;
    site.wait_for_phase("good", JobPhase::Running).await;
    for pod in ["good-worker-0", "good-worker-1"] {
        site.end_pod(pod, "0").await;
    }
    site.wait_for_phase("good", JobPhase::Complete).await;

    // No hot loop: the operator only retries each broken job from time to time.
    let later = count_later_writes(&proxy).await;
    assert!(later.requests <= 2 * 3, "{later:?}");

    // Users can delete a broken job.
    let jobs = untyped_jobs(control_plane.client(), site.name());
    jobs.delete("no-spec", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_deleted(&jobs, "no-spec", SOON).await.unwrap();
    // After its repair, the job runs.
    let mended = site.job("no-list", 1, 1);
    site.patch("no-list", json!({"spec": mended["spec"]}))
        .await
        .unwrap();
    site.wait_for_phase("no-list", JobPhase::Running).await;
    site.wait_for_whole_gang("no-list", 1).await;
    operator.assert_runs();
}

/// With a schema that accepts more than the operator decodes, as after a rollback of the operator,
/// the status of the job is that of a refused job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undecodable_job_reports_the_error_in_its_status() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "says", NodeTemplate::new(1).gpus(8)).await;
    store_broken_jobs(&control_plane, &site).await;
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    let (_operator, proxy) =
        Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
            .await
            .unwrap();
    let jobs = untyped_jobs(control_plane.client(), site.name());
    for (name, _) in broken_jobs(&site) {
        let reported = eventually(SOON, || async {
            let status = jobs.get(name).await?.data["status"].clone();
            ensure!(status["phase"] == "Refused", "{name} says {status}");
            Ok(status)
        })
        .await
        .unwrap();
        assert_eq!(reported["reason"], "InvalidSpec");
        let message = reported["message"].as_str().unwrap_or_default();
        assert!(message.contains("does not decode"), "{name}: {message}");
        for (kind, status) in [("Accepted", "False"), ("Stalled", "True")] {
            let conditions = reported["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let condition = conditions.iter().find(|c| c["type"] == kind);
            let condition =
                condition.unwrap_or_else(|| panic!("{name} has no condition {kind}: {reported}"));
            assert_eq!(condition["status"], status, "{name}: {condition}");
            assert_eq!(condition["reason"], "InvalidSpec", "{name}: {condition}");
        }
        wait_for_refusal_event(&site, name).await;
    }
    assert_eq!(
        count_later_writes(&proxy).await.requests,
        0,
        "{}",
        proxy.counts()
    );
}

/// With a schema that is stricter than the stored job, the API server also refuses the status of
/// the job, so only an event can report the error. The operator retries after the object has
/// changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_with_an_unwritable_status_gets_an_event() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let site = TestSite::new(&control_plane, "tells", NodeTemplate::new(1).gpus(8)).await;
    let today = store_broken_jobs(&control_plane, &site).await;
    restore_schema(&control_plane, &site, &today).await;
    let launch = LaunchOptions::with_name("operator").lease_seconds(60);
    let (_operator, proxy) =
        Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
            .await
            .unwrap();
    for (name, _) in broken_jobs(&site) {
        wait_for_refusal_event(&site, name).await;
    }
    assert_eq!(
        count_later_writes(&proxy).await.requests,
        0,
        "{}",
        proxy.counts()
    );
}

/// A time that the API server accepts and Go parses.
const UNREADABLE_TIME: &str = "9999-12-31T23:59:59Z";

fn jobs_request(site: &TestSite) -> Request {
    Request::new(TrainingJob::url_path(&(), Some(site.name())))
}

/// Reads a job as the API server stores it.
async fn read_raw_job(client: &Client, site: &TestSite, name: &str) -> anyhow::Result<Value> {
    let get = jobs_request(site).get(name, &GetParams::default())?;
    Ok(client.request(get).await?)
}

/// Every user with the right to write the job can do this.
async fn make_managed_fields_unreadable(client: &Client, site: &TestSite, name: &str) {
    eventually(SOON, || async {
        let mut job = read_raw_job(client, site, name).await?;
        let managed = job["metadata"]["managedFields"].as_array_mut();
        managed.context("managedFields")?.push(json!({
            "manager": "invented", "operation": "Update", "time": UNREADABLE_TIME,
            "apiVersion": "trellis.dev/v1alpha1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:taskGroups": {}}},
        }));
        let put =
            jobs_request(site).replace(name, &PostParams::default(), serde_json::to_vec(&job)?)?;
        let put: Value = client.request(put).await?;
        ensure!(put.to_string().contains(UNREADABLE_TIME), "{put}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Waits until the status of the job reports the error.
async fn wait_for_raw_status(
    client: &Client,
    site: &TestSite,
    name: &str,
    phase: &str,
    attempt: i64,
) {
    eventually(SOON, || async {
        let job = read_raw_job(client, site, name).await?;
        let status = &job["status"];
        ensure!(
            status["phase"] == phase && status["attempt"] == attempt,
            "{name} says {status}"
        );
        ensure!(job.to_string().contains(UNREADABLE_TIME), "{job}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Unreadable `managedFields` stop neither other jobs, nor the job itself, nor a starting operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_with_unreadable_managed_fields_runs_normally() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let client = control_plane.client();
    let site = TestSite::new(&control_plane, "managed", NodeTemplate::new(1).gpus(8)).await;
    let launch = LaunchOptions::with_name("first");
    let (mut first, proxy) =
        Operator::start_behind_new_proxy(&control_plane, operator_program(), &launch)
            .await
            .unwrap();
    site.submit("odd", 1, 1).await;
    site.wait_for_phase("odd", JobPhase::Running).await;
    make_managed_fields_unreadable(&client, &site, "odd").await;

    site.submit("good", 1, 1).await;
    site.wait_for_phase("good", JobPhase::Running).await;
    site.end_pod("odd-worker-0", "1").await;
    wait_for_raw_status(&client, &site, "odd", "Running", 2).await;
    first.assert_runs();

    first.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    let launch = LaunchOptions::with_name("second");
    let mut second =
        Operator::start_behind_proxy(&control_plane, operator_program(), &proxy, &launch)
            .await
            .unwrap();
    site.submit("later", 1, 1).await;
    site.wait_for_phase("later", JobPhase::Running).await;
    site.wait_for_whole_gang("odd", 1).await;
    site.end_pod("odd-worker-0", "0").await;
    wait_for_raw_status(&client, &site, "odd", "Complete", 2).await;
    second.assert_runs();
}
