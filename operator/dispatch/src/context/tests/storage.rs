//! Claims and volumes.

use super::*;

/// Adds a job that mounts this claim.
fn add_job_mounting(case: &ContextFixture, namespace: &str, name: &str, claim: &str) {
    let group = json!({"name": "w", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
        "mounts": [{"path": "/data", "claimName": claim}]});
    let job: TrainingJob = decoded(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {"taskGroups": [group]},
    }));
    case.sink.apply(Key::from_meta(job.meta()), job);
}

#[tokio::test(start_paused = true)]
async fn changed_claim_or_volume_requeues_its_jobs() {
    let case = ContextFixture::new();
    for (namespace, name, claim) in [
        ("a", "mounts", "data"),
        ("a", "other", "x"),
        ("b", "far", "data"),
    ] {
        add_job_mounting(&case, namespace, name, claim);
    }
    case.sync();
    case.requeued_jobs().await;
    let claim = |phase: &str, volume: &str| -> SlimClaim {
        decoded(json!({
            "metadata": {"name": "data", "namespace": "a", "uid": "c"},
            "spec": {"volumeName": volume}, "status": {"phase": phase},
        }))
    };
    let key = Key::new("a", "data");
    case.sink.apply(key.clone(), claim("Pending", ""));
    assert_eq!(case.requeued_jobs().await, ["a/mounts"]);
    case.sink.apply(key.clone(), claim("Pending", ""));
    assert!(
        case.requeued_jobs().await.is_empty(),
        "the object has not changed"
    );
    case.sink.apply(key.clone(), claim("Bound", "v"));
    assert_eq!(case.requeued_jobs().await, ["a/mounts"]);
    let volume = |zone: &str| -> SlimVolume {
        decoded(json!({
            "metadata": {"name": "v", "uid": "v", "labels": {"topology.kubernetes.io/zone": zone}},
            "spec": {"claimRef": {"namespace": "a", "name": "data"}},
        }))
    };
    for (zone, woken) in [("x", 1), ("x", 0), ("y", 1)] {
        case.sink.apply(Key::new("", "v"), volume(zone));
        assert_eq!(case.requeued_jobs().await.len(), woken, "{zone}");
    }
    Sink::<SlimVolume>::delete(case.sink.as_ref(), &Key::new("", "v"), "v");
    assert_eq!(case.requeued_jobs().await, ["a/mounts"]);
    Sink::<SlimClaim>::delete(case.sink.as_ref(), &key, "c");
    assert_eq!(case.requeued_jobs().await, ["a/mounts"]);
}

/// A claim may wait for a free volume.
#[tokio::test(start_paused = true)]
async fn free_volume_requeues_jobs_with_matching_unbound_claims() {
    let case = ContextFixture::new();
    for (name, class, volume) in [
        ("waits", "late", ""),
        ("bound", "late", "other"),
        ("elsewhere", "soon", ""),
    ] {
        add_job_mounting(&case, "a", name, name);
        let claim: SlimClaim = decoded(json!({
            "metadata": {"name": name, "namespace": "a", "uid": name},
            "spec": {"storageClassName": class, "volumeName": volume},
        }));
        case.sink.apply(Key::new("a", name), claim);
    }
    case.sync();
    case.requeued_jobs().await;
    let volume = |claim_ref: serde_json::Value, phase: &str| -> SlimVolume {
        decoded(json!({
            "metadata": {"name": "v", "uid": "v"}, "status": {"phase": phase},
            "spec": {"storageClassName": "late", "claimRef": claim_ref},
        }))
    };
    let (key, free) = (Key::new("", "v"), serde_json::Value::Null);
    case.sink
        .apply(key.clone(), volume(free.clone(), "Pending"));
    assert_eq!(case.requeued_jobs().await, ["a/waits"]);
    case.sink
        .apply(key.clone(), volume(free.clone(), "Available"));
    assert_eq!(case.requeued_jobs().await, ["a/waits"]);
    case.sink
        .apply(key.clone(), volume(free.clone(), "Available"));
    assert!(
        case.requeued_jobs().await.is_empty(),
        "the object has not changed"
    );
    // The volume now belongs to another claim. This also requeues the jobs that waited for the
    // volume.
    let claim_ref = json!({"namespace": "a", "name": "bound", "uid": "bound"});
    case.sink.apply(key.clone(), volume(claim_ref, "Available"));
    assert_eq!(case.requeued_jobs().await, ["a/bound", "a/waits"]);
    case.sink.apply(key.clone(), volume(free, "Available"));
    case.requeued_jobs().await;
    Sink::<SlimVolume>::delete(case.sink.as_ref(), &key, "v");
    assert_eq!(case.requeued_jobs().await, ["a/waits"]);
}

