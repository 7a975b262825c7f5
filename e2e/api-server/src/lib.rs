//! A Kubernetes API server in memory, for deterministic simulation of controllers.
//!
//! An [`ApiServer`] has no clock, no threads, no sockets and no random numbers. A caller hands it
//! requests with the time at which they arrive, and polls watches when their events should arrive.
//! All objects share one revision counter, as in etcd, and the whole history is kept.
//!
//! ```
//! use hyper::body::Bytes;
//! use jiff::Timestamp;
//! use trellis_api_server::{ApiServer, Kind, KindRef, Response, User};
//!
//! let mut server = ApiServer::new(Kind::built_in());
//! let user = User { name: "admin".to_owned(), ..User::default() };
//! let body = Bytes::from_static(br#"{"metadata": {"name": "team-a"}}"#);
//! let request = http::Request::post("/api/v1/namespaces").body(body).unwrap();
//! let Response::Answer(answer) = server.handle(&user, &request, Timestamp::UNIX_EPOCH) else {
//!     panic!("no watch was asked for");
//! };
//! assert_eq!(answer.status(), 201);
//! let namespace = server.get(&KindRef::new("", "namespaces"), "", "team-a").unwrap();
//! assert_eq!(namespace["status"]["phase"], "Active");
//! ```
//!
//! The README lists what the server does as a real one, and what it leaves out.

mod admission;
mod binding;
mod built_in;
mod conditions;
mod decode;
mod defaults;
mod delete;
mod discovery;
mod eviction;
mod history;
mod kind;
mod managed_fields;
mod names;
mod object;
mod patch;
mod quantity;
mod read;
mod request;
mod reviews;
mod schema;
mod selector;
mod server;
mod status;
mod store;
mod strategy;
mod time;
mod validation;
mod watch;
mod write;

pub use admission::{AdmissionRequest, Operation};
pub use history::HistoryEntry;
pub use kind::{InvalidCrd, Kind, KindRef};
pub use object::Object;
pub use schema::Schema;
pub use server::{Access, ApiServer, Response, User};
pub use status::{Cause, Status};
pub use watch::{Frame, Watch, WatchPoll};
