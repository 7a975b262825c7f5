//! The Kubernetes objects of a compiled job, besides its pods: one file for each kind.

pub(crate) mod external_secrets;
pub(crate) mod metadata;
pub(crate) mod network_policy;
pub(crate) mod pod_group;
pub(crate) mod service;
