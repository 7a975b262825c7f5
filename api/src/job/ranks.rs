//! The order of the ranks, and who has the first.

use super::{Role, TaskGroup, TrainingJobSpec};

impl TrainingJobSpec {
    /// The groups in the order of their ranks: the Coordinator or Launcher first, then
    /// workers, servers, and evaluators, who are none of the world, then groups outside the
    /// gang; of one role as they stand in the spec.
    #[must_use]
    pub fn groups_by_rank(&self) -> Vec<&TaskGroup> {
        let mut order: Vec<_> = self.task_groups.iter().collect();
        // Stable: what is equal keeps its order.
        order.sort_by_key(|group| match group.role() {
            _ if !group.is_in_gang() => 4,
            Role::Coordinator | Role::Launcher => 0,
            Role::Worker => 1,
            Role::Server => 2,
            Role::Evaluator => 3,
        });
        order
    }

    /// Name of the group whose pod of index 0 has rank 0: of the Coordinator or Launcher,
    /// else of the first group of workers. None for a spec without
    /// groups, which validation refuses.
    ///
    /// ```
    /// use trellis_api::TrainingJobSpec;
    /// let spec: TrainingJobSpec = serde_json::from_value(serde_json::json!({"taskGroups": [
    ///     {"name": "worker", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
    ///     {"name": "chief", "role": "Coordinator", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
    /// ]}))?;
    /// assert_eq!(spec.leader_group(), Some("chief"));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn leader_group(&self) -> Option<&str> {
        self.groups_by_rank()
            .first()
            .map(|group| group.name.as_str())
    }
}
