use serde_json::{Value, json};

use super::*;
use crate::fixtures::FakeStorage;

fn job(claims: &[&[&str]]) -> TrainingJobSpec {
    let group = |claims: &&[&str]| {
        let mut mounts = vec![json!({"path": "/tmp", "emptyDir": {}})];
        mounts.extend(
            claims
                .iter()
                .map(|c| json!({"claimName": c, "path": format!("/{c}")})),
        );
        json!({"name": "w", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "mounts": mounts})
    };
    let groups: Vec<Value> = claims.iter().map(group).collect();
    serde_json::from_value(json!({"taskGroups": groups})).unwrap()
}

/// Returns the free volume "v" of 10Gi, and a StorageClass of each kind: "late" binds late and has
/// no provisioner, "made" provisions late, "soon" provisions at once.
fn storage() -> FakeStorage {
    let late = "WaitForFirstConsumer";
    let class = |name: &str, mode: &str, provisioner: &str| json!({"metadata": {"name": name}, "volumeBindingMode": mode, "provisioner": provisioner});
    let volume = json!({
        "metadata": {"name": "v"},
        "status": {"phase": "Available"},
        "spec": {"storageClassName": "late", "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
            ]}}},
    });
    FakeStorage::default()
        .with_volume(volume)
        .with_class(class("late", late, "kubernetes.io/no-provisioner"))
        .with_class(class("made", late, "disks.example"))
        .with_class(class("soon", "Immediate", "disks.example"))
}

fn find_with_claim(job: &TrainingJobSpec, claim: Value) -> Result<VolumeRequirements, JobHold> {
    find_volumes(job, 1, None, &storage().with_claim(claim), false)
}

fn claim(phase: &str, volume: &str) -> Value {
    json!({"metadata": {"name": "data"}, "spec": {"volumeName": volume}, "status": {"phase": phase}})
}

#[test]
fn bound_claim_requires_the_nodes_of_its_volume() {
    let bound = claim("Bound", "v");
    let volumes = find_with_claim(&job(&[&[], &["data", "data"]]), bound.clone()).unwrap();
    assert_eq!(volumes.claims.len(), 1);
    assert_eq!(volumes.claims["data"].node_terms.len(), 1);
    assert!(
        find_with_claim(&job(&[&[]]), bound)
            .unwrap()
            .claims
            .is_empty()
    );
}

#[test]
fn late_binding_claim_requires_nodes_of_its_candidate_volumes() {
    let claim_spec = |class: &str, size: &str| {
        json!({"metadata": {"name": "data"}, "status": {"phase": "Pending"}, "spec": {
            "storageClassName": class, "accessModes": [],
            "resources": {"requests": {"storage": size}}}})
    };
    let job = job(&[&["data"]]);
    let find = |class: &str, size: &str| find_with_claim(&job, claim_spec(class, size));
    assert_eq!(
        find("late", "10Gi").unwrap().claims["data"]
            .node_terms
            .len(),
        1
    );
    let missing = find("late", "11Gi").unwrap_err();
    assert_eq!(missing.reason, Reason::ClaimNotBound);
    let text = "StorageClass \"late\" is free that has 11Gi";
    assert!(missing.message.contains(text), "{}", missing.message);
    // A volume that is large enough is provisioned.
    assert!(
        find("made", "11Gi").unwrap().claims["data"]
            .node_terms
            .is_empty()
    );
}

#[test]
fn pod_template_claims_must_exist() {
    let template = |name: &str, claim: &str| {
        json!({"spec": {"volumes": [
            {"name": "a", "emptyDir": {}},
            {"name": name, "persistentVolumeClaim": {"claimName": claim}},
        ]}})
    };
    let mut job = job(&[&[]]);
    job.task_groups[0].pod_template = Some(serde_json::from_value(template("b", "c")).unwrap());
    let profile = |volume: &str| {
        serde_json::from_value(json!({"podTemplate": template(volume, "d")})).unwrap()
    };
    let missing = find_with_claim(&job, claim("Bound", "v")).unwrap_err();
    assert_eq!(missing.reason, Reason::ClaimNotFound);
    let field = "podTemplate.spec.volumes[1].persistentVolumeClaim.claimName";
    let path = format!("spec.taskGroups[0].{field}: PersistentVolumeClaim \"c\"");
    assert!(missing.message.starts_with(&path), "{}", missing.message);
    let names = |volume| claim_names(&job, None, Some(&profile(volume)));
    assert_eq!(names("other"), ["c".to_owned(), "d".to_owned()].into());
    // The group's own volume of this name replaces the volume of the profile.
    assert_eq!(names("b"), ["c".to_owned()].into());
}

