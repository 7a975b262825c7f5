//! After the k-th write for a job whose claim is bound with its first pod.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::proxy::{Moment, Request};
use trellis_e2e::site::Site;
use trellis_e2e::volumes::{disk, late_claim, late_class};
use trellis_e2e::wait::eventually;

use super::succession::Succession;
use super::{RECOVERY, counts, every_k, leave, running, sees_through};

/// A volume is in no namespace.
fn counts_with_volumes(namespace: &str) -> impl Fn(&Request) -> bool + Send + Sync + 'static {
    let counts = counts(namespace);
    move |request| {
        counts(request) || (request.is_write() && request.resource == "persistentvolumes")
    }
}

async fn survives(operators: &mut Succession, k: u64, moment: Moment) -> bool {
    let site = Site::new(&operators.control_plane, "claims", Nodes::new(2).gpus(8)).await;
    let class = site.name();
    for yaml in [
        late_class(class, None),
        late_claim(class, "data", class, "ReadWriteOnce", "1Gi"),
        disk(class, class, &site.nodes().names()[1]),
    ] {
        operators.control_plane.apply_yaml(&yaml).await.unwrap();
    }
    let fired = operators.kill_after(k, moment, counts_with_volumes(class));
    let mut job = site.job("j", 2, 1);
    job["spec"]["taskGroups"][0]["mounts"] = json!([{"claim": "data", "path": "/data"}]);
    site.create(job).await.unwrap();
    let (status, reached) = sees_through(operators, &site, (fired, k, moment), running).await;
    assert_eq!(
        (status.attempt, status.restarts, status.disruptions),
        (Some(1), Some(0), Some(0)),
        "after write {k} ({moment:?})"
    );
    let whole = eventually(RECOVERY, || site.try_whole("j", 2)).await;
    whole.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
    let claims = site.api::<PersistentVolumeClaim>();
    let claim = claims.get("data").await.unwrap();
    let volume = claim.spec.unwrap().volume_name;
    assert_eq!(
        volume.as_deref(),
        Some(class),
        "after write {k} ({moment:?})"
    );
    leave(&site, &["j"]).await;
    let volumes: Api<PersistentVolume> = Api::all(operators.control_plane.client());
    let gone = volumes.delete(class, &DeleteParams::default()).await;
    gone.unwrap();
    reached
}

async fn a_claim_is_bound_though_its_operator_is_killed_after_each_write(moment: Moment) {
    let mut operators = Succession::begin().await;
    // 3 children, the journal twice, the volume, the pods, a status.
    let least = 3 + 2 + 1 + 2 + 1;
    every_k(least, async |k| survives(&mut operators, k, moment).await).await;
}

at_both_moments!(a_claim_is_bound_though_its_operator_is_killed_after_each_write);
