//! The Secrets that a pod names.

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

/// Gives each Secret that the pod names its name in the cluster.
pub(super) fn rename_secrets<'a>(spec: &mut PodSpec, to: impl Fn(&str) -> Option<&'a str>) {
    let rename = |name: &mut String| {
        if let Some(new) = to(name) {
            *name = new.to_owned();
        }
    };
    let pull = spec.image_pull_secrets.iter_mut().flatten();
    pull.for_each(|secret| rename(&mut secret.name));
    for volume in spec.volumes.iter_mut().flatten() {
        rename_in_volume(volume, &rename);
    }
    let inits = spec.init_containers.iter_mut().flatten();
    for container in spec.containers.iter_mut().chain(inits) {
        rename_in_container(container, &rename);
    }
}

fn rename_in_volume(volume: &mut Volume, rename: &impl Fn(&mut String)) {
    let secret = volume.secret.as_mut().and_then(|s| s.secret_name.as_mut());
    secret.into_iter().for_each(rename);
    let projected = volume.projected.iter_mut();
    let sources = projected.flat_map(|p| p.sources.iter_mut().flatten());
    let secrets = sources.filter_map(|source| source.secret.as_mut());
    secrets.for_each(|secret| rename(&mut secret.name));
    let driver = volume.csi.as_mut();
    let driver = driver.and_then(|csi| csi.node_publish_secret_ref.as_mut());
    driver
        .into_iter()
        .for_each(|secret| rename(&mut secret.name));
}

fn rename_in_container(container: &mut Container, rename: &impl Fn(&mut String)) {
    for from in container.env_from.iter_mut().flatten() {
        let secret = from.secret_ref.iter_mut();
        secret.for_each(|secret| rename(&mut secret.name));
    }
    let sources = container.env.iter_mut().flatten();
    for source in sources.filter_map(|var| var.value_from.as_mut()) {
        let secret = source.secret_key_ref.iter_mut();
        secret.for_each(|secret| rename(&mut secret.name));
    }
}
