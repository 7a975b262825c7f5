//! Resources of a container. In Trellis requests and limits are equal.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use trellis_api::job::TaskGroup;
use trellis_api::quantity::Amount;
use trellis_api::{Quantity, rules};

use crate::ConversionOptions;
use crate::fields::Fields;

/// Resource that `gpus` counts if `gpuResource` is unset.
const DEFAULT_GPU: &str = "nvidia.com/gpu";

/// Suffixes of resource names for parts of a GPU (HAMi, Volcano's device sharing).
const GPU_PART_SUFFIXES: [&str; 9] = [
    "/gpumem",
    "/gpumem-percentage",
    "/gpucores",
    "/vgpu-number",
    "/vgpu-memory",
    "/vgpu-memory-percentage",
    "/vgpu-cores",
    "/gpu-memory",
    "/gpu-number",
];

/// The resource requests of one container.
pub(crate) struct ContainerAmounts {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
    disk: Option<Quantity>,
    devices: BTreeMap<String, (Quantity, String)>,
}

/// How to handle a container without CPU or memory if no option sets them.
#[derive(Clone, Copy)]
enum MissingAmounts {
    /// `resourcesPerGPU` of its RuntimeProfile or queue applies.
    FromProfile,
    /// The document cannot be imported.
    Problem,
}

/// Reads the amounts of the main container. If it has GPUs, CPU and memory may come from
/// `resourcesPerGPU`.
pub(crate) fn read_main_amounts(
    container: &Fields<'_>,
    options: &ConversionOptions,
) -> ContainerAmounts {
    let amounts = read_amounts(container);
    let unnamed = match amounts.has_gpus() {
        true => MissingAmounts::FromProfile,
        false => MissingAmounts::Problem,
    };
    amounts.fill_from_options(options, container, unnamed)
}

/// Reads the limits of a container other than the main container. None: an amount is missing, which
/// is a problem.
pub(crate) fn read_limits(container: &Fields<'_>, options: &ConversionOptions) -> Option<Value> {
    let amounts =
        read_amounts(container).fill_from_options(options, container, MissingAmounts::Problem);
    amounts.into_limits(container)
}

fn read_amounts(container: &Fields<'_>) -> ContainerAmounts {
    let resources = container.object("resources");
    let quantities = |field: &str| -> BTreeMap<String, Fields<'_>> {
        let resources = resources.as_ref();
        let entries = resources.map(|resources| resources.entries(field));
        entries.into_iter().flatten().collect()
    };
    let (limits, requests) = (quantities("limits"), quantities("requests"));
    let names: BTreeSet<&String> = limits.keys().chain(requests.keys()).collect();
    let mut found: BTreeMap<String, (Quantity, String)> = BTreeMap::new();
    for name in names {
        let (limit, request) = (limits.get(name), requests.get(name));
        if let Some(amount) = read_amount(name, limit, request) {
            let path = limit.or(request).map(|at| at.path().to_owned());
            found.insert(name.clone(), (amount, path.unwrap_or_default()));
        }
    }
    let mut take = |name: &str| found.remove(name).map(|(amount, _)| amount);
    let (cpu, memory, disk) = (take("cpu"), take("memory"), take("ephemeral-storage"));
    ContainerAmounts {
        cpu,
        memory,
        disk,
        devices: found,
    }
}

fn read_amount(
    name: &str,
    limit: Option<&Fields<'_>>,
    request: Option<&Fields<'_>>,
) -> Option<Quantity> {
    let unknown = !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !name.contains('/');
    let part = GPU_PART_SUFFIXES.iter().any(|end| name.ends_with(end));
    if unknown || part {
        for field in [limit, request].into_iter().flatten() {
            if part {
                field.note(
                    "is a part of a GPU, and in Trellis pods have whole GPUs",
                    "request nvidia.com/gpu or a MIG profile in gpus and gpuResource",
                );
            } else {
                field.note(
                    "is not a resource that a task group can request",
                    "name a device with its vendor's domain in resources.limits",
                );
            }
        }
        return None;
    }
    let requested = request.map(|request| (request, request.as_quantity()));
    let maximum = limit.and_then(Fields::as_quantity);
    match (maximum, requested) {
        (Some(maximum), Some((request, Some(requested)))) => {
            if requested.amount().ok() != maximum.amount().ok() {
                request.note(
                    "is less than its limit, and in Trellis requests equal limits",
                    format!("{maximum} counts against quota and nodes: lower it in resources if that is too much"),
                );
            }
            Some(maximum)
        }
        (None, Some((request, Some(requested)))) => {
            // For devices, Kubernetes requires equal requests and limits.
            if !name.contains('/') {
                request.note(
                    "is also the limit, because in Trellis requests equal limits",
                    "raise it in resources if the container uses more at times",
                );
            }
            Some(requested)
        }
        (maximum, _) => maximum,
    }
}

