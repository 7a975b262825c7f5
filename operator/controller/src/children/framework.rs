//! Objects of a job's framework: its Service, its files, and the key of an MPI job.

use k8s_openapi::api::core::v1::Service;
use serde::de::IgnoredAny;
use trellis_api::job::TrainingJobStatus;
use trellis_api::names;
use trellis_cache::Cache;
use trellis_compiler::CompiledJob;
use trellis_dispatch::commands::WriteError;
use trellis_gang::JobHold;
use trellis_gang::key::Key;
use trellis_machine::random;

use super::ChildApplier;
use crate::job_context::JobContext;

impl ChildApplier<'_> {
    /// Applies the headless Service, and the Service of the leader if the framework has one.
    pub(super) async fn apply_services(
        &self,
        compiled: &CompiledJob,
        cache: &Cache,
    ) -> Result<Option<JobHold>, WriteError> {
        for name in compiled.job().spec().service_names(&self.key.name) {
            let key = Key::new(&self.key.namespace, &name);
            let is_wanted = |service: &Service| service.metadata.name.as_ref() == Some(&name);
            let desired = || {
                let mut services = compiled.services().into_iter();
                services.find(is_wanted).unwrap_or_default()
            };
            let conflict = self.apply_child(&key, desired, &cache.services).await?;
            if conflict.is_some() {
                return Ok(conflict);
            }
        }
        Ok(None)
    }

    /// Applies the ConfigMap with the framework's files, if it has files.
    pub(super) async fn apply_config_map(
        &self,
        compiled: &CompiledJob,
        cache: &Cache,
    ) -> Result<Option<JobHold>, WriteError> {
        if !compiled.has_config_map() {
            return Ok(None);
        }
        let key = Key::new(
            &self.key.namespace,
            &names::hosts_config_map_name(&self.key.name),
        );
        let desired = || compiled.config_maps().pop().unwrap_or_default();
        self.apply_child(&key, desired, &cache.config_maps).await
    }

    /// Creates the Secret with the job's key, once. The operator may create Secrets but not read
    /// them. An existing Secret of that name belongs to this job, because its name contains the uid
    /// of the job.
    pub(super) async fn create_key_secret(
        &self,
        compiled: &CompiledJob,
        job_context: &JobContext,
    ) -> Result<(), WriteError> {
        let Some(name) = compiled.key_secret_name() else {
            return Ok(());
        };
        let was_there = || had_key(job_context.job.status.as_ref(), &name);
        let child = ("Secret".to_owned(), name.as_str().into());
        if self.build.verified_versions.lock().contains_key(&child) {
            return Ok(());
        }
        let mut random = [0_u8; 66];
        random::fill(&mut random).map_err(|e| WriteError::Transient(e.to_string()))?;
        let secret = compiled.key_secret(random).ok_or_else(|| {
            WriteError::Transient("no key can be made of these random bytes".to_owned())
        })?;
        let created: Result<IgnoredAny, _> = self
            .commands
            .create(&self.key.namespace, names::COMPILER_MANAGER, &secret, false)
            .await;
        check_key_created(created, was_there)?;
        let mut checked = self.build.verified_versions.lock();
        checked.insert(child, String::new());
        Ok(())
    }
}

/// Decides from the result of a create whether the key exists.
///
/// The API server checks quotas before it looks for an object of that name, even in a dry run. So
/// with an exhausted quota, the key exists if the status says that it existed before. If another
/// client has deleted the key since then, the pods wait for it until a later attempt creates it.
fn check_key_created<T>(
    created: Result<T, WriteError>,
    was_there: impl FnOnce() -> bool,
) -> Result<(), WriteError> {
    match created {
        Ok(_) | Err(WriteError::AlreadyExists(_)) => Ok(()),
        Err(WriteError::Exhausted(_)) if was_there() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns true if the job's status says that its key exists. The name contains the start of the
/// job's uid.
fn had_key(status: Option<&TrainingJobStatus>, name: &str) -> bool {
    let mut children = status.into_iter().flat_map(|status| &status.compiled);
    children.any(|object| object.kind == "Secret" && object.name == name && object.ready)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn key_exists_if_created_or_recorded_in_the_status() {
        let text = || "why".to_owned();
        let key_exists = |created: Result<(), WriteError>, is_recorded: bool| {
            check_key_created(created, || is_recorded).is_ok()
        };
        for is_recorded in [false, true] {
            assert!(key_exists(Ok(()), is_recorded));
            assert!(key_exists(
                Err(WriteError::AlreadyExists(text())),
                is_recorded
            ));
            // It is not known whether the key exists, so the create is tried again.
            for error in [
                WriteError::Conflict(text()),
                WriteError::Transient(text()),
                WriteError::Webhook(text()),
                WriteError::Refused {
                    code: 403,
                    message: text(),
                },
            ] {
                assert!(!key_exists(Err(error), is_recorded));
            }
        }
        assert!(!key_exists(Err(WriteError::Exhausted(text())), false));
        assert!(key_exists(Err(WriteError::Exhausted(text())), true));
    }

    #[test]
    fn recorded_key_counts_only_for_its_own_job() {
        let status = |kind: &str, name: &str, ready: bool| -> TrainingJobStatus {
            serde_json::from_value(json!({"compiled": [{"apiVersion": "v1", "kind": kind,
                "name": name, "hash": "", "ready": ready}]}))
            .unwrap()
        };
        let name = names::ssh_secret_name("j", "5f2c9a1e-0000");
        let is_recorded = |status: &TrainingJobStatus| had_key(Some(status), &name);
        assert!(is_recorded(&status("Secret", &name, true)));
        assert!(!is_recorded(&status("Secret", &name, false)));
        assert!(!is_recorded(&status("ConfigMap", &name, true)));
        // The key of an earlier job of this name.
        let earlier = names::ssh_secret_name("j", "00000000-0000");
        assert!(!is_recorded(&status("Secret", &earlier, true)));
        assert!(!had_key(None, &name));
    }
}
