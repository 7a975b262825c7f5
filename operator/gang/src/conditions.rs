//! Conditions of objects that share one reason and message.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use trellis_api::Reason;

/// Reason and message that all conditions of an object share.
pub struct ConditionUpdate<'a> {
    /// Generation of the object that was judged.
    pub generation: Option<i64>,
    /// Reason.
    pub reason: Reason,
    /// The same in words.
    pub message: String,
    /// Conditions before this change.
    pub previous: &'a [Condition],
    /// Time of this change.
    pub now: Timestamp,
}

impl ConditionUpdate<'_> {
    /// Returns the conditions, by type and status: true, false, or None for Unknown. A condition
    /// whose status is unchanged keeps its transition time.
    pub fn conditions<T: Into<Option<bool>> + Copy>(&self, holds: &[(&str, T)]) -> Vec<Condition> {
        let condition = |(type_, holds): &(&str, T)| {
            let status = match (*holds).into() {
                Some(true) => "True",
                Some(false) => "False",
                None => "Unknown",
            };
            let same = |c: &&Condition| c.type_ == *type_ && c.status == status;
            let since = self.previous.iter().find(same);
            Condition {
                type_: (*type_).to_owned(),
                status: status.to_owned(),
                reason: self.reason.as_str().to_owned(),
                message: self.message.clone(),
                observed_generation: self.generation,
                last_transition_time: since
                    .map_or(Time(self.now), |c| c.last_transition_time.clone()),
            }
        };
        holds.iter().map(condition).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_condition_keeps_its_transition_time() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let conditions_after = |before: &[Condition], ready, now| {
            let (reason, message) = (Reason::Accepted, String::new());
            let update = ConditionUpdate {
                generation: Some(1),
                reason,
                message,
                previous: before,
                now,
            };
            update.conditions(&[("Ready", ready), ("Stalled", false)])
        };
        let times = |conditions: &[Condition]| -> Vec<i64> {
            let conditions = conditions.iter();
            conditions
                .map(|c| c.last_transition_time.0.as_second())
                .collect()
        };
        let first = conditions_after(&[], true, at(1));
        assert_eq!(conditions_after(&first, true, at(2)), first);
        assert_eq!(times(&conditions_after(&first, false, at(3))), [3, 1]);
    }
}
