//! The body of a watch. The proxy forwards its events, holds them back or drops some.

use std::sync::Arc;

use futures::stream;
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use tokio::sync::mpsc;

use super::{
    Request, RequestKey, TrafficTotals,
    state::{BoxError, EventFilter, ProxyState, cloned_value},
};

/// Number of frames in the channel.
const BUFFERED_FRAMES: usize = 16;

/// Forwards `body` until the client closes the connection.
pub(super) fn relay_body(
    state: Arc<ProxyState>,
    request: Request,
    key: RequestKey,
    body: Incoming,
) -> UnsyncBoxBody<Bytes, BoxError> {
    let (sender, mut receiver) = mpsc::channel(BUFFERED_FRAMES);
    tokio::spawn(async move {
        // If the client closes the connection, close the connection to the API server too, even
        // without an event.
        tokio::select! {
            () = sender.closed() => {}
            () = wait_for_cut(&state, &request) => {}
            () = relay_frames(&state, &request, &key, body, &sender) => {}
        }
    });
    let frames = stream::poll_fn(move |context| receiver.poll_recv(context));
    UnsyncBoxBody::new(StreamBody::new(frames))
}

type FrameSender = mpsc::Sender<Result<Frame<Bytes>, BoxError>>;

/// Waits until a test cuts this watch.
async fn wait_for_cut(state: &ProxyState, request: &Request) {
    let mut cut = state.cut_filter.subscribe();
    while cut.changed().await.is_ok() {
        if cut
            .borrow_and_update()
            .as_ref()
            .is_some_and(|matches| matches(request))
        {
            return;
        }
    }
}

async fn relay_frames(
    state: &ProxyState,
    request: &Request,
    key: &RequestKey,
    mut body: Incoming,
    sender: &FrameSender,
) {
    let mut stalled = state.stall_filter.subscribe();
    let mut unfinished = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return drop(sender.send(Err(error.into())).await),
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        state.add_traffic(
            key,
            TrafficTotals {
                response_bytes: data.len() as u64,
                ..TrafficTotals::default()
            },
        );
        let data = remove_lost_events(
            cloned_value(&state.lost_event_filter).as_ref(),
            request,
            data,
            &mut unfinished,
        );
        let released =
            stalled.wait_for(|stalled| !stalled.as_ref().is_some_and(|stalls| stalls(request)));
        if released.await.is_err() || sender.send(Ok(Frame::data(data))).await.is_err() {
            return;
        }
    }
}

/// Removes lost events from `data`. An incomplete line stays in `unfinished`.
fn remove_lost_events(
    loses: Option<&EventFilter>,
    request: &Request,
    data: Bytes,
    unfinished: &mut Vec<u8>,
) -> Bytes {
    if loses.is_none() && unfinished.is_empty() {
        return data;
    }
    unfinished.extend_from_slice(&data);
    let Some(end) = unfinished.iter().rposition(|byte| *byte == b'\n') else {
        return Bytes::new();
    };
    let rest = unfinished.split_off(end + 1);
    let lines = std::mem::replace(unfinished, rest);
    let delivered = lines.split_inclusive(|byte| *byte == b'\n').filter(|line| {
        let event = serde_json::from_slice(line);
        !matches!((loses, event), (Some(loses), Ok(event)) if loses(request, &event))
    });
    delivered.flatten().copied().collect::<Vec<u8>>().into()
}
