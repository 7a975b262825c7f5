//! Rules on quantities: CPU, memory, devices, quota.

pub(super) mod number_ranges;

use std::collections::BTreeMap;

use super::names::syntax::{is_extended_resource, is_qualified_name};
use super::rule::Rule;
use crate::Quantity;
use crate::job::{ResourceRequirements, TaskGroup};
use crate::quantity::Amount;

/// CEL: an amount of at least 1Mi and at most 1Pi. A smaller amount indicates a missing unit.
macro_rules! bytes_of_pod {
    ($value:literal) => {
        concat!(
            "type(",
            $value,
            ") == int ? (",
            $value,
            " >= 1048576 && ",
            $value,
            " <= 1125899906842624) : (isQuantity(string(",
            $value,
            ")) && !quantity(string(",
            $value,
            ")).isLessThan(quantity('1Mi')) && !quantity(string(",
            $value,
            ")).isGreaterThan(quantity('1Pi')))"
        )
    };
}
/// Message of the rules on such amounts.
const POD_BYTES_MESSAGE: &str =
    "must be an amount of bytes of at least 1Mi and at most 1Pi, with its unit, such as 16Gi";

/// Memory or disk: at least 1Mi and at most 1Pi. A smaller amount indicates a missing unit.
pub const MEMORY: Rule = Rule::new(bytes_of_pod!("self"), POD_BYTES_MESSAGE);
/// CPU of a pod: above 0 and at most 100,000 cores.
pub const LIMIT_CPU: Rule = Rule::new(
    "!('cpu' in self) || (type(self['cpu']) == int ? (self['cpu'] > 0 && self['cpu'] <= 100000) : (isQuantity(string(self['cpu'])) && quantity(string(self['cpu'])).isGreaterThan(quantity('0')) && !quantity(string(self['cpu'])).isGreaterThan(quantity('100k'))))",
    "must be an amount of CPU above 0 and at most 100k cores, such as 96 or 500m",
)
.for_field(".cpu");
/// Memory of a pod, as [`MEMORY`].
pub const LIMIT_MEMORY: Rule = Rule::new(
    concat!(
        "!('memory' in self) || (",
        bytes_of_pod!("self['memory']"),
        ")"
    ),
    POD_BYTES_MESSAGE,
)
.for_field(".memory");
/// Local disk of a pod, as [`MEMORY`].
pub const LIMIT_DISK: Rule = Rule::new(
    concat!(
        "!('ephemeral-storage' in self) || (",
        bytes_of_pod!("self['ephemeral-storage']"),
        ")"
    ),
    POD_BYTES_MESSAGE,
)
.for_field("['ephemeral-storage']");
/// Devices other than the GPUs.
pub const LIMIT_DEVICES: Rule = Rule::new(
    "self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'] || (k.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$') && !k.split('/')[0].endsWith('kubernetes.io') && (type(self[k]) == int ? (self[k] >= 0 && self[k] <= 1024) : (isQuantity(string(self[k])) && quantity(string(self[k])).isInteger() && quantity(string(self[k])).asInteger() >= 0 && quantity(string(self[k])).asInteger() <= 1024))))",
    "every entry beside cpu, memory and ephemeral-storage must name a device resource with its vendor's domain, such as rdma/hca, and a whole number of 0 to 1024",
);
/// Requests equal limits.
pub const REQUESTS: Rule = Rule::new(
    "!has(self.requests) || self.requests.all(k, has(self.limits) && k in self.limits && (type(self.requests[k]) == int && type(self.limits[k]) == int ? self.requests[k] == self.limits[k] : (isQuantity(string(self.requests[k])) && isQuantity(string(self.limits[k])) && quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) == 0)))",
    "every request must also be in limits, with the same amount, since a pod requests what it is limited to: write it below limits, and leave requests out; GPUs stand in gpus of the task group",
)
.for_field(".requests");
/// Dynamic resource allocation is not supported.
pub const NO_CLAIMS: Rule = Rule::new(
    "size(self) == 0",
    "must be empty, since Trellis does not allocate dynamic resources yet: ask for devices by gpus, or by their name in limits",
);
/// CPU for each GPU. For 64 GPUs it is at most what [`LIMIT_CPU`] allows a pod.
pub const CPU_PER_GPU: Rule = Rule::new(
    "type(self) == int ? (self > 0 && self <= 1000) : (isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0')) && !quantity(string(self)).isGreaterThan(quantity('1k')))",
    "must be an amount of CPU for each GPU above 0 and at most 1000 cores, such as 12 or 1500m",
);
/// Memory for each GPU. For 64 GPUs it is at most what [`MEMORY`] allows a pod.
pub const MEMORY_PER_GPU: Rule = Rule::new(
    "type(self) == int ? (self >= 1048576 && self <= 17592186044416) : (isQuantity(string(self)) && !quantity(string(self)).isLessThan(quantity('1Mi')) && !quantity(string(self)).isGreaterThan(quantity('16Ti')))",
    "must be an amount of bytes for each GPU of at least 1Mi and at most 16Ti, with its unit, such as 128Gi",
);
/// A group without GPUs states its CPU, since per-GPU defaults do not apply.
pub const CPU_STATED: Rule = Rule::new(
    "(has(self.gpus) && self.gpus > 0) || (has(self.resources) && has(self.resources.limits) && 'cpu' in self.resources.limits)",
    "is required of a group without gpus: add it, such as 8 or 500m",
)
.for_field(".resources.limits.cpu");
/// A group without GPUs states its memory, since per-GPU defaults do not apply.
pub const MEMORY_STATED: Rule = Rule::new(
    "(has(self.gpus) && self.gpus > 0) || (has(self.resources) && has(self.resources.limits) && 'memory' in self.resources.limits)",
    "is required of a group without gpus: add it, such as 16Gi",
)
.for_field(".resources.limits.memory");
/// An amount of memory, or 0.
pub const QUANTITY_OR_ZERO: Rule = Rule::new(
    "type(self) == int ? (self >= 0 && self <= 1125899906842624) : (isQuantity(string(self)) && !quantity(string(self)).isLessThan(quantity('0')) && !quantity(string(self)).isGreaterThan(quantity('1Pi')))",
    "must be an amount of bytes of at most 1Pi, such as 16Gi, or 0 for none",
);
/// A device is requested in only one place.
pub const ONE_DEVICE_COUNT: Rule = Rule::new(
    "!has(self.resources) || !has(self.resources.limits) || (!((has(self.gpuResource) ? self.gpuResource : 'nvidia.com/gpu') in self.resources.limits) && !self.resources.limits.exists(r, r.matches('^(gpu[.]|[^/]*/(gpu|mig-|tpu|npu|neuron|gaudi|ascend|Ascend))')))",
    "must not limit a GPU, nor the resource that gpus counts: set gpus of the task group, and gpuResource where it is not nvidia.com/gpu",
)
.for_field(".resources");
/// Prefixes of resource names, after the domain, that count as GPUs in any limits.
const GPU_NAME_PREFIXES: [&str; 8] = [
    "gpu", "mig-", "tpu", "npu", "neuron", "gaudi", "ascend", "Ascend",
];
/// Names of the resources of a node.
pub const ALLOCATABLE: Rule = Rule::new(
    "self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$'))",
    "every key must name a resource, such as cpu, memory or nvidia.com/gpu",
);
/// Quota of a queue, or an amount of a resource of a node.
pub const NOMINAL: Rule = Rule::new(
    "type(self) == int ? self >= 0 : (isQuantity(string(self)) && !quantity(string(self)).isLessThan(quantity('0')))",
    "must be an amount of 0 or more, such as 64 or 2Ti",
);
/// Weights of queues.
pub const WEIGHT: Rule = Rule::new(
    "type(self) == int ? (self >= 0 && self <= 1000) : (isQuantity(string(self)) && !quantity(string(self)).isLessThan(quantity('0')) && !quantity(string(self)).isGreaterThan(quantity('1k')))",
    "must be a weight of 0 to 1000, such as 2 or \"0.5\": a queue that names none has 1",
);

