//! Imports the main container as fields of a task group, and the other containers.

use serde_json::{Value, json};
use trellis_api::job::{ContainerPort, PullPolicy, TaskGroup};
use trellis_api::pod_template::MAIN_CONTAINER;

use super::resources::{self, ContainerAmounts};
use super::traced_value::TracedValue;
use super::volumes::PodVolumes;
use super::{PodHints, SHARED_MEMORY, command_scan, env};
use crate::fields::Fields;

/// Fields of a container with the default values that the API server writes. They have no effect.
const IGNORED_DEFAULTS: [(&str, &str); 2] = [
    ("terminationMessagePath", "/dev/termination-log"),
    ("terminationMessagePolicy", "File"),
];

/// Reads the main container into a group. Returns the fields that have no short form.
pub(super) fn read_main_container(
    container: &Fields<'_>,
    amounts: ContainerAmounts,
    volumes: PodVolumes,
    hints: &PodHints<'_>,
    group: &mut TaskGroup,
) -> TracedValue {
    let mut output = TracedValue::empty_map(container.path());
    container.ignore(&["name"]);
    amounts.add_to_group(group, container);
    match container.text("image") {
        Some(image) => {
            group.image_pull_policy = read_pull_policy(container, &image);
            group.image = image;
        }
        None => {
            let log = container.log();
            log.add_problem(&container.field_path("image"), "is required: add it");
        }
    }
    group.command = container.texts("command");
    group.args = container.texts("args");
    group.working_dir = container.text("workingDir");
    let (variables, other) = env::read_variables(container, hints.framework);
    group.env = variables;
    if let Some(other) = other {
        output.insert("env", other);
    }
    let (from, other) = env::read_sources(container);
    group.env_from = from;
    if let Some(other) = other {
        output.insert("envFrom", other);
    }
    let other = read_ports(container, hints, group);
    if !other.is_empty() {
        let path = container.field_path("ports");
        output.insert("ports", TracedValue::list(&path, other));
    }
    group.mounts = volumes.mounts;
    group.shared_memory = volumes.shared_memory;
    if !volumes.unchanged_mounts.is_empty() {
        let path = container.field_path("volumeMounts");
        output.insert(
            "volumeMounts",
            TracedValue::list(&path, volumes.unchanged_mounts),
        );
    }
    let needed = command_scan::scan_command(container, group, hints);
    let mut variables: Vec<_> = hints.variables().chain(needed).collect();
    variables.retain(|variable| !group.env.iter().any(|own| own.name == variable.name));
    // The container's own variables may refer to these variables, so these come first.
    variables.append(&mut group.env);
    group.env = variables;
    copy_rest(container, &mut output);
    output
}

/// Copies all other fields unchanged.
fn copy_rest(container: &Fields<'_>, output: &mut TracedValue) {
    const SHORT: [&str; 11] = [
        "name",
        "image",
        "imagePullPolicy",
        "command",
        "args",
        "workingDir",
        "env",
        "envFrom",
        "resources",
        "ports",
        "volumeMounts",
    ];
    for (key, default) in IGNORED_DEFAULTS {
        container.ignore_if(key, &json!(default));
    }
    container.ignore_if("securityContext", &json!({}));
    for key in container.keys() {
        let Some(field) = container.get(&key) else {
            continue;
        };
        if !SHORT.contains(&key.as_str()) && !container.log().is_read(field.path()) {
            output.insert(&key, TracedValue::from_fields(&field));
        }
    }
}

/// Reads the image pull policy. For floating tags it sets Always explicitly, the default of
/// Kubernetes, because the default of Trellis is IfNotPresent.
fn read_pull_policy(container: &Fields<'_>, image: &str) -> Option<PullPolicy> {
    let Some(policy) = container.text("imagePullPolicy") else {
        let name = image.rsplit('/').next().unwrap_or(image);
        let floats = !name.contains('@') && (!name.contains(':') || name.ends_with(":latest"));
        return floats.then_some(PullPolicy::Always);
    };
    match policy.as_str() {
        "Always" => Some(PullPolicy::Always),
        "Never" => Some(PullPolicy::Never),
        "IfNotPresent" => None,
        _ => {
            let message = "must be Always, IfNotPresent or Never: write one of them";
            let log = container.log();
            log.add_problem(&container.field_path("imagePullPolicy"), message);
            None
        }
    }
}

