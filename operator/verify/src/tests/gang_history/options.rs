//! The events of a gang's life that a history may have.

use proptest::prelude::*;

/// The events of the gang's life. Each of them is allowed.
#[derive(Clone, Copy, Debug)]
pub(in crate::tests) struct HistoryOptions {
    /// Pods of the gang. Each needs a whole node.
    pub(in crate::tests) pods: usize,
    /// The first plan is rolled back, and a second plan is carried out.
    pub(in crate::tests) is_rolled_back_first: bool,
    /// A pod fails, and the job runs again in a second attempt.
    pub(in crate::tests) has_second_attempt: bool,
    /// A pod fails, and runs again while the other pods go on. Its back-off is long.
    pub(in crate::tests) restarts_pod: bool,
    /// The job runs a group `prepare` before its other pods, in a stage of its own.
    pub(in crate::tests) has_stages: bool,
    /// A pod beyond the gang joins it.
    pub(in crate::tests) has_surplus: bool,
    /// The gang leaves for another gang, and runs again in a second attempt.
    pub(in crate::tests) is_preempted: bool,
    /// Nodes are on order before each plan, and placeholders ask for them.
    pub(in crate::tests) has_orders: bool,
    /// Seconds that a pod needs to stop.
    pub(in crate::tests) stop_seconds: i64,
}

impl HistoryOptions {
    /// A gang of this size that runs and ends.
    pub(in crate::tests) fn plain(pods: usize) -> Self {
        Self {
            pods,
            is_rolled_back_first: false,
            has_second_attempt: false,
            restarts_pod: false,
            has_stages: false,
            has_surplus: false,
            is_preempted: false,
            has_orders: false,
            stop_seconds: 5,
        }
    }
}

pub(in crate::tests) fn any_options() -> impl Strategy<Value = HistoryOptions> {
    let gang = (2_usize..6, 0_i64..30);
    (gang, any::<[bool; 7]>()).prop_map(|((pods, stop_seconds), events)| {
        let [
            is_rolled_back_first,
            has_second_attempt,
            restarts_pod,
            has_stages,
            has_surplus,
            is_preempted,
            has_orders,
        ] = events;
        HistoryOptions {
            pods,
            is_rolled_back_first,
            has_second_attempt,
            restarts_pod,
            has_stages,
            has_surplus,
            is_preempted,
            has_orders,
            stop_seconds,
        }
    })
}

/// Random events without those that end an attempt.
pub(in crate::tests) fn any_options_of_one_attempt() -> impl Strategy<Value = HistoryOptions> {
    any_options().prop_map(|options| HistoryOptions {
        has_second_attempt: false,
        has_stages: false,
        is_preempted: false,
        ..options
    })
}