/// Adds a pending external pod that mounts a claim. With an ephemeral volume, the pod is in group
/// "g".
fn add_external_pod(case: &ContextFixture, name: &str, volume: Value, node: Option<&str>) {
    let labels = match volume.get("ephemeral") {
        Some(_) => json!({"trellis.dev/pod-group": "g"}),
        None => json!({}),
    };
    let pod: SlimPod = decoded(json!({
        "metadata": {"name": name, "namespace": "a", "uid": name, "labels": labels},
        "spec": {"schedulerName": "trellis", "nodeName": node,
            "containers": [{"name": "c"}], "volumes": [volume]},
        "status": {"phase": "Pending"},
    }));
    case.sink.apply(Key::from_meta(&pod.metadata), pod);
}

#[tokio::test(start_paused = true)]
async fn changed_claims_volumes_and_classes_requeue_waiting_external_pods() {
    let mut case = ContextFixture::new();
    let mounts = |claim: &str| json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    let ephemeral = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
    add_external_pod(&case, "waits", mounts("data"), None);
    add_external_pod(&case, "runs", mounts("data"), Some("n"));
    add_external_pod(&case, "other", mounts("x"), None);
    add_external_pod(&case, "own", ephemeral, None);
    add_external_pod(&case, "none", json!({"name": "v", "emptyDir": {}}), None);
    case.sync();
    let woken = move |events: &mut EventReceiver| -> Vec<String> {
        let names = events
            .take_all()
            .into_iter()
            .filter_map(|event| match event {
                SchedulerEvent::Recheck(unit) => Some(unit.name.to_string()),
                _ => None,
            });
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    woken(&mut case.events);
    let claim = |name: &str, owner: &str, class: &str| {
        let owners = match owner {
            "" => json!([]),
            owner => json!([{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner,
                "controller": true}]),
        };
        let claim: SlimClaim = decoded(json!({
            "metadata": {"name": name, "namespace": "a", "uid": name, "ownerReferences": owners},
            "spec": {"storageClassName": class}, "status": {"phase": "Pending"},
        }));
        case.sink.apply(Key::new("a", name), claim);
    };
    let [pod, group] = [external::pod_gang_key, external::pod_group_gang_key];
    let pod = |name: &str| pod(&Key::new("a", name)).name.to_string();
    let group = group(&Key::new("a", "g")).name.to_string();
    claim("data", "", "late");
    assert_eq!(woken(&mut case.events), [pod("waits")]);
    claim("own-scratch", "own", "late");
    let mut pod_and_group = vec![group, pod("own")];
    pod_and_group.sort();
    assert_eq!(woken(&mut case.events), pod_and_group);
    // A change of the claim's owner also wakes the pod.
    claim("own-scratch", "", "late");
    assert_eq!(woken(&mut case.events), pod_and_group);
    // The pod also waits while the claim with this name belongs to another pod.
    claim("own-scratch", "before", "late");
    assert_eq!(woken(&mut case.events), pod_and_group);
    let claim_key = Key::new("a", "own-scratch");
    Sink::<SlimClaim>::delete(case.sink.as_ref(), &claim_key, "own-scratch");
    assert_eq!(woken(&mut case.events), pod_and_group);
    let volume: SlimVolume = decoded(json!({
        "metadata": {"name": "v", "uid": "v"},
        "spec": {"claimRef": {"namespace": "a", "name": "data"}},
    }));
    case.sink.apply(Key::new("", "v"), volume);
    assert_eq!(woken(&mut case.events), [pod("waits")]);
    let class: SlimStorageClass = decoded(json!({
        "metadata": {"name": "late", "uid": "late"}, "provisioner": "disks.example",
    }));
    case.sink.apply(Key::new("", "late"), class);
    pod_and_group.extend([pod("waits"), pod("other")]);
    pod_and_group.sort();
    assert_eq!(woken(&mut case.events), pod_and_group);
}
