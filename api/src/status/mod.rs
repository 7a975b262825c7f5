//! The words and messages of the status of objects: conditions, reasons, and lists of words.

pub mod condition;
pub mod reason;
pub mod short_message;
pub(super) mod words;
