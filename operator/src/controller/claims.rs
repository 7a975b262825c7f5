//! The claims that a job mounts, found: where their volumes are, or why it
//! waits. One rule and one wording for the controller and for `trellis plan`. Pure.

use std::borrow::Borrow;

use trellis_api::{PodTemplate, Reason, RuntimeProfileSpec, TrainingJobSpec};

use super::lookup::Missing;
use crate::scheduling::binding;
use crate::scheduling::volumes::{self, Mounted, Volumes};
use crate::watch::{SlimClaim, SlimStorageClass, SlimVolume};

/// Each claim that the job's pods mount, at that stage or at any, with the field that names it.
pub fn mounted<'a>(
    job: &'a TrainingJobSpec,
    stage: Option<u32>,
    profile: Option<&'a RuntimeProfileSpec>,
) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let stages = job.stage_of_groups();
    let with_stages = job.task_groups.iter().zip(stages).enumerate();
    let is_of = |of: u32| stage.is_none_or(|stage| of == stage);
    for (group, (of, _)) in with_stages.filter(|(_, (_, of))| is_of(*of)) {
        let path = format!("spec.taskGroups[{group}]");
        for (mount, of) in of.mounts.iter().enumerate() {
            let named = of.claim.clone();
            all.extend(named.map(|claim| (format!("{path}.mounts[{mount}].claim"), claim)));
        }
        all.extend(of_template(of.pod_template.as_ref(), &path));
    }
    let template = profile.and_then(|profile| profile.pod_template.as_ref());
    all.extend(of_template(template, "spec.profile: spec"));
    all
}

/// The claims of a template's volumes. One that breaks a rule names none: its job is
/// refused before anybody looks for them.
fn of_template(template: Option<&PodTemplate>, path: &str) -> Vec<(String, String)> {
    let spec = template.and_then(|template| template.decode().ok()?.spec);
    let volumes = spec.and_then(|spec| spec.volumes).unwrap_or_default();
    let claims = volumes.into_iter().enumerate().filter_map(|(at, volume)| {
        let claim = volume.persistent_volume_claim?.claim_name;
        let field = "persistentVolumeClaim.claimName";
        Some((
            format!("{path}.podTemplate.spec.volumes[{at}].{field}"),
            claim,
        ))
    });
    claims.collect()
}

/// Where the volumes of all claims are that the job mounts at that stage, from 1; of those that are bound with their
/// first pod, where they can be. `all` is every volume that there is.
///
/// # Errors
/// The first claim that is not there, is going, or has no volume and can have none.
pub fn find<C, V, S>(
    job: &TrainingJobSpec,
    stage: u32,
    profile: Option<&RuntimeProfileSpec>,
    claim: impl Fn(&str) -> Option<C>,
    volume: impl Fn(&str) -> Option<V>,
    all: impl Fn() -> Vec<V>,
    class: impl Fn(&str) -> Option<S>,
) -> Result<Volumes, Missing>
where
    C: Borrow<SlimClaim>,
    V: Borrow<SlimVolume>,
    S: Borrow<SlimStorageClass>,
{
    let mut found = Volumes::new();
    for (field, name) in mounted(job, Some(stage), profile) {
        let missing = |reason: Reason, what: String| Missing {
            reason,
            message: format!("{field}: PersistentVolumeClaim {name:?} {what}"),
        };
        let Some(claim) = claim(&name) else {
            let what = "does not exist: create it or name another".to_owned();
            return Err(missing(Reason::ClaimNotFound, what));
        };
        let claim = claim.borrow();
        if claim.metadata.deletion_timestamp.is_some() {
            let what = "is being deleted: create it anew or name another".to_owned();
            return Err(missing(Reason::ClaimNotFound, what));
        }
        let bound_to = claim.spec.volume_name.as_str();
        if !claim.is_bound() {
            let mounted = unbound(claim, &all, &class);
            let mounted = mounted.map_err(|what| missing(Reason::ClaimNotBound, what))?;
            found.insert(name, mounted);
            continue;
        }
        let Some(volume) = volume(bound_to) else {
            let what = format!("is bound to volume {bound_to:?}, which does not exist");
            return Err(missing(Reason::ClaimNotBound, what));
        };
        let mounted = Mounted {
            reach: volumes::reach(volume.borrow()),
            one_node: false,
        };
        found.insert(name, mounted);
    }
    Ok(found)
}

