//! Renders the compiled objects as manifests for kubectl.

use serde::Serialize;
use serde_json::{Value, json};
use trellis_api::document;
use trellis_compiler::{CompiledJob, PodPlacement, hash_of};
use trellis_gang::requirements::flavors;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_plan::PlannedJob;
use trellis_scheduler::Placement;

use super::PlanFormat;

/// Renders every object of every job, in the order of creation.
/// The Secret of an MPI job is left out, because each run generates a new key.
pub(super) fn render_manifests(
    planned: &[PlannedJob],
    format: PlanFormat,
) -> anyhow::Result<String> {
    let mut objects = Vec::new();
    for job in planned {
        if let Some(compiled) = &job.compiled {
            collect_objects(compiled, job, &mut objects)?;
        }
    }
    match format {
        PlanFormat::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
            Ok(format!("{}\n", serde_json::to_string_pretty(&list)?))
        }
        PlanFormat::Yaml => {
            let mut out = String::new();
            for object in &objects {
                out.push_str("---\n");
                out.push_str(&document::to_yaml(object)?);
            }
            Ok(out)
        }
    }
}

fn collect_objects(
    compiled: &CompiledJob,
    job: &PlannedJob,
    out: &mut Vec<Value>,
) -> anyhow::Result<()> {
    let mut add = |object: Value| out.push(with_owner(object, compiled));
    for service in compiled.services() {
        add(to_sorted_value(&service)?);
    }
    add(to_sorted_value(&compiled.network_policy())?);
    for config_map in compiled.config_maps() {
        add(to_sorted_value(&config_map)?);
    }
    for secret in compiled.external_secrets() {
        add(to_sorted_value(&secret)?);
    }
    add(to_sorted_value(&compiled.pod_group())?);
    let Ok(GangPlacement {
        placement, groups, ..
    }) = &job.place
    else {
        return Ok(());
    };
    let plan = plan_hash(compiled, job.attempt, placement);
    for (group, index, node) in placement.iter() {
        let compiled = compiled
            .groups()
            .iter()
            .find(|g| g.name() == group.as_str());
        if let Some(compiled) = compiled {
            let placement = PodPlacement {
                attempt: job.attempt,
                plan: &plan,
                node: node.as_str(),
                tolerations: flavors::group_tolerations(groups, group.as_str()),
                ..PodPlacement::UNPLACED
            };
            add(to_sorted_value(&compiled.pod(index, &placement))?);
        }
    }
    Ok(())
}

/// Sorts the fields by name, as kubectl prints them.
/// A dependency makes serde_json keep the order of the types.
fn to_sorted_value(object: &impl Serialize) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(object)?;
    value.sort_all_objects();
    Ok(value)
}

/// Returns a hash for the pods of this plan.
/// The operator's hash also contains the time.
fn plan_hash(compiled: &CompiledJob, attempt: i64, placement: &Placement) -> String {
    let nodes: Vec<_> = placement.iter().map(|(_, _, node)| node.as_str()).collect();
    hash_of(&json!([
        compiled.job().uid(),
        attempt,
        compiled.hash(),
        nodes
    ]))
}

/// Removes the owner of a job that is not in the cluster.
/// Such a job has no uid yet, and the API server rejects an owner without a uid.
fn with_owner(mut object: Value, compiled: &CompiledJob) -> Value {
    if compiled.job().uid().is_empty()
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.remove("ownerReferences");
    }
    object
}
