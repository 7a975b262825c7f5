//! Volumes, and where the containers mount them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use trellis_api::Quantity;
use trellis_api::job::{EmptyDir, Mount};

use super::kept::Kept;
use crate::fields::Fields;

const SHM: &str = "/dev/shm";

/// Volumes of a pod, by how they are imported.
#[derive(Default)]
pub(super) struct Volumes {
    /// Those that have a short form, by where the main container mounts them.
    pub(super) mounts: Vec<Mount>,
    /// The size of /dev/shm, where it is a volume.
    pub(super) shared_memory: Option<Quantity>,
    /// Volumes without a short form, unchanged.
    pub(super) kept: Vec<Kept>,
    /// Mounts of the main container of those.
    pub(super) kept_mounts: Vec<Kept>,
    /// Names of the volumes that are `sharedMemory` now.
    pub(super) shm: BTreeSet<String>,
}

/// Source of a volume that has a short form.
enum Source {
    Claim { name: String, read_only: bool },
    ConfigMap(String),
    Secret(String),
    EmptyDir(Option<String>),
}

/// Reads the volumes of a pod.
pub(super) fn read(
    spec: &Fields<'_>,
    main: &Fields<'_>,
    beside: &[Fields<'_>],
    memory: Option<&Quantity>,
) -> Volumes {
    let mut found = Volumes::default();
    let mounts = main.objects("volumeMounts");
    let mut known = BTreeSet::new();
    for volume in spec.objects("volumes") {
        let name = word(volume.value(), "name").unwrap_or_default().to_owned();
        let own: Vec<_> = mounts.iter().filter(|m| is_of(m.value(), &name)).collect();
        let shared = beside.iter().any(|container| mounts_it(container, &name));
        known.insert(name.clone());
        if let Some(size) = memory_disk(&volume, &own) {
            found.shm.insert(name);
            // tmpfs without a limit is as large as the memory of the pod.
            let size = size.map(Quantity::new).or_else(|| memory.cloned());
            if size.is_none() {
                note_default_size(&volume);
            }
            found.shared_memory = size;
            take(&volume, &own);
            continue;
        }
        match source(volume.value()).filter(|source| !shared && is_short(source, &own)) {
            Some(source) => {
                found
                    .mounts
                    .extend(own.iter().map(|m| mount(&source, m.value())));
                take(&volume, &own);
            }
            None => {
                found.kept.push(Kept::of(&volume));
                found
                    .kept_mounts
                    .extend(own.iter().map(|mount| Kept::of(mount)));
            }
        }
    }
    // Mounts of missing volumes are kept, and the template's validation reports them.
    for other in &mounts {
        let name = word(other.value(), "name").unwrap_or_default();
        if !known.contains(name) {
            found.kept_mounts.push(Kept::of(other));
        }
    }
    // In the order in which they were mounted.
    let at = |path: &str| {
        let is_it =
            |m: &Fields<'_>| word(m.value(), "mountPath").is_some_and(|p| trimmed(p) == path);
        mounts.iter().position(is_it)
    };
    found.mounts.sort_by_key(|mount| at(&mount.path));
    found
}

/// Marks a volume and its mounts as read.
fn take(volume: &Fields<'_>, mounts: &[&Fields<'_>]) {
    volume.take();
    mounts.iter().for_each(|mount| mount.take());
}

fn word<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn is_of(mount: &Value, volume: &str) -> bool {
    word(mount, "name") == Some(volume)
}

fn mounts_it(container: &Fields<'_>, volume: &str) -> bool {
    let mounts = container.value().get("volumeMounts");
    let mounts = mounts.and_then(Value::as_array);
    mounts.is_some_and(|mounts| mounts.iter().any(|mount| is_of(mount, volume)))
}

/// A mapping that has no other keys than these.
fn only<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a Map<String, Value>> {
    let map = value.as_object()?;
    let known = |(key, value): (&String, &Value)| value.is_null() || keys.contains(&key.as_str());
    map.iter().all(known).then_some(map)
}

