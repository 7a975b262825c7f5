//! The requirements of a gang's pods: resources, flavors, devices, volumes, placement.

pub mod binding;
pub mod claims;
pub mod closed_domains;
pub mod constraints;
pub mod daemon_set_reserve;
pub mod device_allocation;
pub mod flavors;
pub(crate) mod gated_fields;
pub mod pod_usage;
pub mod resource_request;
pub mod unsupported_requirement;
pub mod volumes;
