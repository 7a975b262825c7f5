//! What a framework's pods read: the hostfile, and the key of an MPI job.

use serde::de::IgnoredAny;
use trellis_api::names;
use trellis_compiler::CompiledJob;

use super::Place;
use crate::commands::WriteError;
use crate::controller::lifecycle::Standing;
use crate::key::Key;
use crate::world::World;

impl Place<'_> {
    /// The hostfile, where the framework has one.
    pub(super) async fn hosts(
        &self,
        compiled: &CompiledJob,
        world: &World,
    ) -> Result<Option<Standing>, WriteError> {
        if !compiled.has_hosts() {
            return Ok(None);
        }
        let key = Key::new(&self.key.namespace, &names::hosts(&self.key.name));
        let wanted = || compiled.config_maps().pop().unwrap_or_default();
        self.child(&key, wanted, &world.config_maps).await
    }

    /// The Secret with the job's key, made once. We may create Secrets, and not read them:
    /// one of that name is this job's, whose uid is in it.
    pub(super) async fn key_secret(&self, compiled: &CompiledJob) -> Result<(), WriteError> {
        let Some(name) = compiled.key_secret_name() else {
            return Ok(());
        };
        let child = ("Secret".to_owned(), name.into());
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
        match created {
            Ok(_) | Err(WriteError::Conflict(_)) => {
                let mut checked = self.build.checked.lock();
                checked.insert(child, String::new());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