const MAX_DEVICES: Amount = Amount::from_units(1024);
const MAX_CPU: Amount = Amount::from_units(100_000);
const MIN_BYTES: Amount = Amount::from_units(1_048_576);
const MAX_BYTES: Amount = Amount::from_units(1_125_899_906_842_624);
const MAX_CPU_PER_GPU: Amount = Amount::from_units(1_000);
const MAX_BYTES_PER_GPU: Amount = Amount::from_units(17_592_186_044_416);

fn is_within(quantity: &Quantity, above: Option<Amount>, most: Amount) -> bool {
    quantity
        .amount()
        .is_ok_and(|a| a <= most && above.map_or(a >= Amount::ZERO, |low| a > low))
}

/// Checks the rules of resources: field, key if the rule concerns one, result.
pub fn resource_requirements(
    of: &ResourceRequirements,
) -> [(&'static str, Option<&'static str>, garde::Result); 6] {
    let is_limit = |(name, request): (&String, &Quantity)| {
        let limit = of.limits.get(name).and_then(|limit| limit.amount().ok());
        limit.is_some_and(|limit| request.amount() == Ok(limit))
    };
    let is_device = |(name, count): (&String, &Quantity)| {
        is_extended_resource(name)
            && is_within(count, None, MAX_DEVICES)
            && count.amount().is_ok_and(Amount::is_whole)
    };
    [
        (
            "limits",
            Some("cpu"),
            of.cpu().map_or(Ok(()), |value| cpu(value, &())),
        ),
        (
            "limits",
            Some("memory"),
            check_optional_bytes(&LIMIT_MEMORY, of.memory()),
        ),
        (
            "limits",
            Some("ephemeral-storage"),
            check_optional_bytes(&LIMIT_DISK, of.ephemeral_storage()),
        ),
        (
            "limits",
            None,
            LIMIT_DEVICES.check(of.limits.len() <= 20 && of.devices().all(is_device)),
        ),
        (
            "requests",
            None,
            REQUESTS.check(of.requests.iter().all(is_limit)),
        ),
        ("claims", None, NO_CLAIMS.check(of.claims.is_empty())),
    ]
}

