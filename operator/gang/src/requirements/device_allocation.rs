//! Devices that only dynamic resource allocation offers. A job that asks for one waits, and its
//! message says why. Pure.

use std::borrow::Borrow;

use trellis_api::Reason;
use trellis_scheduler::{Engine, GangId, ResourceName, WaitDetail, WaitExplanation};

use super::resource_request;
use crate::engine;
use crate::observed::{SlimDeviceClass, SlimNode};

/// Returns why a gang waits, in the words of the API, and when it starts if room is reserved for
/// it.
#[must_use]
pub fn explain_wait<C: Borrow<SlimDeviceClass>, N: Borrow<SlimNode>>(
    engine: &Engine,
    id: &GangId,
    explanation: &WaitExplanation,
    classes: &[C],
    nodes: impl Fn() -> Vec<N>,
) -> (Reason, String) {
    let (reason, message) = explain_with_device_classes(explanation, classes, nodes);
    (reason, engine::append_reservation(engine, id, message))
}

/// Returns the scheduler's explanation in the words of the API. If no node matches because no node
/// advertises a device that a DeviceClass offers, that is the reason.
#[must_use]
pub fn explain_with_device_classes<C: Borrow<SlimDeviceClass>, N: Borrow<SlimNode>>(
    explanation: &WaitExplanation,
    classes: &[C],
    nodes: impl Fn() -> Vec<N>,
) -> (Reason, String) {
    let plain = || {
        (
            engine::to_api_reason(explanation.reason),
            explanation.to_string(),
        )
    };
    let WaitDetail::NoMatchingNodes { exclusions, .. } = explanation.detail.as_ref() else {
        return plain();
    };
    let lacking = exclusions
        .missing_resource
        .iter()
        .map(|(resource, _)| resource);
    let offered =
        lacking.filter_map(|resource| Some((resource, offering_class(classes, resource)?)));
    let advertised = |resource: &ResourceName| {
        let has = |node: &N| resource_request::node_allocatable(node.borrow()).get(resource) > 0;
        nodes().iter().any(has)
    };
    let mut alone = offered.filter(|(resource, _)| !advertised(resource));
    match alone.next() {
        Some((resource, class)) => {
            let message = format!(
                "{explanation}; {resource} is offered by DeviceClass {class:?} alone, and dynamic resource allocation is not done by trellis"
            );
            (Reason::NeedsDeviceAllocation, message)
        }
        None => plain(),
    }
}

/// Returns the first class, by name, that offers the resource.
fn offering_class<C: Borrow<SlimDeviceClass>>(
    classes: &[C],
    resource: &ResourceName,
) -> Option<String> {
    let offering = classes.iter().map(Borrow::borrow);
    let names = offering
        .filter(|class| class.offers(resource.as_str()))
        .filter_map(|class| class.metadata.name.clone());
    names.min()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trellis_scheduler::{Gang, GroupName, Queue, QueueName, Resources, TaskGroup, Time};

    use super::*;

    const GPU: &str = "nvidia.com/gpu";

    fn node(name: &str, gpus: &str, tainted: bool) -> SlimNode {
        let taints = if tainted {
            json!([{"key": "t", "effect": "NoSchedule"}])
        } else {
            json!([])
        };
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"taints": taints},
            "status": {
                "allocatable": {"cpu": "8", "pods": "110", GPU: gpus},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }))
        .unwrap()
    }

    fn class(name: &str, resource: &str) -> SlimDeviceClass {
        serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"extendedResourceName": resource},
        }))
        .unwrap()
    }

    /// Returns the explanation for a waiting job that requests this many thousandths of a core, and
    /// a GPU.
    fn explain_waiting_job(
        cpu: i64,
        classes: &[SlimDeviceClass],
        nodes: &[SlimNode],
    ) -> (Reason, String) {
        let mut engine = Engine::new();
        engine.apply_queue(Queue::new(QueueName::new("default")));
        for node in nodes {
            engine.apply_node(engine::to_engine_node(node, &Default::default()));
        }
        let request = Resources::new().with("cpu", cpu).with(GPU, 1);
        let group = TaskGroup::new(GroupName::new("w"), 1, request, "j-w".to_owned());
        let gang = Gang::new(GangId::new("ns/j"), QueueName::new("default"), vec![group]);
        let explanation = engine.try_gang(&gang, Time::from_millis(0)).unwrap_err();
        explain_with_device_classes(&explanation, classes, || nodes.iter().collect())
    }

    #[test]
    fn gang_needs_device_allocation_when_only_a_device_class_offers_it() {
        let nodes = [node("a", "0", false), node("b", "0", false)];
        let classes = [
            class("z", GPU),
            class("h100", GPU),
            class("other", "x.example/y"),
        ];
        let (reason, message) = explain_waiting_job(1_000, &classes, &nodes);
        assert_eq!(reason, Reason::NeedsDeviceAllocation);
        assert!(message.contains("2 without nvidia.com/gpu"), "{message}");
        assert!(message.contains("DeviceClass \"h100\""), "{message}");
    }

    #[test]
    fn reason_is_unchanged_when_a_node_advertises_the_device() {
        let without_gpus = [node("a", "0", false)];
        let classes = [class("h100", GPU)];
        assert_eq!(
            explain_waiting_job(1_000, &[], &without_gpus).0,
            Reason::NoMatchingNodes
        );
        let other_classes = [class("x", "x.example/y")];
        assert_eq!(
            explain_waiting_job(1_000, &other_classes, &without_gpus).0,
            Reason::NoMatchingNodes
        );
        // A device plugin advertises the resource on another node, which has a taint.
        let with_tainted_gpus = [node("a", "0", false), node("b", "8", true)];
        assert_eq!(
            explain_waiting_job(1_000, &classes, &with_tainted_gpus).0,
            Reason::NoMatchingNodes
        );
        let small_node = [node("a", "8", false)];
        assert_eq!(
            explain_waiting_job(9_000, &classes, &small_node).0,
            Reason::ExceedsCluster
        );
    }
}
