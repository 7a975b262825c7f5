//! Devices that no node advertises and a DeviceClass offers.

use trellis_api::Reason;
use trellis_scheduler::{Certificate, WaitReason};

use super::{Driver, Inside};
use crate::scheduling::{allocation, gang};

impl Driver {
    /// What a certificate says, in the words of the API.
    pub(super) fn told(&self, certificate: &Certificate) -> (Reason, String) {
        let world = self.committer.world();
        let classes = world.device_classes.all();
        let nodes = || world.nodes.all();
        allocation::told(certificate, &classes, nodes)
    }

    /// Says anew why gangs wait that no node matches: the engine, which knows
    /// nothing of DeviceClasses, does not.
    pub(super) fn tell_of_devices(&self) {
        if self.committer.world().device_classes.is_empty() {
            return;
        }
        let waiting = self
            .gangs
            .iter()
            .filter(|(_, s)| s.inside == Inside::Waiting);
        for (job, _) in waiting {
            let certificate = self.engine.certificate(&gang::id(job));
            let unmatched = certificate.filter(|c| c.reason == WaitReason::NoMatchingNodes);
            if let Some(certificate) = unmatched {
                let (reason, message) = self.told(certificate);
                self.say(job, reason, message);
            }
        }
    }
}
