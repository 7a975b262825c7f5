//! The flavors that task groups accept.

use super::{TaskGroup, TrainingJobSpec};

impl TrainingJobSpec {
    /// Returns the flavors that a group accepts: those that it names, or else those that the first
    /// group of its set names. A set has all groups that `sameFlavorAs` joins. Empty: all flavors of
    /// the queue.
    #[must_use]
    pub fn accepted_flavors<'s>(&'s self, group: &'s TaskGroup) -> &'s [String] {
        let names = |one: &TaskGroup, other: &TaskGroup| {
            one.same_flavor_as.as_deref() == Some(other.name.as_str())
        };
        let mut set = vec![group];
        // Each pass adds a group, or is the last one.
        for _ in &self.task_groups {
            let joined = self.task_groups.iter().find(|new| {
                let known = set.iter().any(|group| group.name == new.name);
                !known
                    && set
                        .iter()
                        .any(|group| names(group, new) || names(new, group))
            });
            set.extend(joined);
        }
        let first = self
            .task_groups
            .iter()
            .filter(|group| set.iter().any(|s| s.name == group.name));
        let mut candidates = std::iter::once(group).chain(first);
        let named = candidates.find(|group| !group.flavors.is_empty());
        named.map_or(&[], |group| &group.flavors)
    }
}
