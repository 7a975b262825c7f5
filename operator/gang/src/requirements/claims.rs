//! Finds the claims that a job mounts, with the location of their volumes, or why the job waits.
//! The controller and `trellis plan` share the rule and the wording. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Volume;
use trellis_api::{PodTemplate, Reason, RuntimeProfileSpec, TrainingJobSpec};
use trellis_compiler::HashedProfile;

use crate::JobHold;
use crate::observed::{SlimClaim, SlimClaimSpec};
use crate::requirements::binding::Storage;
use crate::requirements::volumes::{VolumeRequirement, VolumeRequirements};
use crate::requirements::{binding, volumes};

/// A claim that the job's pods mount, and the field that names it.
#[derive(Clone, Debug, PartialEq)]
pub struct MountedClaim {
    /// The field that names the claim.
    pub field: String,
    /// The claim.
    pub claim: ClaimSource,
}

/// A claim that pods mount.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimSource {
    /// An existing claim, by its name.
    Existing(String),
    /// An ephemeral claim of each pod.
    Ephemeral {
        /// The task group.
        group: String,
        /// The volume.
        volume: String,
        /// Spec of the claims.
        spec: Box<SlimClaimSpec>,
    },
}

impl MountedClaim {
    fn existing(field: String, name: String) -> Self {
        Self {
            field,
            claim: ClaimSource::Existing(name),
        }
    }
}

/// Returns all claims that the job's pods mount, at that stage or at any.
pub fn mounted_claims<'a>(
    job: &'a TrainingJobSpec,
    stage: Option<u32>,
    profile: Option<&'a RuntimeProfileSpec>,
) -> Vec<MountedClaim> {
    let mut all = Vec::new();
    let template = profile.and_then(|profile| profile.pod_template.as_ref());
    let of_profile = template_volumes(template, "spec.profile: spec");
    let stages = job.group_stages();
    let with_stages = job.task_groups.iter().zip(stages).enumerate();
    let is_of = |of: u32| stage.is_none_or(|stage| of == stage);
    for (group, (of, _)) in with_stages.filter(|(_, (_, of))| is_of(*of)) {
        let path = format!("spec.taskGroups[{group}]");
        for (mount, of) in of.mounts.iter().enumerate() {
            let named = of.claim_name.clone();
            let field = format!("{path}.mounts[{mount}].claimName");
            all.extend(named.map(|claim| MountedClaim::existing(field, claim)));
        }
        let of_group = template_volumes(of.pod_template.as_ref(), &path);
        // A volume of the group replaces the profile's volume of the same name.
        let names: BTreeSet<&str> = of_group.iter().map(|(_, v)| v.name.as_str()).collect();
        let inherited = of_profile
            .iter()
            .filter(|(_, v)| !names.contains(v.name.as_str()));
        let volumes = inherited.chain(&of_group);
        all.extend(volumes.filter_map(|(field, volume)| mounted_claim(field, volume, &of.name)));
    }
    all.dedup();
    all
}

/// Returns the names of the existing claims that the job's pods mount.
pub fn claim_names(
    job: &TrainingJobSpec,
    stage: Option<u32>,
    profile: Option<&RuntimeProfileSpec>,
) -> BTreeSet<String> {
    let claims = mounted_claims(job, stage, profile).into_iter();
    let names = claims.filter_map(|wanted| match wanted.claim {
        ClaimSource::Existing(name) => Some(name),
        ClaimSource::Ephemeral { .. } => None,
    });
    names.collect()
}

/// Returns the task groups with ephemeral volumes, and the names of those volumes.
pub fn ephemeral_volumes(
    job: &TrainingJobSpec,
    profile: Option<&HashedProfile>,
) -> Vec<(String, String)> {
    let wanted = mounted_claims(job, None, profile.map(HashedProfile::spec)).into_iter();
    let own = wanted.filter_map(|wanted| match wanted.claim {
        ClaimSource::Existing(_) => None,
        ClaimSource::Ephemeral { group, volume, .. } => Some((group, volume)),
    });
    own.collect()
}

/// Returns the volumes that no node reaches, for everything that the job mounts.
pub fn unreachable_volumes(
    job: &TrainingJobSpec,
    profile: Option<&RuntimeProfileSpec>,
) -> VolumeRequirements {
    let mut volumes = VolumeRequirements::default();
    for wanted in mounted_claims(job, None, profile) {
        volumes.add(wanted.claim, VolumeRequirement::unreachable());
    }
    volumes
}

impl VolumeRequirements {
    fn add(&mut self, source: ClaimSource, requirement: VolumeRequirement) {
        match source {
            ClaimSource::Existing(name) => {
                self.claims.insert(name, requirement);
            }
            ClaimSource::Ephemeral { group, volume, .. } => {
                self.ephemeral.insert((group, volume), requirement);
            }
        }
    }
}

/// Returns a template's volumes, each with its field. An invalid template has none, because its job
/// is refused before its volumes are used.
fn template_volumes(template: Option<&PodTemplate>, path: &str) -> Vec<(String, Volume)> {
    let spec = template.and_then(|template| template.decode().ok()?.spec);
    let volumes = spec.and_then(|spec| spec.volumes).unwrap_or_default();
    let volumes = volumes.into_iter().enumerate();
    let field = |at| format!("{path}.podTemplate.spec.volumes[{at}]");
    volumes.map(|(at, volume)| (field(at), volume)).collect()
}

