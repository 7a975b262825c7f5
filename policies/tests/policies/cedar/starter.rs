//! The starter set of the chart.

use trellis_api::ClusterJobPolicy;
use trellis_api::document::split;
use trellis_policies::cedar::{Policies, PolicyObject};

use super::support::set;

const CHART: &str = include_str!("../../../../charts/trellis/files/policies.yaml");

/// All of it, valid and with its tests passed.
pub fn policies() -> Policies {
    let documents = split(CHART).unwrap();
    let objects = documents.iter().map(|document| {
        let object: ClusterJobPolicy = document.decode_valid().unwrap_or_else(|e| panic!("{e}"));
        PolicyObject::from(&object)
    });
    set(objects.collect())
}

/// The starter policies permit no privilege except running as root.
#[test]
fn starter_set_permits_only_the_root_privilege() {
    let policies = policies();
    let all = [
        "RunAsRoot",
        "privileged",
        "allowPrivilegeEscalation",
        "IPC_LOCK",
        "defaultCapabilities",
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "hostPath",
        "hostPort",
        "hostProbe",
        "hostProcess",
        "procMount",
        "sysctl kernel.shm_rmid_forced",
        "seccomp",
        "appArmor",
        "seLinux",
        "volume nfs",
        "capability RunAsRoot",
    ];
    for name in all {
        let ask = trellis_policies::cedar::PolicyRequest::UsePrivilege(name.to_owned());
        let decision = super::support::decide(&policies, "ml", &ask);
        assert_eq!(decision.is_allowed(), name == "RunAsRoot", "{name}");
    }
}
