//! Files of a job's framework: the hostfile, and the key of an MPI job.

use serde::de::IgnoredAny;
use trellis_api::job::TrainingJobStatus;
use trellis_api::names;
use trellis_cache::Cache;
use trellis_compiler::CompiledJob;
use trellis_dispatch::commands::WriteError;
use trellis_gang::Held;
use trellis_gang::key::Key;

use super::Place;
use crate::dereference::Surrounded;

impl Place<'_> {
    /// The hostfile, if the framework has one.
    pub(super) async fn hosts(
        &self,
        compiled: &CompiledJob,
        cache: &Cache,
    ) -> Result<Option<Held>, WriteError> {
        if !compiled.has_hosts() {
            return Ok(None);
        }
        let key = Key::new(&self.key.namespace, &names::hosts(&self.key.name));
        let wanted = || compiled.config_maps().pop().unwrap_or_default();
        self.child(&key, wanted, &cache.config_maps).await
    }

    /// Creates the Secret with the job's key once. The operator may create Secrets but not read
    /// them. A Secret of that name belongs to this job, because the name contains the job's uid.
    pub(super) async fn key_secret(
        &self,
        compiled: &CompiledJob,
        seen: &Surrounded,
    ) -> Result<(), WriteError> {
        let Some(name) = compiled.key_secret_name() else {
            return Ok(());
        };
        let was_there = || was_there(seen.job.status.as_ref(), &name);
        let child = ("Secret".to_owned(), name.as_str().into());
        if self.build.checked.lock().contains_key(&child) {
            return Ok(());
        }
        let mut random = [0_u8; 66];
        getrandom::fill(&mut random).map_err(|e| WriteError::Transient(e.to_string()))?;
        let secret = compiled.key_secret(random).ok_or_else(|| {
            WriteError::Transient("no key can be made of these random bytes".to_owned())
        })?;
        let created: Result<IgnoredAny, _> = self
            .commands
            .create(&self.key.namespace, names::COMPILER_MANAGER, &secret, false)
            .await;
        made(created, was_there)?;
        let mut checked = self.build.checked.lock();
        checked.insert(child, String::new());
        Ok(())
    }
}

/// Decides from the result of a create whether the key exists. The API server checks quotas before
/// it looks for an object of that name, in a dry run too. So if the quota is exhausted, the key
/// exists if it existed before. If another client has deleted it since, the pods wait for it, as
/// for any Secret, until the next attempt finds room in the quota.
fn made<T>(
    created: Result<T, WriteError>,
    was_there: impl FnOnce() -> bool,
) -> Result<(), WriteError> {
    match created {
        Ok(_) | Err(WriteError::AlreadyExists(_)) => Ok(()),
        Err(WriteError::Exhausted(_)) if was_there() => Ok(()),
        Err(error) => Err(error),
    }
}

/// True if the job's status says that its key exists: an earlier operator created it. The name
/// contains the start of the job's uid.
fn was_there(status: Option<&TrainingJobStatus>, name: &str) -> bool {
    let mut told = status.into_iter().flat_map(|status| &status.compiled);
    told.any(|object| object.kind == "Secret" && object.name == name && object.ready)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_there_if_it_was_made_or_is_said_to_be_there() {
        let why = || "why".to_owned();
        let made = |created: Result<(), WriteError>, was: bool| made(created, || was).is_ok();
        for was in [false, true] {
            assert!(made(Ok(()), was));
            assert!(made(Err(WriteError::AlreadyExists(why())), was));
            // Nothing was made, and what is there is not known: it is tried again.
            for error in [
                WriteError::Conflict(why()),
                WriteError::Transient(why()),
                WriteError::Webhook(why()),
                WriteError::Refused {
                    code: 403,
                    message: why(),
                },
            ] {
                assert!(!made(Err(error), was));
            }
        }
        assert!(!made(Err(WriteError::Exhausted(why())), false));
        assert!(made(Err(WriteError::Exhausted(why())), true));
    }

    #[test]
    fn what_a_jobs_status_says_of_its_key_is_remembered() {
        let status = |kind: &str, name: &str, ready: bool| -> TrainingJobStatus {
            serde_json::from_value(json!({"compiled": [{"apiVersion": "v1", "kind": kind,
                "name": name, "hash": "", "ready": ready}]}))
            .unwrap()
        };
        let name = names::ssh("j", "5f2c9a1e-0000");
        let was = |status: &TrainingJobStatus| was_there(Some(status), &name);
        assert!(was(&status("Secret", &name, true)));
        assert!(!was(&status("Secret", &name, false)));
        assert!(!was(&status("ConfigMap", &name, true)));
        // The key of an earlier job of this name.
        let earlier = names::ssh("j", "00000000-0000");
        assert!(!was(&status("Secret", &earlier, true)));
        assert!(!was_there(None, &name));
    }
}
