//! Shows the oracle the time, and the oracle and the world what the API server has stored.

use serde_json::Value;
use trellis_api_server::{HistoryEntry, Object};

use super::{JUDGEMENT_INTERVAL, SHORTEST_CALM, Simulation, WorldEvent};
use crate::cluster;
use crate::end_state::unfinished_jobs;
use crate::node_orders::order_of;
use crate::oracle;

impl Simulation<'_> {
    /// Lets the oracle look at the clock. Ends the run early once all jobs have ended.
    pub(super) fn judge(&mut self) {
        if self.now > self.calm + SHORTEST_CALM
            && unfinished_jobs(&self.server, self.script).is_empty()
        {
            self.end = self.now;
        }
        let health = oracle::health(self.now, &self.script.faults);
        self.oracle.pass_time(self.wall_clock(), health);
        self.schedule_after(JUDGEMENT_INTERVAL, WorldEvent::Judge);
    }

    fn count_changes(&mut self, plural: &str, before: Option<&Value>, after: Option<&Value>) {
        match plural {
            "podgroups" => {
                self.orders.observe(before, after);
                self.elastic.observe(before, after);
            }
            "leaderterms" => {
                let groups = self.server.list(&cluster::POD_GROUPS);
                let open = groups.filter(|group| order_of(group.value()).is_some());
                self.orders.inherited += open.count() as u64;
            }
            _ => {}
        }
    }

    /// Shows the oracle and the world what the API server has stored since the last call.
    pub(super) fn take_in_changes(&mut self) {
        while let Some(write) = self.next_write() {
            self.oracle.observe(&write);
            self.show_write(&write);
        }
    }

    pub(super) fn next_write(&mut self) -> Option<HistoryEntry> {
        let write = self.server.history().get(self.seen)?;
        self.seen += 1;
        Some(write.clone())
    }

    /// Shows all parts of the world a write.
    pub(super) fn show_write(&mut self, write: &HistoryEntry) {
        let before = write.before.as_deref().map(Object::value);
        let after = write.after.as_deref().map(Object::value);
        let plural = write.kind.plural.as_str();
        if plural == "pods"
            && let Some(pod) = after
            && let Some((delay, work)) = self.kubelets.notice(before, pod)
        {
            self.schedule_after(delay, WorldEvent::Kubelet(work));
        }
        if let Some(object) = after
            && let Some((delay, job)) = self.job_controller.notice(&write.kind, object)
        {
            self.schedule_after(delay, WorldEvent::SyncJob(job));
        }
        if let Some(autoscaler) = &mut self.autoscaler
            && let Some((delay, work)) = autoscaler.notice(plural)
        {
            self.schedule_after(delay, WorldEvent::Autoscaler(work));
        }
        self.count_changes(plural, before, after);
        for dependent in self.collector.notice(&write.kind, before, after) {
            let delay = self.collector.delay();
            self.schedule_after(delay, WorldEvent::Collect(dependent));
        }
        let concerned = self
            .watches
            .iter()
            .filter(|(_, open)| open.plural == plural);
        for id in concerned.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.send_watch_events(id);
        }
    }
}
