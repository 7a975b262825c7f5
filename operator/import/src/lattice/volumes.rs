//! Volumes of a container.

use trellis_api::job::{EmptyDir, Mount, TaskGroup};

use crate::fields::Fields;
use crate::pod::volumes::{note_default_size, trim_slashes};

const SHM: &str = "/dev/shm";

/// Reads the volumes of the main container. The key is the mount path, or a name with the path in a
/// field.
pub(super) fn read_volumes(container: &Fields<'_>, group: &mut TaskGroup) {
    for (key, volume) in container.object_entries("volumes") {
        let Some(path) = volume.text("mountPath").or_else(|| {
            // If the key is the path, the field is absent.
            key.starts_with('/').then(|| key.clone())
        }) else {
            let message = "is required: write the path of the mount";
            volume
                .log()
                .add_problem(&volume.field_path("mountPath"), message);
            continue;
        };
        read_volume(&volume, trim_slashes(&path), group);
    }
}

fn read_volume(volume: &Fields<'_>, path: &str, group: &mut TaskGroup) {
    let mut mount = Mount {
        path: path.to_owned(),
        read_only: volume.boolean("readOnly").filter(|only| *only),
        sub_path: volume.text("path"),
        ..Mount::default()
    };
    // Fields of the other source stay unread, so that a note reports them.
    if let Some(claim) = volume.text("claimName") {
        mount.claim_name = Some(claim);
        group.mounts.push(mount);
        return;
    }
    if let Some(source) = volume.text("source") {
        let name = source
            .strip_prefix("${resources.")
            .and_then(|rest| rest.strip_suffix('}'));
        let Some(name) = name else {
            volume.note_at(
                "source",
                "is not a volume that can be imported",
                "name a PersistentVolumeClaim in mounts of the task group",
            );
            return;
        };
        mount.claim_name = Some(name.to_owned());
        volume.note_at(
            "source",
            "is a volume that Lattice creates, and Trellis needs an existing PersistentVolumeClaim",
            "create the claim, or write the name of the claim that Lattice has created",
        );
        group.mounts.push(mount);
        return;
    }
    let (medium, size) = (volume.text("medium"), volume.quantity("sizeLimit"));
    if medium.as_deref() == Some("Memory") {
        if path == SHM {
            group.shared_memory = size.or_else(|| group.resources.memory().cloned());
            if group.shared_memory.is_none() {
                note_default_size(volume);
            }
            return;
        }
        volume.note_at(
            "medium",
            "is memory, and in Trellis a mount is on disk",
            "write an emptyDir of medium Memory into podTemplate",
        );
    } else if medium.is_some() {
        volume.note_at("medium", "is unknown", "leave it out");
    }
    mount.empty_dir = Some(EmptyDir { size_limit: size });
    group.mounts.push(mount);
}