/// Notes a /dev/shm without a size limit, in a pod whose memory the document does not state.
pub(crate) fn note_default_size(volume: &Fields<'_>) {
    let why = "has no size: it was as large as the memory of its pod, which resourcesPerGPU states";
    let instead = "set sharedMemory; without it /dev/shm has half the memory, and at most 64Gi";
    volume.log().note(volume.path(), None, why, instead);
}

/// `Some(limit)` of a volume of memory that is /dev/shm and nothing else.
fn memory_disk(volume: &Fields<'_>, mounts: &[&Fields<'_>]) -> Option<Option<String>> {
    let volume = only(volume.value(), &["name", "emptyDir"])?;
    let disk = volume.get("emptyDir")?;
    only(disk, &["medium", "sizeLimit"])?;
    let [mount] = mounts else { return None };
    let mount = mount.value();
    only(mount, &["name", "mountPath"])?;
    let path = word(mount, "mountPath")?;
    let is_it = word(disk, "medium") == Some("Memory") && trimmed(path) == SHM;
    is_it.then(|| text(disk.get("sizeLimit")))
}

fn text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn source(volume: &Value) -> Option<Source> {
    let kinds = ["persistentVolumeClaim", "configMap", "secret", "emptyDir"];
    let mut given = kinds
        .iter()
        .filter_map(|kind| Some((*kind, volume.get(*kind)?)));
    let ((kind, of), None) = (given.next()?, given.next()) else {
        return None;
    };
    only(volume, &["name", kind])?;
    match kind {
        "persistentVolumeClaim" => {
            only(of, &["claimName", "readOnly"])?;
            Some(Source::Claim {
                name: word(of, "claimName")?.to_owned(),
                read_only: of.get("readOnly").and_then(Value::as_bool).unwrap_or(false),
            })
        }
        "configMap" => {
            only(of, &["name"])?;
            Some(Source::ConfigMap(word(of, "name")?.to_owned()))
        }
        "secret" => {
            only(of, &["secretName"])?;
            Some(Source::Secret(word(of, "secretName")?.to_owned()))
        }
        _ => {
            only(of, &["sizeLimit"])?;
            Some(Source::EmptyDir(text(of.get("sizeLimit"))))
        }
    }
}

/// True if the short form expresses every mount exactly.
fn is_short(source: &Source, mounts: &[&Fields<'_>]) -> bool {
    // In the short form each mount of an emptyDir is a volume of its own.
    let once = !matches!(source, Source::EmptyDir(_)) || mounts.len() == 1;
    let simple = |mount: &&Fields<'_>| {
        let mount = mount.value();
        only(mount, &["name", "mountPath", "readOnly", "subPath"]).is_some()
            && word(mount, "mountPath").is_some_and(|path| trimmed(path) != SHM)
            && mount.get("readOnly").is_none_or(Value::is_boolean)
            && mount.get("subPath").is_none_or(Value::is_string)
    };
    once && !mounts.is_empty() && mounts.iter().all(simple)
}

fn mount(source: &Source, mount: &Value) -> Mount {
    let read_only = mount.get("readOnly").and_then(Value::as_bool);
    let mut of = Mount {
        path: trimmed(word(mount, "mountPath").unwrap_or_default()).to_owned(),
        read_only: read_only.filter(|only| *only),
        sub_path: word(mount, "subPath")
            .filter(|p| !p.is_empty())
            .map(str::to_owned),
        ..Mount::default()
    };
    match source {
        Source::Claim { name, read_only } => {
            of.claim_name = Some(name.clone());
            if *read_only {
                of.read_only = Some(true);
            }
        }
        Source::ConfigMap(name) => of.config_map_name = Some(name.clone()),
        Source::Secret(name) => of.secret_name = Some(name.clone()),
        Source::EmptyDir(limit) => {
            of.empty_dir = Some(EmptyDir {
                size_limit: limit.clone().map(Quantity::new),
            });
        }
    }
    of
}

/// A path without the slashes at its end.
pub(crate) fn trimmed(path: &str) -> &str {
    path.trim_end_matches('/')
}
