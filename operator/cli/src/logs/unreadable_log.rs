//! Explains why the log of a pod cannot be read.

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use trellis_reads::ApiFailure;

use super::RIGHTS;
use super::pod_selection::SelectedPod;
use crate::cluster::is_simulated;
use crate::output::sanitize;
use crate::target::TargetNamespace;

/// A log that cannot be read.
#[derive(Debug)]
pub struct UnreadableLog {
    /// The name of the pod.
    pub pod: String,
    /// The name of its node.
    node: Option<String>,
    /// The answer of the API server.
    error: Box<kube::Error>,
    /// True if kwok simulates the node.
    pub is_simulated: bool,
}

impl UnreadableLog {
    /// Checks whether the node is simulated, if that may be the reason.
    pub async fn new(client: &Client, chosen: &SelectedPod, error: kube::Error) -> Self {
        let node = chosen.pod.node.clone();
        let is_simulated = match &node {
            Some(node) if may_be_node_failure(&error) => is_simulated(client, node).await,
            _ => false,
        };
        Self {
            pod: chosen.pod.name.clone(),
            node,
            error: Box::new(error),
            is_simulated,
        }
    }

    /// Returns true if the pod does not exist any more.
    pub fn is_gone(&self) -> bool {
        matches!(&*self.error, kube::Error::Api(status) if status.code == 404)
    }

    /// Returns the message for an unreachable kubelet.
    /// None: the error has another cause.
    pub fn unreachable_kubelet(&self) -> Option<String> {
        let kube::Error::Api(status) = &*self.error else {
            return None;
        };
        let cause = sanitize(kubelet_error(&status.message)?);
        let node = self.node.as_deref().unwrap_or_default();
        Some(format!(
            "{}: the kubelet of node {node:?} cannot be reached: {cause}",
            self.pod
        ))
    }

    /// Returns the reason as a message.
    pub fn explain(self, site: &TargetNamespace) -> String {
        if self.is_simulated {
            return explain_simulated(&[self]);
        }
        if let Some(reason) = self.unreachable_kubelet() {
            return reason;
        }
        let Self { pod, error, .. } = self;
        match *error {
            kube::Error::Api(status) if status.code == 404 => {
                format!("pod {pod} and its log are gone: {}", status.message)
            }
            kube::Error::Api(status) if status.code == 400 => format!("{pod}: {}", status.message),
            error => {
                let reason = site
                    .reader
                    .explain_core(ApiFailure::new::<Pod>("read the logs of", error), RIGHTS);
                format!("{pod}: {reason}")
            }
        }
    }
}

/// Returns the one line for all pods of simulated nodes.
pub fn explain_simulated(all: &[UnreadableLog]) -> String {
    let what = match all {
        [one] => format!(
            "{} runs on the simulated node {:?}",
            one.pod,
            one.node.as_deref().unwrap_or_default()
        ),
        all => format!("{} pods run on simulated nodes", all.len()),
    };
    format!("{what}: pods of simulated nodes have no logs")
}

/// Returns false for an error that has nothing to do with the node.
/// The user lacks a right then, or the pod does not exist.
fn may_be_node_failure(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if !matches!(status.code, 401 | 403 | 404))
}

/// Returns why the API server cannot reach a kubelet, if the message tells it.
/// The API server passes on the error of its HTTP client, `Get
/// "https://gpu-1:10250/containerLogs/...": dial tcp: ...`. Or it reports that the node has no
/// address.
fn kubelet_error(message: &str) -> Option<&str> {
    if message.starts_with("no preferred addresses found") {
        return Some(message);
    }
    let (url, cause) = message.strip_prefix("Get \"")?.split_once("\": ")?;
    url.contains("/containerLogs/").then_some(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreadable(pod: &str, code: u16, message: &str) -> UnreadableLog {
        let status = kube::core::Status::failure(message, "").with_code(code);
        UnreadableLog {
            pod: pod.to_owned(),
            node: Some("gpu-1".to_owned()),
            error: Box::new(kube::Error::Api(Box::new(status))),
            is_simulated: false,
        }
    }

    #[test]
    fn unreachable_kubelet_is_named_by_its_node() {
        let message = "Get \"https://gpu-1:10250/containerLogs/ml/llm-worker-0/main?follow=true\": \
                       dial tcp: lookup gpu-1 on 127.0.0.53:53: no such host";
        assert_eq!(
            unreadable("llm-worker-0", 500, message).unreachable_kubelet(),
            Some(
                "llm-worker-0: the kubelet of node \"gpu-1\" cannot be reached: \
                 dial tcp: lookup gpu-1 on 127.0.0.53:53: no such host"
                    .to_owned()
            )
        );
        let message = "no preferred addresses found; known addresses: []";
        let reason = unreadable("llm-worker-0", 500, message).unreachable_kubelet();
        assert!(reason.unwrap().ends_with(message));
    }

    #[test]
    fn kubelet_answer_is_not_an_unreachable_kubelet() {
        for message in [
            "Internal error occurred: the container runtime does not answer",
            "Get \"https://example.com/images\": dial tcp: timeout",
        ] {
            let failure = unreadable("llm-worker-0", 500, message);
            assert_eq!(failure.unreachable_kubelet(), None, "{message}");
        }
    }

    #[test]
    fn pods_on_simulated_nodes_share_one_line() {
        let pod = |name| unreadable(name, 500, "");
        assert_eq!(
            explain_simulated(&[pod("llm-worker-0")]),
            "llm-worker-0 runs on the simulated node \"gpu-1\": pods of simulated nodes have no logs"
        );
        assert_eq!(
            explain_simulated(&[pod("llm-worker-0"), pod("llm-worker-1")]),
            "2 pods run on simulated nodes: pods of simulated nodes have no logs"
        );
    }
}
