//! Each rule reports its broken histories, and no rule reports a history without a fault.

#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

mod broken_histories;
mod broken_journals;
mod gang_history;
mod node_orders;
mod one_look;
mod quiet_histories;
mod torn_slices;
mod write_filters;
