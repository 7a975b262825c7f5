//! Finds the claims that a job mounts: where their volumes are, or why the job waits. The
//! controller and `trellis plan` share the rule and the wording. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Volume;
use trellis_api::{PodTemplate, Reason, RuntimeProfileSpec, TrainingJobSpec};
use trellis_compiler::Profile;

use super::lookup::Missing;
use crate::binding::Storage;
use crate::observed::{SlimClaim, SlimClaimSpec};
use crate::volumes::{Mounted, Volumes};
use crate::{binding, volumes};

/// A claim that the job's pods mount, and the field that names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The field that names the claim.
    pub field: String,
    /// The claim.
    pub what: What,
}

/// A claim that pods mount.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// An existing claim, by its name.
    Claim(String),
    /// An ephemeral claim of each pod.
    Ephemeral {
        /// The task group.
        group: String,
        /// The volume.
        volume: String,
        /// Spec of the claims.
        asked: Box<SlimClaimSpec>,
    },
}

impl Wanted {
    fn claim(field: String, name: String) -> Self {
        Self {
            field,
            what: What::Claim(name),
        }
    }
}

/// All claims that the job's pods mount, at that stage or at any.
pub fn mounted<'a>(
    job: &'a TrainingJobSpec,
    stage: Option<u32>,
    profile: Option<&'a RuntimeProfileSpec>,
) -> Vec<Wanted> {
    let mut all = Vec::new();
    let template = profile.and_then(|profile| profile.pod_template.as_ref());
    let of_profile = of_template(template, "spec.profile: spec");
    let stages = job.stage_of_groups();
    let with_stages = job.task_groups.iter().zip(stages).enumerate();
    let is_of = |of: u32| stage.is_none_or(|stage| of == stage);
    for (group, (of, _)) in with_stages.filter(|(_, (_, of))| is_of(*of)) {
        let path = format!("spec.taskGroups[{group}]");
        for (mount, of) in of.mounts.iter().enumerate() {
            let named = of.claim_name.clone();
            let field = format!("{path}.mounts[{mount}].claimName");
            all.extend(named.map(|claim| Wanted::claim(field, claim)));
        }
        let of_group = of_template(of.pod_template.as_ref(), &path);
        // A volume of the group replaces the profile's volume of the same name.
        let names: BTreeSet<&str> = of_group.iter().map(|(_, v)| v.name.as_str()).collect();
        let inherited = of_profile
            .iter()
            .filter(|(_, v)| !names.contains(v.name.as_str()));
        let volumes = inherited.chain(&of_group);
        all.extend(volumes.filter_map(|(field, volume)| wanted(field, volume, &of.name)));
    }
    all.dedup();
    all
}

/// Names of the existing claims that the job's pods mount.
pub fn names(
    job: &TrainingJobSpec,
    stage: Option<u32>,
    profile: Option<&RuntimeProfileSpec>,
) -> BTreeSet<String> {
    let claims = mounted(job, stage, profile).into_iter();
    let names = claims.filter_map(|wanted| match wanted.what {
        What::Claim(name) => Some(name),
        What::Ephemeral { .. } => None,
    });
    names.collect()
}

/// Task groups with ephemeral volumes, and the names of those volumes.
pub fn ephemeral(job: &TrainingJobSpec, profile: Option<&Profile>) -> Vec<(String, String)> {
    let wanted = mounted(job, None, profile.map(Profile::spec)).into_iter();
    let own = wanted.filter_map(|wanted| match wanted.what {
        What::Claim(_) => None,
        What::Ephemeral { group, volume, .. } => Some((group, volume)),
    });
    own.collect()
}

/// Volumes that no node reaches, for everything that the job mounts.
pub fn nowhere(job: &TrainingJobSpec, profile: Option<&RuntimeProfileSpec>) -> Volumes {
    let mut volumes = Volumes::default();
    for wanted in mounted(job, None, profile) {
        volumes.add(wanted.what, Mounted::nowhere());
    }
    volumes
}

impl Volumes {
    fn add(&mut self, what: What, mounted: Mounted) {
        match what {
            What::Claim(name) => {
                self.claims.insert(name, mounted);
            }
            What::Ephemeral { group, volume, .. } => {
                self.ephemeral.insert((group, volume), mounted);
            }
        }
    }
}

/// A template's volumes, each with its field. An invalid template has none, because its job is
/// refused before its volumes are used.
fn of_template(template: Option<&PodTemplate>, path: &str) -> Vec<(String, Volume)> {
    let spec = template.and_then(|template| template.decode().ok()?.spec);
    let volumes = spec.and_then(|spec| spec.volumes).unwrap_or_default();
    let volumes = volumes.into_iter().enumerate();
    let field = |at| format!("{path}.podTemplate.spec.volumes[{at}]");
    volumes.map(|(at, volume)| (field(at), volume)).collect()
}

