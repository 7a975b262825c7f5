//! The ExternalSecrets of `spec.secrets`.

use std::collections::BTreeSet;

use kube::Resource;
use tracing::info;
use trellis_api::external_secret::ExternalSecret;
use trellis_cache::Cache;
use trellis_compiler::CompiledJob;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_dispatch::is_live_child;
use trellis_gang::JobHold;
use trellis_gang::key::Key;

use super::ChildApplier;

/// Applies the job's ExternalSecrets and removes others of the job. Does nothing in a cluster
/// without that kind; the readiness of the job's Secrets reports it.
pub(super) async fn apply_external_secrets(
    place: &ChildApplier<'_>,
    cache: &Cache,
    compiled: &CompiledJob,
) -> Result<Option<JobHold>, WriteError> {
    if !cache.external_secrets.is_known() {
        return Ok(None);
    }
    let mut conflict = None;
    let mut wanted = BTreeSet::new();
    for secret in compiled.external_secrets() {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let key = Key::new(&place.key.namespace, name);
        let objects = &cache.external_secrets.objects;
        let in_the_way = place.apply_child(&key, || secret.clone(), objects).await?;
        if in_the_way.is_none() {
            cache.external_secrets.insert(place.key, &key);
        }
        conflict = conflict.or(in_the_way);
        wanted.insert(key);
    }
    let is_wanted = |key: &Key| wanted.contains(key);
    remove_external_secrets(place.commands, cache, place.key, place.uid, is_wanted).await?;
    Ok(conflict)
}

/// Removes the job's ExternalSecrets that are not wanted, and with them their Secrets.
pub(super) async fn remove_external_secrets(
    commands: &Commands,
    cache: &Cache,
    job: &Key,
    uid: &str,
    is_wanted: impl Fn(&Key) -> bool,
) -> Result<(), WriteError> {
    for (key, object) in cache.external_secrets.for_job(job) {
        if !is_wanted(&key) && is_live_child(Some(object.as_ref()), uid) {
            let own = object.meta().uid.clone().unwrap_or_default();
            info!(%job, external_secret = %key.name, "an ExternalSecret that is not wanted is removed");
            commands
                .delete::<ExternalSecret>(&key.namespace, &key.name, &own, None)
                .await?;
        }
    }
    Ok(())
}
