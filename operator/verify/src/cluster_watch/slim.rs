//! Drops the parts of objects that no rule reads, so that a large cluster fits into memory.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Container, Namespace, Node, NodeStatus, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trellis_api::{PodGroup, TrainingJob, TrainingQueue};

/// Drops the parts that no rule reads.
pub(super) trait Slim {
    fn slim(&mut self);
}

/// Drops the fields that clients own. Their names and times stay.
fn slim_metadata(metadata: &mut ObjectMeta) {
    for entry in metadata.managed_fields.iter_mut().flatten() {
        entry.fields_v1 = None;
    }
}

impl Slim for TrainingJob {
    fn slim(&mut self) {
        slim_metadata(&mut self.metadata);
    }
}

impl Slim for PodGroup {
    fn slim(&mut self) {
        slim_metadata(&mut self.metadata);
    }
}

impl Slim for TrainingQueue {
    fn slim(&mut self) {
        slim_metadata(&mut self.metadata);
    }
}

impl Slim for Namespace {
    fn slim(&mut self) {
        slim_metadata(&mut self.metadata);
    }
}

impl Slim for Lease {
    fn slim(&mut self) {
        slim_metadata(&mut self.metadata);
    }
}

impl Slim for Node {
    fn slim(&mut self) {
        slim_metadata(&mut self.metadata);
        let allocatable = self.status.take().and_then(|status| status.allocatable);
        self.spec = None;
        self.status = Some(NodeStatus {
            allocatable,
            ..NodeStatus::default()
        });
    }
}

impl Slim for Pod {
    fn slim(&mut self) {
        slim_metadata(&mut self.metadata);
        let phase = self.status.take().and_then(|status| status.phase);
        self.status = Some(PodStatus {
            phase,
            ..PodStatus::default()
        });
        let spec = self.spec.take().unwrap_or_default();
        self.spec = Some(PodSpec {
            node_name: spec.node_name,
            termination_grace_period_seconds: spec.termination_grace_period_seconds,
            overhead: spec.overhead,
            resources: spec.resources,
            containers: slim_containers(spec.containers),
            init_containers: spec.init_containers.map(slim_containers),
            ..PodSpec::default()
        });
    }
}

fn slim_containers(containers: Vec<Container>) -> Vec<Container> {
    let slim = |container: Container| Container {
        name: container.name,
        resources: container.resources,
        restart_policy: container.restart_policy,
        ..Container::default()
    };
    containers.into_iter().map(slim).collect()
}