fn wanted(field: &str, volume: &Volume, group: &str) -> Option<Wanted> {
    if let Some(claim) = &volume.persistent_volume_claim {
        let field = format!("{field}.persistentVolumeClaim.claimName");
        return Some(Wanted::claim(field, claim.claim_name.clone()));
    }
    let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
    Some(Wanted {
        field: format!("{field}.ephemeral.volumeClaimTemplate"),
        what: What::Ephemeral {
            group: group.to_owned(),
            volume: volume.name.clone(),
            asked: Box::new(template.spec.clone().into()),
        },
    })
}

/// Where the volumes are of all claims that the job mounts at that stage, counted from 1. For a
/// claim that is bound with its first pod: where its volume can be. If the job `is_placed`, its
/// ephemeral claims have their volumes or wait for them in place, so a lack of volumes does not
/// delay the job.
///
/// # Errors
/// The first claim that does not exist, is being deleted, or has no volume and can get none.
pub fn find(
    job: &TrainingJobSpec,
    stage: u32,
    profile: Option<&RuntimeProfileSpec>,
    storage: &impl Storage,
    is_placed: bool,
) -> Result<Volumes, Missing> {
    let mut found = Volumes::default();
    for Wanted { field, what } in mounted(job, Some(stage), profile) {
        let mounted = match &what {
            What::Claim(name) => of_claim(name, storage).map_err(|(reason, what)| Missing {
                reason,
                message: format!("{field}: PersistentVolumeClaim {name:?} {what}"),
            })?,
            What::Ephemeral { volume, asked, .. } => {
                let mounted = of_pods(volume, asked, storage);
                let mounted = mounted.or_else(|what| match is_placed {
                    true => Ok(Mounted::nowhere()),
                    false => Err(what),
                });
                mounted.map_err(|what| Missing {
                    reason: Reason::ClaimNotBound,
                    message: format!("{field}: the claim of each pod's own {what}"),
                })?
            }
        };
        found.add(what, mounted);
    }
    Ok(found)
}

/// Where the volume of a claim is. For a claim that is bound with its first pod: where it can be.
///
/// # Errors
/// If the claim does not exist, is being deleted, or has no volume and can get none: the reason,
/// and the message that follows the claim's name.
pub fn of_claim(name: &str, storage: &impl Storage) -> Result<Mounted, (Reason, String)> {
    let not_found = |what: &str| (Reason::ClaimNotFound, what.to_owned());
    let Some(claim) = storage.claim(name) else {
        return Err(not_found("does not exist: create it or name another"));
    };
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(not_found(
            "is being deleted: create it anew or name another",
        ));
    }
    let not_bound = |what: String| (Reason::ClaimNotBound, what);
    if !claim.is_bound() {
        return unbound(&claim, storage).map_err(not_bound);
    }
    let bound_to = claim.spec.volume_name.as_str();
    let Some(volume) = storage.volume(bound_to) else {
        let what = format!("is bound to volume {bound_to:?}, which does not exist");
        return Err(not_bound(what));
    };
    Ok(Mounted {
        reach: volumes::reach(&volume),
        one_node: false,
    })
}

/// Where volumes can be provisioned for ephemeral claims.
///
/// # Errors
/// Why the claims can get no volume, as far as their class and the volumes tell.
fn of_pods(volume: &str, asked: &SlimClaimSpec, storage: &impl Storage) -> Result<Mounted, String> {
    let claim = storage.asked(volume, asked);
    let class = match (storage.class(claim.class()), claim.class()) {
        (Some(class), _) => class,
        (None, "") if claim.spec.storage_class_name.is_none() => {
            let what =
                "names no StorageClass, and none is the cluster's default: set storageClassName";
            return Err(what.to_owned());
        }
        (None, "") => {
            return Err("is of no StorageClass: name one that provisions volumes".to_owned());
        }
        (None, class) => {
            return Err(format!(
                "asks for StorageClass {class:?}, which does not exist: create it or name another"
            ));
        }
    };
    // Existing volumes are not counted per node. A gang must not be committed where too few of them
    // are reached, so only provisioning counts.
    let reach = binding::provisioned(&claim, &class).ok_or_else(|| {
        format!(
            "asks for StorageClass {:?}, which provisions none: name one that does, or mount a claim",
            claim.class()
        )
    })?;
    Ok(Mounted {
        reach,
        one_node: false,
    })
}

/// Where a claim can be bound that is bound with its first pod.
///
/// # Errors
/// Why the claim has no volume, as far as it, its class and the volumes tell.
fn unbound(claim: &SlimClaim, storage: &impl Storage) -> Result<Mounted, String> {
    if claim.status.phase == "Lost" {
        return Err(format!("has lost its volume {:?}", claim.spec.volume_name));
    }
    let class = storage.class(claim.class());
    match class.filter(|class| claim.is_free() && class.binds_late()) {
        Some(class) => binding::reach(claim, &class, &storage.volumes())
            .ok_or_else(|| binding::no_volume(claim)),
        None => Err("is not bound yet: its events say what it waits for".to_owned()),
    }
}

#[cfg(test)]
mod tests;
