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

/// Applies the job's ExternalSecrets, and removes ExternalSecrets that the job no longer has. Does
/// nothing in a cluster without that kind. The check of the job's Secrets reports that.
pub(super) async fn apply_external_secrets(
    applier: &ChildApplier<'_>,
    cache: &Cache,
    compiled: &CompiledJob,
) -> Result<Option<JobHold>, WriteError> {
    if !cache.external_secrets.is_known() {
        return Ok(None);
    }
    let mut conflict = None;
    let mut desired = BTreeSet::new();
    for secret in compiled.external_secrets() {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let key = Key::new(&applier.key.namespace, name);
        let objects = &cache.external_secrets.objects;
        let in_the_way = applier
            .apply_child(&key, || secret.clone(), objects)
            .await?;
        if in_the_way.is_none() {
            cache.external_secrets.insert(applier.key, &key);
        }
        conflict = conflict.or(in_the_way);
        desired.insert(key);
    }
    let is_desired = |key: &Key| desired.contains(key);
    remove_external_secrets(
        applier.commands,
        cache,
        applier.key,
        applier.uid,
        is_desired,
    )
    .await?;
    Ok(conflict)
}

/// Removes the ExternalSecrets of the job for which the predicate is false, and with them their
/// Secrets.
pub(super) async fn remove_external_secrets(
    commands: &Commands,
    cache: &Cache,
    job: &Key,
    uid: &str,
    is_desired: impl Fn(&Key) -> bool,
) -> Result<(), WriteError> {
    for (key, object) in cache.external_secrets.for_job(job) {
        if !is_desired(&key) && is_live_child(Some(object.as_ref()), uid) {
            let object_uid = object.meta().uid.clone().unwrap_or_default();
            info!(%job, external_secret = %key.name, "deletes an ExternalSecret that the job no longer has");
            commands
                .delete::<ExternalSecret>(&key.namespace, &key.name, &object_uid, None)
                .await?;
        }
    }
    Ok(())
}
