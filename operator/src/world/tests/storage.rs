//! Claims and volumes.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_claim_and_its_volume_wake_the_jobs_that_mount_it_when_they_change() {
    let case = Case::new();
    for (namespace, name, claim) in [
        ("a", "mounts", "data"),
        ("a", "other", "x"),
        ("b", "far", "data"),
    ] {
        let job: TrainingJob = decoded(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": namespace, "uid": name},
            "spec": {"taskGroups": [{"name": "w", "image": "i", "resources": {"cpu": 1, "memory": "1Gi"},
                "mounts": [{"path": "/data", "claim": claim}]}]},
        }));
        case.watched.apply(Key::of(job.meta()), job);
    }
    case.sync();
    case.looked_at().await;
    let claim = |phase: &str, volume: &str| -> SlimClaim {
        decoded(json!({
            "metadata": {"name": "data", "namespace": "a", "uid": "c"},
            "spec": {"volumeName": volume}, "status": {"phase": phase},
        }))
    };
    let key = Key::new("a", "data");
    case.watched.apply(key.clone(), claim("Pending", ""));
    assert_eq!(case.looked_at().await, ["a/mounts"]);
    case.watched.apply(key.clone(), claim("Pending", ""));
    assert!(case.looked_at().await.is_empty(), "nothing new");
    case.watched.apply(key.clone(), claim("Bound", "v"));
    assert_eq!(case.looked_at().await, ["a/mounts"]);
    let volume = |zone: &str| -> SlimVolume {
        decoded(json!({
            "metadata": {"name": "v", "uid": "v", "labels": {"topology.kubernetes.io/zone": zone}},
            "spec": {"claimRef": {"namespace": "a", "name": "data"}},
        }))
    };
    for (zone, woken) in [("x", 1), ("x", 0), ("y", 1)] {
        case.watched.apply(Key::new("", "v"), volume(zone));
        assert_eq!(case.looked_at().await.len(), woken, "{zone}");
    }
    Sink::<SlimVolume>::delete(case.watched.as_ref(), &Key::new("", "v"), "v");
    assert_eq!(case.looked_at().await, ["a/mounts"]);
    Sink::<SlimClaim>::delete(case.watched.as_ref(), &key, "c");
    assert_eq!(case.looked_at().await, ["a/mounts"]);
}
