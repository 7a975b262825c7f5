//! No framework: Trellis' own variables are all that there is.

use super::Injection;

pub(super) fn inject() -> Injection {
    Injection::default()
}
