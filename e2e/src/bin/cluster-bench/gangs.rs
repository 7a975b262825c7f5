//! Gangs through the operator, from the first apply to the last pod.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::namespace::TestNamespace;
use trellis_e2e::operator::Operator;

use crate::Row;

/// So many jobs of so many pods of one GPU.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) jobs: usize,
    pub(crate) pods: usize,
}

const LIMIT: Duration = Duration::from_secs(180);

/// Pods a second as a share of the ceiling, and what the operator used.
pub(crate) async fn measure(
    control_plane: &ControlPlane,
    program: &Path,
    case: Case,
    ceiling: f64,
) -> Result<Vec<Row>> {
    let namespace = TestNamespace::create(control_plane, "gangs").await?;
    let operator = Operator::start(control_plane, program).await?;
    // The lease of the one before must run out, and the first list is made.
    warm_up(&namespace).await.context(operator.last_words())?;
    let jobs: Api<TrainingJob> = namespace.api();
    let wanted = case.jobs * case.pods;
    let start = Instant::now();
    stream::iter(0..case.jobs)
        .map(|i| {
            let jobs = jobs.clone();
            let job = job(&format!("j-{i}"), case.pods);
            async move {
                jobs.create(&PostParams::default(), &job?)
                    .await
                    .map_err(anyhow::Error::from)
            }
        })
        .buffer_unordered(8)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let took = all_there(&namespace, wanted, start).await?;
    let name = format!("{} x {} pods of 1 GPU", case.jobs, case.pods);
    let memory = operator.resident_bytes()? / 1_048_576.0;
    let processor = operator.processor_seconds()?;
    jobs.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    drop(operator);
    let pods: Api<Pod> = namespace.api();
    pods.delete_collection(
        &DeleteParams::default().grace_period(0),
        &ListParams::default(),
    )
    .await?;
    Ok(vec![
        Row::new(name.clone(), wanted as f64 / took.as_secs_f64(), "pods/s").of(ceiling),
        Row::new(format!("{name}: operator, resident"), memory, "MiB"),
        Row::new(
            format!("{name}: operator, CPU since its start"),
            processor,
            "s",
        ),
    ])
}

fn job(name: &str, pods: usize) -> Result<TrainingJob> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"framework": "PyTorch", "taskGroups": [{
            "name": "worker", "replicas": pods, "gpus": 1, "image": "train:1",
            "command": ["torchrun", "train.py"], "resources": {"cpu": 1, "memory": "1Gi"},
        }]},
    }))?)
}

async fn warm_up(namespace: &TestNamespace) -> Result<()> {
    let jobs: Api<TrainingJob> = namespace.api();
    jobs.create(&PostParams::default(), &job("warm-up", 1)?)
        .await?;
    all_there(namespace, 1, Instant::now()).await?;
    jobs.delete("warm-up", &DeleteParams::default()).await?;
    let pods: Api<Pod> = namespace.api();
    pods.delete_collection(
        &DeleteParams::default().grace_period(0),
        &ListParams::default(),
    )
    .await?;
    trellis_e2e::wait::eventually(LIMIT, || async {
        if !pods
            .list_metadata(&ListParams::default())
            .await?
            .items
            .is_empty()
        {
            bail!("the pod of the warm-up is still there");
        }
        Ok(())
    })
    .await
}

/// The time until so many pods are there. Polled sparsely and as metadata, so
/// that the looking costs the server little.
async fn all_there(namespace: &TestNamespace, wanted: usize, start: Instant) -> Result<Duration> {
    let pods: Api<Pod> = namespace.api();
    let mut version = String::new();
    loop {
        let params = ListParams {
            resource_version: (!version.is_empty()).then(|| "0".to_owned()),
            ..ListParams::default()
        };
        let list = pods.list_metadata(&params).await?;
        version = list.metadata.resource_version.clone().unwrap_or_default();
        let there: &[PartialObjectMeta<Pod>] = &list.items;
        if there.len() >= wanted {
            return Ok(start.elapsed());
        }
        if start.elapsed() > LIMIT {
            bail!("{} of {wanted} pods after {LIMIT:?}", there.len());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
