//! The admission policies that stamp who asks, as the watches show them.

use kube::Resource;
use tracing::{info, warn};

use super::{Watched, World};
use crate::key::Key;
use crate::policy::Since;
use crate::watch::{Sink, SlimAdmission};

impl World {
    /// Says whether it is known who asks.
    pub(crate) fn tell_of_stamping(&self, since: &Since) {
        match since {
            Ok(since) => info!(%since, "who asks is known, of jobs created since"),
            Err(why) => warn!(%why, "who asks is not known: no job has a requester"),
        }
    }

    fn stamping_changed(&self, since: Option<Since>) {
        // Before everything is listed it says nothing.
        if let Some(since) = since.filter(|_| self.is_synced()) {
            self.tell_of_stamping(&since);
            self.look_again_at(|_| true);
        }
    }
}

impl<K: Resource<DynamicType = ()> + 'static> Sink<SlimAdmission<K>> for Watched {
    /// MutatingAdmissionPolicy is stable since Kubernetes 1.36.
    const MAY_BE_ABSENT: bool = true;

    fn apply(&self, _: Key, object: SlimAdmission<K>) {
        let stamping = &self.world.stamping;
        let now = stamping.seen(&K::kind(&()), &object.metadata, &object.spec);
        self.world.stamping_changed(now);
    }

    fn delete(&self, key: &Key, uid: &str) {
        let now = self.world.stamping.gone(&K::kind(&()), &key.name, uid);
        self.world.stamping_changed(now);
    }

    fn synced(&self) {
        self.listed();
    }

    fn unknown(&self) {
        self.listed();
    }
}
