//! Lists that change: the queue and the nodes. The server reads a list once for all tabs of a user,
//! and sends the rows that changed.

mod diff;
mod feed;
mod feeds;
mod order;
mod row;
mod stream;

pub(crate) use feed::{Feed, ListName};
pub(crate) use feeds::Feeds;
pub(crate) use stream::{StreamQuery, open_stream};
