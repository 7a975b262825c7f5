//! The rows of `endedattempts`: what the leader remembers.

use jiff::Timestamp;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use trellis_api::Reason;
use trellis_api::visibility::{EndedAttempt, ServedResource};

use super::age;
use super::table::{Column, TableRow};

impl TableRow for EndedAttempt {
    const SERVED: &'static ServedResource = &Self::SERVED;
    const ABSENT: &'static str = "the leader remembers no attempt of that name";
    const COLUMNS: &'static [Column] = &[
        Column::text("Name", "Job, number of the attempt, and time of its end."),
        Column::text("Job", "Name of the TrainingJob."),
        Column::number("Attempt", "Number of the attempt, from 1."),
        Column::text("Queue", "Queue of the job."),
        Column::number("GPUs", "Devices that the attempt held."),
        Column::text("Held", "For how long the attempt held its place."),
        Column::text("Ended", "Time since the end of the attempt."),
        Column::text("Phase", "Phase of the job after the attempt."),
        Column::text("Reason", "Reason of the job after the attempt."),
        Column::text("User", "User who submitted the job.").wide(),
        Column::text("Message", "How the attempt ended, in words.").wide(),
    ];

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let phase = self.phase.map_or("Deleted", |phase| phase.as_str());
        let reason = match self.preempted {
            true => Reason::Preempted.as_str(),
            false => self.reason.map(Reason::as_str).unwrap_or_default(),
        };
        vec![
            json!(self.metadata.name),
            json!(self.job),
            json!(self.attempt),
            json!(self.queue),
            json!(self.gpus),
            json!(age::ago(self.placed.0, self.ended.0)),
            json!(age::ago(self.ended.0, now)),
            json!(phase),
            json!(reason),
            json!(self.user.as_deref().unwrap_or_default()),
            json!(self.message.as_deref().unwrap_or_default()),
        ]
    }
}
