//! Fields that a template must not have: fields that Trellis sets, fields with a short form in the
//! task group, and fields that Trellis does not evaluate. Privileges are permitted here, since
//! policies decide on the final pod.

mod ephemeral_volume;
mod other_container;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Affinity, Container, PodSpec, PodTemplateSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

use super::MAIN_CONTAINER;
use crate::job::Framework;
use crate::{Violation, rules};

/// Forbidden fields of a pod's spec, each with the fix.
const FORBIDDEN_SPEC_FIELDS: [(&str, &str); 24] = [
    (
        "nodeName",
        "is set once the gang has its place: leave it out, or choose nodes by nodeSelector or affinity",
    ),
    (
        "hostname",
        "is the pod's name, by which others find it: leave it out",
    ),
    (
        "hostnameOverride",
        "would hide the pod from the others of its job: leave it out",
    ),
    (
        "subdomain",
        "is the job's Service, by which others find it: leave it out",
    ),
    (
        "setHostnameAsFQDN",
        "would hide the pod from the others of its job: leave it out",
    ),
    (
        "restartPolicy",
        "is Never, since a gang is restarted as a whole: set spec.restart",
    ),
    ("schedulerName", "is trellis: leave it out"),
    (
        "schedulingGates",
        "would keep a pod from the place that is kept for it: leave it out",
    ),
    ("schedulingGroup", "is for another scheduler: leave it out"),
    (
        "priority",
        "comes from a PriorityClass: set spec.priorityClassName",
    ),
    (
        "priorityClassName",
        "is the job's: set spec.priorityClassName",
    ),
    (
        "preemptionPolicy",
        "is the PriorityClass' own: leave it out",
    ),
    (
        "serviceAccountName",
        "is the job's: set spec.serviceAccountName",
    ),
    (
        "serviceAccount",
        "is the job's: set spec.serviceAccountName",
    ),
    (
        "activeDeadlineSeconds",
        "would end one pod of a gang: set spec.deadlines.activeSeconds",
    ),
    (
        "terminationGracePeriodSeconds",
        "is what the scheduler counts with: leave it out",
    ),
    (
        "overhead",
        "comes from the RuntimeClass: set runtimeClassName",
    ),
    (
        "resources",
        "is counted by container: set resources of the task group, or of a container here",
    ),
    (
        "resourceClaims",
        "needs dynamic resource allocation, which Trellis does not do: set gpus or resources.limits of the task group",
    ),
    (
        "ephemeralContainers",
        "are added to pods that run, by kubectl debug: leave them out",
    ),
    (
        "evictionResponders",
        "is nothing that Trellis waits for: leave it out",
    ),
    ("os", "is Linux: leave it out"),
    (
        "topologySpreadConstraints",
        "is nothing that Trellis evaluates: set topology or placement",
    ),
    (
        "readinessGates",
        "would keep pods from becoming ready for what Trellis does not wait for: leave it out",
    ),
];

/// Forbidden fields of the main container, each with the fix.
const FORBIDDEN_MAIN_FIELDS: [(&str, &str); 5] = [
    ("image", "is the task group's: set taskGroups[].image"),
    (
        "imagePullPolicy",
        "is the task group's: set taskGroups[].imagePullPolicy",
    ),
    (
        "resources",
        "is the task group's: set taskGroups[].resources and gpus",
    ),
    (
        "restartPolicy",
        "would restart one pod of a gang: set spec.restart",
    ),
    (
        "restartPolicyRules",
        "would restart one pod of a gang: set spec.restart",
    ),
];

/// Prefixes of the names of volumes that mounts are compiled into. A number follows.
const MOUNT_VOLUME_NAMES: [&str; 4] = ["claim", "config-map", "secret", "empty-dir"];
/// Name of the volume for /dev/shm.
const SHARED_MEMORY: &str = "shared-memory";

#[derive(Default)]
struct TemplateViolations(Vec<Violation>);

impl TemplateViolations {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Violation {
            path: path.into(),
            message: message.into(),
        });
    }

    fn add_result(&mut self, path: impl Into<String>, result: garde::Result) {
        if let Err(error) = result {
            self.add(path, error.message());
        }
    }

    /// Adds a violation for each of these fields that the object has.
    fn add_forbidden(&mut self, path: &str, object: &impl Serialize, fields: &[(&str, &str)]) {
        let Ok(Value::Object(given)) = serde_json::to_value(object) else {
            return;
        };
        for (field, message) in fields
            .iter()
            .filter(|(field, _)| given.contains_key(*field))
        {
            self.add(format!("{path}.{field}"), *message);
        }
    }
}

pub(super) fn collect_violations(template: &PodTemplateSpec) -> Vec<Violation> {
    let mut found = TemplateViolations::default();
    if let Some(metadata) = &template.metadata {
        check_metadata(metadata, &mut found);
    }
    if let Some(spec) = &template.spec {
        check_spec(spec, &mut found);
    }
    found.0
}

