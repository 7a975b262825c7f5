//! The RuntimeProfile that a job is compiled with.

use trellis_api::{RuntimeProfileSpec, ValidatedProfile};

use crate::hash_of;

/// A valid RuntimeProfile, with the hash that its jobs tell it by. Jobs share it.
#[derive(Clone, Debug)]
pub struct HashedProfile {
    profile: ValidatedProfile,
    hash: String,
}

impl HashedProfile {
    /// The profile, hashed.
    #[must_use]
    pub fn new(profile: ValidatedProfile) -> Self {
        Self {
            hash: hash_of(profile.spec()),
            profile,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.profile.name()
    }

    /// Hash of its spec: 16 characters.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Its spec.
    #[must_use]
    pub fn spec(&self) -> &RuntimeProfileSpec {
        self.profile.spec()
    }

    /// The profile as it was validated.
    #[must_use]
    pub fn validated(&self) -> &ValidatedProfile {
        &self.profile
    }
}

/// Two profiles are equal if jobs compile to the same objects with both.
impl PartialEq for HashedProfile {
    fn eq(&self, other: &Self) -> bool {
        (self.name(), self.hash()) == (other.name(), other.hash())
    }
}

impl Eq for HashedProfile {}
