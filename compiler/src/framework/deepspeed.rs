//! DeepSpeed: under torchrun it needs the same variables as PyTorch. Its own launcher reads the
//! members from a hostfile (`deepspeed --no_ssh --hostfile`) with lines `host slots=N`
//! (`deepspeed/launcher/runner.py`).

use trellis_api::job::TaskGroup;

use super::{
    FrameworkEnvironment, FrameworkFiles, HOSTFILE, HOSTS_PATH, Injection, MountedFiles, NOTHING,
    hostfile, pytorch,
};
use crate::environment::TrellisVariable;
use crate::gang_facts::GangFacts;

pub(super) const ENVIRONMENT: FrameworkEnvironment = FrameworkEnvironment {
    inject,
    files: Some(config_map_files),
    ..NOTHING
};

fn inject(gang: &GangFacts<'_>, group: &TaskGroup) -> Injection {
    let mut injection = pytorch::inject(gang, group);
    let path = format!("{HOSTS_PATH}/{HOSTFILE}");
    injection
        .variables
        .insert(0, TrellisVariable::fixed("TRELLIS_HOSTFILE", path));
    injection.files.push(MountedFiles::hosts(gang, None));
    injection
}

fn config_map_files(gang: &GangFacts<'_>) -> FrameworkFiles {
    vec![(HOSTFILE, hostfile::slots_hostfile(gang))]
}
