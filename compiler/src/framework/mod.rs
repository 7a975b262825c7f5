//! What each framework needs so that the pods of a gang find each other. One
//! file each: from the gang and a task group to variables and ports.

mod none;
mod pytorch;

use k8s_openapi::api::core::v1::ConfigMap;
use trellis_api::job::{Framework, TaskGroup};

use crate::environment::Variable;
use crate::gang::Gang;

/// What a framework adds to the pods of a group.
#[derive(Default)]
pub(crate) struct Injection {
    /// Variables, all of names that [`trellis_api::rules::is_reserved_env`] reserves.
    pub variables: Vec<Variable>,
    /// Ports, each left out where the group has one of that number.
    pub ports: Vec<FrameworkPort>,
}

/// A port that a framework listens on.
#[derive(Clone, Copy)]
pub(crate) struct FrameworkPort {
    /// Left out where the group has another port of that name.
    pub name: &'static str,
    pub number: i32,
}

pub(crate) fn inject(gang: &Gang<'_>, group: &TaskGroup) -> Injection {
    match gang.job.spec().framework() {
        Framework::PyTorch => pytorch::inject(gang, group),
        Framework::None => none::inject(),
    }
}

/// ConfigMaps that the pods of a framework read: torchrun and plain pods need none.
pub(crate) fn config_maps(framework: Framework) -> Vec<ConfigMap> {
    match framework {
        Framework::PyTorch | Framework::None => Vec::new(),
    }
}
