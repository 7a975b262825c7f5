//! DeepSpeed, which torchrun or its own launcher starts.

use super::{FrameworkSpec, pytorch};

pub(super) const SPEC: FrameworkSpec = FrameworkSpec {
    name: "DeepSpeed",
    leader: None,
    is_elastic: false,
    fixes_max_replicas: false,
    port: Some(pytorch::MASTER_PORT),
    env: Some(&pytorch::ENV),
    rules: &[
        max_pods!(
            "DeepSpeed",
            4096,
            "so that their hostfile fits into a ConfigMap: use torchrun with framework PyTorch for more"
        ),
        fixed_size!("DeepSpeed"),
        whole_gang!("DeepSpeed"),
    ],
};
