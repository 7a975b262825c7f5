//! Watches of rows: a client gets the changes of a list instead of the list again.
//!
//! `cache` keeps the rows and their last changes, `comparable_row` decides what is a change, `feed` shares
//! both among all readers of a resource, `event` serializes, and `stream` serves one reader.
//!
//! A watch begins at the `resourceVersion` of a list, or with all rows. It holds no turn of the
//! requests, but one of its own places.

mod cache;
mod comparable_row;
mod event;
mod feed;
mod stream;

pub(super) use cache::{SnapshotMoment, UNKNOWN_VERSION, Version};
pub(super) use feed::{WatchFeeds, WatchableRow};

use std::sync::Arc;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use k8s_openapi::api::authentication::v1::UserInfo;
use trellis_api::visibility::{JobState, NodeState, QueueState};

use super::request::ObjectRequest;
use crate::callers::Failure;
use crate::callers::fair_turns::FairTurn;
use crate::endpoint::state::Endpoint;
use crate::serve::LongAnswer;

/// Serves a watch for this user, who has the right to it.
pub(super) fn serve_watch(
    endpoint: &Arc<Endpoint>,
    user: UserInfo,
    is_proxied: bool,
    request: ObjectRequest,
) -> Result<Response, Failure> {
    let name = user.username.clone().unwrap_or_default();
    let places = match is_proxied {
        true => &endpoint.proxied_watch_places,
        false => &endpoint.direct_watch_places,
    };
    let place = places.try_acquire(name);
    let place = place.ok_or_else(Failure::too_many_watches)?;
    let respond = match request.served.plural {
        plural if plural == JobState::SERVED.plural => respond::<JobState>,
        plural if plural == QueueState::SERVED.plural => respond::<QueueState>,
        plural if plural == NodeState::SERVED.plural => respond::<NodeState>,
        plural => return Err(Failure::no_such_resource(plural)),
    };
    let content_type = [(header::CONTENT_TYPE, request.format.content_type())];
    let body = respond(endpoint.clone(), user, is_proxied, request, place);
    let mut response = (content_type, body).into_response();
    response
        .extensions_mut()
        .insert(LongAnswer(stream::MAX_WATCH));
    Ok(response)
}

fn respond<T: WatchableRow>(
    endpoint: Arc<Endpoint>,
    user: UserInfo,
    is_proxied: bool,
    request: ObjectRequest,
    place: FairTurn,
) -> Body {
    let reader = stream::Reader::<T>::new(endpoint, user, is_proxied, request, place);
    Body::from_stream(reader.into_stream())
}

#[cfg(test)]
mod tests;
