//! The queue in which external pods wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_api::{Reason, TrainingQueue, names};
use trellis_cache::Cache;
use trellis_gang::key::Key;
use trellis_gang::observed::ExternalPod;
use trellis_gang::{GangExplanation, lookup};

use crate::external_request::PlacementRole;

/// Pods with their names.
type NamedPods = [(String, Arc<ExternalPod>)];

/// Returns true if these pods would count in this queue now, as far as the cache knows.
#[must_use]
pub(crate) fn is_counted_in_queue(
    cache: &Cache,
    namespace: &str,
    place: PlacementRole<'_>,
    pods: &NamedPods,
    name: &str,
) -> bool {
    let labels = cache.namespace_labels(namespace);
    let found = labels.and_then(|labels| find_queue(cache, &labels, place, pods).ok());
    found.is_some_and(|queue| queue.metadata.name.as_deref() == Some(name))
}

/// Returns the queue in which the gang is placed; else the one that the PodGroup or its pods name;
/// else the namespace's default.
pub(super) fn find_queue(
    cache: &Cache,
    labels: &BTreeMap<String, String>,
    place: PlacementRole<'_>,
    pods: &NamedPods,
) -> Result<Arc<TrainingQueue>, GangExplanation> {
    let named = match place {
        // The gang stays in the queue of its plan, even if it or its pods name another queue now.
        PlacementRole::Joining { plan, .. } => {
            let queue = plan.queue.as_deref();
            queue.map(|queue| (queue, "status.plan.queue of the PodGroup".to_owned()))
        }
        PlacementRole::Gang(group) => find_named_queue(Some(&group.spec.queue_name), pods)?,
        PlacementRole::Alone => find_named_queue(None, pods)?,
    };
    let get = |name: &str| cache.queues.get(&Key::new("", name));
    let queue = named.as_ref().map(|(queue, _)| *queue);
    lookup::resolve_queue(queue, labels, get, || cache.queues.all()).map_err(|missing| {
        let field = named.as_ref().map(|(_, field)| field);
        let rest = missing.message.strip_prefix("spec.queueName");
        let message = rest.and_then(|rest| Some(format!("{}{rest}", field?)));
        GangExplanation::waiting(missing.reason, message.unwrap_or(missing.message))
    })
}

/// Returns the one queue that the PodGroup and the pods name, and where. Different names are an
/// error, so that no label is ignored silently. An empty name counts as none, as in templates that
/// are not filled in.
fn find_named_queue<'a>(
    group: Option<&'a String>,
    pods: &'a NamedPods,
) -> Result<Option<(&'a str, String)>, GangExplanation> {
    let group = group.filter(|queue| !queue.is_empty());
    let mut named =
        group.map(|queue| (queue.as_str(), "spec.queueName of the PodGroup".to_owned()));
    for (name, pod) in pods {
        let label = pod.labels.get(names::QUEUE);
        let Some(label) = label.filter(|queue| !queue.is_empty()) else {
            continue;
        };
        let field = match pods.len() {
            1 => format!("label {}", names::QUEUE),
            _ => format!("label {} of pod {:?}", names::QUEUE, name),
        };
        match &named {
            None => named = Some((label.as_str(), field)),
            Some((queue, _)) if queue == label => {}
            Some((queue, before)) => {
                let message = format!(
                    "{field} is {label:?}, and {before} is {queue:?}: name one queue for all of the gang"
                );
                return Err(GangExplanation::waiting(Reason::InvalidSpec, message));
            }
        }
    }
    Ok(named)
}
