//! Tests of the engine through its public interface.
#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

#[cfg(test)]
mod accounting;
#[cfg(test)]
mod backfill;
#[cfg(test)]
mod backfill_ends;
#[cfg(test)]
mod backfill_heads;
#[cfg(test)]
mod backfill_odd;
#[cfg(test)]
mod backfill_owners;
#[cfg(test)]
mod backfill_runs;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod certificates_change;
#[cfg(test)]
mod certificates_oracle;
#[cfg(test)]
mod certificates_quota;
#[cfg(test)]
mod common;
#[cfg(test)]
mod fairness;
#[cfg(test)]
mod flavors;
#[cfg(test)]
mod flavors_given;
#[cfg(test)]
mod flavors_kueue;
#[cfg(test)]
mod flavors_offered;
#[cfg(test)]
mod flavors_ways;
#[cfg(test)]
mod forecast;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod kept_beside;
#[cfg(test)]
mod leaving;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_kept;
#[cfg(test)]
mod model_limits;
#[cfg(test)]
mod model_quota;
mod model_stopping;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod parked;
#[cfg(test)]
mod parked_events;
#[cfg(test)]
mod placement;
#[cfg(test)]
mod placement_devices;
#[cfg(test)]
mod placement_score;
#[cfg(test)]
mod preemption;
#[cfg(test)]
mod preemption_after;
#[cfg(test)]
mod preemption_claims;
#[cfg(test)]
mod preemption_model;
#[cfg(test)]
mod preemption_queues;
#[cfg(test)]
mod preemption_reclaim;
#[cfg(test)]
mod queueing;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod random;
#[cfg(test)]
mod reclaim_beside_heads;
#[cfg(test)]
mod sequences;
#[cfg(test)]
mod sequences_decisions;
#[cfg(test)]
mod sequences_events;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod starvation;
#[cfg(test)]
mod surplus;
#[cfg(test)]
mod surplus_queues;
#[cfg(test)]
mod topology;
#[cfg(test)]
mod topology_certificates;
#[cfg(test)]
mod topology_fit;
mod topology_node;
#[cfg(test)]
mod topology_oracle;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod victim_sets;
#[cfg(test)]
mod wakeups;
