//! A record of all NodeClaims of a NodePool: every node that Karpenter has ever bought for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

use super::node_pool::POOL_LABEL;
use crate::site::object_watch::ObjectWatch;

/// The facts that a watch has shown of one NodeClaim: one bought node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeClaimRecord {
    /// The name of its node, once it is launched.
    pub node: Option<String>,
    /// The reason why Karpenter has not initialized the node, such as `ResourceNotRegistered`.
    pub pending_initialization: Option<String>,
    /// The reason why Karpenter disrupts the node, such as `Empty`. None: it does not.
    pub disruption: Option<String>,
    /// True from the deletion of the NodeClaim on.
    pub is_deleted: bool,
}

impl NodeClaimRecord {
    /// Adds what a version of the NodeClaim shows. A disruption stays recorded.
    fn update(&mut self, claim: &DynamicObject) {
        let status = &claim.data["status"];
        if let Some(node) = status["nodeName"].as_str() {
            self.node = Some(node.to_owned());
        }
        let condition = |kind: &str| {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            conditions.find(|condition| condition["type"] == kind)
        };
        let reason = |condition: &Value| condition["reason"].as_str().map(str::to_owned);
        let pending = condition("Initialized").filter(|condition| condition["status"] != "True");
        self.pending_initialization = pending.and_then(reason);
        let disruption = condition("DisruptionReason").filter(|c| c["status"] == "True");
        self.disruption = self.disruption.take().or(disruption.and_then(reason));
        // The finalizer of Karpenter lets every watch see this field before the object is gone.
        self.is_deleted |= claim.metadata.deletion_timestamp.is_some();
    }
}

/// A NodeClaim record for each name. Karpenter never uses a name twice.
pub(super) type NodeClaimRecords = BTreeMap<String, NodeClaimRecord>;

/// Records the NodeClaims of a NodePool until this value is dropped.
#[derive(Debug)]
pub(super) struct NodeClaimHistory {
    records: Arc<Mutex<NodeClaimRecords>>,
    _watch: ObjectWatch,
}

impl NodeClaimHistory {
    pub(super) fn record(client: Client, pool: &str) -> Self {
        let records = Arc::new(Mutex::new(NodeClaimRecords::new()));
        let recorded = Arc::clone(&records);
        let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim");
        let claims: Api<DynamicObject> = Api::all_with(client, &ApiResource::from_gvk(&kind));
        let config = watcher::Config::default().labels(&format!("{POOL_LABEL}={pool}"));
        let watch = ObjectWatch::start(claims, config, move |claim: &DynamicObject| {
            let mut records = recorded.lock().unwrap_or_else(PoisonError::into_inner);
            records.entry(claim.name_any()).or_default().update(claim);
        });
        Self {
            records,
            _watch: watch,
        }
    }

    pub(super) fn records(&self) -> NodeClaimRecords {
        self.records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
