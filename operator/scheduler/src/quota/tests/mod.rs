//! Tests of the tree of queues through its interface.
#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

mod borrowed_share;
mod common;
mod fairness;
mod links;
mod oracle;
mod order;
mod properties;
mod random;
mod reclaim;
mod restart;
mod rules;
mod table;
