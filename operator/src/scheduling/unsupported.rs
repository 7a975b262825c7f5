//! What a pod may ask for that the engine does not look at. The compiler asks
//! for none of it; admission may. Such a pod is not placed as if it had not
//! asked. Pure.

use k8s_openapi::api::core::v1::PodSpec;
use trellis_api::Reason;

/// Why a pod is not placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The reason.
    pub reason: Reason,
    /// The same in words: what it asks for.
    pub message: String,
}

/// What of it the pod asks for, the first. What is only preferred does not count.
#[must_use]
pub fn of_pod(pod: &PodSpec) -> Option<Unsupported> {
    let devices = pod.resource_claims.iter().flatten().next();
    if let Some(claim) = devices {
        return Some(Unsupported {
            reason: Reason::NeedsDeviceAllocation,
            message: format!(
                "admission gives the pods the resource claim {:?}, and dynamic resource allocation is not done by trellis",
                claim.name
            ),
        });
    }
    constraint(pod).map(|what| not_supported(&what))
}

/// A claim that admission adds: where its volume is has not been asked.
#[must_use]
pub fn claim(name: &str) -> Unsupported {
    not_supported(&format!(
        "the PersistentVolumeClaim {name:?}, which the job does not name in mounts"
    ))
}

fn not_supported(what: &str) -> Unsupported {
    Unsupported {
        reason: Reason::ConstraintNotSupported,
        message: format!("admission gives the pods {what}, which trellis does not evaluate"),
    }
}

fn constraint(pod: &PodSpec) -> Option<String> {
    let affinity = pod.affinity.as_ref();
    let near = affinity
        .and_then(|a| {
            a.pod_affinity
                .as_ref()?
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .is_some_and(|terms| !terms.is_empty());
    let apart = affinity
        .and_then(|a| {
            a.pod_anti_affinity
                .as_ref()?
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .is_some_and(|terms| !terms.is_empty());
    let mut spread = pod.topology_spread_constraints.iter().flatten();
    let ports = pod
        .containers
        .iter()
        .chain(pod.init_containers.iter().flatten());
    let mut ports = ports.flat_map(|c| c.ports.iter().flatten());
    let port = ports.find_map(|p| p.host_port.filter(|port| *port > 0));
    let mut volumes = pod.volumes.iter().flatten();
    if near {
        Some("required pod affinity".to_owned())
    } else if apart {
        Some("required pod anti-affinity".to_owned())
    } else if spread.any(|s| s.when_unsatisfiable != "ScheduleAnyway") {
        Some("a topology spread constraint".to_owned())
    } else if let Some(port) = port {
        Some(format!("the host port {port}"))
    } else {
        let ephemeral = volumes.find(|v| v.ephemeral.is_some());
        ephemeral.map(|v| format!("the ephemeral volume {:?}", v.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(more: Value) -> Option<(&'static str, String)> {
        let mut spec = json!({"containers": [{"name": "c"}]});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let pod = serde_json::from_value(spec).unwrap();
        of_pod(&pod).map(|u| (u.reason.as_str(), u.message))
    }

    #[test]
    fn what_must_hold_is_refused_and_what_is_preferred_is_not() {
        let term = json!({"topologyKey": "zone", "labelSelector": {}});
        let affinity = |kind: &str, required: Value| {
            json!({"affinity": {kind: {
                "requiredDuringSchedulingIgnoredDuringExecution": required,
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
            }}})
        };
        let spread = |when: &str| {
            json!({"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when},
            ]})
        };
        let port = |port: Value| json!({"containers": [{"name": "c", "ports": [port]}]});
        for (spec, words) in [
            (json!({}), None),
            (
                affinity("podAffinity", json!([term])),
                Some("required pod affinity"),
            ),
            (affinity("podAffinity", json!([])), None),
            (
                affinity("podAntiAffinity", json!([term])),
                Some("required pod anti-affinity"),
            ),
            (affinity("podAntiAffinity", json!([])), None),
            (
                spread("DoNotSchedule"),
                Some("a topology spread constraint"),
            ),
            (spread("ScheduleAnyway"), None),
            (port(json!({"containerPort": 80})), None),
            (
                port(json!({"containerPort": 80, "hostPort": 8080})),
                Some("host port 8080"),
            ),
            (
                json!({"volumes": [{"name": "scratch", "ephemeral": {}}]}),
                Some("ephemeral volume \"scratch\""),
            ),
        ] {
            let said = of(spec.clone());
            assert_eq!(said.is_some(), words.is_some(), "{spec} {said:?}");
            if let (Some((reason, message)), Some(words)) = (said, words) {
                assert_eq!(reason, "ConstraintNotSupported");
                assert!(message.contains(words), "{message}");
            }
        }
    }

    #[test]
    fn resource_claims_need_an_allocator() {
        let (reason, message) = of(json!({"resourceClaims": [{"name": "gpu"}]})).unwrap();
        assert_eq!(reason, "NeedsDeviceAllocation");
        assert!(message.contains("\"gpu\""), "{message}");
    }
}
