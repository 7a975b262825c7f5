//! Text for people, in the same form everywhere.

mod age;
mod amount;
mod node_runs;
mod sanitize;

pub use age::{format_age, format_until};
pub use amount::format_amount;
pub use node_runs::{format_nodes, format_runs};
pub use sanitize::{sanitize, sanitize_lines};
