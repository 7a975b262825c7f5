//! Queues without quota that a namespace may use although another queue has quota for it: who
//! names such a queue passes that quota. Pure.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::Queue;
use trellis_policies::selects;

type Labels = BTreeMap<String, String>;

/// The most queues that are above one: a longer way is a circle.
const DEEPEST: usize = 64;

/// By the name of each queue without quota: the namespaces that may use it, and that another
/// queue, which has quota, takes by default.
pub(super) fn find<'n>(
    queues: &[impl AsRef<Queue>],
    namespaces: impl Iterator<Item = (&'n str, &'n Labels)>,
) -> BTreeMap<String, Vec<String>> {
    let queues: Vec<&Queue> = queues.iter().map(AsRef::as_ref).collect();
    let parents: BTreeMap<&str, &str> = queues
        .iter()
        .filter_map(|queue| Some((name(queue), queue.spec.parent.as_deref()?)))
        .collect();
    let root = |queue: &Queue| {
        let mut at = name(queue).to_owned();
        for _ in 0..DEEPEST {
            match parents.get(at.as_str()) {
                Some(parent) => at = (*parent).to_owned(),
                None => break,
            }
        }
        at
    };
    let with_quota = queues.iter().filter(|q| !q.spec.resource_groups.is_empty());
    let bounded: BTreeSet<String> = with_quota.map(|queue| root(queue)).collect();
    let above: BTreeSet<&str> = parents.values().copied().collect();
    let (bounded, open): (Vec<&Queue>, Vec<&Queue>) = queues
        .iter()
        .copied()
        .filter(|queue| !above.contains(name(queue)))
        .partition(|queue| bounded.contains(&root(queue)));
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if open.is_empty() || bounded.is_empty() {
        return found;
    }
    let takes = |queue: &&&Queue, labels: &Labels| {
        selects(queue.spec.default_for.as_ref(), labels)
            && selects(queue.spec.namespace_selector.as_ref(), labels)
    };
    for (namespace, labels) in namespaces {
        if !bounded.iter().any(|queue| takes(&queue, labels)) {
            continue;
        }
        let may = |queue: &&&Queue| selects(queue.spec.namespace_selector.as_ref(), labels);
        for queue in open.iter().filter(may) {
            let namespaces = found.entry(name(queue).to_owned()).or_default();
            namespaces.push(namespace.to_owned());
        }
    }
    found
}

fn name(queue: &Queue) -> &str {
    queue.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn queue(name: &str, spec: Value) -> Arc<Queue> {
        let queue = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "Queue",
            "metadata": {"name": name}, "spec": spec});
        Arc::new(serde_json::from_value(queue).unwrap())
    }

    fn of_team(parent: Option<&str>, has_quota: bool) -> Value {
        let red = json!({"matchLabels": {"team": "red"}});
        let mut spec = json!({"namespaceSelector": red, "defaultFor": red});
        if let Some(parent) = parent {
            spec["parent"] = json!(parent);
        }
        if has_quota {
            spec["resourceGroups"] = json!([{"resources": ["cpu"], "flavors": [
                {"name": "default", "quotas": [{"resource": "cpu", "nominal": 1}]}]}]);
        }
        spec
    }

    fn bypasses(queues: &[Arc<Queue>]) -> BTreeMap<String, Vec<String>> {
        let labels = |team: &str| Labels::from([("team".to_owned(), team.to_owned())]);
        let namespaces = [
            ("a", labels("red")),
            ("b", labels("blue")),
            ("c", labels("red")),
        ];
        find(
            queues,
            namespaces.iter().map(|(name, labels)| (*name, labels)),
        )
    }

    #[test]
    fn queue_without_quota_that_a_team_with_quota_may_use_is_found() {
        let default = queue(
            "default",
            json!({"namespaceSelector": {}, "defaultFor": {}}),
        );
        let red = queue("red", of_team(None, true));
        let found = [("default".to_owned(), vec!["a".to_owned(), "c".to_owned()])];
        assert_eq!(bypasses(&[default.clone(), red.clone()]), found.into());
        // Closed for teams, as the documents do it.
        let closed = queue(
            "default",
            json!({"namespaceSelector": {"matchExpressions": [
                {"key": "team", "operator": "DoesNotExist"}]}}),
        );
        assert_eq!(bypasses(&[closed, red]), BTreeMap::new());
        // A team without quota passes none.
        let free = queue("red", of_team(None, false));
        assert_eq!(bypasses(&[default, free]), BTreeMap::new());
    }

    #[test]
    fn quota_anywhere_in_the_tree_bounds_all_its_queues() {
        let pool = queue("pool", json!({}));
        let open = queue("open", json!({"parent": "pool", "namespaceSelector": {}}));
        let red = queue("red", of_team(Some("pool"), true));
        assert_eq!(bypasses(&[pool, open, red]), BTreeMap::new());
        // Parents that go round end.
        let one = queue("one", json!({"parent": "two", "namespaceSelector": {}}));
        let two = queue("two", json!({"parent": "one", "namespaceSelector": {}}));
        assert_eq!(bypasses(&[one, two]), BTreeMap::new());
    }
}