fn check_optional_bytes(rule: &Rule, value: Option<&Quantity>) -> garde::Result {
    value.map_or(Ok(()), |value| check_bytes(rule, value, MAX_BYTES))
}

/// [`LIMIT_CPU`].
pub fn cpu(value: &Quantity, _: &()) -> garde::Result {
    LIMIT_CPU.check(is_within(value, Some(Amount::ZERO), MAX_CPU))
}

/// [`CPU_PER_GPU`].
pub fn cpu_per_gpu(value: &Quantity, _: &()) -> garde::Result {
    CPU_PER_GPU.check(is_within(value, Some(Amount::ZERO), MAX_CPU_PER_GPU))
}

/// [`MEMORY`], with a suggestion.
pub fn memory(value: &Quantity, _: &()) -> garde::Result {
    check_bytes(&MEMORY, value, MAX_BYTES)
}

/// [`MEMORY_PER_GPU`], with a suggestion.
pub fn memory_per_gpu(value: &Quantity, _: &()) -> garde::Result {
    check_bytes(&MEMORY_PER_GPU, value, MAX_BYTES_PER_GPU)
}

fn check_bytes(rule: &Rule, value: &Quantity, most: Amount) -> garde::Result {
    let enough = value.amount().is_ok_and(|a| a >= MIN_BYTES);
    rule.check(enough && is_within(value, None, most))
        .map_err(|error| match suggest_quantity(value) {
            Some(meant) => garde::Error::new(format!("{error}: {meant}")),
            None => error,
        })
}

