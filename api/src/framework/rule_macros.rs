//! Rules that several frameworks share. CEL expressions are constants, so these are macros.

/// A rule on the task groups of one framework: its name, the CEL expression on `self.taskGroups`,
/// the message, and the same rule in the library.
macro_rules! group_rule {
    ($framework:literal, $cel:expr, $message:expr, $holds:expr) => {
        $crate::framework::GroupRule {
            rule: $crate::rules::Rule::new(
                concat!(
                    "!has(self.framework) || self.framework != '",
                    $framework,
                    "' || ",
                    $cel
                ),
                $message,
            ),
            holds: $holds,
        }
    };
}

/// The framework starts with a fixed number of processes.
macro_rules! fixed_size {
    ($framework:literal) => {
        group_rule!(
            $framework,
            "self.taskGroups.all(g, !has(g.minReplicas) || g.minReplicas == (has(g.replicas) ? g.replicas : 1))",
            concat!(
                "framework ", $framework,
                " starts with a fixed number of processes: leave minReplicas out, or make it equal to replicas"
            ),
            |groups| !groups.iter().any($crate::job::TaskGroup::is_elastic)
        )
    };
}

/// The framework names every pod before the first one starts.
macro_rules! whole_gang {
    ($framework:literal) => {
        group_rule!(
            $framework,
            "self.taskGroups.all(g, !has(g.membership) || g.membership == 'Gang')",
            concat!(
                "framework ", $framework,
                " knows every pod when it starts, so no group can be BestEffort: leave membership out, or run those pods as a job of their own"
            ),
            |groups| groups.iter().all($crate::job::TaskGroup::is_in_gang)
        )
    };
}

/// The framework takes so many pods in all groups together.
macro_rules! max_pods {
    ($framework:literal, $most:literal, $why:literal) => {
        group_rule!(
            $framework,
            concat!(
                "self.taskGroups.map(g, has(g.replicas) ? g.replicas : 1).sum() <= ",
                $most
            ),
            concat!(
                "with framework ",
                $framework,
                " the replicas of all task groups together must be at most ",
                $most,
                ", ",
                $why
            ),
            |groups| $crate::framework::total_replicas(groups) <= $most
        )
    };
}
