//! KubeRay's RayJob and RayCluster.
//!
//! Source of the fields: ray-project/kuberay, `ray-operator/apis/ray/v1`.

mod groups;
mod start_params;

use serde_json::json;
use trellis_api::job::Framework;

use crate::context::ImportContext;
use crate::draft::JobDraft;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::pod::ValueWithPath;
use crate::{kai, kueue, metadata};

/// Converts a RayJob: its entrypoint is the driver.
pub(crate) fn convert_job(root: &Fields<'_>, context: &ImportContext) -> Vec<ImportedObject> {
    let Some((mut draft, spec)) = read_head(root, context) else {
        return Vec::new();
    };
    let log = root.log();
    if spec.get("clusterSelector").is_some() {
        log.add_problem(
            &spec.field_path("clusterSelector"),
            "runs the job in another RayCluster, and in Trellis each job has its own: write rayClusterSpec",
        );
        return Vec::new();
    }
    let Some(cluster) = spec.object("rayClusterSpec") else {
        log.add_problem(&spec.field_path("rayClusterSpec"), "is required: add it");
        return Vec::new();
    };
    let driver = read_entrypoint(&spec);
    groups::read_cluster(&cluster, context, driver, &mut draft);
    read_run_fields(&spec, &mut draft);
    draft.finish(log)
}

/// Converts a RayCluster: its head has no driver, so the job runs until it is deleted.
pub(crate) fn convert_cluster(root: &Fields<'_>, context: &ImportContext) -> Vec<ImportedObject> {
    let Some((mut draft, spec)) = read_head(root, context) else {
        return Vec::new();
    };
    groups::read_cluster(&spec, context, Vec::new(), &mut draft);
    draft.finish(root.log())
}

/// Reads the metadata and the fields of both kinds. None: a required field is missing.
fn read_head<'a>(root: &Fields<'a>, context: &ImportContext) -> Option<(JobDraft, Fields<'a>)> {
    let mut draft = JobDraft::new(Default::default(), Framework::Ray);
    let is_queued = kueue::read_labels(root, context, &mut draft);
    kai::read_job(root, context, &mut draft);
    draft.metadata = metadata::read_metadata(root, true)?;
    let Some(spec) = root.object("spec") else {
        root.log().add_problem("spec", "is required: add it");
        return None;
    };
    // Kueue suspends jobs that it has not admitted: a suspended job is pending, not stopped.
    if spec.boolean("suspend") == Some(true) && !is_queued {
        draft.spec.suspend = Some(true);
    }
    spec.ignore_if("managedBy", &json!("ray.io/kuberay-operator"));
    spec.note_at(
        "managedBy",
        "leaves the job to another controller",
        "leave it out",
    );
    Some((draft, spec))
}

/// Returns the command of the driver. Ray runs the entrypoint in a shell.
fn read_entrypoint(spec: &Fields<'_>) -> Vec<String> {
    let modes = ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"];
    let mode = spec.one_of("submissionMode", &modes);
    let entrypoint = spec.text("entrypoint");
    if entrypoint.is_none() && mode.as_deref() != Some("InteractiveMode") {
        spec.log().note(
            &spec.field_path("entrypoint"),
            None,
            "is absent, so the head has no driver and the job runs until it is deleted",
            "write the driver's command into the head's command",
        );
    }
    for key in ["submitterPodTemplate", "submitterConfig"] {
        spec.note_at(
            key,
            "is about a pod that submits the driver, and in Trellis the head runs the driver itself",
            "leave it out",
        );
    }
    for key in [
        "entrypointNumCpus",
        "entrypointNumGpus",
        "entrypointResources",
    ] {
        spec.note_at(
            key,
            "reserves Ray resources for the driver, and in Trellis the driver runs without a reservation",
            "leave it out, or let the driver start an actor with these resources",
        );
    }
    spec.note_at(
        "runtimeEnvYAML",
        "is an environment that Ray prepares for a submitted job, and Trellis submits no job to Ray",
        "pass it to ray.init(runtime_env=...) in the driver, or put it into the image",
    );
    spec.ignore(&["jobId", "metadata"]);
    entrypoint
        .map(|command| vec!["/bin/sh".to_owned(), "-c".to_owned(), command])
        .unwrap_or_default()
}

fn read_run_fields(spec: &Fields<'_>, draft: &mut JobDraft) {
    if let Some(value) = spec.integer("activeDeadlineSeconds") {
        let path = spec.field_path("activeDeadlineSeconds");
        draft.set_active_deadline(ValueWithPath { value, path }, spec.log());
    }
    // By default, a RayJob does not restart a failed driver.
    draft.restart_mut().limit = Some(spec.integer("backoffLimit").unwrap_or(0));
    let is_removed = spec.boolean("shutdownAfterJobFinishes") == Some(true);
    let ttl = spec.integer("ttlSecondsAfterFinished");
    if is_removed {
        draft.cleanup_mut().children_ttl_seconds = Some(ttl.unwrap_or(0));
    } else {
        spec.log().note(
            &spec.field_path("shutdownAfterJobFinishes"),
            None,
            "is not true, so KubeRay keeps the cluster after the job, and Trellis stops the pods when the driver has ended",
            "write a job without a driver to keep a cluster",
        );
    }
    spec.note_at(
        "preRunningDeadlineSeconds",
        "limits the time until the driver runs",
        "set deadlines.queueSeconds to limit the time in the queue",
    );
    spec.note_at(
        "deletionStrategy",
        "controls what KubeRay deletes, and Trellis stops the pods when the driver has ended",
        "set spec.cleanup",
    );
}
