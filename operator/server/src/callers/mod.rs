//! Callers of the servers: authentication, authorization, and limits on their requests.
//!
//! `access` authenticates and authorizes, `limits` limits requests, `fair_turns` keeps one caller
//! from starving another, `ttl_cache` caches granted rights, and `front_proxy` authenticates
//! requests that the API server sends for its users. A refused request gets a [`Failure`].

pub(crate) mod access;
mod failure;
pub(crate) mod fair_turns;
pub(crate) mod front_proxy;
mod limits;
pub(crate) mod ttl_cache;

pub use failure::Failure;
pub(crate) use limits::{Caller, CallerLimits, RequestTurn, limit_time};
