//! Devices that no node advertises but a DeviceClass offers.

use trellis_gang::engine;
use trellis_scheduler::WaitReason;

use super::{Driver, Inside};

impl Driver {
    /// Explains again why gangs without a matching node wait. The engine does not, because it does
    /// not know DeviceClasses.
    pub(super) fn tell_of_devices(&mut self) {
        if self.committer.cache().device_classes.is_empty() {
            return;
        }
        let waiting = self
            .gangs
            .iter()
            .filter(|(_, s)| s.inside == Inside::Waiting)
            .map(|(job, _)| job.clone());
        let waiting: Vec<_> = waiting
            .chain(self.external_pods.waiting().cloned())
            .collect();
        for job in &waiting {
            let id = engine::id(job);
            let certificate = self.engine.certificate(&id);
            let unmatched = certificate.filter(|c| c.reason == WaitReason::NoMatchingNodes);
            if let Some(certificate) = unmatched {
                let told = self.told(&id, certificate);
                self.say(job, told);
            }
        }
    }
}
