//! The pods of a group, as autoscalers see them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, PodSecurityContext, PodSpec, ResourceRequirements, SeccompProfile,
    SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use trellis_compiler::{CompiledGroup, PodPlacement};
use trellis_scheduler::Resources;

use super::OrderObjectBuilder;
use crate::admitted_pod::AdmittedPod;
use crate::engine::to_quantity;
use crate::requirements::flavors::group_tolerations;

/// Image of the container. No kubelet ever pulls it.
const IMAGE: &str = "trellis.dev/placeholder";

impl OrderObjectBuilder<'_> {
    /// Returns what autoscalers read of the group's pods: requests and node constraints, in one
    /// container that never runs.
    pub(super) fn pod_spec(&self, group: &CompiledGroup) -> PodSpec {
        let placement = PodPlacement {
            tolerations: group_tolerations(&self.nodes.groups, group.name()),
            ..PodPlacement::UNPLACED
        };
        let pod = group.pod(0, &placement).spec.unwrap_or_default();
        let planned = self.planned(group).into_iter();
        let flavors = planned.flat_map(|planned| planned.flavors.values());
        let mut selector = pod.node_selector.unwrap_or_default();
        for flavor in flavors.filter_map(|name| self.flavors.get(name)) {
            selector.extend(flavor.node_labels.clone());
        }
        let admitted = self.admitted.get(group.name()).cloned();
        let admitted = admitted.unwrap_or_else(|| AdmittedPod::from_group(group));
        PodSpec {
            restart_policy: Some("Never".to_owned()),
            termination_grace_period_seconds: Some(0),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            node_selector: (!selector.is_empty()).then_some(selector),
            affinity: pod.affinity,
            tolerations: pod.tolerations,
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    ..SeccompProfile::default()
                }),
                ..PodSecurityContext::default()
            }),
            containers: vec![container(&admitted.request)],
            ..PodSpec::default()
        }
    }
}

fn container(request: &Resources) -> Container {
    let amounts: BTreeMap<String, Quantity> = request
        .iter()
        .filter(|(resource, _)| resource.as_str() != "pods")
        .map(|(resource, amount)| {
            let quantity = to_quantity(resource.as_str(), i128::from(amount));
            (resource.as_str().to_owned(), Quantity(quantity.to_string()))
        })
        .collect();
    Container {
        name: "placeholder".to_owned(),
        image: Some(IMAGE.to_owned()),
        // A device must have a limit that equals its request.
        resources: Some(ResourceRequirements {
            limits: Some(amounts.clone()),
            requests: Some(amounts),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}
