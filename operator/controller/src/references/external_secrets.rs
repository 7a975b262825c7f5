//! Checks that the Secrets of a job from an external store exist. The check reads the status of
//! each ExternalSecret, and never a Secret.

use trellis_api::{Reason, names};
use trellis_cache::Cache;
use trellis_compiler::CompiledJob;
use trellis_dispatch::is_owned;
use trellis_gang::JobHold;
use trellis_gang::key::Key;

/// Message for a cluster without the kind ExternalSecret.
const NOT_INSTALLED: &str = "the cluster does not know ExternalSecret (external-secrets.io/v1): \
     install External Secrets Operator, or name a Secret that is there";

/// Returns why the job's first missing Secret is missing. None if all Secrets exist.
pub(crate) fn find_missing_secret(
    cache: &Cache,
    job: &Key,
    compiled: &CompiledJob,
) -> Option<JobHold> {
    let secrets = compiled.job().spec().secrets.iter().enumerate();
    let mut stored = secrets.filter(|(_, secret)| secret.store.is_some());
    let message = stored.find_map(|(at, secret)| {
        if !cache.external_secrets.is_known() {
            return Some(format!("spec.secrets[{at}].store: {NOT_INSTALLED}"));
        }
        let name = names::external_secret_name(&job.name, &secret.name);
        let problem = external_secret_problem(
            cache,
            &Key::new(&job.namespace, &name),
            compiled.job().uid(),
        )?;
        Some(format!(
            "spec.secrets[{at}]: ExternalSecret {name:?} is not ready: {problem}"
        ))
    })?;
    Some(JobHold::waiting(Reason::SecretNotReady, message))
}

/// Returns why an ExternalSecret of the job of that uid is not ready. None if it is ready.
pub(crate) fn external_secret_problem(cache: &Cache, key: &Key, uid: &str) -> Option<String> {
    let object = cache.external_secrets.objects.get(key);
    match object.filter(|object| is_owned(object.as_ref(), uid)) {
        Some(object) => object.problem(),
        None => Some("it is not there yet".to_owned()),
    }
}