#[test]
fn message_for_a_missing_or_unbound_claim_names_its_field() {
    let pending_claim = |class: &str| {
        json!({
            "metadata": {"name": "data"}, "spec": {"storageClassName": class}, "status": {"phase": "Pending"},
        })
    };
    let mut deleted = claim("Bound", "v");
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let second_group: &[&[&str]] = &[&[], &["data"]];
    for (claims, object, reason, text) in [
        (
            &[&["data", "none"] as &[&str]] as &[&[&str]],
            claim("Bound", "v"),
            "ClaimNotFound",
            "spec.taskGroups[0].mounts[2].claimName: PersistentVolumeClaim \"none\" does not exist",
        ),
        (second_group, deleted, "ClaimNotFound", "is being deleted"),
        (
            second_group,
            claim("Pending", ""),
            "ClaimNotBound",
            "spec.taskGroups[1].mounts[1].claimName: PersistentVolumeClaim \"data\" is not bound yet",
        ),
        // The claim names a volume, and is not bound to it yet.
        (
            second_group,
            claim("Pending", "v"),
            "ClaimNotBound",
            "is not bound yet",
        ),
        (
            second_group,
            claim("Lost", "v"),
            "ClaimNotBound",
            "has lost its volume \"v\"",
        ),
        (
            second_group,
            claim("Bound", "gone"),
            "ClaimNotBound",
            "volume \"gone\", which does not exist",
        ),
        (
            second_group,
            pending_claim("soon"),
            "ClaimNotBound",
            "is not bound yet",
        ),
        (
            second_group,
            pending_claim("none"),
            "ClaimNotBound",
            "is not bound yet",
        ),
    ] {
        let missing = find_with_claim(&job(claims), object.clone()).unwrap_err();
        assert_eq!(missing.reason.as_str(), reason, "{object}");
        assert!(missing.message.contains(text), "{}", missing.message);
    }
}

fn ephemeral(name: &str, claim_spec: Value) -> Value {
    let mut spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}});
    let fields = claim_spec.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    json!({"spec": {"volumes": [{"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]}})
}

fn with_template(template: Value) -> TrainingJobSpec {
    let mut job = job(&[&[]]);
    job.task_groups[0].pod_template = Some(serde_json::from_value(template).unwrap());
    job
}

#[test]
fn ephemeral_claims_require_nodes_where_their_class_provisions() {
    let volume_key = ("w".to_owned(), "scratch".to_owned());
    let find = |storage: &FakeStorage, claim_spec: Value, is_placed: bool| {
        let job = with_template(ephemeral("scratch", claim_spec));
        find_volumes(&job, 1, None, storage, is_placed)
            .map(|volumes| volumes.ephemeral[&volume_key].clone())
    };
    let with_class = |class: &str| json!({"storageClassName": class});
    for class in ["made", "soon"] {
        let anywhere = find(&storage(), with_class(class), false).unwrap();
        assert!(anywhere.node_terms.is_empty(), "{class}");
    }
    let field = "spec.taskGroups[0].podTemplate.spec.volumes[0].ephemeral.volumeClaimTemplate";
    for (claim_spec, text) in [
        (
            with_class("none"),
            "StorageClass \"none\", which does not exist",
        ),
        (
            with_class("late"),
            "StorageClass \"late\", which provisions none",
        ),
        (with_class(""), "is of no StorageClass"),
        (json!({}), "none is the cluster's default"),
    ] {
        let missing = find(&storage(), claim_spec.clone(), false).unwrap_err();
        assert_eq!(missing.reason, Reason::ClaimNotBound);
        assert!(missing.message.starts_with(field), "{}", missing.message);
        assert!(missing.message.contains(text), "{}", missing.message);
        // A placed gang is not delayed by a class that provisions no more volumes.
        assert_eq!(
            find(&storage(), claim_spec, true).unwrap(),
            VolumeRequirement::unreachable()
        );
    }
    // The youngest of several default classes counts, as in the admission plugin.
    let default = |name: &str, created: &str, topologies: Value| {
        json!({"metadata": {"name": name, "creationTimestamp": created,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "volumeBindingMode": "WaitForFirstConsumer", "provisioner": "disks.example",
            "allowedTopologies": topologies})
    };
    let zone = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]);
    let storage = storage()
        .with_class(default("old", "2025-01-01T00:00:00Z", json!(null)))
        .with_class(default("young", "2026-01-01T00:00:00Z", zone));
    assert_eq!(
        find(&storage, json!({}), false).unwrap().node_terms.len(),
        1
    );
}

#[test]
fn ephemeral_volume_of_the_group_replaces_the_profile_volume() {
    let profile = json!({"podTemplate": ephemeral("scratch", json!({"storageClassName": "none"}))});
    let profile = serde_json::from_value(profile).unwrap();
    let job_with_volume = with_template(ephemeral("scratch", json!({"storageClassName": "made"})));
    let volumes = find_volumes(&job_with_volume, 1, Some(&profile), &storage(), false).unwrap();
    assert_eq!(volumes.ephemeral.len(), 1);
    let missing = find_volumes(&job(&[&[]]), 1, Some(&profile), &storage(), false).unwrap_err();
    assert!(
        missing
            .message
            .starts_with("spec.profile: spec.podTemplate"),
        "{}",
        missing.message
    );
    let nowhere = unreachable_volumes(&job_with_volume, Some(&profile));
    let mut ephemeral = nowhere.ephemeral.values();
    assert!(ephemeral.all(|mounted| *mounted == VolumeRequirement::unreachable()));
}
