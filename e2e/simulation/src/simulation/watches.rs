//! The watches of the replicas. Each event is under way for its own time, and a watch keeps the
//! order of its events, as a TCP connection does.

use std::collections::VecDeque;
use std::time::Duration;

use hyper::body::Bytes;
use trellis_api_server::{Watch, WatchPoll};

use super::{Simulation, WorldEvent};
use crate::time::VirtualTime;
use crate::transport::{AnswerBody, FrameSender, watch_body};

pub(super) struct OpenWatch {
    pub(super) replica: usize,
    /// Names its random numbers.
    key: String,
    pub(super) plural: String,
    /// The side of the API server, until it ends the watch.
    watch: Option<Watch>,
    /// The side of the replica.
    frames: FrameSender,
    /// Messages that the API server has sent and the replica has not received.
    under_way: VecDeque<Message>,
    /// When the last of them arrives.
    last_arrival: VirtualTime,
    /// When the API server sends something without a further change: a bookmark or the end.
    poll_at: Option<VirtualTime>,
}

/// A message of the API server on a watch.
enum Message {
    Frame(Bytes),
    End,
}

impl Simulation<'_> {
    /// Returns the answer to a watch. The network delivers its events later.
    pub(super) fn open_watch(
        &mut self,
        replica: usize,
        request: &http::Request<Bytes>,
        watch: Watch,
    ) -> http::Response<AnswerBody> {
        let (frames, body) = watch_body();
        let path = request.uri().path();
        self.watch_count += 1;
        let open = OpenWatch {
            replica,
            key: format!("{replica} watch {path}"),
            plural: path.rsplit('/').next().unwrap_or_default().to_owned(),
            watch: Some(watch),
            frames,
            under_way: VecDeque::new(),
            last_arrival: self.now,
            poll_at: None,
        };
        self.watches.insert(self.watch_count, open);
        self.send_watch_events(self.watch_count);
        http::Response::new(body)
    }

    /// Lets the API server poll a watch at the time that it has named.
    pub(super) fn poll_watch(&mut self, id: u64) {
        let open = self.watches.get_mut(&id);
        if open.is_some_and(|open| open.poll_at.take_if(|at| *at <= self.now).is_some()) {
            self.send_watch_events(id);
        }
    }

    /// Sends the events of a watch that have happened, each with its own delay.
    pub(super) fn send_watch_events(&mut self, id: u64) {
        let wall_clock = self.wall_clock();
        loop {
            let Some(open) = self.watches.get_mut(&id) else {
                return;
            };
            let Some(watch) = &mut open.watch else {
                return;
            };
            let message = match self.server.poll_watch(watch, wall_clock) {
                WatchPoll::Event(frame) => Message::Frame(frame.line),
                WatchPoll::End => {
                    open.watch = None;
                    Message::End
                }
                WatchPoll::Idle { until } => {
                    let wait = Duration::try_from(until.duration_since(self.start));
                    let until = VirtualTime::default() + wait.unwrap_or_default();
                    let until = until.max(self.now + Duration::from_millis(1));
                    if open.poll_at.is_none_or(|at| at > until) {
                        open.poll_at = Some(until);
                        self.schedule(until, WorldEvent::PollWatch(id));
                    }
                    return;
                }
            };
            let arrival = self.now + self.network.watch_delay(&open.key);
            let arrival = arrival.max(open.last_arrival);
            open.last_arrival = arrival;
            open.under_way.push_back(message);
            self.schedule(arrival, WorldEvent::WatchEvent(id));
        }
    }

    /// Delivers the oldest event that is under way, or holds it back while its kind is stalled.
    pub(super) fn deliver_watch_event(&mut self, id: u64) {
        let Some(open) = self.watches.get(&id) else {
            return;
        };
        if let Some(end) = self.end_of_stall(&open.plural) {
            return self.schedule(end, WorldEvent::WatchEvent(id));
        }
        let Some(open) = self.watches.get_mut(&id) else {
            return;
        };
        let is_open = match open.under_way.pop_front() {
            Some(Message::Frame(line)) => {
                let event = format!("watch event to {}", open.key);
                self.trace.record(self.now, &event, &line);
                open.frames.unbounded_send(line).is_ok()
            }
            Some(Message::End) => false,
            None => true,
        };
        if !is_open {
            self.watches.remove(&id);
        }
    }
}
