//! Text for people, in the same form everywhere.

mod age;
mod amount;
mod sanitize;

pub use age::{format_age, format_until};
pub use amount::format_amount;
pub use sanitize::{sanitize, sanitize_lines};