/// Reads the ports, and returns those that have no short form.
fn read_ports(
    container: &Fields<'_>,
    hints: &PodHints<'_>,
    group: &mut TaskGroup,
) -> Vec<TracedValue> {
    let mut output = Vec::new();
    for port in container.objects("ports") {
        let number = port.value().get("containerPort").and_then(Value::as_i64);
        let name = port.value().get("name").and_then(Value::as_str);
        let tcp = json!("TCP");
        let protocol = port.value().get("protocol").unwrap_or(&tcp);
        let is_own = number.is_some() && number == hints.framework.spec().port.map(i64::from);
        if is_own || name.is_some_and(|name| hints.own_ports.contains(&name)) {
            port.note(
                "is a port that the framework opens by itself",
                "use the port that the framework's page in docs/frameworks names",
            );
            continue;
        }
        let (Some(number), true) = (number, *protocol == tcp) else {
            output.push(TracedValue::from_fields(&port));
            continue;
        };
        port.ignore(&["containerPort", "name", "protocol"]);
        port.note_at(
            "hostPort",
            "is a port of the node, and Trellis does not count ports of nodes",
            "leave it out: the job's Service has the port of the pod",
        );
        port.note_at("hostIP", "applies only with hostPort", "leave it out");
        group.ports.push(ContainerPort {
            name: name.map_or_else(|| format!("port-{number}"), str::to_owned),
            port: i32::try_from(number).unwrap_or_default(),
        });
    }
    output
}

/// Reads a container other than the main container, such as an init container or a sidecar.
pub(super) fn read_other_container(
    container: &Fields<'_>,
    volumes: &PodVolumes,
    hints: &PodHints<'_>,
    group: &TaskGroup,
) -> TracedValue {
    let mut output = TracedValue::empty_map(container.path());
    let limits = resources::read_limits(container, &hints.context.options);
    let needed = command_scan::scan_command(container, group, hints);
    for key in container.keys() {
        let Some(field) = container.get(&key) else {
            continue;
        };
        match key.as_str() {
            "resources" => {}
            "name" if field.value() == MAIN_CONTAINER => {
                field.note(
                    "is the name of the task group's own container",
                    "the container gets the name main-beside",
                );
                output.insert("name", TracedValue::leaf(field.path(), "main-beside"));
            }
            "volumeMounts" => output.insert(&key, read_mounts(container, volumes)),
            _ => output.insert(&key, TracedValue::from_fields(&field)),
        }
    }
    if let Some(limits) = limits {
        output.insert(
            "resources",
            TracedValue::leaf(&container.field_path("resources"), limits),
        );
    }
    let variables: Vec<_> = hints.variables().chain(needed).collect();
    if !variables.is_empty() {
        let path = container.field_path("env");
        let own = output
            .get("env")
            .map(TracedValue::items)
            .unwrap_or_default()
            .to_vec();
        let added = variables.iter().map(|v| TracedValue::leaf(&path, json!(v)));
        let all: Vec<_> = added.chain(own).collect();
        output.insert("env", TracedValue::list(&path, all));
    }
    output
}

/// Reads the mounts of a container other than the main container. A volume that became
/// `sharedMemory` gets a new name.
fn read_mounts(container: &Fields<'_>, volumes: &PodVolumes) -> TracedValue {
    let mounts = container.objects("volumeMounts").into_iter().map(|mount| {
        let mut output = TracedValue::from_fields(&mount);
        let name = mount.value().get("name").and_then(Value::as_str);
        if name.is_some_and(|name| volumes.shm_names.contains(name)) {
            output.insert(
                "name",
                TracedValue::leaf(&mount.field_path("name"), SHARED_MEMORY),
            );
        }
        output
    });
    TracedValue::list(&container.field_path("volumeMounts"), mounts.collect())
}
