//! Random bytes.

use crate::SimulatedMachine;

/// Fills the buffer with random bytes that are fit for keys.
///
/// # Errors
/// If the operating system has none.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that asks for them"
)]
pub fn fill(buffer: &mut [u8]) -> Result<(), getrandom::Error> {
    match SimulatedMachine::with_entered(|machine| machine.fill_random(buffer)) {
        Some(()) => Ok(()),
        None => getrandom::fill(buffer),
    }
}
