//! Fields of a pod that an API server may drop without a word, because its version or its feature
//! gates lack them. Without the field, the pod would run in another way than its template says:
//! for example with an empty directory in place of an image volume.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};
use trellis_api::Reason;

use super::unsupported_requirement::UnsupportedRequirement;

/// Returns the gated fields that the pod has and templates may have, each with its path.
#[must_use]
pub(crate) fn find_gated_fields(pod: &PodSpec) -> BTreeSet<String> {
    let host_users = pod.host_users.map(|_| "spec.hostUsers".to_owned());
    let volumes = pod.volumes.iter().flatten().flat_map(fields_of_volume);
    let inits = pod.init_containers.iter().flatten();
    let containers = pod.containers.iter().chain(inits);
    let containers = containers.flat_map(fields_of_container);
    host_users
        .into_iter()
        .chain(volumes)
        .chain(containers)
        .collect()
}

fn fields_of_volume(volume: &Volume) -> impl Iterator<Item = String> {
    let projected = volume.projected.iter().flat_map(|p| &p.sources).flatten();
    let has_certificate = projected.clone().any(|s| s.pod_certificate.is_some());
    let fields = [
        (volume.image.is_some(), "image"),
        (has_certificate, "projected.sources[].podCertificate"),
    ];
    let path = |field| format!("spec.volumes[name={}].{field}", volume.name);
    let present = fields.into_iter().filter(|(is_present, _)| *is_present);
    present.map(move |(_, field)| path(field))
}

fn fields_of_container(container: &Container) -> Vec<String> {
    let path = |field: &str| format!("container {}: {field}", container.name);
    let variables = container.env.iter().flatten().filter(|variable| {
        let source = variable.value_from.as_ref();
        source.is_some_and(|source| source.file_key_ref.is_some())
    });
    let variables = variables.map(|v| path(&format!("env[name={}].valueFrom.fileKeyRef", v.name)));
    let stop = container.lifecycle.as_ref();
    let stop = stop.and_then(|lifecycle| lifecycle.stop_signal.as_ref());
    let stop = stop.map(|_| path("lifecycle.stopSignal"));
    variables.chain(stop).collect()
}

/// Returns the refusal of a pod that has lost this field.
#[must_use]
pub(crate) fn dropped_field(field: &str) -> UnsupportedRequirement {
    UnsupportedRequirement {
        reason: Reason::PodRefused,
        message: format!(
            "the API server drops {field} of the pods: its Kubernetes version or its feature gates \
             lack the field; remove it from the template"
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gated_fields_are_found_with_their_paths() {
        let pod: PodSpec = serde_json::from_value(json!({
            "hostUsers": false,
            "containers": [{"name": "main", "lifecycle": {"stopSignal": "SIGUSR1"}, "env": [
                {"name": "A", "value": "a"},
                {"name": "B", "valueFrom": {"fileKeyRef":
                    {"volumeName": "v", "path": "p", "key": "B"}}},
            ]}],
            "volumes": [
                {"name": "data", "image": {"reference": "registry.example/data:1"}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "id", "projected": {"sources": [{"podCertificate":
                    {"signerName": "example.com/x", "keyType": "ED25519"}}]}},
            ],
        }))
        .unwrap();
        let expected = [
            "container main: env[name=B].valueFrom.fileKeyRef",
            "container main: lifecycle.stopSignal",
            "spec.hostUsers",
            "spec.volumes[name=data].image",
            "spec.volumes[name=id].projected.sources[].podCertificate",
        ];
        assert_eq!(find_gated_fields(&pod), expected.map(str::to_owned).into());
        assert!(find_gated_fields(&PodSpec::default()).is_empty());
    }
}
