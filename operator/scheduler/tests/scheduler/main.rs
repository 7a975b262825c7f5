//! Tests of the engine through its public interface.
#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

#[cfg(test)]
mod accounting;
#[cfg(test)]
mod backfill;
#[cfg(test)]
mod backfill_edge_cases;
#[cfg(test)]
mod backfill_ends;
#[cfg(test)]
mod backfill_heads;
#[cfg(test)]
mod backfill_lent_quota;
#[cfg(test)]
mod backfill_runs;
#[cfg(test)]
mod common;
#[cfg(test)]
mod explanations;
#[cfg(test)]
mod explanations_change;
#[cfg(test)]
mod explanations_oracle;
#[cfg(test)]
mod explanations_quota;
#[cfg(test)]
mod fairness;
#[cfg(test)]
mod flavors;
#[cfg(test)]
mod flavors_assignments;
#[cfg(test)]
mod flavors_charged;
#[cfg(test)]
mod flavors_kueue;
#[cfg(test)]
mod flavors_offered;
#[cfg(test)]
mod forecast;
#[cfg(test)]
mod leaving_quota;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_limits;
#[cfg(test)]
mod model_quota;
#[cfg(test)]
mod model_restart_places;
mod model_stopping;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod parking;
#[cfg(test)]
mod parking_events;
#[cfg(test)]
mod placement;
#[cfg(test)]
mod placement_constraints;
#[cfg(test)]
mod placement_devices;
#[cfg(test)]
mod placement_score;
#[cfg(test)]
mod preemption;
#[cfg(test)]
mod preemption_claims;
#[cfg(test)]
mod preemption_departures;
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
mod reclaim_and_heads;
#[cfg(test)]
mod restart_places;
#[cfg(test)]
mod restart_places_and_gangs;
#[cfg(test)]
mod restored_gangs;
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
mod topology_changes;
#[cfg(test)]
mod topology_displaced_groups;
#[cfg(test)]
mod topology_explanations;
#[cfg(test)]
mod topology_fit;
#[cfg(test)]
mod topology_levels;
mod topology_one_node;
#[cfg(test)]
mod topology_oracle;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod victim_sets;
#[cfg(test)]
mod wakeups;
