//! Mounts, and the volumes behind them.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, KeyToPath, PersistentVolumeClaimVolumeSource,
    SecretVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource;
use trellis_api::Quantity;
use trellis_api::job::{Mount, TaskGroup};

use super::shared_memory;
use crate::framework::MountedFiles;

const SHARED_MEMORY: &str = "shared-memory";

/// The group's volumes and mounts, then those of its framework, /dev/shm last. A volume that is
/// mounted at several paths is listed once.
pub(super) fn volumes_and_mounts(
    group: &TaskGroup,
    memory: &Quantity,
    shared_memory: Option<&Quantity>,
    framework: &[MountedFiles],
) -> (Vec<Volume>, Vec<VolumeMount>) {
    let mut volumes: Vec<Volume> = Vec::new();
    let mut mounts = Vec::new();
    for mount in &group.mounts {
        let wanted = mount_volume(mount, claim_is_read_only(mount, group));
        let name = match volumes.iter().find(|v| is_same_volume(v, &wanted)) {
            Some(known) => known.name.clone(),
            None => {
                let name = format!("{}-{}", wanted.name, volumes.len());
                volumes.push(Volume {
                    name: name.clone(),
                    ..wanted
                });
                name
            }
        };
        mounts.push(VolumeMount {
            name,
            mount_path: mount.path.clone(),
            read_only: mount.read_only.filter(|only| *only),
            sub_path: mount.sub_path.clone().filter(|path| !path.is_empty()),
            ..VolumeMount::default()
        });
    }
    for files in framework {
        let (mut volume, path) = framework_volume(files);
        // Pod templates may not use such names.
        volume.name = format!("{}-{}", volume.name, volumes.len());
        mounts.push(VolumeMount {
            name: volume.name.clone(),
            mount_path: path.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
        volumes.push(volume);
    }
    if let Some(size) = shared_memory::shared_memory_size(group, memory, shared_memory) {
        volumes.push(Volume {
            name: SHARED_MEMORY.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                medium: Some("Memory".to_owned()),
                size_limit: Some(to_kubernetes_quantity(&size)),
                ..EmptyDirVolumeSource::default()
            }),
            ..Volume::default()
        });
        mounts.push(VolumeMount {
            name: SHARED_MEMORY.to_owned(),
            mount_path: "/dev/shm".to_owned(),
            ..VolumeMount::default()
        });
    }
    (volumes, mounts)
}

/// The volume of a framework's files, named by its kind alone, and its path.
fn framework_volume(files: &MountedFiles) -> (Volume, &'static str) {
    let named = |name: &str| Volume {
        name: name.to_owned(),
        ..Volume::default()
    };
    match files {
        MountedFiles::Hosts { name, path, mode } => {
            let volume = Volume {
                config_map: Some(ConfigMapVolumeSource {
                    name: name.clone(),
                    default_mode: *mode,
                    ..ConfigMapVolumeSource::default()
                }),
                ..named("config-map")
            };
            (volume, path)
        }
        MountedFiles::Key { name, path } => {
            // Two copies of the key: any user of the container can read the first. Root owns the
            // files, and ssh rejects a key of its own that other users can read, so root takes the
            // second.
            let items = [
                ("ssh-privatekey", "key", 0o444),
                ("ssh-privatekey", "root-key", 0o400),
                ("authorized_keys", "authorized_keys", 0o444),
                ("known_hosts", "known_hosts", 0o444),
            ];
            let items = items.map(|(key, path, mode)| KeyToPath {
                key: key.to_owned(),
                path: path.to_owned(),
                mode: Some(mode),
                ..KeyToPath::default()
            });
            let volume = Volume {
                secret: Some(SecretVolumeSource {
                    secret_name: Some(name.clone()),
                    items: Some(items.to_vec()),
                    ..SecretVolumeSource::default()
                }),
                ..named("secret")
            };
            (volume, path)
        }
    }
}

/// The volume of a mount, named by its kind alone.
fn mount_volume(mount: &Mount, read_only: bool) -> Volume {
    let named = |name: &str| Volume {
        name: name.to_owned(),
        ..Volume::default()
    };
    if let Some(claim) = &mount.claim_name {
        Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.clone(),
                read_only: read_only.then_some(true),
            }),
            ..named("claim")
        }
    } else if let Some(config_map) = &mount.config_map_name {
        Volume {
            config_map: Some(ConfigMapVolumeSource {
                name: config_map.clone(),
                ..ConfigMapVolumeSource::default()
            }),
            ..named("config-map")
        }
    } else if let Some(secret) = &mount.secret_name {
        Volume {
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.clone()),
                ..SecretVolumeSource::default()
            }),
            ..named("secret")
        }
    } else {
        let limit = mount.empty_dir.as_ref().and_then(|e| e.size_limit.as_ref());
        Volume {
            empty_dir: Some(EmptyDirVolumeSource {
                size_limit: limit.map(to_kubernetes_quantity),
                ..EmptyDirVolumeSource::default()
            }),
            ..named("empty-dir")
        }
    }
}

/// True if no mount of the group writes to the claim: the volume itself can
/// then be attached read-only, as ReadOnlyMany disks on many nodes must be.
fn claim_is_read_only(mount: &Mount, group: &TaskGroup) -> bool {
    let same = |other: &&Mount| other.claim_name == mount.claim_name;
    mount.claim_name.is_some()
        && group
            .mounts
            .iter()
            .filter(same)
            .all(|m| m.read_only == Some(true))
}

/// True for two mounts of one claim, ConfigMap or Secret. Two empty directories are two.
fn is_same_volume(known: &Volume, wanted: &Volume) -> bool {
    known.empty_dir.is_none()
        && known.persistent_volume_claim == wanted.persistent_volume_claim
        && known.config_map == wanted.config_map
        && known.secret == wanted.secret
}

fn to_kubernetes_quantity(quantity: &Quantity) -> resource::Quantity {
    resource::Quantity(quantity.as_str().to_owned())
}
