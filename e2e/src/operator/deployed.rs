//! An operator with the settings of the chart's Deployment.

use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::Value;

use super::{LaunchOptions, NAMESPACE, Operator};
use crate::control_plane::{ControlPlane, free_port};

/// Starts `program` with the arguments of the Deployment's container, but with addresses of this
/// machine, and with the token of the pod with this name.
///
/// # Errors
/// If the Deployment does not exist, or the operator cannot be started.
pub async fn start_as_deployed(
    control_plane: &ControlPlane,
    program: &Path,
    pod: &str,
) -> Result<Operator> {
    let api: Api<Deployment> = Api::namespaced(control_plane.client(), NAMESPACE);
    let deployment = serde_json::to_value(api.get("trellis-operator").await?)?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array().context("no args")?;
    let mut launch = LaunchOptions::with_name("operator").pod(pod);
    for argument in arguments.iter().filter_map(Value::as_str) {
        // Each test has its own lease.
        if argument.starts_with("--lease-seconds=") {
            continue;
        }
        let argument = match argument.split_once("=0.0.0.0:") {
            Some((name, _)) => format!("{name}=127.0.0.1:{}", free_port()?),
            None => argument.to_owned(),
        };
        launch = launch.argument(&argument);
    }
    let kubeconfig = super::kubeconfig(control_plane, &launch.pod).await?;
    Operator::launch_with_options(control_plane, program, &kubeconfig, &launch)
}
