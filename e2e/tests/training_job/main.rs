//! One TrainingJob, all the way, on a real control plane under the chart's own rights.

mod lifecycle;
mod placement;
mod refusals;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::namespace::TestNamespace;
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::wait::{eventually, wait_for};

const SOON: Duration = Duration::from_secs(30);

/// The control plane of this test process, with one operator on it.
async fn shared() -> &'static ControlPlane {
    static OPERATOR: OnceCell<Operator> = OnceCell::const_new();
    let control_plane = ControlPlane::shared_with(|| operator::options().unwrap())
        .await
        .unwrap();
    OPERATOR
        .get_or_init(|| async {
            operator::install(control_plane).await.unwrap();
            let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
            Operator::start(control_plane, program).await.unwrap()
        })
        .await;
    control_plane
}

/// A job of one group on the nodes of the test's own scope.
fn job(name: &str, scope: &str, replicas: u32, gpus: u32) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "framework": "PyTorch",
            "restart": {"backoffSeconds": 1, "maxBackoffSeconds": 1},
            "taskGroups": [{
                "name": "worker",
                "replicas": replicas,
                "gpus": gpus,
                "image": "registry.example/train:1.0",
                "command": ["torchrun", "train.py"],
                "resources": {"cpu": 1, "memory": "1Gi"},
                "nodeSelector": {trellis_e2e::cluster::SCOPE: scope},
            }],
        },
    })
}

async fn create(namespace: &TestNamespace, job: Value) -> kube::Result<TrainingJob> {
    let job: TrainingJob = serde_json::from_value(job).unwrap();
    namespace
        .api::<TrainingJob>()
        .create(&PostParams::default(), &job)
        .await
}

fn phase(job: &TrainingJob) -> Option<JobPhase> {
    job.status.as_ref().and_then(|s| s.phase)
}

async fn reaches(namespace: &TestNamespace, name: &str, wanted: JobPhase) -> TrainingJob {
    let api = namespace.api::<TrainingJob>();
    match wait_for(&api, name, SOON, move |j: &TrainingJob| {
        phase(j) == Some(wanted)
    })
    .await
    {
        Ok(job) => job,
        Err(error) => {
            let now = api.get(name).await.map(|j| j.status);
            panic!("{name} did not become {wanted:?}: {error:#}; now {now:#?}");
        }
    }
}

async fn pods(namespace: &TestNamespace, name: &str) -> Vec<Pod> {
    let params = ListParams::default().labels(&format!("trellis.dev/job={name}"));
    let api: Api<Pod> = namespace.api();
    api.list(&params).await.unwrap().items
}

async fn pods_become(namespace: &TestNamespace, name: &str, count: usize) -> Result<()> {
    eventually(SOON, || async {
        let now = pods(namespace, name).await.len();
        if now != count {
            bail!("{now} pods of {name}, not {count}");
        }
        Ok(())
    })
    .await
}

fn reason(job: &TrainingJob) -> &'static str {
    job.status
        .as_ref()
        .and_then(|s| s.reason)
        .map_or("", trellis_api::Reason::as_str)
}

fn message(job: &TrainingJob) -> String {
    job.status
        .as_ref()
        .and_then(|s| s.message.clone())
        .unwrap_or_default()
}
