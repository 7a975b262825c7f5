//! Ray: a cluster of the job's own. Every pod runs a script, which runs `ray start`. In the head it
//! then runs the driver, once all workers have joined.
//!
//! The ports and probes are those that KubeRay uses, as far as the package `ray` without extras
//! serves them.

use k8s_openapi::api::core::v1::{Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trellis_api::job::{Role, TaskGroup};
use trellis_api::names;

use super::{
    FrameworkEnvironment, FrameworkFiles, FrameworkPort, HOSTS_PATH, InjectedCommand, Injection,
    MountedFiles, NOTHING,
};
use crate::environment::TrellisVariable;
use crate::gang_facts::GangFacts;

/// Port of the head's global control service, by which a cluster is found.
const GCS_PORT: i32 = 6379;
/// Port of the dashboard and of `ray job submit`, if the image has `ray[default]`.
const DASHBOARD_PORT: i32 = 8265;
/// Port for Ray Client, if the image has `ray[client]`.
const CLIENT_PORT: i32 = 10001;
/// Port of each pod's raylet. Fixed, so that it can be probed.
const RAYLET_PORT: i32 = 6380;
/// Name of the script.
const SCRIPT: &str = "ray";

pub(super) const ENVIRONMENT: FrameworkEnvironment = FrameworkEnvironment {
    inject,
    files: Some(config_map_files),
    ..NOTHING
};

fn inject(gang: &GangFacts<'_>, group: &TaskGroup) -> Injection {
    if !group.is_in_world() {
        return Injection::default();
    }
    // The image may lack the library by which Ray counts GPUs.
    let start = vec![
        format!("{HOSTS_PATH}/{SCRIPT}"),
        format!("--num-gpus={}", group.gpus()),
        "--".to_owned(),
    ];
    let raylet = FrameworkPort {
        name: "raylet",
        number: RAYLET_PORT,
    };
    let is_head = group.role() == Role::Coordinator;
    Injection {
        variables: vec![TrellisVariable::fixed("RAY_ADDRESS", address(gang))],
        ports: match is_head {
            true => vec![
                FrameworkPort {
                    name: "gcs",
                    number: GCS_PORT,
                },
                FrameworkPort {
                    name: "dashboard",
                    number: DASHBOARD_PORT,
                },
                FrameworkPort {
                    name: "client",
                    number: CLIENT_PORT,
                },
                raylet,
            ],
            false => vec![raylet],
        },
        files: vec![MountedFiles::Hosts {
            name: names::hosts_config_map_name(gang.job.name()),
            path: HOSTS_PATH,
            mode: Some(0o555),
        }],
        command: match is_head {
            true => InjectedCommand::Wrapper(start),
            false => InjectedCommand::Default(start),
        },
        readiness_probe: Some(raylet_probe()),
    }
}

/// The raylet listens once the pod has joined the cluster.
fn raylet_probe() -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::Int(RAYLET_PORT),
            host: None,
        }),
        period_seconds: Some(5),
        ..Probe::default()
    }
}

fn address(gang: &GangFacts<'_>) -> String {
    format!("{}:{GCS_PORT}", gang.leader_address)
}

fn config_map_files(gang: &GangFacts<'_>) -> FrameworkFiles {
    vec![(SCRIPT, script(gang))]
}

/// The script: its words up to `--` are for `ray start`, the others are the driver. The user adds
/// words for `ray start` with RAY_START_ARGS; Ray takes the last of two equal options.
fn script(gang: &GangFacts<'_>) -> String {
    let address = address(gang);
    let nodes = gang.min_world_size;
    format!(
        r#"#!/bin/sh
# Starts this pod's node of the job's Ray cluster, then the driver in the head.
set -eu

options="--node-manager-port={RAYLET_PORT}"
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options="$options $1"
    shift
done
[ $# = 0 ] || shift
options="$options ${{RAY_START_ARGS-}}"

if [ "$TRELLIS_RANK" != 0 ]; then
    # `ray start` gives up soon when the head is not there yet.
    left=300
    until ray health-check --address {address} >/dev/null 2>&1; do
        left=$((left - 1))
        if [ "$left" -le 0 ]; then
            echo "the head of the Ray cluster does not answer at {address}" >&2
            exit 1
        fi
        sleep 1
    done
    exec ray start --address={address} --block $options
fi

# RAY_ADDRESS is for the driver: a head has no other head.
head="env -u RAY_ADDRESS ray start --head --port={GCS_PORT} --dashboard-host=0.0.0.0 --dashboard-port={DASHBOARD_PORT} $options"
if [ $# = 0 ]; then
    # Without a driver the cluster runs until the job is deleted or suspended.
    exec $head --block
fi
$head
python=$(command -v python3 || command -v python)
"$python" - {nodes} <<'PYTHON'
import sys
import time

import ray

ray.init(logging_level="ERROR", log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[1]):
    time.sleep(1)
PYTHON
exec "$@"
"#
    )
}
