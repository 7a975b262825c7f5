//! A task of a LatticeJob: its workload, as a task group.

use serde_json::{Map, Value, json};
use trellis_api::job::{ContainerPort, EnvVar, EnvVarSource, KeySelector};
use trellis_api::pod_template::MAIN_CONTAINER;
use trellis_api::rules;

use super::{dependencies, volumes};
use crate::draft::JobDraft;
use crate::fields::Fields;
use crate::pod::traced_value::TracedValue;
use crate::pod::{GroupDraft, PodHints, ValueWithPath, env, pod_template, resources};

/// Fields in the format of Kubernetes.
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Reads a task.
pub(super) fn read_task(
    task: &Fields<'_>,
    hints: &PodHints<'_>,
    draft: &mut JobDraft,
) -> Option<GroupDraft> {
    let workload = task.object("workload");
    let containers = workload.as_ref().map(|w| w.object_entries("containers"));
    let containers = containers.unwrap_or_default();
    let named = containers.iter().find(|(name, _)| name == hints.main);
    let Some((name, main)) = named.or_else(|| containers.first()) else {
        let path = task.field_path("workload.containers");
        task.log()
            .add_problem(&path, "is required: add a container");
        return None;
    };
    let workload = workload?;
    let mut pods = GroupDraft::default();
    let mut spec = TracedValue::empty_map(task.path());
    let output = read_main_container(main, hints, &mut pods);
    let mut other_containers: Vec<TracedValue> = pod_template::main_container_template(output)
        .into_iter()
        .collect();
    for (other, container) in containers.iter().filter(|(other, _)| other != name) {
        other_containers.push(read_other_container(other, container, hints));
    }
    let mut init = Vec::new();
    for (name, sidecar) in task.object_entries("sidecars") {
        let mut output = read_other_container(&name, &sidecar, hints);
        if sidecar.boolean("init") != Some(true) {
            // The sidecar must not keep the job's pod from ending.
            output.insert("restartPolicy", TracedValue::leaf(sidecar.path(), "Always"));
        }
        init.push(output);
    }
    for (key, list) in [("containers", other_containers), ("initContainers", init)] {
        if !list.is_empty() {
            spec.insert(key, TracedValue::list(main.path(), list));
        }
    }
    read_pod_fields(task, &mut spec);
    if let Some(service) = workload.object("service") {
        read_ports(&service, &mut pods);
    }
    dependencies::read_dependencies(&workload, draft);
    let mut output = TracedValue::empty_map(task.path());
    output.insert("spec", spec);
    pods.group.pod_template = pod_template::build_template(output, hints.framework, task.log());
    Some(pods)
}

/// Reads Lattice's fields of a pod, except its containers.
fn read_pod_fields(task: &Fields<'_>, spec: &mut TracedValue) {
    let secrets = task.items("imagePullSecrets");
    for secret in secrets {
        secret.note(
            "names an ImageProvider or Secret of Lattice",
            "name a Secret of the namespace in imagePullSecrets of the task group",
        );
    }
    if let Some(share) = task.get("shareProcessNamespace") {
        spec.insert("shareProcessNamespace", TracedValue::from_fields(&share));
    }
    task.ignore_if("hostNetwork", &json!(false));
    task.note_at(
        "hostNetwork",
        "would open every port of the pod on its node, and Trellis does not count ports of nodes",
        "RDMA does not need it: request its device in resources.limits",
    );
    let sysctls = task.entries("sysctls").into_iter();
    let sysctls = sysctls.map(|(name, value)| {
        let value = value.as_text();
        json!({"name": name, "value": value})
    });
    let sysctls: Vec<Value> = sysctls.collect();
    if !sysctls.is_empty() {
        let path = task.field_path("sysctls");
        let mut context = TracedValue::empty_map(&path);
        context.insert("sysctls", TracedValue::leaf(&path, sysctls));
        spec.insert("securityContext", context);
    }
}

fn read_main_container(
    container: &Fields<'_>,
    hints: &PodHints<'_>,
    pods: &mut GroupDraft,
) -> TracedValue {
    let group = &mut pods.group;
    let mut output = TracedValue::empty_map(container.path());
    resources::read_main_amounts(container, &hints.context.options).add_to_group(group, container);
    match container.text("image") {
        Some(image) => group.image = image,
        None => {
            let log = container.log();
            log.add_problem(&container.field_path("image"), "is required: add it");
        }
    }
    group.command = container.texts("command");
    group.args = container.texts("args");
    group.working_dir = container.text("workingDir");
    group.env = read_variables(container, hints);
    volumes::read_volumes(container, group);
    note_files(container);
    for key in PROBES {
        if let Some(probe) = container.get(key) {
            output.insert(key, TracedValue::from_fields(&probe));
        }
    }
    if let Some(security) = container.object("security") {
        if let Some(user) = security.integer("runAsUser") {
            let path = security.field_path("runAsUser");
            pods.run_as_user = Some(ValueWithPath { value: user, path });
        }
        let context = read_security_context(&security);
        if !context.is_empty() {
            output.insert("securityContext", context);
        }
    }
    output
}

