//! The watches of the replicas, and the arrival of their events.

use std::time::Duration;

use hyper::body::Bytes;
use trellis_api_server::{Watch, WatchPoll};

use super::{OpenWatch, Simulation, WorldEvent};
use crate::time::VirtualTime;
use crate::transport::{AnswerBody, watch_body};

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
            watch,
            frames,
            arrival: None,
        };
        self.watches.insert(self.watch_count, open);
        self.expect_watch_events(self.watch_count);
        http::Response::new(body)
    }

    /// Schedules the arrival of events that have just happened.
    pub(super) fn expect_watch_events(&mut self, id: u64) {
        if let Some(open) = self.watches.get(&id) {
            let arrival = self.now + self.network.watch_delay(&open.key);
            self.schedule_watch(id, arrival);
        }
    }

    fn schedule_watch(&mut self, id: u64, arrival: VirtualTime) {
        if let Some(open) = self.watches.get_mut(&id)
            && open.arrival.is_none_or(|scheduled| scheduled > arrival)
        {
            open.arrival = Some(arrival);
            self.schedule(arrival, WorldEvent::WatchEvents(id));
        }
    }

    pub(super) fn deliver_watch_events(&mut self, id: u64) {
        let now = self.now;
        let Some(open) = self.watches.get_mut(&id) else {
            return;
        };
        // An earlier arrival was scheduled later.
        if open.arrival.is_none_or(|arrival| arrival > now) {
            return;
        }
        open.arrival = None;
        let plural = open.plural.clone();
        if let Some(end) = self.end_of_stall(&plural) {
            return self.schedule_watch(id, end);
        }
        let wall_clock = self.wall_clock();
        let Some(open) = self.watches.get_mut(&id) else {
            return;
        };
        let next = loop {
            match self.server.poll_watch(&mut open.watch, wall_clock) {
                WatchPoll::Event(frame) => {
                    let event = format!("watch event to {}", open.key);
                    self.trace.record(now, &event, &frame.line);
                    if open.frames.unbounded_send(frame.line).is_err() {
                        break None;
                    }
                }
                WatchPoll::Idle { until } => break Some(until),
                WatchPoll::End => break None,
            }
        };
        match next {
            Some(until) => {
                let wait = until.duration_since(self.start);
                let wait = Duration::try_from(wait).unwrap_or_default();
                let until = VirtualTime::default() + wait;
                self.schedule_watch(id, until.max(now + Duration::from_millis(1)));
            }
            None => drop(self.watches.remove(&id)),
        }
    }
}
