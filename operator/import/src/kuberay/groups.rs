//! The head and the workers of a Ray cluster.

use serde_json::json;
use trellis_api::job::{Framework, Role};

use super::start_params;
use crate::context::ImportContext;
use crate::draft::JobDraft;
use crate::fields::Fields;
use crate::pod::command_scan::ProvidedVariables;
use crate::pod::{self, GroupDraft, PodHints};

/// Default of `maxReplicas`.
const NO_LIMIT: i64 = i32::MAX as i64;

/// Reads head and workers into the draft. `driver` is the command of the head.
pub(super) fn read_cluster(
    cluster: &Fields<'_>,
    context: &ImportContext,
    driver: Vec<String>,
    draft: &mut JobDraft,
) {
    let hints = PodHints {
        context,
        framework: Framework::Ray,
        // KubeRay uses the first container.
        main: "",
        own_ports: &["gcs", "gcs-server", "redis", "dashboard", "client"],
        index_variables: &[],
        provided_variables: ProvidedVariables::default(),
    };
    let Some(head) = cluster.object("headGroupSpec") else {
        let path = cluster.field_path("headGroupSpec");
        cluster
            .log()
            .add_problem(&path, "is required: add the head");
        return;
    };
    if let Some(mut pods) = read_group(&head, &hints) {
        pods.group.name = "head".to_owned();
        pods.group.role = Some(Role::Coordinator);
        if !pods.group.command.is_empty() || !pods.group.args.is_empty() {
            let path = format!("{}.command", pods.main);
            cluster.log().note(
                &path,
                Some(&json!(pods.group.command)),
                "runs before `ray start` in KubeRay, and in Trellis the command of the head is the driver",
                "put it into the driver's command or the image",
            );
        }
        pods.group.command = driver;
        pods.group.args = Vec::new();
        draft.pods.push(pods);
    }
    for key in ["serviceType", "headService", "enableIngress"] {
        head.note_at(
            key,
            "is about the head's Service, which in Trellis is headless and named <job>-head",
            "create a Service or an Ingress of your own",
        );
    }
    let scales = cluster.boolean("enableInTreeAutoscaling") == Some(true);
    for worker in cluster.objects("workerGroupSpecs") {
        if let Some(pods) = read_workers(&worker, &hints, scales) {
            draft.pods.push(pods);
        }
    }
    cluster.ignore(&["rayVersion"]);
    match scales {
        true => cluster.note_at(
            "autoscalerOptions",
            "tunes Ray's autoscaler, and in Trellis workers join while capacity is free",
            "leave it out",
        ),
        false => cluster.ignore(&["autoscalerOptions"]),
    }
    cluster.note_at(
        "headServiceAnnotations",
        "is about the head's Service, which has no annotations in Trellis",
        "create a Service of your own",
    );
    cluster.note_at(
        "gcsFaultToleranceOptions",
        "keeps the cluster's state in Redis, and Trellis restarts a failed head with its gang",
        "let the driver write checkpoints (docs/checkpoints.md)",
    );
}

fn read_workers(worker: &Fields<'_>, hints: &PodHints<'_>, scales: bool) -> Option<GroupDraft> {
    let name = worker.text("groupName");
    let replicas = worker.integer("replicas");
    let (minimum, maximum) = (worker.integer("minReplicas"), worker.integer("maxReplicas"));
    let hosts = worker.integer("numOfHosts").unwrap_or(1).max(1);
    // KubeRay keeps the number of workers between minimum and maximum.
    let now = replicas
        .unwrap_or(0)
        .min(maximum.unwrap_or(NO_LIMIT))
        .max(minimum.unwrap_or(0));
    let all = match scales {
        true => maximum
            .filter(|maximum| *maximum != NO_LIMIT)
            .unwrap_or(now)
            .max(now),
        false => now,
    };
    if all == 0 {
        worker.note("has no pods, so it becomes no task group", "leave it out");
        return None;
    }
    let mut pods = read_group(worker, hints)?;
    pods.group.name = name.unwrap_or_else(|| "worker".to_owned());
    let count = |replicas: i64| replicas.saturating_mul(hosts);
    pods.group.replicas = Some(count(all)).filter(|count| *count != 1);
    if scales {
        // The gang contains at least one worker of each group.
        let minimum = minimum.unwrap_or(0).max(1);
        pods.group.min_replicas = Some(count(minimum)).filter(|_| minimum < all);
        pods.origins
            .push(("minReplicas", worker.field_path("minReplicas")));
        worker.note_at(
            "minReplicas",
            "is where Ray's autoscaler starts, and in Trellis the job starts with these pods and grows while capacity is free, independent of Ray's demand",
            "lower replicas if the job must not grow by itself",
        );
    }
    for (key, reason) in [
        ("idleTimeoutSeconds", "is how long Ray keeps an idle worker"),
        ("scaleStrategy", "names workers to delete"),
    ] {
        worker.note_at(key, reason, "leave it out");
    }
    Some(pods)
}

/// Reads a group with its pods and its parameters of `ray start`.
fn read_group(group: &Fields<'_>, hints: &PodHints<'_>) -> Option<GroupDraft> {
    let mut pods = pod::read_template(group, "template", hints)?;
    // The kubelet restarts no container of a gang, so the restart policy has no effect.
    pods.restart_policy = None;
    pods.group
        .env
        .extend(start_params::read_start_params(group));
    for key in ["resources", "labels"] {
        group.note_at(
            key,
            "describes the pods to Ray",
            "add --resources or --labels to RAY_START_ARGS",
        );
    }
    Some(pods)
}
