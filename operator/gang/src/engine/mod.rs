//! Converts between Kubernetes objects and the engine's types.

mod job_gang;
mod names;
mod node;
mod plan;
mod pod_group_gang;
mod queue;
mod reasons;
mod split_world;
#[cfg(test)]
mod tests;
mod topology;
mod units;

pub use crate::requirements::resource_request::base_units;
pub use job_gang::{AttemptState, gang_from_job, gang_from_surplus_unit};
pub use names::{
    SurplusUnit, gang_id, is_pod_of_victim, job_key, parse_gang_id, pod_key, surplus_gang_id,
    surplus_unit_key, victim_key,
};
pub(crate) use node::convert_taint;
pub use node::to_engine_node;
pub use plan::{flavors_from_groups, number_pods, placement_from_plan};
pub use pod_group_gang::gang_from_pod_group;
pub(crate) use queue::to_taint;
pub use queue::{
    decayed_quantity, restore_decayed_usage, to_engine_flavor, to_engine_queue, to_queue_stop,
};
pub(crate) use reasons::append_reservation;
pub use reasons::{to_api_reason, to_preemption_reason};
pub use topology::to_engine_topology;
pub(crate) use topology::{to_level_request, to_slices};
pub(crate) use units::to_duration;
pub use units::{to_engine_time, to_quantity, to_timestamp};
