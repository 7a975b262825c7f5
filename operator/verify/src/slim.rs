//! Drops large parts of objects that no rule reads, so that a large cluster fits into memory.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Container, Namespace, Node, NodeCondition, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus,
};
use kube::Resource;
use trellis_api::{LeaderTerm, PodGroup, TrainingJob, TrainingQueue};

use crate::field_managers::drop_field_lists;

/// Drops the parts that no rule reads.
pub(crate) trait Slim: Resource {
    /// Drops the large parts of the kind. Most kinds have none.
    fn slim_content(&mut self) {}

    /// Drops the lists of owned fields, and the content that no rule reads.
    fn slim(&mut self) {
        drop_field_lists(self.meta_mut());
        self.slim_content();
    }
}

impl Slim for TrainingJob {}
impl Slim for PodGroup {}
impl Slim for TrainingQueue {}
impl Slim for Namespace {}
impl Slim for Lease {}
impl Slim for LeaderTerm {}

impl Slim for Node {
    fn slim_content(&mut self) {
        let spec = self.spec.take().unwrap_or_default();
        self.spec = Some(NodeSpec {
            taints: spec.taints,
            unschedulable: spec.unschedulable,
            ..NodeSpec::default()
        });
        let status = self.status.take().unwrap_or_default();
        let conditions = status.conditions.map(|conditions| {
            let slim = |condition: NodeCondition| NodeCondition {
                type_: condition.type_,
                status: condition.status,
                ..NodeCondition::default()
            };
            conditions.into_iter().map(slim).collect()
        });
        self.status = Some(NodeStatus {
            allocatable: status.allocatable,
            conditions,
            ..NodeStatus::default()
        });
    }
}

impl Slim for Pod {
    fn slim_content(&mut self) {
        let phase = self.status.take().and_then(|status| status.phase);
        self.status = Some(PodStatus {
            phase,
            ..PodStatus::default()
        });
        let spec = self.spec.take().unwrap_or_default();
        self.spec = Some(PodSpec {
            node_name: spec.node_name,
            scheduler_name: spec.scheduler_name,
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
