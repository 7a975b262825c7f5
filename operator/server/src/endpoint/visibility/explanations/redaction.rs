//! Reduces an explanation to what the caller may see. A user with the right to view a namespace may
//! know why its jobs wait, but not the jobs of other namespaces, the names of their queues, or the
//! nodes. Pure.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::visibility::{
    Explanation, GangName, JobRef, OtherJobs, Preempted, SmallestChange,
};
use trellis_gang::{engine, external};
use trellis_scheduler::Snapshot;

/// Topology level whose domains are nodes.
const HOSTNAME_LEVEL: &str = "kubernetes.io/hostname";

/// Objects that the caller may see, besides the job itself.
#[derive(Debug, Default)]
pub(in super::super) struct VisibleScope {
    /// Jobs of these namespaces.
    pub(in super::super) namespaces: BTreeSet<String>,
    /// Queues other than the job's own.
    pub(in super::super) queues: bool,
    /// Names of nodes.
    pub(in super::super) nodes: bool,
}

impl VisibleScope {
    /// Returns true if the caller may see a job. `own` is the namespace of the job in question.
    fn sees_job(&self, job: &JobRef, own: &str) -> bool {
        job.namespace == own || self.namespaces.contains(job.namespace.as_str())
    }
}

/// Priorities of the named jobs.
pub(in super::super) type Priorities = BTreeMap<JobRef, i32>;

/// Returns the jobs that an explanation names, besides the explained job.
pub(in super::super) fn named_jobs(explanation: &Explanation) -> impl Iterator<Item = &JobRef> {
    let behind = explanation.shortage.iter().flat_map(|lacks| &lacks.behind);
    let protected = explanation
        .protected
        .iter()
        .filter_map(|safe| safe.job.as_ref());
    let leaves = explanation.preempts.iter().map(|leaves| &leaves.job);
    let moves = explanation.moves.iter().map(|step| &step.job);
    leaves.chain(protected).chain(behind).chain(moves)
}

/// Returns the other namespaces whose jobs the explanation names.
pub(in super::super) fn foreign_namespaces(explanation: &Explanation) -> BTreeSet<String> {
    let own = explanation
        .metadata
        .namespace
        .as_deref()
        .unwrap_or_default();
    let others = named_jobs(explanation).filter(|job| job.namespace != own);
    others.map(|job| job.namespace.clone()).collect()
}

/// Returns the priorities of these jobs.
pub(in super::super) fn priorities<'j>(
    jobs: impl IntoIterator<Item = &'j JobRef>,
    snapshot: &Snapshot,
) -> Priorities {
    let gangs = jobs.into_iter().map(|job| {
        let name = GangName::from_object_name(&job.name);
        (
            engine::gang_id(&external::gang_key_from_name(&job.namespace, &name)),
            job,
        )
    });
    let jobs: BTreeMap<_, _> = gangs.collect();
    let priorities = snapshot.gangs.iter().filter_map(|gang| {
        let job = jobs.get(&gang.gang.id)?;
        Some(((*job).clone(), gang.gang.priority))
    });
    priorities.collect()
}

/// Removes the victims that the caller may not see, and returns their numbers by priority.
pub(in super::super) fn hide_victims(
    victims: &mut Vec<Preempted>,
    own: &str,
    priorities: &Priorities,
    sees: &VisibleScope,
) -> Vec<OtherJobs> {
    let mut others: BTreeMap<Option<i32>, i64> = BTreeMap::new();
    victims.retain(|leaves| {
        let seen = sees.sees_job(&leaves.job, own);
        if !seen {
            let count = others.entry(priorities.get(&leaves.job).copied());
            let count = count.or_default();
            *count = count.saturating_add(1);
        }
        seen
    });
    let others = others.into_iter().rev();
    others
        .map(|(priority, count)| OtherJobs { count, priority })
        .collect()
}

/// Removes what the caller may not see.
pub(in super::super) fn redact(
    explanation: &mut Explanation,
    priorities: &Priorities,
    sees: &VisibleScope,
) {
    let own = explanation.metadata.namespace.clone().unwrap_or_default();
    let is_seen = |job: &JobRef| sees.sees_job(job, &own);
    explanation.preempts_others = hide_victims(&mut explanation.preempts, &own, priorities, sees);
    for safe in &mut explanation.protected {
        safe.job.take_if(|job| !is_seen(job));
    }
    if let Some(lacks) = &mut explanation.shortage
        && let Some(behind) = lacks.behind.take_if(|behind| !is_seen(behind))
    {
        lacks.behind_priority = priorities.get(&behind).copied();
    }
    // The moves only help together.
    let mut moves = explanation.moves.iter();
    if !sees.nodes && !moves.all(|step| is_seen(&step.job)) {
        explanation.moves.clear();
    }
    if !sees.queues {
        hide_queues(explanation);
    }
    if !sees.nodes {
        hide_nodes(explanation);
    }
    // Removes an empty change.
    explanation
        .smallest_change
        .take_if(|change| *change == SmallestChange::default());
}

fn hide_queues(explanation: &mut Explanation) {
    let own = &explanation.queue;
    if let Some(lacks) = &mut explanation.shortage {
        lacks.queue.take_if(|queue| queue != own);
    }
    if let Some(change) = &mut explanation.smallest_change
        && change
            .raise_quotas
            .iter()
            .any(|raised| raised.queue != *own)
    {
        // The raises of quotas only help together.
        change.raise_quotas.clear();
    }
}

