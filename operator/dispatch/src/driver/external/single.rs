//! Carries out the steps that `external::single` decides.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};
use trellis_gang::external;
use trellis_gang::external::single::{Single, Step};
use trellis_gang::external::{form, next};
use trellis_gang::key::Key;

use super::super::Driver;
use crate::Feed;

/// How long a disruption budget may delay a single pod's eviction. Then the pod is deleted.
const PATIENCE: Duration = Duration::from_secs(120);

impl Driver {
    pub(super) fn advance_single(&mut self, unit: &Key, key: &Key) {
        let context = self.committer.context().clone();
        let pod = context.cache.external_pods.get(key);
        if let Some(pod) = &pod {
            self.is_another(unit, &pod.uid);
        }
        let group = pod.as_ref().and_then(|pod| pod.group());
        let group = group.map(|group| Key::new(&key.namespace, group));
        let there = group.as_ref().and_then(|group| self.users_group(group));
        let none = PodGroupStatus::default();
        let journal = there.as_ref().and_then(|group| group.status.as_ref());
        let journal = journal.unwrap_or(&none);
        let holds = journal.phase == Some(PodGroupPhase::Placed);
        let gang = group.as_ref().and_then(|group| self.placed_group(group));
        let gang = gang.as_ref();
        let mut is_of_place = pod
            .as_ref()
            .is_some_and(|pod| next::is_of_place(journal, pod));
        let joins = is_of_place;
        // The pod was bound as a single pod, and holds its node as one until the gang's place
        // includes it.
        let name = self.external_pods.name(key);
        if is_of_place && name.is_some_and(|name| form::is_name_of(unit, name)) {
            is_of_place = false;
            if let Some(group) = group.as_ref().filter(|_| holds) {
                context.tell(Feed::Look(external::of_group(group)));
            }
        }
        let now = Instant::now();
        let plan = journal.plan.as_ref().filter(|_| holds && joins);
        let told = self.leaving.get(unit).filter(|l| l.told().is_some());
        let told = told.map(|told| now.saturating_duration_since(told.since) < PATIENCE);
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let retry = state.retry;
        let step = Single {
            name: &key.name,
            pod: pod.as_deref(),
            gang_holds: group.as_ref().map(|_| gang.is_some()),
            is_of_place,
            told,
            deletions: &state.deletions,
            clock: now,
        }
        .next();
        if let Some(at) = state.deletions.next(now) {
            self.alarms.set(unit, at);
        }
        debug!(pod = %unit, ?step, "next");
        match step {
            Step::Forget => self.forget_external(unit),
            Step::Hold => self.hold_single(unit, key, plan),
            Step::Evict(doomed) => {
                self.hold_single(unit, key, plan);
                self.stop_external_pods(unit, vec![doomed], true);
            }
            Step::Delete(doomed) => {
                self.hold_single(unit, key, plan);
                self.stop_external_pods(unit, vec![doomed], false);
            }
            Step::Enqueue => {
                let spec = gang.map(|gang| &gang.spec);
                let (found, near) =
                    match gang.map_or(Ok(BTreeMap::new()), |gang| self.external_pods_near(gang)) {
                        Ok(near) => (self.find_single(key, gang), near),
                        Err(why) => (Err(why), BTreeMap::new()),
                    };
                self.enqueue_found(unit, spec, found, retry, near);
            }
        }
    }

    /// Forgets the failures and the eviction of an earlier pod of that name.
    fn is_another(&mut self, unit: &Key, uid: &str) {
        let state = self.external_pods.gangs.get(unit);
        let before = state.and_then(|state| state.uid.as_deref());
        if before.is_some_and(|before| before != uid) {
            self.forget_external(unit);
        }
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        state.uid = Some(uid.to_owned());
    }
}
