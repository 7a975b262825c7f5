//! Converts a pod template of Kubernetes into a task group. Fields with a short form go there,
//! fields that Trellis accepts in a pod template go into `podTemplate`, and the rest is noted.

pub(crate) mod command_scan;
mod container;
pub(crate) mod env;
pub(crate) mod placement;
pub(crate) mod pod_template;
pub(crate) mod resources;
pub(crate) mod traced_value;
pub(crate) mod volumes;

use std::collections::BTreeMap;

use serde_json::json;
use trellis_api::job::{EnvVar, Framework, LocalReference, TaskGroup};
use trellis_api::pod_template::MAIN_CONTAINER;
use trellis_api::topology::Closeness;

use crate::context::ImportContext;
use crate::fields::Fields;
use crate::{kai, metadata};
use command_scan::ProvidedVariables;
use traced_value::TracedValue;

/// Name of the volume behind /dev/shm (api/src/pod_template/forbidden_fields.rs).
const SHARED_MEMORY: &str = "shared-memory";

/// Facts about the system for which a pod was written.
#[derive(Clone)]
pub(crate) struct PodHints<'h> {
    pub(crate) context: &'h ImportContext,
    pub(crate) framework: Framework,
    /// Name of the container that the system treats as the main one. If none has it, the first is.
    pub(crate) main: &'h str,
    /// Names of ports that the system looks for.
    pub(crate) own_ports: &'h [&'h str],
    /// Variables with the pod's index, which the system sets in every container.
    pub(crate) index_variables: &'h [&'h str],
    /// Variables that are set if a command reads them.
    pub(crate) provided_variables: ProvidedVariables,
}

impl PodHints<'_> {
    fn variables(&self) -> impl Iterator<Item = EnvVar> + '_ {
        let index = self.index_variables.iter();
        index.map(|name| env::new_variable(name, "$(TRELLIS_INDEX)"))
    }
}

/// A pod's value that belongs to the whole job in Trellis, with its path.
#[derive(Clone, Debug)]
pub(crate) struct ValueWithPath<T> {
    pub(crate) value: T,
    pub(crate) path: String,
}

/// A task group from a pod template, and values that belong to the whole job.
#[derive(Default)]
pub(crate) struct GroupDraft {
    /// Path of the main container.
    pub(crate) main: String,
    /// The group, without name and replicas.
    pub(crate) group: TaskGroup,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) service_account: Option<ValueWithPath<String>>,
    pub(crate) priority_class: Option<ValueWithPath<String>>,
    pub(crate) queue: Option<ValueWithPath<String>>,
    /// True if the queue is not in the input.
    pub(crate) has_missing_queue: bool,
    /// True if KAI schedules the pods.
    pub(crate) is_kai: bool,
    /// The scheduling shard of KAI, whose nodes have a label with its name.
    pub(crate) node_pool: Option<String>,
    pub(crate) run_as_user: Option<ValueWithPath<i64>>,
    pub(crate) fs_group: Option<ValueWithPath<i64>>,
    pub(crate) grace: Option<ValueWithPath<i64>>,
    pub(crate) restart_policy: Option<ValueWithPath<String>>,
    /// Value of Kueue's annotation `podset-group-name`.
    pub(crate) pod_set_group: Option<ValueWithPath<String>>,
    /// Fields of the group, each with the path of the field that it comes from.
    pub(crate) origins: Vec<(&'static str, String)>,
}

impl GroupDraft {
    /// Returns the path of the field that a field of the group comes from.
    pub(crate) fn origin(&self, field: &str) -> Option<&str> {
        let mut origins = self.origins.iter();
        let (_, path) = origins.find(|(known, _)| *known == field)?;
        Some(path)
    }

    /// Removes the slices of the level that all pods of the group share: the level that the group
    /// or the job requires. Returns this level. None: no slices have it.
    pub(crate) fn drop_slices_within(&mut self, of_job: Option<&str>) -> Option<String> {
        let topology = self.group.topology.as_mut()?;
        let first = topology.slices.first()?.level.clone();
        let required = [topology.required.as_deref(), of_job];
        if !required.contains(&Some(first.as_str())) {
            return None;
        }
        topology.slices.remove(0);
        if topology.slices.is_empty() {
            topology.slice_policy = None;
        }
        if *topology == Closeness::default() {
            self.group.topology = None;
        }
        Some(first)
    }
}

