//! Tasks that must run as long as the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::{Client, Resource};
use tokio::task::{Id, JoinSet};
use trellis_cache::watch::{Sink, follow};

use crate::context::{Context, WatchSink};

/// Tasks that must run as long as the process. When one ends, the process ends, because a dead
/// watch would silently make the cache outdated. Dropping this stops the tasks.
#[derive(Default)]
pub struct Tasks {
    set: JoinSet<()>,
    names: BTreeMap<Id, String>,
}

impl Tasks {
    /// Starts a task.
    pub fn start(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let id = self.set.spawn(task).id();
        self.names.insert(id, name.into());
    }

    /// Starts a watch of a kind, restricted to these labels if there are any.
    pub fn watch<K>(&mut self, client: &Client, labels: Option<String>, context: &Arc<Context>)
    where
        K: Resource<DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug
            + Send
            + Sync
            + 'static,
        WatchSink: Sink<K>,
    {
        let sink = WatchSink::new(context);
        let name = format!("the watch of {}", K::plural(&()));
        let pulse = context.cache.pulse(&K::plural(&()));
        self.start(name, follow(client.clone(), labels, sink, pulse));
    }

    /// Waits for the first task that ends, and describes its end. Waits forever without tasks.
    pub async fn wait_for_first_end(&mut self) -> String {
        let (id, how) = match self.set.join_next_with_id().await {
            Some(Ok((id, ()))) => (id, "nothing is left to do".to_owned()),
            Some(Err(error)) => (error.id(), error.to_string()),
            None => return std::future::pending().await,
        };
        let name = self.names.get(&id).map_or("a task", String::as_str);
        format!("{name} has ended: {how}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ended_task_is_reported_by_its_name() {
        let mut tasks = Tasks::default();
        tasks.start("a", std::future::pending());
        tasks.start("b", async { panic!("out of range") });
        let ended = tasks.wait_for_first_end().await;
        assert!(ended.starts_with("b has ended"), "{ended}");
        assert!(ended.contains("panic"), "{ended}");
        tasks.start("c", async {});
        let ended = tasks.wait_for_first_end().await;
        assert!(ended.starts_with("c has ended"), "{ended}");
    }
}
