//! No framework: pods get only Trellis' own variables.

use super::Injection;

pub(super) fn inject() -> Injection {
    Injection::default()
}