/// Where a claim can be bound that is to be bound with its first pod.
///
/// # Errors
/// Why it has no volume, as far as it, its class and the volumes say.
fn unbound<V: Borrow<SlimVolume>, S: Borrow<SlimStorageClass>>(
    claim: &SlimClaim,
    all: impl Fn() -> Vec<V>,
    class: impl Fn(&str) -> Option<S>,
) -> Result<Mounted, String> {
    if claim.status.phase == "Lost" {
        return Err(format!("has lost its volume {:?}", claim.spec.volume_name));
    }
    let class = class(claim.class());
    let class = class.as_ref().map(Borrow::borrow);
    match class.filter(|class| claim.is_free() && class.binds_late()) {
        Some(class) => {
            binding::reach(claim, class, &all()).ok_or_else(|| binding::no_volume(claim))
        }
        None => Err("is not bound yet: its events say what it waits for".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn job(claims: &[&[&str]]) -> TrainingJobSpec {
        let group = |claims: &&[&str]| {
            let mut mounts = vec![json!({"path": "/tmp", "emptyDir": {}})];
            mounts.extend(
                claims
                    .iter()
                    .map(|c| json!({"claim": c, "path": format!("/{c}")})),
            );
            json!({"name": "w", "image": "i", "resources": {"cpu": 1, "memory": "1Gi"}, "mounts": mounts})
        };
        let groups: Vec<Value> = claims.iter().map(group).collect();
        serde_json::from_value(json!({"taskGroups": groups})).unwrap()
    }

    fn found(job: &TrainingJobSpec, claim: Value) -> Result<Volumes, Missing> {
        let claim: SlimClaim = serde_json::from_value(claim).unwrap();
        let volume: SlimVolume = serde_json::from_value(json!({
            "metadata": {"name": "v"},
            "status": {"phase": "Available"},
            "spec": {"storageClassName": "late", "capacity": {"storage": "10Gi"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
            ]}}},
        }))
        .unwrap();
        let class = |mode: &str, provisioner: &str| SlimStorageClass {
            volume_binding_mode: Some(mode.to_owned()),
            provisioner: provisioner.to_owned(),
            ..SlimStorageClass::default()
        };
        let late = "WaitForFirstConsumer";
        find(
            job,
            1,
            None,
            |name| (name == "data").then(|| claim.clone()),
            |name| (name == "v").then(|| volume.clone()),
            || vec![volume.clone()],
            |name| match name {
                "late" => Some(class(late, "kubernetes.io/no-provisioner")),
                "made" => Some(class(late, "disks.example")),
                "soon" => Some(class("Immediate", "disks.example")),
                _ => None,
            },
        )
    }

    fn claim(phase: &str, volume: &str) -> Value {
        json!({"metadata": {"name": "data"}, "spec": {"volumeName": volume}, "status": {"phase": phase}})
    }

    #[test]
    fn a_bound_claim_says_where_its_volume_is() {
        let bound = claim("Bound", "v");
        let volumes = found(&job(&[&[], &["data", "data"]]), bound.clone()).unwrap();
        assert_eq!(volumes.len(), 1);
        assert_eq!(volumes["data"].reach.len(), 1);
        assert!(found(&job(&[&[]]), bound).unwrap().is_empty());
    }

    #[test]
    fn a_claim_that_is_bound_with_its_first_pod_says_where_it_can_be() {
        let asked = |class: &str, size: &str| {
            json!({"metadata": {"name": "data"}, "status": {"phase": "Pending"}, "spec": {
                "storageClassName": class, "accessModes": [],
                "resources": {"requests": {"storage": size}}}})
        };
        let job = job(&[&["data"]]);
        let found = |class: &str, size: &str| found(&job, asked(class, size));
        assert_eq!(found("late", "10Gi").unwrap()["data"].reach.len(), 1);
        let missing = found("late", "11Gi").unwrap_err();
        assert_eq!(missing.reason, Reason::ClaimNotBound);
        let words = "StorageClass \"late\" is free that has 11Gi";
        assert!(missing.message.contains(words), "{}", missing.message);
        // One that is large enough is made.
        assert!(found("made", "11Gi").unwrap()["data"].reach.is_empty());
    }

    #[test]
    fn claims_of_templates_are_looked_for_too() {
        let template = |claim: &str| {
            json!({"spec": {"volumes": [
                {"name": "a", "emptyDir": {}},
                {"name": "b", "persistentVolumeClaim": {"claimName": claim}},
            ]}})
        };
        let mut job = job(&[&[]]);
        job.task_groups[0].pod_template = Some(serde_json::from_value(template("c")).unwrap());
        let profile = serde_json::from_value(json!({"podTemplate": template("d")})).unwrap();
        let missing = found(&job, claim("Bound", "v")).unwrap_err();
        assert_eq!(missing.reason, Reason::ClaimNotFound);
        let field = "podTemplate.spec.volumes[1].persistentVolumeClaim.claimName";
        let path = format!("spec.taskGroups[0].{field}: PersistentVolumeClaim \"c\"");
        assert!(missing.message.starts_with(&path), "{}", missing.message);
        let all = mounted(&job, None, Some(&profile));
        let names: Vec<_> = all.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["c", "d"]);
    }

    #[test]
    fn what_is_not_there_or_not_bound_is_told_by_its_field() {
        let of_class = |class: &str| {
            json!({
                "metadata": {"name": "data"}, "spec": {"storageClassName": class}, "status": {"phase": "Pending"},
            })
        };
        let mut going = claim("Bound", "v");
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let both: &[&[&str]] = &[&[], &["data"]];
        for (claims, object, reason, words) in [
            (
                &[&["data", "none"] as &[&str]] as &[&[&str]],
                claim("Bound", "v"),
                "ClaimNotFound",
                "spec.taskGroups[0].mounts[2].claim: PersistentVolumeClaim \"none\" does not exist",
            ),
            (both, going, "ClaimNotFound", "is being deleted"),
            (
                both,
                claim("Pending", ""),
                "ClaimNotBound",
                "spec.taskGroups[1].mounts[1].claim: PersistentVolumeClaim \"data\" is not bound yet",
            ),
            // It names its volume, and is not bound to it yet.
            (
                both,
                claim("Pending", "v"),
                "ClaimNotBound",
                "is not bound yet",
            ),
            (
                both,
                claim("Lost", "v"),
                "ClaimNotBound",
                "has lost its volume \"v\"",
            ),
            (
                both,
                claim("Bound", "gone"),
                "ClaimNotBound",
                "volume \"gone\", which does not exist",
            ),
            (both, of_class("soon"), "ClaimNotBound", "is not bound yet"),
            (both, of_class("none"), "ClaimNotBound", "is not bound yet"),
        ] {
            let missing = found(&job(claims), object.clone()).unwrap_err();
            assert_eq!(missing.reason.as_str(), reason, "{object}");
            assert!(missing.message.contains(words), "{}", missing.message);
        }
    }
}
