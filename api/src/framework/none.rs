//! No framework: the pods get only Trellis' own variables.

use super::FrameworkSpec;

pub(super) const SPEC: FrameworkSpec = FrameworkSpec {
    name: "None",
    leader: None,
    is_elastic: true,
    fixes_max_replicas: false,
    port: None,
    env: None,
    rules: &[],
};
