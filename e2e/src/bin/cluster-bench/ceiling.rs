//! What a bare client reaches: the same writes, and nothing else.

use std::time::Instant;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::namespace::TestNamespace;

/// Placed pods a second, `in_flight` creates at once.
pub(crate) async fn measure(
    control_plane: &ControlPlane,
    in_flight: usize,
    count: usize,
) -> Result<f64> {
    let namespace = TestNamespace::create(control_plane, "ceiling").await?;
    let api: Api<Pod> = namespace.api();
    let pods: Vec<Pod> = (0..count)
        .map(|i| {
            serde_json::from_value(json!({
                "metadata": {"name": format!("p-{i}"), "labels": {"app": "ceiling"}},
                "spec": {
                    "nodeName": format!("gpu-{}", i % 100),
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": false,
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [{
                        "name": "main", "image": "train:1", "command": ["torchrun", "train.py"],
                        "resources": {
                            "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"},
                            "limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"},
                        },
                    }],
                },
            }))
        })
        .collect::<Result<_, _>>()?;
    let start = Instant::now();
    stream::iter(&pods)
        .map(|pod| {
            let api = api.clone();
            async move { api.create(&PostParams::default(), pod).await }
        })
        .buffer_unordered(in_flight)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let rate = count as f64 / start.elapsed().as_secs_f64();
    let now = DeleteParams::default().grace_period(0);
    api.delete_collection(&now, &ListParams::default()).await?;
    Ok(rate)
}
