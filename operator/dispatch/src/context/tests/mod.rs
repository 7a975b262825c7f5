//! Events of the watches, and the jobs that they requeue.

mod children;
mod daemon_sets;
mod dependencies;
mod external_secrets;
mod guards;
mod jobs;
mod lost_nodes;
mod policies;
mod storage;
mod unhealthy_nodes;

use std::time::Duration;

use serde_json::{Value, json};
use trellis_api::{PodGroup, RuntimeProfile, Topology, TrainingJob, TrainingQueue, names};
use trellis_cache::watch::{Sink, Undecodable};
use trellis_gang::observed::{
    SlimClaim, SlimDaemonSet, SlimNamespace, SlimNode, SlimPod, SlimService, SlimStorageClass,
    SlimVolume,
};

use super::*;

/// A context, and the sink into its cache.
struct ContextFixture {
    context: Arc<Context>,
    sink: Arc<WatchSink>,
    events: EventReceiver,
}

fn decoded<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

impl ContextFixture {
    fn new() -> Self {
        let (context, events) = Context::new();
        Self {
            sink: WatchSink::new(&context),
            context,
            events,
        }
    }

    /// Adds jobs by namespace and name, each with the Services that it names, and removes them from
    /// the work queue.
    async fn jobs(&self, jobs: &[(&str, &str, &[&str])]) {
        for (namespace, name, services) in jobs {
            let egress: Vec<Value> = services.iter().map(|s| json!({"service": s})).collect();
            let job: TrainingJob = decoded(json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}")},
                "spec": {"taskGroups": [], "network": {"egress": egress}},
            }));
            self.sink.apply(Key::from_meta(job.meta()), job);
        }
        self.requeued_jobs().await;
    }

    fn node(&self, name: &str, ready: &str) {
        let node: SlimNode = decoded(json!({
            "metadata": {"name": name, "uid": name},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }));
        self.sink.apply(Key::new("", name), node);
    }

    fn pod(&self, job: &str, node: &str) {
        let pod = Self::pod_of(job, node, &format!("pod-of-{job}"), "Running");
        self.sink.apply(Key::from_meta(&pod.metadata), pod);
    }

    fn pod_of(job: &str, node: &str, uid: &str, phase: &str) -> SlimPod {
        decoded(json!({
            "metadata": {
                "name": format!("{job}-worker-0"), "namespace": "a", "uid": uid,
                "ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                    "name": job, "uid": format!("a-{job}"), "controller": true}],
            },
            "spec": {"nodeName": node},
            "status": {"phase": phase},
        }))
    }

    fn service(&self, namespace: &str, name: &str, labels: Value) {
        let service: SlimService = decoded(json!({
            "metadata": {"name": name, "namespace": namespace, "uid": "s", "labels": labels},
        }));
        self.sink.apply(Key::new(namespace, name), service);
    }

    fn namespace(&self, meta: Value) {
        let mut meta = meta;
        meta["name"] = json!("a");
        meta["uid"] = json!("a");
        let namespace: SlimNamespace = decoded(json!({"metadata": meta}));
        self.sink.apply(Key::new("", "a"), namespace);
    }

    /// Marks all kinds as listed, and starts to follow node health.
    fn sync(&self) {
        self.context.cache.mark_kind_synced();
        tokio::spawn(self.context.clone().follow_node_health());
    }

    /// Returns the jobs that are due within the next tenth of a second.
    async fn requeued_jobs(&self) -> Vec<String> {
        let mut jobs = Vec::new();
        let due =
            || tokio::time::timeout(Duration::from_millis(100), self.context.work_queue.next());
        while let Ok(job) = due().await {
            self.context.work_queue.mark_done(&job);
            jobs.push(job.to_string());
        }
        jobs.sort();
        jobs
    }
}
