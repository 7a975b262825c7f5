//! The configuration of Kueue's manager.
//!
//! Source of the fields: kubernetes-sigs/kueue, `apis/config/v1beta1` and `v1beta2`.

use serde_json::{Value, json};
use trellis_api::queue::{FairShareVictims, QueuePreemption, ReclaimWithinCohort};

use crate::context::ImportContext;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;

/// The strategy of Kueue that Trellis has as its rule.
const STRATEGY: &str = "LessThanInitialShare";
/// The feature gate for an even split of pods over domains, as by `balanced` in Trellis.
const BALANCED_PLACEMENT: &str = "TASBalancedPlacement";
/// Settings of Kueue's own manager, and of the kinds of jobs that it manages.
const OWN_SETTINGS: [&str; 17] = [
    "metadata",
    "namespace",
    "webhook",
    "leaderElection",
    "metrics",
    "health",
    "pprofBindAddress",
    "controller",
    "tls",
    "manageJobsWithoutQueueName",
    "managedJobsNamespaceSelector",
    "internalCertManagement",
    "clientConnection",
    "integrations",
    "queueVisibility",
    "multiKueue",
    "objectRetentionPolicies",
];

/// The note on resources without quota, of the configuration and of a queue.
pub(super) const EXCLUDED_RESOURCES: [&str; 2] = [
    "exempts resources from quota, and in Trellis a queue with quota offers only the resources that it names",
    "name these resources in resourceGroups, with the total amount of the cluster as nominalQuota",
];

const VERSION_2: &str = "config.kueue.x-k8s.io/v1beta2";

/// Returns true if the configuration enables fair sharing. In `v1beta2`, the field itself does.
pub(crate) fn enables_fair_sharing(configuration: &Value) -> bool {
    let Some(sharing) = configuration.get("fairSharing").filter(|s| s.is_object()) else {
        return false;
    };
    match sharing.get("enable") {
        Some(enable) => enable.as_bool() == Some(true),
        None => configuration.get("apiVersion").and_then(Value::as_str) == Some(VERSION_2),
    }
}

/// Returns true if the configuration enables Kueue's balanced placement.
pub(crate) fn enables_balanced_placement(configuration: &Value) -> bool {
    let gates = configuration.get("featureGates");
    gates.and_then(|gates| gates.get(BALANCED_PLACEMENT)) == Some(&Value::Bool(true))
}

/// Reads the configuration. It becomes no object: the queues and the jobs of the same input take
/// over its fair sharing and its balanced placement.
pub(crate) fn convert_configuration(root: &Fields<'_>, _: &ImportContext) -> Vec<ImportedObject> {
    if let Some(sharing) = root.object("fairSharing") {
        read_fair_sharing(&sharing);
    }
    note_resources(root);
    note_feature_gates(root);
    // In `v1beta1`, the field has no effect without `enable`.
    let is_enabled = |wait: &Fields<'_>| {
        let is_new = root.value().get("apiVersion").and_then(Value::as_str) == Some(VERSION_2);
        is_new || wait.value().get("enable") == Some(&Value::Bool(true))
    };
    match root.object("waitForPodsReady") {
        Some(wait) if is_enabled(&wait) => wait.note(
            "stops jobs whose pods are not ready in time, and in Trellis each job has its own time limit",
            "set deadlines.startupSeconds in the jobs; its default is 1800 seconds",
        ),
        _ => root.ignore(&["waitForPodsReady"]),
    }
    root.note_at(
        "admissionFairSharing",
        "orders the LocalQueues of a ClusterQueue by their past usage; Trellis has no LocalQueues and orders TrainingQueues",
        "give each team a TrainingQueue, all below one parent",
    );
    root.ignore(&OWN_SETTINGS);
    Vec::new()
}

fn read_fair_sharing(sharing: &Fields<'_>) {
    sharing.boolean("enable");
    let strategies = sharing.texts("preemptionStrategies");
    if !strategies.is_empty() && !strategies.iter().any(|strategy| strategy == STRATEGY) {
        sharing.note_at(
            "preemptionStrategies",
            "lets a queue take less than Trellis does: in Trellis, the share with the new job must be smaller than the other queue's share before the preemption (LessThanInitialShare)",
            "leave preemption.fairShare out where this takes too much",
        );
    }
}

/// Notes settings that change the resources for which Kueue charges quota.
fn note_resources(root: &Fields<'_>) {
    let Some(resources) = root.object("resources") else {
        return;
    };
    let keys = [
        "excludeResourcePrefixes",
        "transformations",
        "deviceClassMappings",
    ];
    for key in keys {
        resources.ignore_if(key, &json!([]));
    }
    resources.note_at(
        "excludeResourcePrefixes",
        EXCLUDED_RESOURCES[0],
        EXCLUDED_RESOURCES[1],
    );
    resources.note_at(
        "transformations",
        "converts the requests of pods before Kueue charges quota; Trellis charges the requests themselves",
        "set quota for the resources that the pods request",
    );
    resources.note_at(
        "deviceClassMappings",
        "charges quota for devices of ResourceClaims, and Trellis counts extended resources",
        "request the devices as extended resources, such as nvidia.com/gpu",
    );
}

/// Notes feature gates without a counterpart.
fn note_feature_gates(root: &Fields<'_>) {
    let Some(gates) = root.object("featureGates") else {
        return;
    };
    gates.boolean(BALANCED_PLACEMENT);
    for gate in gates
        .keys()
        .iter()
        .filter(|gate| *gate != BALANCED_PLACEMENT)
    {
        gates.note_at(
            gate,
            "enables or disables a feature of Kueue; Trellis has no feature gates",
            "look for the feature in docs/coming-from-kueue.md, or leave it out",
        );
    }
}

/// Adds fair share to the preemption of a queue that reclaims, as Kueue does with fair sharing. Then
/// Kueue does not use `borrowWithinCohort`.
pub(crate) fn add_fair_share(preemption: &mut QueuePreemption) {
    preemption.borrow_within_cohort = None;
    preemption.fair_share = match preemption.reclaim_within_cohort.unwrap_or_default() {
        ReclaimWithinCohort::Never => None,
        ReclaimWithinCohort::LowerPriority => Some(FairShareVictims::LowerPriority),
        ReclaimWithinCohort::Any => Some(FairShareVictims::Any),
    };
}
