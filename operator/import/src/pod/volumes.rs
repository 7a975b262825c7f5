//! Volumes, and their mounts in the containers.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use trellis_api::Quantity;
use trellis_api::job::{EmptyDir, Mount};

use super::traced_value::TracedValue;
use crate::fields::Fields;

const SHM: &str = "/dev/shm";

/// The volumes of a pod, grouped by their form in Trellis.
#[derive(Default)]
pub(super) struct PodVolumes {
    /// Volumes with a short form, as mounts of the main container.
    pub(super) mounts: Vec<Mount>,
    /// The size of /dev/shm, if the pod mounts a volume there.
    pub(super) shared_memory: Option<Quantity>,
    /// Volumes without a short form, unchanged.
    pub(super) unchanged: Vec<TracedValue>,
    /// The main container's mounts of these volumes.
    pub(super) unchanged_mounts: Vec<TracedValue>,
    /// Names of the volumes that became `sharedMemory`.
    pub(super) shm_names: BTreeSet<String>,
}

/// Source of a volume that has a short form.
enum ShortVolumeSource {
    Claim { name: String, read_only: bool },
    ConfigMap(String),
    Secret(String),
    EmptyDir(Option<String>),
}

/// Reads the volumes of a pod.
pub(super) fn read_volumes(
    spec: &Fields<'_>,
    main: &Fields<'_>,
    other_containers: &[Fields<'_>],
    memory: Option<&Quantity>,
) -> PodVolumes {
    let mut found = PodVolumes::default();
    let mounts = main.objects("volumeMounts");
    let mut known = BTreeSet::new();
    for volume in spec.objects("volumes") {
        let name = text_at(volume.value(), "name")
            .unwrap_or_default()
            .to_owned();
        let own: Vec<_> = mounts
            .iter()
            .filter(|m| is_mount_of(m.value(), &name))
            .collect();
        let shared = other_containers
            .iter()
            .any(|container| mounts_volume(container, &name));
        known.insert(name.clone());
        if let Some(size) = shm_limit(&volume, &own) {
            found.shm_names.insert(name);
            // tmpfs without a limit is as large as the memory of the pod.
            let size = size.map(Quantity::new).or_else(|| memory.cloned());
            if size.is_none() {
                note_default_size(&volume);
            }
            found.shared_memory = size;
            mark_read(&volume, &own);
            continue;
        }
        match short_source(volume.value())
            .filter(|source| !shared && has_short_mounts(source, &own))
        {
            Some(source) => {
                found
                    .mounts
                    .extend(own.iter().map(|m| to_mount(&source, m.value())));
                mark_read(&volume, &own);
            }
            None => {
                found.unchanged.push(TracedValue::from_fields(&volume));
                found
                    .unchanged_mounts
                    .extend(own.iter().map(|mount| TracedValue::from_fields(mount)));
            }
        }
    }
    // Mounts of missing volumes are kept, and the template's validation reports them.
    for other in &mounts {
        let name = text_at(other.value(), "name").unwrap_or_default();
        if !known.contains(name) {
            found.unchanged_mounts.push(TracedValue::from_fields(other));
        }
    }
    // The mounts keep their order in the container.
    let at = |path: &str| {
        let has_path = |m: &Fields<'_>| {
            text_at(m.value(), "mountPath").is_some_and(|p| trim_slashes(p) == path)
        };
        mounts.iter().position(has_path)
    };
    found.mounts.sort_by_key(|mount| at(&mount.path));
    found
}

/// Marks a volume and its mounts as read.
fn mark_read(volume: &Fields<'_>, mounts: &[&Fields<'_>]) {
    volume.mark_read();
    mounts.iter().for_each(|mount| mount.mark_read());
}

fn text_at<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn is_mount_of(mount: &Value, volume: &str) -> bool {
    text_at(mount, "name") == Some(volume)
}

fn mounts_volume(container: &Fields<'_>, volume: &str) -> bool {
    let mounts = container.value().get("volumeMounts");
    let mounts = mounts.and_then(Value::as_array);
    mounts.is_some_and(|mounts| mounts.iter().any(|mount| is_mount_of(mount, volume)))
}

/// Returns the mapping if it has no other keys.
fn map_with_only<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a Map<String, Value>> {
    let map = value.as_object()?;
    let known = |(key, value): (&String, &Value)| value.is_null() || keys.contains(&key.as_str());
    map.iter().all(known).then_some(map)
}