fn check_metadata(metadata: &ObjectMeta, found: &mut TemplateViolations) {
    let Ok(Value::Object(given)) = serde_json::to_value(metadata) else {
        return;
    };
    for field in given.keys() {
        if !matches!(field.as_str(), "labels" | "annotations") {
            let message = "is Trellis' to set: a template has labels and annotations";
            found.add(format!("metadata.{field}"), message);
        }
    }
    let none = BTreeMap::new();
    let labels = metadata.labels.as_ref().unwrap_or(&none);
    found.add_result("metadata.labels", rules::metadata_keys(labels, &()));
    found.add_result("metadata.labels", rules::label_values(labels, &()));
    let annotations = metadata.annotations.as_ref().unwrap_or(&none);
    found.add_result(
        "metadata.annotations",
        rules::metadata_keys(annotations, &()),
    );
}

fn check_spec(spec: &PodSpec, found: &mut TemplateViolations) {
    found.add_forbidden("spec", spec, &FORBIDDEN_SPEC_FIELDS);
    if let Some(affinity) = &spec.affinity {
        check_affinity(affinity, found);
    }
    let mut names = BTreeSet::new();
    for (at, volume) in spec.volumes.iter().flatten().enumerate() {
        check_volume(volume, &format!("spec.volumes[{at}]"), &mut names, found);
    }
    let mut names = BTreeSet::new();
    for (at, container) in spec.containers.iter().enumerate() {
        let path = format!("spec.containers[{at}]");
        check_container(container, &path, &mut names, found);
        if container.name == MAIN_CONTAINER {
            found.add_forbidden(&path, container, &FORBIDDEN_MAIN_FIELDS);
        } else {
            other_container::check_resources(container, &path, found);
            let message = "is for initContainers: one that is to run beside the main container, and not to keep the pod from ending, goes there, with restartPolicy Always";
            found.add_forbidden(
                &path,
                container,
                &[("restartPolicy", message), ("restartPolicyRules", message)],
            );
        }
    }
    for (at, container) in spec.init_containers.iter().flatten().enumerate() {
        let path = format!("spec.initContainers[{at}]");
        check_container(container, &path, &mut names, found);
        other_container::check_resources(container, &path, found);
        if container.name == MAIN_CONTAINER {
            found.add(
                format!("{path}.name"),
                "is the name of the task group's own container: choose another",
            );
        }
        if container
            .restart_policy
            .as_deref()
            .is_some_and(|p| p != "Always")
        {
            found.add(
                format!("{path}.restartPolicy"),
                "must be Always, which makes it a sidecar, or absent",
            );
        }
        found.add_forbidden(
            &path,
            container,
            &[(
                "restartPolicyRules",
                "would restart what a gang waits for: leave it out",
            )],
        );
    }
}

fn check_affinity(affinity: &Affinity, found: &mut TemplateViolations) {
    let message = "is nothing that Trellis evaluates: set topology, or use nodeAffinity";
    let of_pods = [("podAffinity", message), ("podAntiAffinity", message)];
    found.add_forbidden("spec.affinity", affinity, &of_pods);
    if let Some(nodes) = &affinity.node_affinity {
        found.add_result(
            "spec.affinity.nodeAffinity",
            rules::node_affinity(nodes, &()),
        );
    }
}

fn check_volume<'a>(
    volume: &'a Volume,
    path: &str,
    names: &mut BTreeSet<&'a str>,
    found: &mut TemplateViolations,
) {
    check_name(&volume.name, path, names, found);
    let numbered = MOUNT_VOLUME_NAMES.iter().any(|kind| {
        let number = volume
            .name
            .strip_prefix(kind)
            .and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
    });
    if numbered || volume.name == SHARED_MEMORY {
        let message =
            "is the name of a volume that Trellis makes of mounts or sharedMemory: choose another";
        found.add(format!("{path}.name"), message);
    }
    if let Some(source) = &volume.ephemeral {
        ephemeral_volume::check_source(source, &format!("{path}.ephemeral"), found);
    }
}

fn check_container<'a>(
    container: &'a Container,
    path: &str,
    names: &mut BTreeSet<&'a str>,
    found: &mut TemplateViolations,
) {
    check_name(&container.name, path, names, found);
    for (at, variable) in container.env.iter().flatten().enumerate() {
        let path = format!("{path}.env[{at}].name");
        if variable.name.is_empty() {
            found.add(path, "is required: add it");
        } else if rules::is_reserved_env(&variable.name, Framework::None) {
            found.add(path, "TRELLIS_* is what Trellis sets: choose another name");
        }
    }
    for (at, from) in container.env_from.iter().flatten().enumerate() {
        if let Some(prefix) = from.prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
            found.add_result(
                format!("{path}.envFrom[{at}].prefix"),
                rules::env_prefix(prefix, &()),
            );
        }
    }
    for (at, port) in container.ports.iter().flatten().enumerate() {
        if port.host_port.is_some_and(|number| number != 0) {
            let message =
                "is not counted, so that two pods could be placed where one port is: leave it out";
            found.add(format!("{path}.ports[{at}].hostPort"), message);
        }
    }
}

/// Checks that a name is set and unique.
fn check_name<'a>(
    name: &'a str,
    path: &str,
    names: &mut BTreeSet<&'a str>,
    found: &mut TemplateViolations,
) {
    if name.is_empty() {
        found.add(format!("{path}.name"), "is required: add it");
    } else if !names.insert(name) {
        found.add(format!("{path}.name"), "stands twice: names must differ");
    }
}
