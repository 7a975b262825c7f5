//! Converts a pod template of Kubernetes into a task group. Fields with a short form go there,
//! fields that Trellis accepts in a pod template go into `podTemplate`, and the rest is noted.

mod container;
pub(crate) mod env;
pub(crate) mod kept;
pub(crate) mod placement;
pub(crate) mod resources;
pub(crate) mod template;
pub(crate) mod volumes;
pub(crate) mod words;

use std::collections::BTreeMap;

use serde_json::json;
use trellis_api::job::{EnvVar, Framework, LocalReference, TaskGroup};
use trellis_api::pod_template::MAIN_CONTAINER;

use crate::Options;
use crate::fields::Fields;
use crate::metadata;
use kept::Kept;
use words::Provided;

/// Name of the volume behind /dev/shm (api/src/pod_template/allowed.rs).
const SHARED_MEMORY: &str = "shared-memory";

/// Support that a pod gets from the system that it was written for.
#[derive(Clone)]
pub(crate) struct Hints<'h> {
    pub(crate) options: &'h Options,
    pub(crate) framework: Framework,
    /// Name of the container that the system treats as the main one. If none has it, the first is.
    pub(crate) main: &'h str,
    /// Names of ports that the system looks for.
    pub(crate) own_ports: &'h [&'h str],
    /// Variables with the pod's index, which the system sets in every container.
    pub(crate) index: &'h [&'h str],
    /// Variables that are set if a command reads them.
    pub(crate) provided: Provided,
}

impl Hints<'_> {
    fn variables(&self) -> impl Iterator<Item = EnvVar> + '_ {
        let index = self.index.iter();
        index.map(|name| env::variable(name, "$(TRELLIS_INDEX)"))
    }
}

/// A pod's value that belongs to the whole job in Trellis, with its path.
#[derive(Clone, Debug)]
pub(crate) struct Said<T> {
    pub(crate) value: T,
    pub(crate) path: String,
}

/// Result of reading a pod template.
#[derive(Default)]
pub(crate) struct Pods {
    /// Path of the main container.
    pub(crate) main: String,
    /// The group, without name and replicas.
    pub(crate) group: TaskGroup,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) service_account: Option<Said<String>>,
    pub(crate) priority_class: Option<Said<String>>,
    pub(crate) run_as_user: Option<Said<i64>>,
    pub(crate) fs_group: Option<Said<i64>>,
    pub(crate) grace: Option<Said<i64>>,
    pub(crate) restart_policy: Option<Said<String>>,
}

/// Reads the template in a field. None: there is no template, which is a problem.
pub(crate) fn read(owner: &Fields<'_>, key: &str, hints: &Hints<'_>) -> Option<Pods> {
    let missing = |path: &str, what: &str| {
        let log = owner.log();
        log.wrong(path, format!("is required: add {what}"));
    };
    let path = owner.inside(key);
    let Some(template) = owner.object(key) else {
        missing(&path, "a pod template");
        return None;
    };
    let Some(spec) = template.object("spec") else {
        missing(&template.inside("spec"), "the spec of the pods");
        return None;
    };
    let containers = spec.objects("containers");
    let Some(at) = main_of(&containers, hints.main) else {
        missing(&spec.inside("containers"), "a container");
        return None;
    };
    let main = containers.get(at)?;
    let init = spec.objects("initContainers");
    let others = containers.iter().enumerate().filter(|(c, _)| *c != at);
    let others: Vec<Fields<'_>> = others.map(|(_, container)| container.clone()).collect();
    let beside: Vec<Fields<'_>> = others.iter().chain(&init).cloned().collect();

    let mut pods = Pods {
        main: main.path().to_owned(),
        ..Pods::default()
    };
    let mut kept_spec = Kept::map(spec.path());
    let amounts = resources::of_main(main, hints.options);
    let memory = amounts.memory().cloned();
    let mut volumes = volumes::read(&spec, main, &beside, memory.as_ref());
    let kept_volumes = std::mem::take(&mut volumes.kept);
    let by_name = volumes::Volumes {
        shm: volumes.shm.clone(),
        ..volumes::Volumes::default()
    };
    let kept_main = container::main(main, amounts, volumes, hints, &mut pods.group);
    let of = |containers: &[Fields<'_>], group: &TaskGroup| -> Vec<Kept> {
        let containers = containers.iter();
        containers
            .map(|c| container::beside(c, &by_name, hints, group))
            .collect()
    };
    let mut kept_containers: Vec<Kept> = template::main_container(kept_main).into_iter().collect();
    kept_containers.extend(of(&others, &pods.group));
    for (key, list) in [
        ("containers", kept_containers),
        ("initContainers", of(&init, &pods.group)),
        ("volumes", kept_volumes),
    ] {
        if !list.is_empty() {
            kept_spec.put(key, Kept::list(&spec.inside(key), list));
        }
    }
    of_metadata(&template, &mut pods);
    placement::read(&spec, &mut pods.group, &mut kept_spec);
    of_spec(&spec, hints, &mut pods, &mut kept_spec);
    let mut kept = Kept::map(template.path());
    kept.put("spec", kept_spec);
    pods.group.pod_template = template::checked(kept, hints.framework, owner.log());
    Some(pods)
}