/// Reads the template in a field. None: there is no template, which is a problem.
pub(crate) fn read_template(
    owner: &Fields<'_>,
    key: &str,
    hints: &PodHints<'_>,
) -> Option<GroupDraft> {
    let missing = |path: &str, what: &str| {
        let log = owner.log();
        log.add_problem(path, format!("is required: add {what}"));
    };
    let path = owner.field_path(key);
    let Some(template) = owner.object(key) else {
        missing(&path, "a pod template");
        return None;
    };
    let Some(spec) = template.object("spec") else {
        missing(&template.field_path("spec"), "the spec of the pods");
        return None;
    };
    let containers = spec.objects("containers");
    let Some(at) = find_main(&containers, hints.main) else {
        missing(&spec.field_path("containers"), "a container");
        return None;
    };
    let main = containers.get(at)?;
    let init = spec.objects("initContainers");
    let other_containers = containers.iter().enumerate().filter(|(c, _)| *c != at);
    let other_containers: Vec<Fields<'_>> = other_containers
        .map(|(_, container)| container.clone())
        .collect();
    let non_main_containers: Vec<Fields<'_>> =
        other_containers.iter().chain(&init).cloned().collect();

    let mut pods = GroupDraft {
        main: main.path().to_owned(),
        is_kai: spec.value().get("schedulerName") == Some(&json!(kai::SCHEDULER)),
        ..GroupDraft::default()
    };
    let mut output_spec = TracedValue::empty_map(spec.path());
    let amounts = resources::read_main_amounts(main, &hints.context.options);
    let memory = amounts.memory().cloned();
    let mut volumes = volumes::read_volumes(&spec, main, &non_main_containers, memory.as_ref());
    let kept_volumes = std::mem::take(&mut volumes.unchanged);
    let by_name = volumes::PodVolumes {
        shm_names: volumes.shm_names.clone(),
        ..volumes::PodVolumes::default()
    };
    let kept_main = container::read_main_container(main, amounts, volumes, hints, &mut pods.group);
    let traced_values = |containers: &[Fields<'_>], group: &TaskGroup| -> Vec<TracedValue> {
        let containers = containers.iter();
        containers
            .map(|c| container::read_other_container(c, &by_name, hints, group))
            .collect()
    };
    let mut kept_containers: Vec<TracedValue> = pod_template::main_container_template(kept_main)
        .into_iter()
        .collect();
    kept_containers.extend(traced_values(&other_containers, &pods.group));
    for (key, list) in [
        ("containers", kept_containers),
        ("initContainers", traced_values(&init, &pods.group)),
        ("volumes", kept_volumes),
    ] {
        if !list.is_empty() {
            output_spec.insert(key, TracedValue::list(&spec.field_path(key), list));
        }
    }
    read_metadata(&template, hints.context, &mut pods);
    placement::read_placement(&spec, &mut pods.group, &mut output_spec);
    read_spec(&spec, hints, &mut pods, &mut output_spec);
    let mut output = TracedValue::empty_map(template.path());
    output.insert("spec", output_spec);
    pods.group.pod_template = pod_template::build_template(output, hints.framework, owner.log());
    Some(pods)
}

