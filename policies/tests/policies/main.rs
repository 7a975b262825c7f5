//! Tests of allowed and denied jobs through the public interface.
#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

#[cfg(test)]
mod authorize;
#[cfg(test)]
mod cedar;
#[cfg(test)]
mod document;
#[cfg(test)]
mod pod_security;
#[cfg(test)]
mod quota;
#[cfg(test)]
mod selector;
#[cfg(test)]
mod templates;