/// Which of the containers is the one that counts.
fn main_of(containers: &[Fields<'_>], wanted: &str) -> Option<usize> {
    let named = |name: &str| {
        let is_it = |c: &Fields<'_>| c.value().get("name").is_some_and(|n| n == name);
        containers.iter().position(is_it)
    };
    let first = (!containers.is_empty()).then_some(0);
    named(wanted).or_else(|| named(MAIN_CONTAINER)).or(first)
}

fn of_metadata(template: &Fields<'_>, pods: &mut Pods) {
    let Some(metadata) = template.object("metadata") else {
        return;
    };
    // Pods are named by their job.
    metadata.quiet(&["name", "namespace", "generateName", "creationTimestamp"]);
    pods.group.topology = placement::topology(&metadata);
    pods.labels = metadata::of_pods(&metadata, "labels");
    pods.annotations = metadata::of_pods(&metadata, "annotations");
}

/// Reads a pod's spec: fields that belong to the job, fields without effect, and the rest.
fn of_spec(spec: &Fields<'_>, hints: &Hints<'_>, pods: &mut Pods, kept: &mut Kept) {
    let said = |key: &str| {
        let value = spec.text(key)?;
        let path = spec.inside(key);
        Some(Said { value, path })
    };
    let account = said("serviceAccountName");
    // The deprecated alias of the field, which the API server writes too.
    let old = said("serviceAccount");
    if account
        .as_ref()
        .zip(old.as_ref())
        .is_some_and(|(account, old)| account.value != old.value)
    {
        spec.note_at(
            "serviceAccount",
            "is the old name of serviceAccountName, which says something else",
            "leave it out",
        );
    }
    pods.service_account = account.or(old);
    for scheduler in ["default-scheduler", "volcano"] {
        spec.quiet_if("schedulerName", &json!(scheduler));
    }
    pods.priority_class = said("priorityClassName");
    pods.restart_policy = said("restartPolicy");
    spec.one_of("restartPolicy", &["Always", "OnFailure", "Never"]);
    if let Some(seconds) = spec.integer("terminationGracePeriodSeconds") {
        let path = spec.inside("terminationGracePeriodSeconds");
        pods.grace = Some(Said {
            value: seconds,
            path,
        });
    }
    for secret in spec.objects("imagePullSecrets") {
        if let Some(name) = secret.text("name") {
            pods.group.image_pull_secrets.push(LocalReference { name });
        }
    }
    spec.quiet_if("dnsPolicy", &json!("ClusterFirst"));
    spec.quiet_if("hostNetwork", &json!(false));
    spec.quiet_if("enableServiceLinks", &json!(true));
    let has_ports = !pods.group.ports.is_empty() || hints.framework != Framework::None;
    if has_ports && let Some(host) = spec.at("hostNetwork") {
        host.note(
            "would make every port of the pod one of its node, which is not counted here",
            "RDMA needs none: ask for its device in resources.limits",
        );
        spec.note_at("dnsPolicy", "goes with hostNetwork", "leave it out");
    }
    of_security(spec, pods, kept);
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
        let Some(field) = spec.at(&key) else { continue };
        if !READ.contains(&key.as_str()) && !spec.log().is_taken(field.path()) {
            kept.put(&key, Kept::of(&field));
        }
    }
}

/// User and group are the whole job's; all else of a security context has no short form.
fn of_security(spec: &Fields<'_>, pods: &mut Pods, kept: &mut Kept) {
    let Some(context) = spec.object("securityContext") else {
        return;
    };
    let said = |key: &str| {
        let value = context.integer(key)?;
        let path = context.inside(key);
        Some(Said { value, path })
    };
    pods.run_as_user = said("runAsUser");
    pods.fs_group = said("fsGroup");
    let mut rest = Kept::map(context.path());
    for key in context.keys() {
        if let Some(field) = context.at(&key).filter(|f| !f.log().is_taken(f.path())) {
            rest.put(&key, Kept::of(&field));
        }
    }
    if !rest.is_empty() {
        kept.put("securityContext", rest);
    }
}