fn fill_from_option(
    amount: Option<Quantity>,
    name: &str,
    option: Option<&Quantity>,
    container: &Fields<'_>,
    unnamed: MissingAmounts,
) -> Option<Quantity> {
    let path = container.field_path("resources");
    let log = container.log();
    match (amount, option, unnamed) {
        (Some(amount), ..) => Some(amount),
        (None, Some(option), _) => {
            log.mark_opened(&path);
            let reason = format!("names no {name}, and in Trellis every container needs it");
            let advice = format!("{option} is used, from --{name}: write the amount that it needs");
            log.note(&format!("{path}.limits.{name}"), None, reason, advice);
            Some(option.clone())
        }
        (None, None, MissingAmounts::FromProfile) => {
            log.mark_opened(&path);
            let reason = format!(
                "names no {name}: the job waits until resourcesPerGPU of its RuntimeProfile or queue sets it"
            );
            let instead = format!(
                "set resourcesPerGPU.{name} there, write the amount that it needs, or set the amount with --{name}"
            );
            log.note(&format!("{path}.limits.{name}"), None, reason, instead);
            None
        }
        (None, None, MissingAmounts::Problem) => {
            let message = format!(
                "is required, because policies, placement and quota use it: add it, or set the amount for all containers without it with --{name}"
            );
            log.add_problem(&format!("{path}.limits.{name}"), message);
            None
        }
    }
}

impl ContainerAmounts {
    /// Returns the memory in bytes. None: the container requests none.
    pub(crate) fn memory(&self) -> Option<&Quantity> {
        self.memory.as_ref()
    }

    fn has_gpus(&self) -> bool {
        let mut devices = self.devices.iter();
        devices.any(|(name, (amount, _))| {
            rules::is_gpu(name) && amount.amount().is_ok_and(|a| a > Amount::ZERO)
        })
    }

    /// Sets missing amounts from the options.
    fn fill_from_options(
        self,
        options: &ConversionOptions,
        container: &Fields<'_>,
        unnamed: MissingAmounts,
    ) -> Self {
        let (cpu, memory) = (options.cpu.as_ref(), options.memory.as_ref());
        Self {
            cpu: fill_from_option(self.cpu, "cpu", cpu, container, unnamed),
            memory: fill_from_option(self.memory, "memory", memory, container, unnamed),
            ..self
        }
    }

    /// Writes the amounts into a task group.
    pub(crate) fn add_to_group(self, group: &mut TaskGroup, container: &Fields<'_>) {
        let log = container.log();
        let mut devices = BTreeMap::new();
        for (name, (amount, path)) in self.devices {
            let is_nothing = amount.amount().is_ok_and(|a| a.ceil_units() == Some(0));
            if is_nothing {
                continue;
            }
            if !rules::is_gpu(&name) {
                devices.insert(name, amount);
                continue;
            }
            if group.gpus.is_some() {
                let value = Value::String(amount.to_string());
                let reason = "is a second kind of GPU, and a task group can have one";
                log.note(
                    &path,
                    Some(&value),
                    reason,
                    "give each kind a task group of its own",
                );
                continue;
            }
            let count = amount.amount().ok().filter(|amount| amount.is_whole());
            match count.and_then(|amount| amount.ceil_units()) {
                Some(count) => group.gpus = Some(count),
                None => log.add_problem(&path, "must be a whole number of devices: write one"),
            }
            if name != DEFAULT_GPU {
                group.gpu_resource = Some(name);
            }
        }
        let own = [
            ("cpu", self.cpu),
            ("memory", self.memory),
            ("ephemeral-storage", self.disk),
        ];
        let own = own
            .into_iter()
            .filter_map(|(name, amount)| Some((name.to_owned(), amount?)));
        group.resources.limits = own.chain(devices).collect();
    }

    /// Returns the amounts as limits of a container other than the main container.
    fn into_limits(self, container: &Fields<'_>) -> Option<Value> {
        let mut limits = Map::new();
        limits.insert("cpu".to_owned(), json!(self.cpu?));
        limits.insert("memory".to_owned(), json!(self.memory?));
        if let Some(disk) = self.disk {
            limits.insert("ephemeral-storage".to_owned(), json!(disk));
        }
        for (amount, path) in self.devices.into_values() {
            let value = Value::String(amount.to_string());
            container.log().note(
                &path,
                Some(&value),
                "is a device of a container other than the main one, and in Trellis only the main one has devices",
                "give it to the main container in gpus or resources.limits",
            );
        }
        Some(json!({ "limits": limits }))
    }
}
