//! The creation of a test's nodes.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use trellis_simulate::name_pattern::expand;

use super::{NodeSet, RACK_LABEL, SCOPE_LABEL};
use crate::binaries::KubernetesVersion;
use crate::control_plane::{ControlPlane, KWOK_ANNOTATION, KWOK_LABEL, Kubelets};

/// Number of nodes that are created at the same time.
const CONCURRENT_CREATES: usize = 16;

/// Equal nodes. Their names and label values may contain `{i}`, the index, and `{i/N}`, the index
/// divided by `N`. By default a node is `gpu-{i}` with 96 cpus, 1 TiB of memory, 8 GPUs and room
/// for 110 pods.
#[derive(Debug, Clone)]
pub struct NodeTemplate {
    count: usize,
    first_index: usize,
    name: Option<String>,
    scope: Option<String>,
    scope_taint: bool,
    racks: Option<usize>,
    capacity: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    taints: Vec<Value>,
}

impl NodeTemplate {
    /// Creates a template for `count` nodes.
    pub fn new(count: usize) -> Self {
        let capacity = [
            ("cpu", "96"),
            ("memory", "1Ti"),
            ("pods", "110"),
            ("ephemeral-storage", "1Ti"),
            ("nvidia.com/gpu", "8"),
        ];
        Self {
            count,
            first_index: 0,
            name: None,
            scope: None,
            scope_taint: false,
            racks: None,
            capacity: capacity
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }

    /// Sets the pattern of the names. Default: `gpu-{i}`, with the scope as a prefix if there is
    /// one.
    pub fn name(mut self, pattern: &str) -> Self {
        self.name = Some(pattern.to_owned());
        self
    }

    /// Sets the index of the first node, for nodes in addition to existing ones.
    pub fn first_index(mut self, index: usize) -> Self {
        self.first_index = index;
        self
    }

    /// Sets capacity and allocatable of one resource, as a Kubernetes quantity. An empty quantity
    /// removes the resource.
    pub fn capacity(mut self, resource: &str, quantity: &str) -> Self {
        if quantity.is_empty() {
            self.capacity.remove(resource);
        } else {
            self.capacity
                .insert(resource.to_owned(), quantity.to_owned());
        }
        self
    }

    /// Sets `nvidia.com/gpu` per node. With 0, the nodes do not advertise it.
    pub fn gpus(self, gpus: u32) -> Self {
        let quantity = if gpus == 0 {
            String::new()
        } else {
            gpus.to_string()
        };
        self.capacity("nvidia.com/gpu", &quantity)
    }

    /// Adds a label. Its value is a pattern.
    pub fn label(mut self, key: &str, pattern: &str) -> Self {
        self.labels.insert(key.to_owned(), pattern.to_owned());
        self
    }

    /// Adds a taint. `effect` is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints
            .push(json!({"key": key, "value": value, "effect": effect}));
        self
    }

    /// Adds the usual taint of GPU nodes in clouds: `nvidia.com/gpu=present:NoSchedule`.
    pub fn gpu_taint(self) -> Self {
        self.taint("nvidia.com/gpu", "present", "NoSchedule")
    }

    /// Labels the nodes as racks of `nodes_a_rack` nodes: `trellis.dev/rack=r0`, ...
    pub fn racks(mut self, nodes_a_rack: usize) -> Self {
        self.racks = Some(nodes_a_rack.max(1));
        self
    }

    /// Adds the labels of `examples/two-racks.yaml` and docs/topology.md: racks of 4 nodes,
    /// `rack=r0`, ..., in blocks of 8, `block=b0`, ...
    pub fn blocks(self) -> Self {
        self.label("block", "b{i/8}").label("rack", "r{i/4}")
    }

    /// Assigns the nodes to one test: they get the label `test.trellis.dev/scope` for the
    /// `nodeSelector` of its jobs, and names that start with the scope.
    pub fn scope(mut self, scope: &str) -> Self {
        self.scope = Some(scope.to_owned());
        self
    }

    /// Also adds a NoSchedule taint with the scope, which excludes the jobs of other tests.
    pub fn scope_taint(mut self) -> Self {
        self.scope_taint = true;
        self
    }

