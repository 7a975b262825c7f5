//! Writes the status of ResourceFlavors: the result of the check of their autoscaler's settings.

mod autoscaler_reads;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::json;
use tracing::{debug, warn};
use trellis_api::resource_flavor::AUTOSCALER_SUITABLE;
use trellis_api::{Reason, ResourceFlavor, ResourceFlavorStatus, names};
use trellis_cache::Cache;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_dispatch::context::Context;
use trellis_gang::autoscaler_check::{
    AutoscalerVerdict, Autoscalers, TaintsOfNewNodes, check_flavor,
};
use trellis_gang::conditions::ConditionUpdate;
use trellis_gang::key::Key;
use trellis_gang::patch;
use trellis_machine::clock;

use autoscaler_reads::read_autoscalers;

/// Time between two rounds, shorter than a new node keeps its startup taints.
const UPDATE_INTERVAL: Duration = Duration::from_secs(10);
/// Message of the condition if the operator orders no nodes.
const NO_ORDERS: &str =
    "the operator orders no nodes: install the chart with provisioning.enabled: true";
/// Longest message of a condition.
const MAX_MESSAGE_LENGTH: usize = 8_000;

/// Writes the status of flavors until the process ends. Reads the settings of autoscalers only if
/// the operator may order nodes of a flavor.
pub async fn maintain_flavor_status(context: Arc<Context>, commands: Commands) {
    let cache = &context.cache;
    cache.wait_synced().await;
    let mut new_nodes: BTreeMap<String, TaintsOfNewNodes> = BTreeMap::new();
    loop {
        let flavors = cache.flavors.all();
        new_nodes.retain(|name, _| flavors.iter().any(|flavor| flavor.name_any() == *name));
        let is_due = |flavor: &&Arc<ResourceFlavor>| {
            flavor.spec.provisioning.is_some() || flavor.status.is_some()
        };
        let due: Vec<_> = flavors.iter().filter(is_due).collect();
        let orders_nodes = context.node_orders.namespace().is_some();
        let autoscalers = match due.is_empty() || !orders_nodes {
            true => Ok(Autoscalers::default()),
            false => read_autoscalers(&commands, &due).await,
        };
        match autoscalers {
            Ok(autoscalers) => {
                let now = clock::now();
                let nodes = cache.nodes.all();
                for flavor in due {
                    let taints = new_nodes.entry(flavor.name_any()).or_default();
                    taints.observe(&flavor.spec, nodes.iter().map(AsRef::as_ref), now);
                    let verdict = check_flavor(&flavor.spec, &autoscalers, taints);
                    let verdict = match orders_nodes {
                        true => verdict,
                        false => verdict.map(|_| AutoscalerVerdict::Unknown(NO_ORDERS)),
                    };
                    write_verdict(cache, &commands, flavor, verdict.as_ref(), now).await;
                }
            }
            Err(error) => warn!(%error, "the settings of autoscalers were not read"),
        }
        tokio::time::sleep(UPDATE_INTERVAL).await;
    }
}

async fn write_verdict(
    cache: &Cache,
    commands: &Commands,
    flavor: &ResourceFlavor,
    verdict: Option<&AutoscalerVerdict>,
    now: Timestamp,
) {
    let name = flavor.name_any();
    match write_status(cache, commands, flavor, verdict, now).await {
        // The watch shows the newer version before the next round.
        Ok(()) | Err(WriteError::Conflict(_) | WriteError::NotFound(_)) => {}
        Err(WriteError::Transient(error) | WriteError::Unanswered(error)) => {
            debug!(flavor = name, %error, "the status of a flavor was not written");
        }
        Err(error) => warn!(flavor = name, %error, "the status of a flavor was not written"),
    }
}

async fn write_status(
    cache: &Cache,
    commands: &Commands,
    flavor: &ResourceFlavor,
    verdict: Option<&AutoscalerVerdict>,
    now: Timestamp,
) -> Result<(), WriteError> {
    let before = flavor.status.clone().unwrap_or_default();
    let after = build_status(verdict, &before, flavor.metadata.generation, now);
    if before == after {
        return Ok(());
    }
    let name = flavor.name_any();
    let patch = json!({
        "metadata": {"uid": flavor.metadata.uid, "resourceVersion": flavor.metadata.resource_version},
        "status": patch::diff(&before, &after),
    });
    let written: ResourceFlavor = commands
        .patch_cluster_status(&name, names::STATUS_MANAGER, &patch)
        .await?;
    cache.flavors.update_returned(Key::new("", &name), written);
    Ok(())
}

/// Returns the status of a flavor. A flavor without new nodes has no condition.
fn build_status(
    verdict: Option<&AutoscalerVerdict>,
    before: &ResourceFlavorStatus,
    generation: Option<i64>,
    now: Timestamp,
) -> ResourceFlavorStatus {
    let (holds, reason, message) = match verdict {
        None => return ResourceFlavorStatus::default(),
        Some(AutoscalerVerdict::Suitable) => (Some(true), Reason::AutoscalerChecked, String::new()),
        Some(AutoscalerVerdict::Unsuitable(problems)) => (
            Some(false),
            Reason::AutoscalerMisconfigured,
            problems.join("\n"),
        ),
        Some(AutoscalerVerdict::Unknown(cause)) => {
            (None, Reason::AutoscalerUnknown, (*cause).to_owned())
        }
    };
    let update = ConditionUpdate {
        generation,
        reason,
        message: message.chars().take(MAX_MESSAGE_LENGTH).collect(),
        previous: &before.conditions,
        now,
    };
    ResourceFlavorStatus {
        conditions: update.conditions(&[(AUTOSCALER_SUITABLE, holds)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_shows_the_verdict() {
        let problems = AutoscalerVerdict::Unsuitable(vec!["a".to_owned(), "b".to_owned()]);
        for (verdict, expected) in [
            (
                AutoscalerVerdict::Suitable,
                ("True", "AutoscalerChecked", ""),
            ),
            (problems, ("False", "AutoscalerMisconfigured", "a\nb")),
            (
                AutoscalerVerdict::Unknown("hidden"),
                ("Unknown", "AutoscalerUnknown", "hidden"),
            ),
        ] {
            let before = ResourceFlavorStatus::default();
            let status = build_status(Some(&verdict), &before, Some(7), Timestamp::UNIX_EPOCH);
            let [condition] = status.conditions.as_slice() else {
                panic!("{status:?}")
            };
            let shown = (
                condition.status.as_str(),
                condition.reason.as_str(),
                condition.message.as_str(),
            );
            assert_eq!(shown, expected);
            assert_eq!(condition.observed_generation, Some(7));
            let later = build_status(Some(&verdict), &status, Some(7), Timestamp::MAX);
            assert_eq!(later, status);
        }
    }

    #[test]
    fn flavor_that_no_longer_gets_new_nodes_loses_its_condition() {
        let verdict = AutoscalerVerdict::Suitable;
        let none = ResourceFlavorStatus::default();
        let before = build_status(Some(&verdict), &none, Some(1), Timestamp::UNIX_EPOCH);
        let after = build_status(None, &before, Some(2), Timestamp::UNIX_EPOCH);
        assert_eq!(after, none);
    }
}
