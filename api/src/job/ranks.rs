//! The order of the ranks, and the group with rank 0.

use super::{Role, TaskGroup, TrainingJobSpec};

impl TrainingJobSpec {
    /// Returns the groups in the order of their ranks: Coordinator or Launcher, workers, servers,
    /// evaluators (outside the world), then groups outside the gang. Groups of one role keep the
    /// order of the spec.
    #[must_use]
    pub fn groups_by_rank(&self) -> Vec<&TaskGroup> {
        let mut order: Vec<_> = self.task_groups.iter().collect();
        // The sort is stable, so equal groups keep their order.
        order.sort_by_key(|group| match group.role() {
            _ if !group.is_in_gang() => 4,
            Role::Coordinator | Role::Launcher => 0,
            Role::Worker => 1,
            Role::Server => 2,
            Role::Evaluator => 3,
        });
        order
    }

    /// Returns the name of the group whose pod of index 0 has rank 0: the Coordinator or Launcher,
    /// else the first group of workers. Returns None for a spec without groups, which validation
    /// refuses.
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
