//! Notes about facts that the user might not expect.

pub(super) mod foreign_keys;
pub(crate) mod unlabelled_namespaces;
pub(super) mod unused_limits;
