//! Carries out the steps that `external::single_pods` decides.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};
use trellis_gang::external;
use trellis_gang::external::single_pod::{SinglePod, SinglePodStep};
use trellis_gang::external::{engine_gang, gang_members};
use trellis_gang::key::Key;

use super::super::Driver;
use crate::SchedulerEvent;

/// How long a disruption budget may delay a single pod's eviction. Then the pod is deleted.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(120);

impl Driver {
    pub(super) fn advance_single_pod(&mut self, unit: &Key, key: &Key) {
        let context = self.committer.context().clone();
        let pod = context.cache.external_pods.get(key);
        if let Some(pod) = &pod {
            self.forget_earlier_pod(unit, &pod.uid);
        }
        let group = pod.as_ref().and_then(|pod| pod.group());
        let group = group.map(|group| Key::new(&key.namespace, group));
        let there = group.as_ref().and_then(|group| self.users_pod_group(group));
        let none = PodGroupStatus::default();
        let journal = there.as_ref().and_then(|group| group.status.as_ref());
        let journal = journal.unwrap_or(&none);
        let holds = journal.phase == Some(PodGroupPhase::Placed);
        let gang = group
            .as_ref()
            .and_then(|group| self.placed_pod_group(group));
        let gang = gang.as_ref();
        let mut is_of_place = pod
            .as_ref()
            .is_some_and(|pod| gang_members::is_in_place(journal, pod));
        let joins = is_of_place;
        // The pod was bound as a single pod. It holds its node as a single pod until the gang's
        // place includes it.
        let name = self.external_pods.pod_name(key);
        if is_of_place && name.is_some_and(|name| engine_gang::is_pod_of_gang(unit, name)) {
            is_of_place = false;
            if let Some(group) = group.as_ref().filter(|_| holds) {
                context.send_event(SchedulerEvent::Recheck(external::pod_group_gang_key(group)));
            }
        }
        let now = Instant::now();
        let plan = journal.plan.as_ref().filter(|_| holds && joins);
        let leaving = self
            .leaving
            .get(unit)
            .filter(|l| l.leave_request().is_some());
        let eviction_delayable =
            leaving.map(|leaving| now.saturating_duration_since(leaving.since) < EVICTION_TIMEOUT);
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        let retry = state.retry_at;
        let step = SinglePod {
            name: &key.name,
            pod: pod.as_deref(),
            gang_is_placed: group.as_ref().map(|_| gang.is_some()),
            is_in_gang_place: is_of_place,
            eviction_delayable,
            deletions: &state.deletions,
            clock: now,
        }
        .next_step();
        if let Some(at) = state.deletions.next_retry(now) {
            self.alarms.set(unit, at);
        }
        debug!(pod = %unit, ?step, "next");
        match step {
            SinglePodStep::Forget => self.forget_external(unit),
            SinglePodStep::Hold => self.charge_single_pod(unit, key, plan),
            SinglePodStep::Evict(doomed) => {
                self.charge_single_pod(unit, key, plan);
                self.stop_external_pods(unit, vec![doomed], true);
            }
            SinglePodStep::Delete(doomed) => {
                self.charge_single_pod(unit, key, plan);
                self.stop_external_pods(unit, vec![doomed], false);
            }
            SinglePodStep::Enqueue => {
                let spec = gang.map(|gang| &gang.spec);
                let (found, near) = match gang
                    .map_or(Ok(BTreeMap::new()), |gang| self.joining_domain_labels(gang))
                {
                    Ok(near) => (self.find_single_request(key, gang), near),
                    Err(why) => (Err(why), BTreeMap::new()),
                };
                self.enqueue_request_result(unit, spec, found, retry, near);
            }
        }
    }

    /// Forgets the failures and the eviction of an earlier pod with this name.
    fn forget_earlier_pod(&mut self, unit: &Key, uid: &str) {
        let state = self.external_pods.gangs.get(unit);
        let before = state.and_then(|state| state.uid.as_deref());
        if before.is_some_and(|before| before != uid) {
            self.forget_external(unit);
        }
        let state = self.external_pods.gangs.entry(unit.clone()).or_default();
        state.uid = Some(uid.to_owned());
    }
}