/// Adds a note about a /dev/shm without a size limit in a pod without a memory amount.
pub(crate) fn note_default_size(volume: &Fields<'_>) {
    let reason =
        "has no size: it was as large as the memory of its pod, which resourcesPerGPU sets";
    let instead = "set sharedMemory; without it /dev/shm has half the memory, and at most 64Gi";
    volume.log().note(volume.path(), None, reason, instead);
}

/// Returns the size limit of a memory volume that is mounted only at /dev/shm. None: it is another
/// volume.
fn shm_limit(volume: &Fields<'_>, mounts: &[&Fields<'_>]) -> Option<Option<String>> {
    let volume = map_with_only(volume.value(), &["name", "emptyDir"])?;
    let disk = volume.get("emptyDir")?;
    map_with_only(disk, &["medium", "sizeLimit"])?;
    let [mount] = mounts else { return None };
    let mount = mount.value();
    map_with_only(mount, &["name", "mountPath"])?;
    let path = text_at(mount, "mountPath")?;
    let is_shm = text_at(disk, "medium") == Some("Memory") && trim_slashes(path) == SHM;
    is_shm.then(|| quantity_text(disk.get("sizeLimit")))
}

fn quantity_text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn short_source(volume: &Value) -> Option<ShortVolumeSource> {
    let kinds = ["persistentVolumeClaim", "configMap", "secret", "emptyDir"];
    let mut sources = kinds
        .iter()
        .filter_map(|kind| Some((*kind, volume.get(*kind)?)));
    let ((kind, source), None) = (sources.next()?, sources.next()) else {
        return None;
    };
    map_with_only(volume, &["name", kind])?;
    match kind {
        "persistentVolumeClaim" => {
            map_with_only(source, &["claimName", "readOnly"])?;
            Some(ShortVolumeSource::Claim {
                name: text_at(source, "claimName")?.to_owned(),
                read_only: source
                    .get("readOnly")
                    .and_then(Value::as_bool)
                    .unwrap_or(false),
            })
        }
        "configMap" => {
            map_with_only(source, &["name"])?;
            Some(ShortVolumeSource::ConfigMap(
                text_at(source, "name")?.to_owned(),
            ))
        }
        "secret" => {
            map_with_only(source, &["secretName"])?;
            Some(ShortVolumeSource::Secret(
                text_at(source, "secretName")?.to_owned(),
            ))
        }
        _ => {
            map_with_only(source, &["sizeLimit"])?;
            Some(ShortVolumeSource::EmptyDir(quantity_text(
                source.get("sizeLimit"),
            )))
        }
    }
}

/// Returns true if the short form expresses every mount exactly.
fn has_short_mounts(source: &ShortVolumeSource, mounts: &[&Fields<'_>]) -> bool {
    // In the short form, each mount of an emptyDir is a separate volume.
    let once = !matches!(source, ShortVolumeSource::EmptyDir(_)) || mounts.len() == 1;
    let simple = |mount: &&Fields<'_>| {
        let mount = mount.value();
        map_with_only(mount, &["name", "mountPath", "readOnly", "subPath"]).is_some()
            && text_at(mount, "mountPath").is_some_and(|path| trim_slashes(path) != SHM)
            && mount.get("readOnly").is_none_or(Value::is_boolean)
            && mount.get("subPath").is_none_or(Value::is_string)
    };
    once && !mounts.is_empty() && mounts.iter().all(simple)
}

fn to_mount(source: &ShortVolumeSource, mount: &Value) -> Mount {
    let read_only = mount.get("readOnly").and_then(Value::as_bool);
    let mut converted = Mount {
        path: trim_slashes(text_at(mount, "mountPath").unwrap_or_default()).to_owned(),
        read_only: read_only.filter(|only| *only),
        sub_path: text_at(mount, "subPath")
            .filter(|p| !p.is_empty())
            .map(str::to_owned),
        ..Mount::default()
    };
    match source {
        ShortVolumeSource::Claim { name, read_only } => {
            converted.claim_name = Some(name.clone());
            if *read_only {
                converted.read_only = Some(true);
            }
        }
        ShortVolumeSource::ConfigMap(name) => converted.config_map_name = Some(name.clone()),
        ShortVolumeSource::Secret(name) => converted.secret_name = Some(name.clone()),
        ShortVolumeSource::EmptyDir(limit) => {
            converted.empty_dir = Some(EmptyDir {
                size_limit: limit.clone().map(Quantity::new),
            });
        }
    }
    converted
}

/// Removes slashes at the end of a path.
pub(crate) fn trim_slashes(path: &str) -> &str {
    path.trim_end_matches('/')
}
