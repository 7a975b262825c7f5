//! PyTorch, which torchrun starts.

use super::FrameworkSpec;
use super::reserved_env::ReservedEnv;

/// torchrun's environment, and the variables that it sets for each process.
pub(super) const ENV: ReservedEnv = reserved_env!(
    "PyTorch and DeepSpeed",
    ["PyTorch", "DeepSpeed"],
    ["PET_"],
    [
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE"
    ]
);

/// Port of rank 0: the default of torchrun's `--master-port`. It is fixed, so that no port of the
/// user becomes the rendezvous by its name.
pub const MASTER_PORT: i32 = 29500;

pub(super) const SPEC: FrameworkSpec = FrameworkSpec {
    name: "PyTorch",
    leader: None,
    is_elastic: true,
    fixes_max_replicas: true,
    port: Some(MASTER_PORT),
    env: Some(&ENV),
    rules: &[],
};
