//! Finds queues without quota that a namespace may use although the namespace has a queue with
//! quota. A job that names such a queue evades the quota.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::TrainingQueue;
use trellis_gang::lookup::count_requirements;
use trellis_policies::selects;

type NamespaceLabels = BTreeMap<String, String>;

/// Most queues above a queue. A longer chain is a cycle.
const MAX_DEPTH: usize = 64;

/// Returns for each queue without quota the namespaces that may use it and that have a queue with
/// quota.
pub(super) fn find_bypasses<'n>(
    queues: &[impl AsRef<TrainingQueue>],
    namespaces: impl Iterator<Item = (&'n str, &'n NamespaceLabels)>,
) -> BTreeMap<String, Vec<String>> {
    let queues: Vec<&TrainingQueue> = queues.iter().map(AsRef::as_ref).collect();
    let parents: BTreeMap<&str, &str> = queues
        .iter()
        .filter_map(|queue| Some((name(queue), queue.spec.parent_name.as_deref()?)))
        .collect();
    let root = |queue: &TrainingQueue| {
        let mut at = name(queue).to_owned();
        for _ in 0..MAX_DEPTH {
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
    let (bounded, open): (Vec<&TrainingQueue>, Vec<&TrainingQueue>) = queues
        .iter()
        .copied()
        .filter(|queue| !above.contains(name(queue)))
        .partition(|queue| bounded.contains(&root(queue)));
    let mut bypasses: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if open.is_empty() || bounded.is_empty() {
        return bypasses;
    }
    for (namespace, labels) in namespaces {
        if !bounded.iter().any(|queue| is_own(queue, labels)) {
            continue;
        }
        let may = |queue: &&&TrainingQueue| selects(queue.spec.namespace_selector.as_ref(), labels);
        for queue in open.iter().filter(may) {
            let namespaces = bypasses.entry(name(queue).to_owned()).or_default();
            namespaces.push(namespace.to_owned());
        }
    }
    bypasses
}

/// Returns true if a queue is meant for the namespace: the namespace may use it, and the queue is
/// the namespace's default or is not open to all namespaces.
fn is_own(queue: &TrainingQueue, labels: &NamespaceLabels) -> bool {
    let selector = queue.spec.namespace_selector.as_ref();
    selects(selector, labels)
        && (selects(queue.spec.default_for.as_ref(), labels) || count_requirements(selector) > 0)
}

fn name(queue: &TrainingQueue) -> &str {
    queue.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn queue(name: &str, spec: Value) -> Arc<TrainingQueue> {
        let queue = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
            "metadata": {"name": name}, "spec": spec});
        Arc::new(serde_json::from_value(queue).unwrap())
    }

    fn team_queue_spec(parent: Option<&str>, has_quota: bool) -> Value {
        let red = json!({"matchLabels": {"team": "red"}});
        let mut spec = json!({"namespaceSelector": red, "defaultFor": red});
        if let Some(parent) = parent {
            spec["parentName"] = json!(parent);
        }
        if has_quota {
            spec["resourceGroups"] = json!([{"coveredResources": ["cpu"], "flavors": [
                {"name": "default", "resources": [{"name": "cpu", "nominalQuota": 1}]}]}]);
        }
        spec
    }

    fn bypasses(queues: &[Arc<TrainingQueue>]) -> BTreeMap<String, Vec<String>> {
        let labels = |team: &str| NamespaceLabels::from([("team".to_owned(), team.to_owned())]);
        let namespaces = [
            ("a", labels("red")),
            ("b", labels("blue")),
            ("c", labels("red")),
        ];
        find_bypasses(
            queues,
            namespaces.iter().map(|(name, labels)| (*name, labels)),
        )
    }

    #[test]
    fn unlimited_queue_open_to_a_team_with_quota_is_a_bypass() {
        let default = queue(
            "default",
            json!({"namespaceSelector": {}, "defaultFor": {}}),
        );
        let red = queue("red", team_queue_spec(None, true));
        let expected = [("default".to_owned(), vec!["a".to_owned(), "c".to_owned()])];
        assert_eq!(bypasses(&[default.clone(), red.clone()]), expected.into());
        // The queue is closed to teams, as in the documentation.
        let closed = queue(
            "default",
            json!({"namespaceSelector": {"matchExpressions": [
                {"key": "team", "operator": "DoesNotExist"}]}}),
        );
        assert_eq!(bypasses(&[closed, red]), BTreeMap::new());
        // A team without quota bypasses no quota.
        let free = queue("red", team_queue_spec(None, false));
        assert_eq!(bypasses(&[default, free]), BTreeMap::new());
    }

    /// Returns a queue with quota and this `namespaceSelector`, and without `defaultFor`.
    fn admits(selector: &Value) -> Arc<TrainingQueue> {
        let mut spec = team_queue_spec(None, true);
        spec["namespaceSelector"] = selector.clone();
        spec.as_object_mut().unwrap().remove("defaultFor");
        queue("quota", spec)
    }

    #[test]
    fn queue_selecting_a_namespace_belongs_to_it() {
        let default = queue("default", json!({"namespaceSelector": {}}));
        for selector in [
            json!({"matchLabels": {"team": "red"}}),
            json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["red"]}]}),
            json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]}),
        ] {
            let expected = [("default".to_owned(), vec!["a".to_owned(), "c".to_owned()])];
            let bypasses = bypasses(&[default.clone(), admits(&selector)]);
            assert_eq!(bypasses, expected.into(), "{selector}");
        }
    }

    #[test]
    fn queue_admitting_every_namespace_belongs_to_none() {
        let default = queue("default", json!({"namespaceSelector": {}}));
        for selector in [
            json!({}),
            json!({"matchLabels": {}, "matchExpressions": []}),
            json!(null),
        ] {
            let bypasses = bypasses(&[default.clone(), admits(&selector)]);
            assert_eq!(bypasses, BTreeMap::new(), "{selector}");
        }
        // The queue belongs to a namespace if it is the default of the namespace.
        let mut spec = team_queue_spec(None, true);
        spec["namespaceSelector"] = json!({});
        let red = queue("red", spec);
        let expected = [("default".to_owned(), vec!["a".to_owned(), "c".to_owned()])];
        assert_eq!(bypasses(&[default, red]), expected.into());
    }

    #[test]
    fn quota_anywhere_in_a_cohort_limits_all_its_queues() {
        let pool = queue("pool", json!({}));
        let open = queue(
            "open",
            json!({"parentName": "pool", "namespaceSelector": {}}),
        );
        let red = queue("red", team_queue_spec(Some("pool"), true));
        assert_eq!(bypasses(&[pool, open, red]), BTreeMap::new());
        // A cycle of parents ends the search.
        let one = queue("one", json!({"parentName": "two", "namespaceSelector": {}}));
        let two = queue("two", json!({"parentName": "one", "namespaceSelector": {}}));
        assert_eq!(bypasses(&[one, two]), BTreeMap::new());
    }
}