/// Suggests a correction of an invalid amount of bytes.
fn suggest_quantity(value: &Quantity) -> Option<String> {
    let text = value.as_str();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at_checked(end.unwrap_or(text.len()))?;
    number.parse::<f64>().ok()?;
    let (decimal, binary) = match unit.bytes().next().map(|b| b.to_ascii_uppercase()) {
        None => return Some(format!("did you mean {number}Gi?")),
        Some(b'K') => ("k", "Ki"),
        Some(b'M') => ("M", "Mi"),
        Some(b'G') => ("G", "Gi"),
        Some(b'T') => ("T", "Ti"),
        Some(_) => return None,
    };
    if unit == "m" {
        return Some(format!("did you mean {number}M or {number}Mi?"));
    }
    // The unit is valid, so the amount has another fault.
    if value.amount().is_ok() {
        return None;
    }
    Some(
        if unit
            .as_bytes()
            .get(1)
            .is_some_and(|b| b.eq_ignore_ascii_case(&b'i'))
        {
            format!("write {number}{binary}")
        } else {
            format!("write {number}{decimal} or {number}{binary}")
        },
    )
}

/// [`QUANTITY_OR_ZERO`].
pub fn quantity_or_zero(value: &Quantity, _: &()) -> garde::Result {
    QUANTITY_OR_ZERO.check(is_within(value, None, MAX_BYTES))
}

/// [`ALLOCATABLE`], and [`NOMINAL`] for each amount.
pub fn allocatable(resources: &BTreeMap<String, Quantity>, context: &()) -> garde::Result {
    ALLOCATABLE.check(resources.keys().all(|name| is_qualified_name(name)))?;
    let mut amounts = resources.values();
    amounts.try_for_each(|amount| nominal(amount, context))
}

/// Returns the schema of an amount of a resource of a node. The API server of Kubernetes 1.33
/// estimates too high a cost for one rule about all amounts of a map.
pub fn node_amount_schema() -> serde_json::Value {
    serde_json::json!({
        "maxLength": crate::quantity::MAX_LEN,
        "x-kubernetes-int-or-string": true,
        "x-kubernetes-validations": [{"rule": NOMINAL.cel(), "message": NOMINAL.message()}],
    })
}

/// [`NOMINAL`]. Amounts beyond an i64 are refused as well, since quotas are added up.
pub fn nominal(value: &Quantity, _: &()) -> garde::Result {
    NOMINAL.check(
        value
            .amount()
            .is_ok_and(|a| a >= Amount::ZERO && a.ceil_units().is_some()),
    )
}

/// [`WEIGHT`].
pub fn weight(value: &Quantity, _: &()) -> garde::Result {
    let most = Amount::from_units(1000);
    WEIGHT.check(value.amount().is_ok_and(|a| a >= Amount::ZERO && a <= most))
}

/// [`CPU_STATED`].
pub fn cpu_stated(group: &TaskGroup) -> garde::Result {
    CPU_STATED.check(group.gpus() > 0 || group.resources.cpu().is_some())
}

/// [`MEMORY_STATED`].
pub fn memory_stated(group: &TaskGroup) -> garde::Result {
    MEMORY_STATED.check(group.gpus() > 0 || group.resources.memory().is_some())
}

/// [`ONE_DEVICE_COUNT`].
pub fn one_device_count(
    group: &TaskGroup,
) -> impl FnOnce(&ResourceRequirements, &()) -> garde::Result {
    let device = group.gpu_resource().to_owned();
    move |resources, ()| {
        let mut names = resources.limits.keys();
        ONE_DEVICE_COUNT.check(!names.any(|name| *name == device || is_gpu(name)))
    }
}

/// True for a resource whose name counts as GPUs, in any domain, such as `nvidia.com/gpu` or
/// `example.com/mig-1g`.
#[must_use]
pub fn is_gpu(resource: &str) -> bool {
    let (domain, name) = resource.split_once('/').unwrap_or_default();
    domain.starts_with("gpu.")
        || GPU_NAME_PREFIXES
            .iter()
            .any(|start| name.starts_with(start))
}
