//! Finds the RuntimeProfile of a job.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::ObjectMeta;
use trellis_api::runtime_profile::RuntimeProfileStatus;
use trellis_api::{Reason, RuntimeProfile, TrainingJobSpec, ValidatedProfile};
use trellis_compiler::HashedProfile;

use crate::JobHold;

/// A profile, or the reason why no job can be compiled with the profile.
#[derive(Clone, Debug)]
pub struct CachedProfile {
    /// The metadata that a status write needs. None if the object does not decode.
    pub meta: Option<ObjectMeta>,
    /// The current status of the object.
    pub status: RuntimeProfileStatus,
    /// Its uid.
    pub uid: String,
    /// True for the profile of jobs that name none.
    pub is_default: bool,
    /// The profile, or its error.
    pub profile: Result<Arc<HashedProfile>, String>,
}

impl CachedProfile {
    /// Returns the resource version as a number. None: the object does not decode.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        self.meta
            .as_ref()?
            .resource_version
            .as_deref()?
            .parse()
            .ok()
    }
}

impl From<RuntimeProfile> for CachedProfile {
    fn from(object: RuntimeProfile) -> Self {
        let meta = &object.metadata;
        Self {
            meta: Some(ObjectMeta {
                uid: meta.uid.clone(),
                generation: meta.generation,
                resource_version: meta.resource_version.clone(),
                ..ObjectMeta::default()
            }),
            status: object.status.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            is_default: object.spec.is_default(),
            profile: ValidatedProfile::try_from(object)
                .map(|valid| Arc::new(HashedProfile::new(valid)))
                .map_err(|violations| violations.to_string()),
        }
    }
}

/// Returns the RuntimeProfile that the job is compiled with: the profile that it names, else the
/// cluster's default, if there is one. `named` finds a profile by its name, `defaults` finds all
/// profiles that are marked as the cluster's default.
///
/// # Errors
/// - The job names a profile that does not exist or is invalid.
/// - The job names no profile, and several profiles are marked as the default.
pub fn find_profile(
    job: &TrainingJobSpec,
    named: impl FnOnce(&str) -> Option<CachedProfile>,
    defaults: impl FnOnce() -> BTreeMap<String, CachedProfile>,
) -> Result<Option<Arc<HashedProfile>>, JobHold> {
    let misconfigured = |message: String| JobHold::waiting(Reason::ProfileMisconfigured, message);
    let (name, candidate) = match &job.profile {
        Some(name) => {
            let missing = || {
                let message = format!(
                    "spec.profile: RuntimeProfile {name:?} does not exist: create it or name another"
                );
                JobHold::waiting(Reason::ProfileNotFound, message)
            };
            (name.clone(), named(name).ok_or_else(missing)?)
        }
        None => {
            let mut defaults = defaults();
            if defaults.len() > 1 {
                let names: Vec<_> = defaults.keys().map(String::as_str).collect();
                return Err(misconfigured(format!(
                    "spec.profile: none is given, and {}; or name one",
                    describe_several_defaults(&names)
                )));
            }
            match defaults.pop_first() {
                Some(default) => default,
                None => return Ok(None),
            }
        }
    };
    candidate.profile.map(Some).map_err(|error| {
        misconfigured(format!(
            "spec.profile: RuntimeProfile {name:?} cannot be used: {error}"
        ))
    })
}

/// Returns the message for several profiles that are marked as the cluster's default.
#[must_use]
pub fn describe_several_defaults(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    format!(
        "the RuntimeProfiles {} are all the cluster's default: leave globalDefault to one of them",
        names.join(", ")
    )
}
