//! DeepSpeed: under torchrun it needs the same variables as PyTorch. Its own launcher reads the
//! members from a hostfile (`deepspeed --no_ssh --hostfile`) with lines `host slots=N`
//! (`deepspeed/launcher/runner.py`).

use trellis_api::job::TaskGroup;
use trellis_api::names;

use super::{Files, HOSTFILE, HOSTS, Injection, hostfile, pytorch};
use crate::environment::Variable;
use crate::gang::Gang;

pub(super) fn inject(gang: &Gang<'_>, group: &TaskGroup) -> Injection {
    if !group.is_in_world() {
        return Injection::default();
    }
    let mut injection = pytorch::inject(gang, group);
    let path = format!("{HOSTS}/{HOSTFILE}");
    injection
        .variables
        .insert(0, Variable::fixed("TRELLIS_HOSTFILE", path));
    injection.files.push(Files::Hosts {
        name: names::hosts(gang.job.name()),
        path: HOSTS,
        mode: None,
    });
    injection
}

pub(super) fn files(gang: &Gang<'_>) -> Vec<(&'static str, String)> {
    vec![(HOSTFILE, hostfile::slots(gang))]
}
