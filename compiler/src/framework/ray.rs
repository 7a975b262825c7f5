//! Ray: a cluster of the job's own. Every pod runs a script, which runs `ray start`. In the head it
//! then runs the driver, once all workers have joined.
//!
//! The ports and probes are those that KubeRay uses, as far as the package `ray` without extras
//! serves them.

use k8s_openapi::api::core::v1::{Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trellis_api::framework::ray::{CLIENT_PORT, DASHBOARD_PORT, GCS_PORT, RAYLET_PORT};
use trellis_api::job::{Role, TaskGroup};

use super::{
    FrameworkEnvironment, FrameworkFiles, FrameworkPort, HOSTS_PATH, InjectedCommand, Injection,
    MountedFiles, NOTHING, Program,
};
use crate::environment::TrellisVariable;
use crate::gang_facts::GangFacts;

/// Longest time in seconds until all pods have joined.
const JOIN_SECONDS: u32 = 1800;
/// Name of the script.
const SCRIPT: &str = "ray";

pub(super) const ENVIRONMENT: FrameworkEnvironment = FrameworkEnvironment {
    inject,
    files: Some(config_map_files),
    ..NOTHING
};

fn inject(gang: &GangFacts<'_>, group: &TaskGroup) -> Injection {
    let start = Program {
        command: vec![
            format!("{HOSTS_PATH}/{SCRIPT}"),
            // The image may lack the library by which Ray counts GPUs.
            format!("--num-gpus={}", group.gpus()),
            "--".to_owned(),
        ],
        readiness_probe: Some(raylet_probe()),
    };
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
        files: vec![MountedFiles::hosts(gang, Some(0o555))],
        command: match is_head {
            true => InjectedCommand::Wrapper(start),
            false => InjectedCommand::Fallback(start),
        },
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

/// Smallest number of Ray nodes that join by the script: all pods of the gang but workers with a
/// command of their own, which may not join.
fn joining_pods(gang: &GangFacts<'_>) -> u32 {
    let groups = gang.job.spec().task_groups.iter();
    let joins = |group: &&TaskGroup| {
        let is_head = group.role() == Role::Coordinator;
        is_head || (group.is_in_world() && group.command.is_empty() && group.args.is_empty())
    };
    let pods = groups.filter(joins).map(TaskGroup::gang_size);
    pods.fold(0, u32::saturating_add)
}

/// The script: its words up to `--` are for `ray start`, the others are the driver. The user adds
/// words for `ray start` with RAY_START_ARGS. Ray takes the last of two equal options, so that users
/// can change the number of GPUs, but no port.
///
/// Pods of a gang start together, but one node may pull the image for long: the script waits as
/// long as that may take.
fn script(gang: &GangFacts<'_>) -> String {
    let address = address(gang);
    let nodes = joining_pods(gang);
    format!(
        r#"#!/bin/sh
# Starts this pod's node of the job's Ray cluster, then the driver in the head.
set -euf

options=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options="$options $1"
    shift
done
[ $# = 0 ] || shift
options="$options ${{RAY_START_ARGS-}} --node-manager-port={RAYLET_PORT}"
deadline=$(($(date +%s) + {JOIN_SECONDS}))

if [ "$TRELLIS_RANK" != 0 ]; then
    # `ray start` gives up soon when the head is not there yet.
    until ray health-check --address {address} >/dev/null 2>&1; do
        if [ "$(date +%s)" -ge "$deadline" ]; then
            echo "the head of the Ray cluster does not answer at {address}" >&2
            exit 1
        fi
        sleep 1
    done
    exec ray start $options --address={address} --block
fi

# RAY_ADDRESS is for the driver: a head has no other head.
head="env -u RAY_ADDRESS ray start $options --head --port={GCS_PORT} --dashboard-host=0.0.0.0 --dashboard-port={DASHBOARD_PORT}"
if [ $# = 0 ]; then
    # Without a driver the cluster runs until the job is deleted or suspended.
    exec $head --block
fi
$head
python=$(command -v python3 || command -v python) || {{
    echo "the image has neither python3 nor python" >&2
    exit 127
}}
# In another folder, where no file of the user has the name of a module.
(cd / && "$python" - {nodes} {JOIN_SECONDS} <<'PYTHON'
import sys
import time

import ray

wanted, seconds = int(sys.argv[1]), int(sys.argv[2])
deadline = time.monotonic() + seconds
ray.init(logging_level="ERROR", log_to_driver=False)
last = None
while True:
    joined = sum(node["Alive"] for node in ray.nodes())
    if joined != last:
        print(f"{{joined}} of {{wanted}} Ray nodes have joined", flush=True)
    if joined >= wanted:
        break
    if time.monotonic() > deadline:
        sys.exit("not all Ray nodes have joined")
    last = joined
    time.sleep(1)
PYTHON
)
exec "$@"
"#
    )
}