fn mounted_claim(field: &str, volume: &Volume, group: &str) -> Option<MountedClaim> {
    if let Some(claim) = &volume.persistent_volume_claim {
        let field = format!("{field}.persistentVolumeClaim.claimName");
        return Some(MountedClaim::existing(field, claim.claim_name.clone()));
    }
    let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
    Some(MountedClaim {
        field: format!("{field}.ephemeral.volumeClaimTemplate"),
        claim: ClaimSource::Ephemeral {
            group: group.to_owned(),
            volume: volume.name.clone(),
            spec: Box::new(template.spec.clone().into()),
        },
    })
}

/// Returns where the volumes are of all claims that the job mounts at that stage, counted from 1.
/// For a claim that is bound with its first pod: where its volume can be. If the job `is_placed`,
/// its ephemeral claims have their volumes or wait for them in place, so a lack of volumes does not
/// delay the job.
///
/// # Errors
/// The first claim that does not exist, is being deleted, or has no volume and can get none.
pub fn find_volumes(
    job: &TrainingJobSpec,
    stage: u32,
    profile: Option<&RuntimeProfileSpec>,
    storage: &impl Storage,
    is_placed: bool,
) -> Result<VolumeRequirements, JobHold> {
    let mut found = VolumeRequirements::default();
    for MountedClaim { field, claim: what } in mounted_claims(job, Some(stage), profile) {
        let mounted = match &what {
            ClaimSource::Existing(name) => {
                find_claim_volume(name, storage).map_err(|(reason, problem)| {
                    let message = format!("{field}: PersistentVolumeClaim {name:?} {problem}");
                    JobHold::waiting(reason, message)
                })?
            }
            ClaimSource::Ephemeral {
                volume,
                spec: asked,
                ..
            } => {
                let mounted = find_ephemeral_volume(volume, asked, storage);
                let mounted = mounted.or_else(|problem| match is_placed {
                    true => Ok(VolumeRequirement::unreachable()),
                    false => Err(problem),
                });
                mounted.map_err(|problem| {
                    let message = format!("{field}: the claim of each pod's own {problem}");
                    JobHold::waiting(Reason::ClaimNotBound, message)
                })?
            }
        };
        found.add(what, mounted);
    }
    Ok(found)
}

/// Returns where the volume of a claim is. For a claim that is bound with its first pod: where it
/// can be.
///
/// # Errors
/// If the claim does not exist, is being deleted, or has no volume and can get none: the reason,
/// and the message that follows the claim's name.
pub fn find_claim_volume(
    name: &str,
    storage: &impl Storage,
) -> Result<VolumeRequirement, (Reason, String)> {
    let not_found = |problem: &str| (Reason::ClaimNotFound, problem.to_owned());
    let Some(claim) = storage.claim(name) else {
        return Err(not_found("does not exist: create it or name another"));
    };
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(not_found(
            "is being deleted: create it anew or name another",
        ));
    }
    let not_bound = |problem: String| (Reason::ClaimNotBound, problem);
    if !claim.is_bound() {
        return find_unbound_claim_volume(&claim, storage).map_err(not_bound);
    }
    let bound_to = claim.spec.volume_name.as_str();
    let Some(volume) = storage.volume(bound_to) else {
        let problem = format!("is bound to volume {bound_to:?}, which does not exist");
        return Err(not_bound(problem));
    };
    Ok(VolumeRequirement {
        node_terms: volumes::volume_node_terms(&volume),
        one_node: false,
    })
}

/// Returns where volumes can be provisioned for ephemeral claims.
///
/// # Errors
/// Why the claims can get no volume, according to their class and the volumes.
fn find_ephemeral_volume(
    volume: &str,
    spec: &SlimClaimSpec,
    storage: &impl Storage,
) -> Result<VolumeRequirement, String> {
    let claim = storage.new_claim(volume, spec);
    let class = match (storage.class(claim.class()), claim.class()) {
        (Some(class), _) => class,
        (None, "") if claim.spec.storage_class_name.is_none() => {
            let problem =
                "names no StorageClass, and none is the cluster's default: set storageClassName";
            return Err(problem.to_owned());
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
    // Existing volumes are not counted per node. A gang must not be committed on nodes that reach
    // too few volumes, so only provisioning counts.
    let reach = binding::provisioning_terms(&claim, &class).ok_or_else(|| {
        format!(
            "asks for StorageClass {:?}, which provisions none: name one that does, or mount a claim",
            claim.class()
        )
    })?;
    Ok(VolumeRequirement {
        node_terms: reach,
        one_node: false,
    })
}

/// Returns where a claim can be bound that is bound with its first pod.
///
/// # Errors
/// Why the claim has no volume, according to the claim, its class and the volumes.
fn find_unbound_claim_volume(
    claim: &SlimClaim,
    storage: &impl Storage,
) -> Result<VolumeRequirement, String> {
    if claim.status.phase == "Lost" {
        return Err(format!("has lost its volume {:?}", claim.spec.volume_name));
    }
    let class = storage.class(claim.class());
    match class.filter(|class| claim.is_free() && class.binds_on_first_consumer()) {
        Some(class) => binding::unbound_claim_requirement(claim, &class, &storage.volumes())
            .ok_or_else(|| binding::no_volume_message(claim)),
        None => Err("is not bound yet: its events say what it waits for".to_owned()),
    }
}

#[cfg(test)]
mod tests;
