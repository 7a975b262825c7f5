//! Devices that no node advertises but a DeviceClass offers.

use trellis_gang::engine;
use trellis_scheduler::WaitReason;

use super::{Driver, EngineState};

impl Driver {
    /// Renews the explanations of gangs without a matching node. The engine cannot do this, because
    /// it does not know DeviceClasses.
    pub(super) fn renew_device_explanations(&mut self) {
        if self.committer.cache().device_classes.is_empty() {
            return;
        }
        let waiting = self
            .gangs
            .iter()
            .filter(|(_, s)| s.engine_state == EngineState::Waiting)
            .map(|(job, _)| job.clone());
        let waiting: Vec<_> = waiting
            .chain(self.external_pods.waiting().cloned())
            .collect();
        for job in &waiting {
            let id = engine::gang_id(job);
            let wait_explanation = self.engine.explanation(&id);
            let unmatched = wait_explanation.filter(|c| c.reason == WaitReason::NoMatchingNodes);
            if let Some(wait_explanation) = unmatched {
                let explanation = self.explain_refusal(&id, wait_explanation);
                self.record_explanation(job, explanation);
            }
        }
    }
}
