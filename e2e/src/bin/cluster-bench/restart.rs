//! Measures the start of the operator on a full cluster, until its first placement.

use std::time::Instant;

use anyhow::Result;
use futures::future::try_join_all;
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::discovery::ApiResource;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_e2e::control_plane::ProcessSignal;

use crate::bench::{Bench, PodCounter};
use crate::refusal::FullCluster;
use crate::row::BenchRow;

/// Measures a graceful restart, a restart after a crash, and a bare client that lists the same
/// objects.
pub(crate) async fn measure(bench: &Bench, full: FullCluster) -> Result<()> {
    let FullCluster {
        namespace,
        mut operator,
        pods,
    } = full;
    let api: Api<TrainingJob> = namespace.api();
    let list = measure_listing(bench).await?;
    bench.print_row(&BenchRow::new(
        format!("bare client lists what is watched, {pods} pods placed"),
        list * 1e3,
        "ms",
    ));
    for (name, signal) in [
        ("stopped", ProcessSignal::Terminate),
        ("killed", ProcessSignal::Kill),
    ] {
        operator.signal(signal)?;
        let counter = PodCounter::start(&namespace).await?;
        // This gang needs no GPU, because the cluster has none left.
        let job: TrainingJob = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {"taskGroups": [{"name": "worker", "replicas": 1, "image": "train:1", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]},
        }))?;
        api.create(&PostParams::default(), &job).await?;
        let start = Instant::now();
        operator = bench.start_cold_operator().await?;
        let placed = counter.wait_for_count(1).await?.duration_since(start);
        bench.print_row(&BenchRow::new(
            format!("operator {name} and started, {pods} pods placed, to the first placement"),
            placed.as_secs_f64() * 1e3,
            "ms",
        ));
    }
    drop(operator);
    bench.delete_jobs_and_pods(&namespace).await
}

/// Lists all kinds that the operator watches, concurrently as the operator does.
async fn measure_listing(bench: &Bench) -> Result<f64> {
    let client = bench.operator_rights_client().await?;
    let kinds = [
        ("", "v1", "Pod", "pods"),
        ("", "v1", "Node", "nodes"),
        ("", "v1", "Service", "services"),
        ("", "v1", "Namespace", "namespaces"),
        (
            "networking.k8s.io",
            "v1",
            "NetworkPolicy",
            "networkpolicies",
        ),
        ("trellis.dev", "v1alpha1", "TrainingJob", "trainingjobs"),
        ("trellis.dev", "v1alpha1", "PodGroup", "podgroups"),
        ("trellis.dev", "v1alpha1", "TrainingQueue", "trainingqueues"),
    ];
    let start = Instant::now();
    try_join_all(kinds.map(|(group, version, kind, plural)| {
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() {
                version.to_owned()
            } else {
                format!("{group}/{version}")
            },
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        async move { api.list(&ListParams::default().match_any()).await }
    }))
    .await?;
    Ok(start.elapsed().as_secs_f64())
}
