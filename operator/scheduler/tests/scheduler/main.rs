//! Tests of the engine through its public interface.
#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

#[cfg(test)]
mod accounting;
#[cfg(test)]
mod backfill;
#[cfg(test)]
mod common;
#[cfg(test)]
mod explanations;
#[cfg(test)]
mod flavors;
#[cfg(test)]
mod forecast;
#[cfg(test)]
mod kept_places;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod model;
mod moves;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod parking;
#[cfg(test)]
mod placement;
#[cfg(test)]
mod preemption;
#[cfg(test)]
mod provisioning;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod random;
#[cfg(test)]
mod request_changes;
#[cfg(test)]
mod sequences;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod surplus;
#[cfg(test)]
mod topology;