/// Returns the index of the main container.
fn find_main(containers: &[Fields<'_>], main_name: &str) -> Option<usize> {
    let named = |name: &str| {
        let has_name = |c: &Fields<'_>| c.value().get("name").is_some_and(|n| n == name);
        containers.iter().position(has_name)
    };
    let first = (!containers.is_empty()).then_some(0);
    named(main_name).or_else(|| named(MAIN_CONTAINER)).or(first)
}

fn read_metadata(template: &Fields<'_>, context: &ImportContext, pods: &mut GroupDraft) {
    let Some(metadata) = template.object("metadata") else {
        return;
    };
    // Pods get their names from the job.
    metadata.ignore(&["name", "namespace", "generateName", "creationTimestamp"]);
    (pods.group.topology, pods.origins) = placement::read_topology(&metadata, context);
    pods.pod_set_group = placement::read_pod_set_group(&metadata);
    kai::read_pod(template, context, pods);
    pods.labels = metadata::read_pod_keys(&metadata, "labels");
    pods.annotations = metadata::read_pod_keys(&metadata, "annotations");
}

/// Reads a pod's spec: fields that belong to the job, fields without effect, and the rest.
fn read_spec(
    spec: &Fields<'_>,
    hints: &PodHints<'_>,
    pods: &mut GroupDraft,
    output: &mut TracedValue,
) {
    let value_of = |key: &str| {
        let value = spec.text(key)?;
        let path = spec.field_path(key);
        Some(ValueWithPath { value, path })
    };
    let account = value_of("serviceAccountName");
    // The deprecated alias of the field, which the API server also writes.
    let old = value_of("serviceAccount");
    if account
        .as_ref()
        .zip(old.as_ref())
        .is_some_and(|(account, old)| account.value != old.value)
    {
        spec.note_at(
            "serviceAccount",
            "is the old name of serviceAccountName, which has another value",
            "leave it out",
        );
    }
    pods.service_account = account.or(old);
    for scheduler in ["default-scheduler", "volcano", kai::SCHEDULER] {
        spec.ignore_if("schedulerName", &json!(scheduler));
    }
    let class = value_of("priorityClassName");
    if let Some(label) = &pods.priority_class
        && class
            .as_ref()
            .is_some_and(|class| class.value != label.value)
    {
        spec.note_at(
            "priorityClassName",
            "differs from the class in the label of the pods, which KAI uses for the job",
            "write the class that you want into spec.priorityClassName",
        );
    }
    pods.priority_class = pods.priority_class.take().or(class);
    pods.restart_policy = value_of("restartPolicy");
    spec.one_of("restartPolicy", &["Always", "OnFailure", "Never"]);
    if let Some(seconds) = spec.integer("terminationGracePeriodSeconds") {
        let path = spec.field_path("terminationGracePeriodSeconds");
        pods.grace = Some(ValueWithPath {
            value: seconds,
            path,
        });
    }
    for secret in spec.objects("imagePullSecrets") {
        if let Some(name) = secret.text("name") {
            pods.group.image_pull_secrets.push(LocalReference { name });
        }
    }
    spec.ignore_if("dnsPolicy", &json!("ClusterFirst"));
    spec.ignore_if("hostNetwork", &json!(false));
    spec.ignore_if("enableServiceLinks", &json!(true));
    let has_ports = !pods.group.ports.is_empty() || hints.framework != Framework::None;
    if has_ports && let Some(host) = spec.get("hostNetwork") {
        host.note(
            "would open every port of the pod on its node, and Trellis does not count ports of nodes",
            "RDMA does not need it: request its device in resources.limits",
        );
        spec.note_at("dnsPolicy", "applies only with hostNetwork", "leave it out");
    }
    read_security(spec, pods, output);
    const READ: [&str; 8] = [
        "affinity",
        "containers",
        "initContainers",
        "volumes",
        "imagePullSecrets",
        "nodeSelector",
        "tolerations",
        "securityContext",
    ];
    for key in spec.keys() {
        let Some(field) = spec.get(&key) else {
            continue;
        };
        if !READ.contains(&key.as_str()) && !spec.log().is_read(field.path()) {
            output.insert(&key, TracedValue::from_fields(&field));
        }
    }
}

/// Reads the security context. User and group apply to the whole job; the other fields have no
/// short form.
fn read_security(spec: &Fields<'_>, pods: &mut GroupDraft, output: &mut TracedValue) {
    let Some(context) = spec.object("securityContext") else {
        return;
    };
    let value_of = |key: &str| {
        let value = context.integer(key)?;
        let path = context.field_path(key);
        Some(ValueWithPath { value, path })
    };
    pods.run_as_user = value_of("runAsUser");
    pods.fs_group = value_of("fsGroup");
    let mut rest = TracedValue::empty_map(context.path());
    for key in context.keys() {
        if let Some(field) = context.get(&key).filter(|f| !f.log().is_read(f.path())) {
            rest.insert(&key, TracedValue::from_fields(&field));
        }
    }
    if !rest.is_empty() {
        output.insert("securityContext", rest);
    }
}