/// Reads a container other than the main container.
fn read_other_container(name: &str, container: &Fields<'_>, hints: &PodHints<'_>) -> TracedValue {
    let mut output = TracedValue::empty_map(container.path());
    let name = if name == MAIN_CONTAINER {
        "main-beside"
    } else {
        name
    };
    output.insert("name", TracedValue::leaf(container.path(), name));
    for key in ["image", "command", "args", "workingDir"]
        .into_iter()
        .chain(PROBES)
    {
        if let Some(field) = container.get(key) {
            output.insert(key, TracedValue::from_fields(&field));
        }
    }
    if let Some(limits) = resources::read_limits(container, &hints.context.options) {
        output.insert(
            "resources",
            TracedValue::leaf(&container.field_path("resources"), limits),
        );
    }
    let variables = read_variables(container, hints);
    if !variables.is_empty() {
        let path = container.field_path("variables");
        output.insert("env", TracedValue::leaf(&path, json!(variables)));
    }
    note_files(container);
    container.note_at(
        "volumes",
        "belong to a container other than the main one",
        "write them into podTemplate, as volumes and volumeMounts",
    );
    if let Some(security) = container.object("security") {
        let mut context = read_security_context(&security);
        for key in ["runAsUser"] {
            if let Some(field) = security.get(key) {
                context.insert(key, TracedValue::from_fields(&field));
            }
        }
        if !context.is_empty() {
            output.insert("securityContext", context);
        }
    }
    output
}

/// Reads the variables. Each is a text, or a key of a secret of the task.
fn read_variables(container: &Fields<'_>, hints: &PodHints<'_>) -> Vec<EnvVar> {
    let mut found = Vec::new();
    for (name, field) in container.entries("variables") {
        let Some(text) = field.as_text() else {
            continue;
        };
        if rules::is_reserved_env(&name, hints.framework) {
            field.note(
                format!("is set by Trellis for framework {:?}", hints.framework),
                "leave it out: docs/frameworks has its value",
            );
            continue;
        }
        let secret = text
            .strip_prefix("${secret.")
            .and_then(|rest| rest.strip_suffix('}'));
        let secret = secret.and_then(|rest| rest.split_once('.'));
        match secret {
            Some((resource, key)) if !key.contains("${") => found.push(EnvVar {
                name,
                value_from: Some(EnvVarSource {
                    secret_key_ref: Some(KeySelector {
                        name: resource.to_owned(),
                        key: key.to_owned(),
                        optional: None,
                    }),
                    ..EnvVarSource::default()
                }),
                ..EnvVar::default()
            }),
            _ if text.replace("$${", "").contains("${") => field.note(
                "has a placeholder of Lattice, which Trellis does not fill in",
                "put the secret into a variable of its own, and write $(NAME) for it",
            ),
            _ => found.push(env::new_variable(&name, text.replace("$${", "${"))),
        }
    }
    found
}

fn note_files(container: &Fields<'_>) {
    for (_, file) in container.entries("files") {
        file.note(
            "is a file that Lattice writes",
            "put it into a ConfigMap, or a Secret, and mount that",
        );
    }
}

/// Converts the security context to Kubernetes' fields, except the user, which the job sets.
fn read_security_context(security: &Fields<'_>) -> TracedValue {
    let mut context = TracedValue::empty_map(security.path());
    let mut capabilities = Map::new();
    for (key, their_field) in [("add", "capabilities"), ("drop", "dropCapabilities")] {
        let names = security.texts(their_field);
        if !names.is_empty() {
            capabilities.insert(key.to_owned(), json!(names));
        }
    }
    if !capabilities.is_empty() {
        let path = security.field_path("capabilities");
        context.insert("capabilities", TracedValue::leaf(&path, capabilities));
    }
    for key in [
        "privileged",
        "readOnlyRootFilesystem",
        "runAsNonRoot",
        "runAsGroup",
        "allowPrivilegeEscalation",
    ] {
        if let Some(field) = security.get(key) {
            context.insert(key, TracedValue::from_fields(&field));
        }
    }
    for (key, their_field) in [
        ("seccompProfile", "seccompProfile"),
        ("appArmorProfile", "apparmorProfile"),
    ] {
        if let Some(kind) = security.text(their_field) {
            let path = security.field_path(their_field);
            context.insert(key, TracedValue::leaf(&path, json!({"type": kind})));
        }
    }
    security.note_at(
        "allowedBinaries",
        "is enforced by Tetragon, which Trellis does not configure",
        "write a TracingPolicy for the pods",
    );
    context
}

/// Reads the ports of the workload's Service. In Trellis the job has one Service for all ports.
fn read_ports(service: &Fields<'_>, pods: &mut GroupDraft) {
    for (name, port) in service.object_entries("ports") {
        let (own, target) = (port.integer("port"), port.integer("targetPort"));
        if target.is_some() && own != target {
            port.note_at(
                "port",
                "is a port of the Service, and in Trellis the Service has the ports of the pods",
                "let clients use targetPort",
            );
        }
        let number = target.or(own);
        port.ignore_if("protocol", &json!("TCP"));
        let Some(number) = number else {
            let message = "is required: add it";
            port.log().add_problem(&port.field_path("port"), message);
            continue;
        };
        pods.group.ports.push(ContainerPort {
            name,
            port: i32::try_from(number).unwrap_or_default(),
        });
    }
}

/// Returns the settings of NCCL as variables.
pub(super) fn nccl_variables(training: &Fields<'_>) -> Vec<EnvVar> {
    let Some(nccl) = training.object("nccl") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, name) in [
        ("netIf", "NCCL_SOCKET_IFNAME"),
        ("ibHca", "NCCL_IB_HCA"),
        ("debug", "NCCL_DEBUG"),
    ] {
        if let Some(value) = nccl.text(key) {
            found.push(env::new_variable(name, value));
        }
    }
    nccl.note_at(
        "gdr",
        "sets several variables that depend on the nodes",
        "set NCCL_NET_GDR_LEVEL if NCCL does not detect it",
    );
    for (name, value) in nccl.map("extraEnv") {
        found.push(env::new_variable(&name, value));
    }
    found
}
