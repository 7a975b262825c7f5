//! Reservations for gangs that wait for room or quota. `upkeep` keeps them up to date and reports
//! them. `heads` finds the gangs with reserved room, `quota_heads` the gangs with reserved quota,
//! and `yielding_gangs` the gangs that make way for them at once. `end_order` guesses which gangs end
//! first. `backfill_placement` places the gangs behind them.

mod backfill_placement;
mod end_order;
mod heads;
mod quota_heads;
mod upkeep;
mod yielding_gangs;

pub(super) use backfill_placement::EvictionScope;