    /// Creates the nodes and waits until all are Ready and have no taint of unready nodes. They are
    /// deleted when the set is dropped.
    ///
    /// # Errors
    ///
    /// When the API server refuses a node (for example, the name exists or a quantity is invalid),
    /// or a node does not become Ready.
    pub async fn create(&self, control_plane: &ControlPlane) -> Result<NodeSet> {
        let client = control_plane.client();
        let api: Api<Node> = Api::all(client);
        let kubelets = control_plane.options().kubelets;
        let port = control_plane.kubelet_port();
        let nodes: Vec<Value> = (self.first_index..)
            .take(self.count)
            .map(|index| self.node_manifest(index, kubelets, port))
            .collect();
        let names = nodes.iter().map(|node| {
            node["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        });
        let set = NodeSet::new(names.collect(), control_plane);
        stream::iter(nodes)
            .map(|node| {
                let api = api.clone();
                async move {
                    let name = node["metadata"]["name"].to_string();
                    api.create(&PostParams::default(), &serde_json::from_value(node)?)
                        .await
                        .with_context(|| format!("create node {name}"))
                }
            })
            .buffer_unordered(CONCURRENT_CREATES)
            .try_collect::<Vec<Node>>()
            .await?;
        set.wait_until_ready().await?;
        Ok(set)
    }

    /// `port`: the port at which kwok serves the logs of the pods.
    fn node_manifest(&self, index: usize, kubelets: Kubelets, port: Option<u16>) -> Value {
        let name = match (&self.name, &self.scope) {
            (Some(pattern), _) => expand(pattern, index),
            (None, Some(scope)) => format!("{scope}-gpu-{index}"),
            (None, None) => format!("gpu-{index}"),
        };
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        labels.insert("kubernetes.io/hostname".into(), name.clone());
        labels.insert("kubernetes.io/os".into(), "linux".into());
        labels.insert("kubernetes.io/arch".into(), "amd64".into());
        let mut taints = self.taints.clone();
        if let Some(nodes_a_rack) = self.racks {
            labels.insert(RACK_LABEL.into(), format!("r{}", index / nodes_a_rack));
        }
        if let Some(scope) = &self.scope {
            labels.insert(SCOPE_LABEL.into(), scope.clone());
            if self.scope_taint {
                taints.push(json!({"key": SCOPE_LABEL, "value": scope, "effect": "NoSchedule"}));
            }
        }
        for (key, pattern) in &self.labels {
            labels.insert(key.clone(), expand(pattern, index));
        }
        let mut addresses = vec![
            json!({"type": "InternalIP", "address": node_address(index)}),
            json!({"type": "Hostname", "address": name}),
        ];
        if port.is_some() {
            addresses.push(json!({"type": "InternalDNS", "address": "localhost"}));
        }
        let mut status = json!({
            "capacity": self.capacity,
            "allocatable": self.capacity,
            "addresses": addresses,
            "nodeInfo": node_info(),
        });
        let mut annotations = BTreeMap::new();
        match kubelets {
            Kubelets::Kwok => {
                labels.insert(KWOK_LABEL.0.into(), KWOK_LABEL.1.into());
                annotations.insert(KWOK_ANNOTATION.0, KWOK_ANNOTATION.1);
            }
            Kubelets::Real => {}
            Kubelets::None => status["conditions"] = json!([ready_condition()]),
        }
        if let Some(port) = port {
            status["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": port}});
        }
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"taints": taints},
            "status": status,
        })
    }
}

/// Returns the Ready condition of a node without a kubelet.
fn ready_condition() -> Value {
    let now = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    json!({
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "a node without a heartbeat",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    })
}

/// Returns an address, which is unique for the first 65,000 nodes.
fn node_address(index: usize) -> String {
    format!("10.1.{}.{}", (index / 254) % 256, index % 254 + 1)
}

fn node_info() -> Value {
    let kubernetes = KubernetesVersion::chosen().unwrap_or(KubernetesVersion::DEFAULT);
    json!({
        "architecture": "amd64",
        "operatingSystem": "linux",
        "kubeletVersion": kubernetes.release(),
        "kubeProxyVersion": "",
        "containerRuntimeVersion": "kwok://0.8.0",
        "kernelVersion": "",
        "osImage": "simulated",
        "machineID": "",
        "bootID": "",
        "systemUUID": "",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_manifest_has_capacity_labels_and_taints() {
        let nodes = NodeTemplate::new(4)
            .gpus(4)
            .capacity("nvidia.com/mig-1g.5gb", "2")
            .racks(2)
            .scope("a")
            .scope_taint()
            .gpu_taint()
            .label("zone", "z{i/4}");
        let node = nodes.node_manifest(3, Kubelets::Kwok, None);
        assert_eq!(node["metadata"]["name"], "a-gpu-3");
        let labels = &node["metadata"]["labels"];
        assert_eq!(labels["trellis.dev/rack"], "r1");
        assert_eq!(labels["test.trellis.dev/scope"], "a");
        assert_eq!(labels["zone"], "z0");
        assert_eq!(labels["type"], "kwok");
        assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "4");
        assert_eq!(node["status"]["allocatable"]["nvidia.com/mig-1g.5gb"], "2");
        assert_eq!(node["spec"]["taints"].as_array().unwrap().len(), 2);
        assert_eq!(node["status"]["conditions"], Value::Null);
        let annotations = &node["metadata"]["annotations"];
        assert_eq!(annotations["kwok.x-k8s.io/node"], "fake");
        assert_eq!(node["status"]["daemonEndpoints"], Value::Null);
        assert_eq!(node["status"]["addresses"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn node_with_pod_logs_has_a_kubelet_address() {
        let node = NodeTemplate::new(1).node_manifest(0, Kubelets::Kwok, Some(20_001));
        let status = &node["status"];
        assert_eq!(status["daemonEndpoints"]["kubeletEndpoint"]["Port"], 20_001);
        assert_eq!(
            status["addresses"][2],
            json!({"type": "InternalDNS", "address": "localhost"})
        );
    }

    #[test]
    fn node_without_gpus_and_kubelet_has_a_ready_condition() {
        let node =
            NodeTemplate::new(1)
                .gpus(0)
                .name("cpu-{i}")
                .node_manifest(0, Kubelets::None, None);
        assert_eq!(node["metadata"]["name"], "cpu-0");
        assert_eq!(node["metadata"]["labels"]["type"], Value::Null);
        assert_eq!(node["status"]["capacity"]["nvidia.com/gpu"], Value::Null);
        assert_eq!(node["status"]["conditions"][0]["status"], "True");
    }
}
