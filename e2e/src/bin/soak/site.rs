//! The cluster of one script: a namespace, nodes and queues. It shares the control plane and the
//! operator with the clusters of other scripts.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::atomic::AtomicUsize;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trellis_api::{PodGroup, TrainingJob, TrainingQueue};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::queues::resource_groups;
use trellis_e2e::wait::{eventually, wait_until_deleted};
use trellis_simulation::{HEALTH_LABEL, Priority, Script, queue_spec};

use crate::CLEANUP_TIMEOUT;
use crate::report::Report;

/// GPUs of a node before a script reduces them.
const NODE_GPUS: u32 = 8;
/// The PriorityClass above normal.
const HIGH_PRIORITY: &str = "soak-high";

/// Creates what the sites share: a PriorityClass, and a policy that permits everything.
pub(crate) async fn create_shared_objects(control_plane: &ControlPlane) -> Result<()> {
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": HIGH_PRIORITY}, "value": 100});
    let policy = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
        "metadata": {"name": "soak"}, "spec": {"cedar": "permit(principal, action, resource);"}});
    for object in [class, policy] {
        control_plane.apply_yaml(&object.to_string()).await?;
    }
    Ok(())
}

pub(crate) struct Site {
    pub(crate) script: Script,
    /// Number of jobs that users have submitted.
    pub(crate) submitted: AtomicUsize,
    site: TestSite,
    queues: Api<TrainingQueue>,
}

impl Deref for Site {
    type Target = TestSite;

    fn deref(&self) -> &TestSite {
        &self.site
    }
}

impl Site {
    pub(crate) async fn create(control_plane: &ControlPlane, script: Script) -> Result<Self> {
        let nodes = NodeTemplate::new(script.nodes.len()).gpus(NODE_GPUS);
        let site = Self {
            site: TestSite::new(control_plane, "soak", nodes).await,
            queues: Api::all(control_plane.client()),
            submitted: AtomicUsize::new(0),
            script,
        };
        for (name, gpus) in site.nodes().names().iter().zip(&site.script.nodes) {
            if *gpus != NODE_GPUS {
                let gpus = gpus.to_string();
                site.nodes()
                    .set_allocatable(name, "nvidia.com/gpu", &gpus)
                    .await?;
            }
        }
        for (name, spec) in site.queue_specs() {
            let queue = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
            site.queues.create(&PostParams::default(), &queue).await?;
        }
        Ok(site)
    }

    pub(crate) fn queue_name(&self, index: usize) -> String {
        format!("{}-queue-{index}", self.name())
    }

    /// Returns the names and specs of the queues, the parent first.
    fn queue_specs(&self) -> Vec<(String, Value)> {
        let namespaces = json!({"matchLabels": {"kubernetes.io/metadata.name": self.name()}});
        let parent = format!("{}-all", self.name());
        let has_parent = self.script.queues.len() > 1;
        let mut specs = Vec::new();
        if has_parent {
            specs.push((parent.clone(), json!({})));
        }
        for (index, queue) in self.script.queues.iter().enumerate() {
            let mut spec = queue_spec(queue, has_parent.then_some(&parent), quota);
            spec["namespaceSelector"] = namespaces.clone();
            specs.push((self.queue_name(index), spec));
        }
        specs
    }

    /// Returns the object of a job of the script.
    pub(crate) fn job_object(&self, name: &str) -> Option<Value> {
        let script = self.script.jobs.iter().find(|job| job.name == name)?;
        let mut job = self.job(name, script.replicas, script.gpus);
        let spec = &mut job["spec"];
        spec["queueName"] = json!(self.queue_name(script.queue));
        spec["restart"]["maxBackoffSeconds"] = json!(4);
        spec["checkpoint"] = json!({"gracePeriodSeconds": script.grace_seconds});
        spec["minRuntimeSeconds"] = json!(script.min_runtime_seconds);
        if script.priority == Priority::High {
            spec["priorityClassName"] = json!(HIGH_PRIORITY);
        }
        Some(job)
    }

    pub(crate) async fn set_quota(&self, index: usize, gpus: u32) -> kube::Result<()> {
        let patch = json!({"spec": {"resourceGroups": quota(gpus)}});
        let params = PatchParams::default();
        let queue = self.queue_name(index);
        self.queues
            .patch(&queue, &params, &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// Adds a queue that no job of the script uses.
    pub(crate) async fn add_queue(&self) -> kube::Result<()> {
        let queue = json!({"metadata": {"name": self.unused_queue()},
            "spec": {"resourceGroups": quota(0)}});
        let queue = serde_json::from_value(queue).map_err(kube::Error::SerdeError)?;
        self.queues.create(&PostParams::default(), &queue).await?;
        Ok(())
    }

    fn unused_queue(&self) -> String {
        format!("{}-unused", self.name())
    }

    /// Marks a node as broken, as a tool that watches the health of nodes does, or takes the mark
    /// away.
    pub(crate) async fn set_quarantined(&self, node: usize, is_quarantined: bool) -> Result<()> {
        let state = is_quarantined.then_some("quarantined");
        let name = &self.nodes().names()[node];
        self.nodes().label(name, HEALTH_LABEL, state).await
    }

    /// Deletes all jobs and waits until nothing of them is left. Then ends the judgement of the
    /// site.
    pub(crate) async fn end(mut self, report: &Mutex<Report>) -> Result<()> {
        self.api::<TrainingJob>()
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await?;
        let cleaned = eventually(CLEANUP_TIMEOUT, || self.check_empty()).await;
        let broken_rules = tokio::task::block_in_place(|| self.site.end_judgement());
        report.lock().broken_rules.extend(broken_rules);
        report.lock().note_leftover(cleaned);
        let queues = self.queue_specs().into_iter().rev();
        let queues = queues.map(|(name, _)| name).chain([self.unused_queue()]);
        for name in queues {
            match self.queues.delete(&name, &DeleteParams::default()).await {
                // Not every script adds a queue.
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                deleted => deleted?,
            };
            let deleted = wait_until_deleted(&self.queues, &name, CLEANUP_TIMEOUT).await;
            report.lock().note_leftover(deleted);
        }
        Ok(())
    }

    async fn check_empty(&self) -> Result<()> {
        let mut names = self.list_names::<TrainingJob>().await?;
        names.extend(self.list_names::<PodGroup>().await?);
        names.extend(self.list_names::<Pod>().await?);
        ensure!(
            names.is_empty(),
            "left behind in {}: {}",
            self.name(),
            names.join(", ")
        );
        Ok(())
    }

    async fn list_names<K>(&self) -> Result<Vec<String>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let (api, all) = (self.api::<K>(), ListParams::default());
        let objects = api.list_metadata(&all).await?.items.into_iter();
        let name = |object: PartialObjectMeta<K>| format!("{} {}", K::kind(&()), object.name_any());
        Ok(objects.map(name).collect())
    }
}

fn quota(gpus: u32) -> Value {
    resource_groups(&[("default", i64::from(gpus))])
}