fn hide_nodes(explanation: &mut Explanation) {
    explanation.reserved_nodes.clear();
    for group in &mut explanation.task_groups {
        for excluded in &mut group.excluded {
            excluded.nodes.clear();
        }
        group.candidates.clear();
    }
    if let Some(change) = &mut explanation.smallest_change {
        change.free.clear();
    }
    for step in &mut explanation.moves {
        step.nodes.clear();
    }
    if let Some(lacks) = &mut explanation.shortage
        && lacks.level.as_deref() == Some(HOSTNAME_LEVEL)
    {
        lacks.domain = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn explanation() -> Explanation {
        serde_json::from_value(json!({
            "apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "Explanation",
            "metadata": {"namespace": "a", "name": "waits"},
            "time": "2026-11-21T15:20:57Z", "queue": "own", "priority": 0,
            "message": "it waits",
            "shortage": {"queue": "theirs", "behind": {"namespace": "b", "name": "first"}},
            "taskGroups": [{
                "name": "w", "pods": 1, "nodes": 3, "matching": 1, "room": 0,
                "excluded": [{"constraint": "NotReady", "count": 2, "nodes": ["n2", "n3"]}],
                "candidates": [{"node": "n10", "room": 0, "free": []}],
            }],
            "preempts": [
                {"namespace": "a", "name": "ours"}, {"namespace": "b", "name": "one"},
                {"namespace": "b", "name": "two"}, {"namespace": "c", "name": "three"},
            ],
            "protected": [{"job": {"namespace": "b", "name": "two"}, "until": "2026-11-21T15:30:00Z"}],
            "reservedNodes": ["n1"],
            "moves": [{"namespace": "a", "name": "near", "nodes": ["n4"], "lostDeviceSeconds": 0},
                {"namespace": "e", "name": "far", "nodes": ["n5"], "lostDeviceSeconds": 9}],
            "smallestChange": {
                "raiseQuotas": [{"queue": "theirs", "field": "nominalQuota", "resource": "cpu", "by": "1"}],
                "free": [{"node": "n1", "amounts": [], "heldBy": [
                    {"namespace": "d", "name": "holds", "amounts": []},
                ]}],
            },
        }))
        .unwrap()
    }

    fn priorities() -> Priorities {
        let of = |namespace: &str, name: &str| JobRef {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        [
            (of("b", "first"), 7),
            (of("b", "one"), 1),
            (of("b", "two"), 1),
            (of("c", "three"), 2),
        ]
        .into()
    }

    #[test]
    fn caller_without_rights_gets_no_foreign_names() {
        let mut explanation = explanation();
        assert_eq!(
            foreign_namespaces(&explanation),
            ["b".to_owned(), "c".to_owned(), "e".to_owned()].into()
        );
        redact(&mut explanation, &priorities(), &VisibleScope::default());
        let text = serde_json::to_string(&explanation).unwrap();
        for name in [
            "b/", "first", "theirs", "n1", "n2", "n3", "\"b\"", "two", "holds", "far", "near",
        ] {
            assert!(!text.contains(name), "{name}: {text}");
        }
        let names = explanation
            .preempts
            .iter()
            .map(|leaves| leaves.job.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["ours"]);
        let others = explanation.preempts_others.iter();
        let others: Vec<_> = others.map(|other| (other.priority, other.count)).collect();
        assert_eq!(others, [(Some(2), 1), (Some(1), 2)]);
        let safe: Vec<_> = explanation.protected.iter().map(|safe| &safe.job).collect();
        assert_eq!(safe, [&None], "until when is told all the same");
        let lacks = explanation.shortage.as_ref().unwrap();
        assert_eq!((&lacks.behind, lacks.behind_priority), (&None, Some(7)));
        assert_eq!(explanation.smallest_change, None);
        let group = explanation.task_groups.first().unwrap();
        assert_eq!(group.excluded.first().unwrap().count, 2);
    }

    #[test]
    fn caller_who_reads_the_jobs_to_move_gets_them_without_their_nodes() {
        let mut explanation = explanation();
        let sees = VisibleScope {
            namespaces: ["e".to_owned()].into(),
            ..VisibleScope::default()
        };
        redact(&mut explanation, &priorities(), &sees);
        let moves = explanation.moves.iter();
        let moves: Vec<_> = moves
            .map(|step| (step.job.to_string(), step.nodes.len()))
            .collect();
        assert_eq!(moves, [("a/near".to_owned(), 0), ("e/far".to_owned(), 0)]);
    }

    /// A caller with the right to see nodes also sees the jobs on them, in every namespace.
    #[test]
    fn caller_with_node_rights_gets_the_jobs_on_nodes() {
        let mut explanation = explanation();
        let sees = VisibleScope {
            nodes: true,
            ..VisibleScope::default()
        };
        redact(&mut explanation, &priorities(), &sees);
        let on = &explanation.smallest_change.as_ref().unwrap().free[0];
        let names: Vec<_> = on
            .held_by
            .iter()
            .map(|holder| holder.job.to_string())
            .collect();
        assert_eq!(names, ["d/holds"], "{on:?}");
    }

    #[test]
    fn caller_with_all_rights_gets_the_whole_explanation() {
        let mut all = explanation();
        let sees = VisibleScope {
            namespaces: foreign_namespaces(&all),
            queues: true,
            nodes: true,
        };
        redact(&mut all, &priorities(), &sees);
        assert_eq!(all, explanation());
    }
}
