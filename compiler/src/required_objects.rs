//! The objects that pods cannot start without: a kubelet that does not find one keeps the pod,
//! and its devices, for as long as it takes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use crate::objects::external_secrets;
use crate::{CompiledJob, Demand, PodPlacement, framework};

/// An object of the job's namespace that its pods cannot start without, and that is not made
/// with the job. Claims are not listed here: where their volumes are is another question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequiredObject {
    /// A ConfigMap that is not made with the job.
    ConfigMap(String),
    /// A Secret that the job does not make itself.
    Secret(String),
    /// A ServiceAccount.
    ServiceAccount(String),
}

impl RequiredObject {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ConfigMap(_) => "ConfigMap",
            Self::Secret(_) => "Secret",
            Self::ServiceAccount(_) => "ServiceAccount",
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::ConfigMap(name) | Self::Secret(name) | Self::ServiceAccount(name) => name,
        }
    }
}

/// Required objects, each with the first field that names it.
type RequiredObjects = BTreeMap<RequiredObject, String>;

/// All objects that a job needs. Pods start without optional objects, and the kubelet tries to pull
/// images without missing pull Secrets.
pub(crate) fn collect_required_objects(job: &CompiledJob) -> RequiredObjects {
    let mut needs = RequiredObjects::new();
    for (at, secret) in job.job().spec().secrets.iter().enumerate() {
        if secret.store.is_none() {
            needs.insert(
                RequiredObject::Secret(secret.name.clone()),
                format!("spec.secrets[{at}]"),
            );
        }
    }
    for group in job.groups() {
        let mut of_group = RequiredObjects::new();
        let pod = group.pod(0, &PodPlacement::UNPLACED);
        pod.spec
            .iter()
            .for_each(|spec| add_pod(spec, &mut of_group));
        for (need, field) in of_group {
            let place = || format!("task group {:?}, {field} of its pods", group.name());
            needs.entry(need).or_insert_with(place);
        }
    }
    let made: BTreeSet<String> = external_secrets::target_secret_names(job.job())
        .into_values()
        .collect();
    needs.retain(|need, _| {
        !matches!(need, RequiredObject::Secret(name) if made.contains(name))
            && !is_created_with_job(need, job)
    });
    needs
}

/// True of the hostfile and the key of the job's framework, which are created with the job.
fn is_created_with_job(need: &RequiredObject, job: &CompiledJob) -> bool {
    let demand = match need {
        RequiredObject::ConfigMap(name) => Demand::UseConfigMap(name.clone()),
        RequiredObject::Secret(name) => Demand::UseSecret(name.clone()),
        RequiredObject::ServiceAccount(_) => return false,
    };
    framework::is_own_object(job.job(), &demand)
}

fn add_pod(spec: &PodSpec, needs: &mut RequiredObjects) {
    if let Some(account) = &spec.service_account_name {
        let field = "spec.serviceAccountName".to_owned();
        needs.insert(RequiredObject::ServiceAccount(account.clone()), field);
    }
    for (at, volume) in spec.volumes.iter().flatten().enumerate() {
        add_volume(volume, &format!("spec.volumes[{at}]"), needs);
    }
    for (at, container) in spec.containers.iter().enumerate() {
        add_container(container, &format!("spec.containers[{at}]"), needs);
    }
    let inits = spec.init_containers.iter().flatten();
    for (at, container) in inits.enumerate() {
        add_container(container, &format!("spec.initContainers[{at}]"), needs);
    }
}

/// Unless the pod starts without it.
fn add_required(
    need: RequiredObject,
    optional: Option<bool>,
    field: String,
    needs: &mut RequiredObjects,
) {
    if optional != Some(true) {
        needs.entry(need).or_insert(field);
    }
}

fn add_volume(volume: &Volume, path: &str, needs: &mut RequiredObjects) {
    if let Some(map) = &volume.config_map {
        let name = RequiredObject::ConfigMap(map.name.clone());
        add_required(name, map.optional, format!("{path}.configMap"), needs);
    }
    if let Some(secret) = &volume.secret {
        let name = RequiredObject::Secret(secret.secret_name.clone().unwrap_or_default());
        add_required(name, secret.optional, format!("{path}.secret"), needs);
    }
    let sources = volume.projected.iter().flat_map(|p| &p.sources).flatten();
    for (at, source) in sources.enumerate() {
        let path = format!("{path}.projected.sources[{at}]");
        if let Some(map) = &source.config_map {
            let name = RequiredObject::ConfigMap(map.name.clone());
            add_required(name, map.optional, format!("{path}.configMap"), needs);
        }
        if let Some(secret) = &source.secret {
            let name = RequiredObject::Secret(secret.name.clone());
            add_required(name, secret.optional, format!("{path}.secret"), needs);
        }
    }
}

fn add_container(container: &Container, path: &str, needs: &mut RequiredObjects) {
    for (at, from) in container.env_from.iter().flatten().enumerate() {
        let path = format!("{path}.envFrom[{at}]");
        if let Some(map) = &from.config_map_ref {
            let name = RequiredObject::ConfigMap(map.name.clone());
            add_required(name, map.optional, path.clone(), needs);
        }
        if let Some(secret) = &from.secret_ref {
            let name = RequiredObject::Secret(secret.name.clone());
            add_required(name, secret.optional, path, needs);
        }
    }
    for variable in container.env.iter().flatten() {
        let path = format!("{path}.env {:?}", variable.name);
        let source = variable.value_from.as_ref();
        if let Some(map) = source.and_then(|s| s.config_map_key_ref.as_ref()) {
            let name = RequiredObject::ConfigMap(map.name.clone());
            add_required(name, map.optional, path.clone(), needs);
        }
        if let Some(secret) = source.and_then(|s| s.secret_key_ref.as_ref()) {
            let name = RequiredObject::Secret(secret.name.clone());
            add_required(name, secret.optional, path, needs);
        }
    }
}
